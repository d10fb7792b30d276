"""Connections of the server, with a time limit for each client.

The total times for sending the request and for receiving the response are limited, so sending a byte now and then does
not extend them. If there are too many connections, the one that has waited longest for its client is closed, so that
active clients are served.
"""

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds that a client may take to send its request, to receive the response, and to receive a file.
REQUEST_SECONDS, RESPONSE_SECONDS, DOWNLOAD_SECONDS = 10.0, 60.0, 600.0
#: Maximum number of connections. It exceeds the number of concurrent requests, so that at least one connection is
#: waiting.
MOST_CLIENTS = 640


class Connection(H11Protocol):
    """A connection that is closed if its client is too slow. Requests have it as the state `connection`."""

    _limit: asyncio.TimerHandle | None = None  # None while the response is made
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit for the request; if there are too many connections, close the slowest client's.

        Args:
            transport: transport of the connection.
        """
        others = [other for other in cast("set[Connection]", self.connections) if other._limit is not None]
        if len(self.connections) >= MOST_CLIENTS and others:
            min(others, key=lambda other: other._since).transport.abort()
        super().connection_made(transport)
        self.wait(REQUEST_SECONDS)

    def handle_events(self) -> None:
        """Suspend the time limit when the request has arrived. Its body is of no interest."""
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_started:
            self.scope["state"]["connection"] = self
            self._stop()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return whether the connection stays open: until the response is sent, if the client only reads now."""
        return self.cycle is not None

    def connection_lost(self, exc: Exception | None) -> None:
        """End the time limit.

        Args:
            exc: the error that closed the connection, if any.
        """
        self._stop()
        super().connection_lost(exc)

    def wait(self, seconds: float) -> None:
        """Close the connection if it is still open after a time.

        Args:
            seconds: the time.
        """
        self._since = self.loop.time()
        self._limit = self.loop.call_later(seconds, self.transport.abort)

    def _stop(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
