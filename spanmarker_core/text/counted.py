"""Numbers with the things that they count."""


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number and its noun, in the singular or the plural.

    Args:
        count: the number.
        one: the noun in the singular.
        many: the noun in the plural; None adds an s.

    >>> counted(1, "shard"), counted(1200, "shard"), counted(0, "entity", "entities")
    ('1 shard', '1,200 shards', '0 entities')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"
