"""Data-set folders for release: ``split/class/file`` with ``metadata.jsonl``.

Names such as ``P001`` identify people, and so does an order: names are random by default, the index
is sorted by them, and all files carry the same time. The map back to the originals stays outside.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, Self

from sfumato.files import write_text
from sfumato.media import MediaError, atomic_folder

INDEX = "metadata.jsonl"
_ONE_DATE = 315_619_200  # 2 January 1980: archives cannot hold an earlier one
Names = Literal["random", "keep"]

NAMES_NOTE = "the names of the files and of their folders, which were kept: a name may identify the person recorded"
CLASSES_NOTE = (
    "The class folders were kept: the class of every recording is public and is not protected."
)


class Release:
    """A folder for release that appears only when everything in it is there.

    ``with Release(out) as release: target = release.add(source, split="train", label="walk",
    suffix=".mp4")`` gives the path to write to. ``key_map`` is a path outside of the release, or
    ``None`` to keep no map at all; by default ``OUT.keys.json`` beside the release, mode 0600.
    ``notes`` are the sentences that the card must carry (R14).
    """

    def __init__(
        self,
        out_dir: str | os.PathLike[str],
        *,
        names: Names = "random",
        key_map: str | os.PathLike[str] | None = "",
        force: bool = False,
    ) -> None:
        self._out = Path(out_dir)
        self._names = _checked_names(names)
        self._force = force
        self._key_map = None
        if key_map is not None:
            self._key_map = Path(key_map) if key_map else beside(self._out, ".keys.json")
            require_outside(self._key_map, self._out, "key map")
        self._rows: dict[str, dict[str, Any]] = {}
        self._sources: dict[str, str] = {}
        self._stack = ExitStack()

    @property
    def notes(self) -> tuple[str, ...]:
        kept = (NAMES_NOTE,) if self._names == "keep" else ()
        return (*kept, CLASSES_NOTE)

    def __enter__(self) -> Self:
        self._folder = self._stack.enter_context(atomic_folder(self._out, force=self._force))
        return self

    def add(
        self,
        source: str | os.PathLike[str],
        *,
        split: str,
        label: str,
        suffix: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Path:
        """Reserve a place for the protected copy of ``source`` and return the path to write to."""
        original = Path(source)
        ending = original.suffix.lower() if suffix is None else suffix
        name = released_stem(original, self._names) + ending
        relative = f"{component(split)}/{component(label)}/{name}"
        if relative in self._rows:
            raise MediaError(
                "Expected each kept name once in a class, got one twice: use random names."
            )
        self._rows[relative] = {**(metadata or {}), "split": split, "label": label}
        self._sources[relative] = str(original)
        target = self._folder / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def __exit__(self, *raised: Any) -> None:
        if raised[0] is not None:
            self._stack.__exit__(*raised)
            return
        with self._stack:
            missing = [name for name in self._rows if not (self._folder / name).is_file()]
            if missing or not self._rows:
                raise MediaError(
                    f"Expected every file of the release to be written, {len(missing)} of "
                    f"{len(self._rows)} are missing: write all of them, or do not add them."
                )
            if self._key_map is not None:
                keys = json.dumps({"version": 1, "names": self._sources}, indent=2, sort_keys=True)
                write_text(self._key_map, keys + "\n", force=self._force, private=True)
            write_index(self._folder, self._rows)


def write_index(
    folder: Path, rows: Mapping[str, Mapping[str, Any]], *, force: bool = False
) -> None:
    """Write ``metadata.jsonl`` (a line a file, ``file_name`` first) and level the files' times."""
    lines = [
        json.dumps({"file_name": name, **rows[name]}, allow_nan=False, ensure_ascii=False)
        for name in sorted(rows)
    ]
    write_text(folder / INDEX, "\n".join(lines) + "\n", force=force)
    for file in folder.rglob("*"):
        level_time(file)


def level_time(file: Path) -> None:
    """Give all released files one date: the order of writing is the order of the originals."""
    os.utime(file, (_ONE_DATE, _ONE_DATE))


def level_times(folder: Path) -> None:
    """Give a folder and everything below it that one date."""
    for path in (*folder.rglob("*"), folder):
        level_time(path)


def released_stem(source: Path, names: Names) -> str:
    return secrets.token_hex(8) if names == "random" else source.stem


def component(text: str) -> str:
    """One folder name that cannot lead anywhere else."""
    if not text or text.startswith(".") or any(mark in text for mark in "/\\\0\n"):
        raise MediaError(
            f"Expected a plain folder name for split or class, got {text!r}: rename it."
        )
    return text


def beside(folder: Path, ending: str) -> Path:
    """A path next to ``folder`` that bears its name."""
    whole = folder.absolute()
    return whole.with_name(whole.name + ending)


def require_outside(path: Path, release: Path, what: str) -> None:
    """R14: what leads back to the originals never lies in the release."""
    if path.resolve().is_relative_to(release.resolve()):
        raise MediaError(
            f"Expected the {what} outside of the released folder, got a path inside: move it out."
        )


def _checked_names(names: str) -> Names:
    if names == "random":
        return "random"
    if names == "keep":
        return "keep"
    raise MediaError(f"Expected names 'random' or 'keep', got {names!r}: choose one.")
