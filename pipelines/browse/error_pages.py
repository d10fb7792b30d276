"""Errors that are shown to the user as pages."""

from http import HTTPStatus


class PageError(Exception):
    """A page cannot be shown.

    Attributes:
        status: HTTP status of the response.
        title: title of the error page; "" selects the name of the status.
        explanation: explanation for the user; "" selects that of the status.
    """

    def __init__(self, status: HTTPStatus, title: str = "", explanation: str = "") -> None:
        self.status, self.title, self.explanation = status, title or status.phrase, explanation or status.description
        super().__init__(self.explanation)


def bad_request(explanation: str) -> PageError:
    """Return the error of an invalid request.

    Args:
        explanation: explanation for the user.
    """
    return PageError(HTTPStatus.BAD_REQUEST, "Invalid search", explanation)


def not_found(explanation: str) -> PageError:
    """Return the error of a missing resource.

    Args:
        explanation: explanation for the user.
    """
    return PageError(HTTPStatus.NOT_FOUND, "Not found", explanation)


def too_slow(explanation: str) -> PageError:
    """Return the error of a query that exceeds its time limit.

    Args:
        explanation: explanation for the user.
    """
    return PageError(HTTPStatus.SERVICE_UNAVAILABLE, "The search takes too long", explanation)
