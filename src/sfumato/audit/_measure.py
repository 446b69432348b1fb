"""One contract for every measure: what goes in piece by piece, what comes out, and which way is up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from sfumato.errors import SfumatoError


class MeasureError(SfumatoError):
    """A measure that was asked for without data, or fed what it cannot read."""


class Measure(ABC):
    """``update`` with batches, then ``compute``. Direction and bounds are declared, not guessed.

    ``higher_is_better`` is from the point of view of the person who releases the data: an attack's
    success is worse the higher it is.
    """

    name: ClassVar[str]
    higher_is_better: ClassVar[bool]
    bounds: ClassVar[tuple[float, float]]

    @abstractmethod
    def update(self, *args: Any, **kwargs: Any) -> None:
        """Take in one batch."""

    @abstractmethod
    def compute(self) -> Any:
        """The value over everything taken in; refuses when that is nothing."""

    @abstractmethod
    def reset(self) -> None:
        """Forget everything taken in."""
