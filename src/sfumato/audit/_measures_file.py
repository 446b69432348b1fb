"""The measures file that ``sfumato report`` reads: written from any set of results.

The report checks every entry again when it reads it (sfumato.report may not import this room, nor
this room the report); ``tests/audit/test_measures_written.py`` holds the two together.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.audit._measure import Measure, MeasureError, Result
from sfumato.files import write_json

SUFFIX = ".measures.json"


def measures_json(
    results: Iterable[Result | Measure],
    *,
    title: str | None = None,
    settings: Mapping[str, str | int | float | bool | None] | None = None,
    commands: Sequence[str] = (),
) -> dict[str, Any]:
    """The content of a measures file; a ``Measure`` stands for the results it has now."""
    flat: list[Result] = []
    for each in results:
        flat.extend(each.results() if isinstance(each, Measure) else [each])
    if not flat:
        raise MeasureError("Expected at least one result to write, got none: run an attack first.")
    for result in flat:
        _check(result)
    whole: dict[str, Any] = {"schema": "sfumato-measures", "version": 1}
    if title is not None:
        whole["title"] = title
    whole |= {"settings": dict(settings or {}), "commands": list(commands)}
    return whole | {"measures": [result.to_json() for result in flat]}


def write_measures(
    target: str | os.PathLike[str],
    results: Iterable[Result | Measure],
    *,
    title: str | None = None,
    settings: Mapping[str, str | int | float | bool | None] | None = None,
    commands: Sequence[str] = (),
    force: bool = False,
) -> Path:
    """Write ``NAME.measures.json`` and return its path; ``sfumato report`` shows what is in it.

    ``target`` may leave the ending out. ``release=`` of a result is the name of the output it is
    about; texts must not hold paths, because paths name people, and the report refuses them.
    """
    path = measures_path(target)
    whole = measures_json(results, title=title, settings=settings, commands=commands)
    write_json(path, whole, force=force)
    return path


def measures_path(target: str | os.PathLike[str]) -> Path:
    """``target`` with the ending that the report knows measures by."""
    path = Path(target)
    if path.name == "measures.json" or path.name.endswith(SUFFIX):
        return path
    stem = path.name.removesuffix(".json")
    return path.with_name(stem + SUFFIX)


def _check(result: Result) -> None:
    """What the report would refuse later is refused now, while the name of the attack is known."""
    shapes = [n for n in ("value", "per_class", "matrix") if getattr(result, n) is not None]
    if len(shapes) != 1:
        raise MeasureError(
            f"Expected one of value, per_class and matrix in {result.name!r}, got "
            f"{', '.join(shapes) or 'none'}."
        )
    if result.matrix is not None:
        return
    if result.higher_is_better is None or result.bounds is None:
        raise MeasureError(f"Expected {result.name!r} to declare its direction and its bounds.")
    least, most = result.bounds
    numbers = [result.value, result.low, result.high, result.chance, result.unprotected]
    numbers += list((result.per_class or {}).values())
    for number in numbers:
        if number is not None and not (math.isfinite(number) and least <= number <= most):
            raise MeasureError(
                f"Expected {result.name!r} within its bounds {least:g} to {most:g}, got {number!r}."
            )
