"""URLs of Prometheus Pushgateways, which may hold a login."""

from urllib.parse import SplitResult, urlsplit, urlunsplit


def parse_gateway(url: str) -> SplitResult:
    """Return the parts of the URL of a Pushgateway.

    Args:
        url: the URL; a login has the form http://NAME:PASSWORD@HOST.

    Raises:
        ValueError: it is not such a URL. The message does not contain it, since it may hold a password.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a wrong port or address
        usable = False
    if not usable or parts.query or parts.fragment or any(character.isspace() for character in url):
        raise ValueError("this is not the URL of a Pushgateway, such as http://pushgateway:9091")
    return parts


def without_login(url: str) -> str:
    """Return the URL of a Pushgateway for messages and reports, where … replaces its login.

    Args:
        url: the URL, which need not be a correct one.

    >>> without_login("https://name:password@gateway/path"), without_login("http://gateway:9091")
    ('https://…@gateway/path', 'http://gateway:9091')
    """
    try:
        parts = parse_gateway(url)
    except ValueError:
        return "…"
    _, mark, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"…@{host}" if mark else host))
