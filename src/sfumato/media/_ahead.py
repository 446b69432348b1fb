"""Make items in a thread of their own while earlier ones are worked on."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from queue import Empty, Full, Queue
from typing import TypeVar

T = TypeVar("T")
_WAIT = 0.1  # seconds between two looks whether the other side has gone


class _End:
    """What ends the items: nothing, or the error that their source raised."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def ahead(items: Iterable[T], size: int = 4) -> Generator[T, None, None]:
    """The same items in the same order, at most ``size`` made before they are asked for.

    What the source raises is raised here, and a consumer that stops early stops the source: it is
    closed before this iterator is.
    """
    made: Queue[T | _End] = Queue(size)
    gone = threading.Event()

    def put(item: T | _End) -> bool:
        while not gone.is_set():
            try:
                made.put(item, timeout=_WAIT)
            except Full:
                continue
            return True
        return False

    def produce() -> None:
        source = iter(items)
        try:
            for item in source:
                if not put(item):
                    break
            put(_End())
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            put(_End(error))
        finally:
            close = getattr(source, "close", None)
            if close is not None:
                close()

    worker = threading.Thread(target=produce, name="sfumato-ahead", daemon=True)
    worker.start()
    try:
        while True:
            try:
                item = made.get(timeout=_WAIT)
            except Empty:
                if worker.is_alive() or not made.empty():
                    continue
                return
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        gone.set()
        worker.join()
