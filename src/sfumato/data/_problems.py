"""What was wrong with a data set's files: counted by sentence, never dropped in silence."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato.data._records import RecordsError


class Problems:
    """Counts of what was left out or mended, each as one sentence a person can act on.

    >>> problems = Problems()
    >>> problems.add("Expected a head box with every person, got none: left out of PCKh.")
    >>> print(problems)
    1 x Expected a head box with every person, got none: left out of PCKh.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, sentence: str, times: int = 1) -> None:
        if times:
            self.counts[sentence] += times

    def __len__(self) -> int:
        return sum(self.counts.values())

    def __str__(self) -> str:
        if not self.counts:
            return "nothing was left out"
        return "\n".join(f"{count} x {sentence}" for sentence, count in self.counts.most_common())


def existing_folder(path: str | os.PathLike[str], what: str) -> Path:
    """The folder, or one sentence that says what was looked for."""
    folder = Path(path)
    if not folder.is_dir():
        raise RecordsError(f"Expected {what} as a folder, but there is none at the path given.")
    return folder


def existing_file(path: Path, what: str) -> Path:
    """The file, or one sentence that says what was looked for."""
    if not path.is_file():
        raise RecordsError(f"Expected {what} in a file {path.name}, but it is not there.")
    return path


def read_json(path: Path) -> Any:
    """What a JSON file says, or one sentence with the line that is no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise RecordsError(f"Expected JSON in {path.name}, line {error.lineno} is not.") from error


def require_some(items: Sequence[object], what: str, problems: Problems) -> None:
    """Refuse an empty data set, with what was found wrong."""
    if not items:
        found = f"; {problems}" if len(problems) else ": check which folder was given."
        raise RecordsError(f"Expected {what}, found none{found}")
