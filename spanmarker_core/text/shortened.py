"""Shortened texts, for messages, reports and cards."""


def shortened(text: str, limit: int) -> str:
    """Return a text, cut to a maximum length; an ellipsis takes the place of its end.

    Args:
        text: the text.
        limit: maximum length in characters.

    >>> shortened("abc", 3), shortened("abcd", 3)
    ('abc', 'ab…')
    """
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
