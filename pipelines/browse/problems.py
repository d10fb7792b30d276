"""What keeps a page from being shown, as its reader is told it."""

from http import HTTPStatus


class Problem(Exception):
    """A page that can't be shown as asked for."""

    def __init__(self, status: HTTPStatus, title: str, words: str) -> None:
        super().__init__(words)
        self.status, self.title, self.words = status, title, words


def bad_request(words: str) -> Problem:
    """Return the problem of a request that can't be read."""
    return Problem(HTTPStatus.BAD_REQUEST, "This can't be searched for", words)


def not_found(words: str) -> Problem:
    """Return the problem of what isn't there."""
    return Problem(HTTPStatus.NOT_FOUND, "Not found", words)


def too_slow(words: str) -> Problem:
    """Return the problem of a question that takes longer than it may."""
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "This takes too long", words)
