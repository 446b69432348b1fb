"""The measures file: what attacks got and what remained useful, in one form for tables and plots.

Every entry declares its direction and its bounds, as the measures of ``sfumato.audit`` do, so that
nothing here knows any measure by name. The audit writes by this schema, the report reads by it.
"""

from __future__ import annotations

import math
import unicodedata
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    model_validator,
)

from sfumato.errors import SfumatoError
from sfumato.files import parse_json
from sfumato.privacy._paths import has_path

SCHEMA: Literal["sfumato-measures"] = "sfumato-measures"


class MeasuresError(SfumatoError):
    """A measures file that does not say what it must."""


def _plain(text: str) -> str:
    clean = " ".join(
        "".join(c for c in text if c.isspace() or unicodedata.category(c)[0] != "C").split()
    )
    if not clean:
        raise ValueError("an empty text")
    if has_path(clean):
        raise ValueError("a text that looks like a path, and paths name people")
    return clean


Words = Annotated[str, AfterValidator(_plain)]


def _open_ended(value: Any) -> Any:
    """``[0, null]`` has no upper end: JSON knows no infinity."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return value
    ends = (-math.inf, math.inf)
    return tuple(end if given is None else given for given, end in zip(value, ends, strict=True))


Bounds = Annotated[tuple[float, float], BeforeValidator(_open_ended)]
Count = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Measured(_Strict):
    """One result: a ``value``, a value ``per_class``, or a confusion ``matrix`` with ``labels``."""

    name: Words
    group: Literal["privacy", "utility"]
    target: Words | None = None
    release: Words | None = None
    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    value: FiniteFloat | None = None
    low: FiniteFloat | None = None
    high: FiniteFloat | None = None
    confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    higher_is_better: bool | None = None
    bounds: Bounds | None = None
    chance: FiniteFloat | None = None
    unprotected: FiniteFloat | None = None
    per_class: dict[Words, FiniteFloat] | None = None
    matrix: list[list[Count]] | None = None
    labels: list[Words] | None = None
    note: Words | None = None

    @model_validator(mode="after")
    def _one_shape(self) -> Measured:
        shapes = [n for n in ("value", "per_class", "matrix") if getattr(self, n) is not None]
        if len(shapes) != 1:
            raise ValueError(
                f"{self.name!r} needs exactly one of value, per_class and matrix, "
                f"got {', '.join(shapes) or 'none'}"
            )
        if self.matrix is not None:
            self._check_matrix(self.matrix)
            return self
        if self.higher_is_better is None or self.bounds is None:
            raise ValueError(f"{self.name!r} must declare higher_is_better and bounds")
        self._check_range(self.bounds)
        return self

    def _check_matrix(self, matrix: list[list[float]]) -> None:
        size = len(self.labels or ())
        if size < 2 or len(matrix) != size or any(len(row) != size for row in matrix):
            raise ValueError(f"{self.name!r} needs a square matrix with one label a row")
        if not any(any(row) for row in matrix):
            raise ValueError(f"{self.name!r} has a matrix without a single case")

    def _check_range(self, bounds: tuple[float, float]) -> None:
        least, most = bounds
        if math.isnan(least) or math.isnan(most) or not least < most:
            raise ValueError(f"{self.name!r} needs bounds [least, most], got {list(bounds)}")
        if self.per_class is not None and not self.per_class:
            raise ValueError(f"{self.name!r} has no class at all")
        stated = (self.value, self.low, self.high, self.chance, self.unprotected)
        numbers = [each for each in stated if each is not None]
        numbers += list((self.per_class or {}).values())
        if any(not least <= each <= most for each in numbers):
            raise ValueError(f"{self.name!r} has a value outside its bounds {list(bounds)}")
        if (self.low is None) != (self.high is None):
            raise ValueError(f"{self.name!r} has one end of an interval without the other")
        if self.low is None or self.high is None or self.value is None:
            return
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.name!r} has a value outside its own interval")

    @property
    def title(self) -> str:
        """Name, target and release, as a caption says them."""
        about = self.name if self.target is None else f"{self.name}: {self.target}"
        return about if self.release is None else f"{about} ({self.release})"

    @property
    def reading(self) -> str:
        """What the number says about leakage, in words that never say more than it does."""
        if self.group != "privacy" or self.value is None:
            return ""
        if self.chance is None:
            return "Guessing not stated: cannot be judged."
        if self.low is None or self.high is None:
            return "No interval stated: cannot be told from luck."
        worse = self.high < self.chance if self.higher_is_better else self.low > self.chance
        better = self.low > self.chance if self.higher_is_better else self.high < self.chance
        if worse:
            return "Leaks: better than guessing."
        if better:
            return "Worse than guessing: check the attack."
        return "Not told apart from guessing here."

    @property
    def leaks(self) -> bool:
        return self.reading.startswith("Leaks")

    @property
    def judged(self) -> bool:
        """Whether the numbers say anything about leakage, be it yes or no."""
        return self.leaks or self.reading.startswith("Not told apart")


class MeasuresFile(_Strict):
    """A list of results with a title, the settings and the commands that made them."""

    schema_: Literal["sfumato-measures"] = Field(default=SCHEMA, alias="schema")
    version: Literal[1] = 1
    title: Words | None = None
    settings: dict[Words, str | int | float | bool | None] = {}
    commands: list[str] = []
    measures: list[Measured] = Field(min_length=1)


def parse_measures(value: Any) -> MeasuresFile:
    """Read a measures object, or the bare list of results."""
    whole = {"measures": value} if isinstance(value, list) else value
    try:
        return MeasuresFile.model_validate(whole)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = first["msg"].removeprefix("Value error, ")
        raise MeasuresError(
            f"Expected a measures file as docs/report.md describes, but {where or 'it'} has a "
            f"problem: {problem}."
        ) from None


def is_measures(path: Path, value: Any) -> bool:
    """By its name, or by the schema that it states."""
    named = path.name == "measures.json" or path.name.endswith(".measures.json")
    return named or (isinstance(value, dict) and value.get("schema") == SCHEMA)


def read_json(path: Path) -> Any:
    """JSON as it stands in a file; NaN and infinity are not JSON."""
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise MeasuresError(
            f"Expected readable JSON in the file {path.name!r}, got something else: "
            "write it again, or leave it out."
        ) from None
