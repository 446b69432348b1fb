"""Work on several frames at once, their order kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from sfumato.media import Frame

Item = TypeVar("Item")
Done = TypeVar("Done")


def in_parallel(
    items: Iterable[Item], work: Callable[[Item], Done], workers: int
) -> Iterator[tuple[Item, Done]]:
    """Every item with what ``work`` made of it, by up to ``workers`` threads.

    As many items as there are workers are taken before the first is given back.
    """
    if workers < 2:
        for item in items:
            yield item, work(item)
        return
    waiting: deque[tuple[Item, Future[Done]]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="sfumato-work") as pool:
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) > workers:
                first, done = waiting.popleft()
                yield first, done.result()
        while waiting:
            first, done = waiting.popleft()
            yield first, done.result()


def with_last(frames: Iterable[Frame], ask: bool) -> Iterator[tuple[Frame, bool]]:
    """Every frame, and whether it is the last one: known one frame later, so only if asked."""
    held: Frame | None = None
    for frame in frames:
        if not ask:
            yield frame, False
            continue
        if held is not None:
            yield held, False
        held = frame
    if held is not None:
        yield held, True
