"""How long connections may wait for their clients.

Each has a thread of its own, and one that waits for its client holds no place of those that are answered. Its time for
the request, and then for the response, is bounded as a whole, so that a byte now and then gains none. Where there are
too many, the one that has waited longest is closed: a client that asks at once is always heard.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

#: Seconds that a client may take to send its request, and then to take the response.
REQUEST_SECONDS, RESPONSE_SECONDS = 10.0, 60.0
#: Connections at most; more than requests that are answered at once, so that one of them is always waiting.
MOST_CLIENTS = 128


class Clients:
    """The open connections of a server, and since when they wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: dict[socket.socket, float] = {}
        self._seconds: dict[socket.socket, float] = {}

    def add(self, connection: socket.socket) -> None:
        """Begin to wait for a request; where there are too many connections, close the one that has waited longest."""
        with self._lock:
            if len(self._seconds) >= MOST_CLIENTS and self._since:
                self._close(min(self._since, key=self._since.__getitem__))
            self._wait(connection, REQUEST_SECONDS)

    def remove(self, connection: socket.socket) -> None:
        """Forget a connection before it is closed; it may be forgotten already."""
        with self._lock:
            self._since.pop(connection, None)
            self._seconds.pop(connection, None)

    @contextlib.contextmanager
    def answering(self, connection: socket.socket) -> Iterator[None]:
        """Make the response in the block, in which the client is not waited for; afterwards it has time to take it."""
        with self._lock:
            self._since.pop(connection, None)
        try:
            yield
        finally:
            with self._lock:
                if connection in self._seconds:
                    self._wait(connection, RESPONSE_SECONDS)

    def close_late(self) -> None:
        """Close the connections whose time is over."""
        with self._lock:
            now = time.monotonic()
            for connection in [each for each, since in self._since.items() if now - since > self._seconds[each]]:
                self._close(connection)

    def _wait(self, connection: socket.socket, seconds: float) -> None:
        self._since[connection], self._seconds[connection] = time.monotonic(), seconds

    def _close(self, connection: socket.socket) -> None:
        """End what the connection's thread waits for. The lock is held, so that it is not closed meanwhile."""
        del self._since[connection], self._seconds[connection]
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
