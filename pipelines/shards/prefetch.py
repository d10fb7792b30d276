"""Prefetching: an iterator runs in a thread, a bounded number of items ahead of its consumer."""

import queue
import threading
from collections.abc import Generator, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def prefetch(items: Iterable[Item], depth: int) -> Generator[Item, None, None]:
    """Yield items made in a background thread.

    Exceptions of the iterator are raised here. When the consumer stops early (closes this generator), the
    thread ends after the item in progress; it never outlives the generator.

    Args:
        items: the iterator to run in the thread.
        depth: maximum number of items, including the one in use by the consumer.

    >>> list(prefetch(range(3), 2))
    [0, 1, 2]
    """
    slots = threading.Semaphore(depth)
    ready: queue.SimpleQueue[tuple[list[Item], BaseException | None]] = queue.SimpleQueue()
    stopped = threading.Event()

    def fill() -> None:
        failure: BaseException | None = None
        try:
            for item in items:
                slots.acquire()
                if stopped.is_set():
                    return
                ready.put(([item], None))
        except BaseException as error:
            failure = error
        ready.put(([], failure))

    thread = threading.Thread(target=fill, name="prefetch", daemon=True)
    thread.start()
    try:
        while True:
            item, failure = ready.get()
            if failure is not None:
                raise failure
            if not item:
                return
            yield item[0]
            # Released late: the item in use counts, so memory holds `depth` items and the one being made.
            slots.release()
    finally:
        stopped.set()
        slots.release()
        thread.join()
