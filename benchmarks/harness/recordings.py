"""Where real recordings lie: what ``data=`` means in every table."""

from __future__ import annotations

from pathlib import Path

from sfumato.errors import SfumatoError


def recordings(data: str, *names: str) -> dict[str, Path]:
    """Data set -> folder, of those of ``names`` that are there.

    ``data`` is their common root, or the folders themselves with commas between them. A table that
    reads one data set also takes its folder under another name.
    """
    given = [Path(each).expanduser() for each in data.split(",")]
    found = {}
    for name in names:
        candidates = [path for path in given if path.name == name]
        candidates += [path / name for path in given]
        existing = [path for path in candidates if path.is_dir()]
        if existing:
            found[name] = existing[0]
    if not found and len(names) == len(given) == 1 and given[0].is_dir():
        found[names[0]] = given[0]
    if not found:
        raise SfumatoError(f"Expected data= with one of the folders {', '.join(names)}, got none.")
    return found
