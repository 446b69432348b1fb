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
def listening(listener: Callable[[ProgressStep], None]) -> Iterator[None]:
    """Within this block ``listener`` gets every step."""
    before = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def tell(what: str, done: float, total: float | None = None) -> None:
    """Say how far the work has come."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(ProgressStep(what, done, total))


def track(items: Iterable[Item], what: str, total: float | None = None) -> Iterator[Item]:
    """``items``, telling how many of them are finished; what one of them tells is a part of it."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    listener = _LISTENER.get()
    if listener is None:
        yield from items
        return
    try:
        listener(ProgressStep(what, 0, total))
        for number, item in enumerate(items):
            _LISTENER.set(_Part(listener, what, number, total))
            yield item
            listener(ProgressStep(what, number + 1, total))
    finally:
        _LISTENER.set(listener)


@dataclass
class _Part:
    """Hears what one item tells and passes it on as a share of the whole, which never goes back."""

    listener: Callable[[ProgressStep], None]
    what: str
    number: int
    total: float | None
    share: float = 0.0

    def __call__(self, step: ProgressStep) -> None:
        if step.total:
            self.share = max(self.share, min(1.0, step.done / step.total))
            self.listener(ProgressStep(self.what, self.number + self.share, self.total))
