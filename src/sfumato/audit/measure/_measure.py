"""One contract for every measure: what goes in piece by piece, what comes out, and which way is up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from sfumato.errors import SfumatoError

Group = Literal["privacy", "utility"]


class MeasureError(SfumatoError):
    """A measure that was asked for without data, or fed what it cannot read."""


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, and what guessing gets where that is known."""

    value: float
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    chance: float | None = None

    def __float__(self) -> float:
        return self.value

    @property
    def parts(self) -> dict[str, Any]:
        """As the fields of a ``Result``."""
        return dict(vars(self))


@dataclass(frozen=True)
class Result:
    """One entry of a measures file (docs/report.md): enough to be drawn without knowing its name.

    Exactly one of ``value``, ``per_class`` and ``matrix`` (rows are the true classes, named by
    ``labels``) is given. ``higher_is_better`` is from the point of view of whoever releases.
    """

    name: str
    group: Group
    higher_is_better: bool | None = None
    bounds: tuple[float, float] | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    chance: float | None = None
    unprotected: float | None = None
    per_class: Mapping[str, float] | None = None
    matrix: Sequence[Sequence[float]] | None = None
    labels: Sequence[str] | None = None
    target: str | None = None
    release: str | None = None
    epsilon: float | None = None
    note: str | None = None

    def about(self, **facts: Any) -> Result:
        """The same result with ``target``, ``release``, ``epsilon``, ``unprotected`` or ``note``."""
        return replace(self, **facts)

    def to_json(self) -> dict[str, Any]:
        """As the measures file has it: what is not known is left out, open ends of bounds are null."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        row = {name: value for name, value in found.items() if value is not None}
        if self.bounds is not None:
            row["bounds"] = [float(end) if np.isfinite(end) else None for end in self.bounds]
        if self.per_class is not None:
            row["per_class"] = dict(self.per_class)
        return row


class Measure(ABC):
    """``update`` with batches, then ``compute``. Direction and bounds are declared, not guessed.

    ``higher_is_better`` is from the point of view of the person who releases the data: an attack's
    success is worse the higher it is. ``results`` says the same as ``compute`` in the form that
    tables, plots and the report read; a measure whose value is a number, an ``Estimate`` or a mapping
    of classes to numbers needs not write its own.
    """

    name: ClassVar[str]
    group: ClassVar[Group] = "privacy"
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

    def results(self, **facts: Any) -> list[Result]:
        """What ``compute`` found, as entries of a measures file; ``facts`` as in ``Result.about``."""
        found = self.compute()
        if isinstance(found, Mapping):
            return [self.result(per_class={str(k): float(v) for k, v in found.items()}, **facts)]
        if isinstance(found, Estimate):
            return [self.result(**found.parts, **facts)]
        return [self.result(value=float(found), **facts)]

    def result(self, name: str | None = None, **parts: Any) -> Result:
        """One result with this measure's name, group, direction and bounds."""
        return Result(name or self.name, self.group, self.higher_is_better, self.bounds, **parts)


class BatchedMeasure(Measure):
    """A measure of all batches together: ``update`` keeps them, ``compute`` joins them."""

    needs: ClassVar[str] = "predictions to score"

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._batches: list[tuple[npt.NDArray[Any], ...]] = []

    @property
    def count(self) -> int:
        """Records taken in so far."""
        return sum(len(columns[0]) for columns in self._batches)

    def keep(self, *columns: npt.NDArray[Any]) -> None:
        """One batch, record by record the same in every column."""
        self._batches.append(columns)

    def joined(self) -> tuple[npt.NDArray[Any], ...]:
        """Every column over all batches."""
        if not self.count:
            raise MeasureError(f"Expected {self.needs}, got none: call update first.")
        return tuple(np.concatenate(column) for column in zip(*self._batches, strict=True))
