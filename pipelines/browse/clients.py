"""Time limits for the clients of the server.

Each connection has a thread, and one that waits for its client does not count as a request being answered. The total
times for sending the request and for receiving the response are limited, so sending a byte now and then does not extend
them. If there are too many connections, the one that has waited longest is closed, so that active clients are served.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

#: Seconds that a client may take to send its request, and to receive the response.
REQUEST_SECONDS, RESPONSE_SECONDS = 10.0, 60.0
#: Maximum number of connections. It exceeds the number of concurrent requests, so that at least one connection is
#: waiting.
MOST_CLIENTS = 128


class Clients:
    """The open connections of a server, with the times since which they have been waiting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: dict[socket.socket, float] = {}
        self._seconds: dict[socket.socket, float] = {}

    def add(self, connection: socket.socket) -> None:
        """Register a new connection; if there are too many, close the one that has waited longest.

        Args:
            connection: socket of the connection.
        """
        with self._lock:
            if len(self._seconds) >= MOST_CLIENTS and self._since:
                self._close(min(self._since, key=self._since.__getitem__))
            self._wait(connection, REQUEST_SECONDS)

    def remove(self, connection: socket.socket) -> None:
        """Remove a connection before it is closed. It may have been removed already.

        Args:
            connection: socket of the connection.
        """
        with self._lock:
            self._since.pop(connection, None)
            self._seconds.pop(connection, None)

    @contextlib.contextmanager
    def answering(self, connection: socket.socket) -> Iterator[None]:
        """Suspend the time limit while the block makes the response; afterwards the client has time to receive it.

        Args:
            connection: socket of the connection.
        """
        with self._lock:
            self._since.pop(connection, None)
        try:
            yield
        finally:
            with self._lock:
                if connection in self._seconds:
                    self._wait(connection, RESPONSE_SECONDS)

    def close_late(self) -> None:
        """Close the connections that have exceeded their time limit."""
        with self._lock:
            now = time.monotonic()
            for connection in [each for each, since in self._since.items() if now - since > self._seconds[each]]:
                self._close(connection)

    def _wait(self, connection: socket.socket, seconds: float) -> None:
        self._since[connection], self._seconds[connection] = time.monotonic(), seconds

    def _close(self, connection: socket.socket) -> None:
        """Shut down a connection that its thread waits for. The caller holds the lock, so the socket stays open."""
        del self._since[connection], self._seconds[connection]
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
