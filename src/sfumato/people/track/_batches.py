"""Looking at several frames at once, their order kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from sfumato.media import Frame

Mark = TypeVar("Mark")
Seen = TypeVar("Seen")


def looked_at(
    frames: Iterable[tuple[Frame, Mark]], look: Callable[[Frame, Mark], Seen], workers: int
) -> Iterator[tuple[Frame, Seen]]:
    """Every frame with what ``look`` made of it and its mark, by up to ``workers`` threads.

    As many frames as there are workers are taken before the first is given back.
    """
    if workers < 2:
        for frame, mark in frames:
            yield frame, look(frame, mark)
        return
    waiting: deque[tuple[Frame, Future[Seen]]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="sfumato-look") as pool:
        for frame, mark in frames:
            waiting.append((frame, pool.submit(look, frame, mark)))
            if len(waiting) > workers:
                first, seen = waiting.popleft()
                yield first, seen.result()
        while waiting:
            first, seen = waiting.popleft()
            yield first, seen.result()


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
