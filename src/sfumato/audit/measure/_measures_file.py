"""The measures file that ``sfumato report`` reads: written from any set of results.

Both go by the schema of ``sfumato.privacy.measures``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.audit.measure._measure import Measure, MeasureError, Result
from sfumato.devices import used_devices
from sfumato.files import write_json
from sfumato.privacy.measures import SCHEMA, MeasuresError, parse_measures

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
    whole: dict[str, Any] = {"schema": SCHEMA, "version": 1}
    if title is not None:
        whole["title"] = title
    ran_on = {f"device of the {part}": device for part, device in used_devices().items()}
    whole |= {"settings": {**(settings or {}), **ran_on}, "commands": list(commands)}
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
    if path.name in ("", ".."):
        raise MeasureError(
            f"Expected NAME.measures.json to write to, got {str(path)!r}, a folder: name a file in it."
        )
    stem = path.name.removesuffix(".json")
    return path.with_name(stem + SUFFIX)


def _check(result: Result) -> None:
    """What the report would refuse later is refused now, while the name of the attack is known."""
    try:
        parse_measures(json.loads(json.dumps([result.to_json()])))
    except MeasuresError as error:
        raise MeasureError(f"The result {result.name!r} cannot be written. {error}") from None
