"""How far a long work has come: rooms tell it here, and whoever called them may listen.

Nothing is printed, and without a listener nothing happens. A listener belongs to the context that set
it: processes and threads that a room starts have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """``done`` of ``total`` (None: nobody knows), and of what."""

    what: str
    done: float
    total: float | None = None


_LISTENER: ContextVar[Callable[[ProgressStep], None] | None] = ContextVar(
    "sfumato-progress", default=None
)


@contextmanager
def listening(hear: Callable[[ProgressStep], None]) -> Iterator[None]:
    """Within this block ``hear`` gets every step."""
    before = _LISTENER.set(hear)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def tell(what: str, done: float, total: float | None = None) -> None:
    """Say how far the work has come."""
    hear = _LISTENER.get()
    if hear is not None:
        hear(ProgressStep(what, done, total))


def track(items: Iterable[Item], what: str, total: float | None = None) -> Iterator[Item]:
    """``items``, telling how many of them are finished; what one of them tells is a part of it."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    hear = _LISTENER.get()
    if hear is None:
        yield from items
        return
    try:
        hear(ProgressStep(what, 0, total))
        for number, item in enumerate(items):
            _LISTENER.set(_Part(hear, what, number, total))
            yield item
            hear(ProgressStep(what, number + 1, total))
    finally:
        _LISTENER.set(hear)


@dataclass
class _Part:
    """Hears what one item tells and passes it on as a share of the whole, which never goes back."""

    hear: Callable[[ProgressStep], None]
    what: str
    number: int
    total: float | None
    share: float = 0.0

    def __call__(self, step: ProgressStep) -> None:
        if step.total:
            self.share = max(self.share, min(1.0, step.done / step.total))
            self.hear(ProgressStep(self.what, self.number + self.share, self.total))
