"""Errors that are shown to the user as pages."""

from http import HTTPStatus


class Problem(Exception):
    """A page cannot be shown.

    Attributes:
        status: HTTP status of the response.
        title: title of the error page.
        words: explanation for the user.
    """

    def __init__(self, status: HTTPStatus, title: str, words: str) -> None:
        super().__init__(words)
        self.status, self.title, self.words = status, title, words


def bad_request(words: str) -> Problem:
    """Return the problem of an invalid request.

    Args:
        words: explanation for the user.
    """
    return Problem(HTTPStatus.BAD_REQUEST, "This can't be searched for", words)


def not_found(words: str) -> Problem:
    """Return the problem of a missing resource.

    Args:
        words: explanation for the user.
    """
    return Problem(HTTPStatus.NOT_FOUND, "Not found", words)


def too_slow(words: str) -> Problem:
    """Return the problem of a query that exceeds its time limit.

    Args:
        words: explanation for the user.
    """
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "This takes too long", words)
