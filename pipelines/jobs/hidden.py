"""Options whose values may be secrets, and what messages, reports and logs show in their place."""

from collections.abc import Callable, Mapping

from pipelines.jobs.gateway import without_login


def without_value(word: str) -> str:
    """Return an option of the form NAME=VALUE without its value; a word that may be a value alone is hidden.

    Args:
        word: the option.

    >>> without_value("s3.secret=x"), without_value("--streaming"), without_value("x")
    ('s3.secret=…', '--streaming', '…')
    """
    name, equals, _ = word.partition("=")
    return f"{name}=…" if equals else word if word.startswith("-") else "…"


#: Field of a job -> what is shown of each of its values.
HIDDEN: Mapping[str, Callable[[str], str]] = {
    "storage_option": without_value,
    "beam_options": without_value,
    "metrics_push": without_login,
}
