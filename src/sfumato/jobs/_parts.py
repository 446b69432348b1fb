"""One recording in parts: every part is worked on somewhere and written into a folder of its attempt.

As with whole files the driver trusts no answer: what a part wrote is known by its digest, so that no
part can stand in the place of another one, and one that fails fails the recording.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.files import sha256
from sfumato.jobs._engine import Engine, Needs
from sfumato.jobs._publish import require_plain_files


@dataclass(frozen=True, slots=True)
class Part:
    """A finished part: the folder that it wrote into, its files, and what its work returned."""

    folder: Path
    digests: Mapping[str, str]
    value: Any

    def require_as_written(self) -> None:
        """Raise if another file stands in the place of one that the worker wrote."""
        require_plain_files(self.folder, self.digests, read=True)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def run_parts(
    engine: Engine,
    work: Callable[..., Any],
    parts: Sequence[tuple[Any, ...]],
    place: Path,
    *,
    repeatable: bool,
    needs: Needs = Needs(),  # noqa: B008 - frozen
    answered: Callable[[int], None] = lambda number: None,
) -> list[Part]:
    """``work(folder, *arguments)`` for every part, in their order; the first failure ends all of them.

    ``place`` is a folder that every node sees; ``answered`` hears the number of each part that is done.
    Only ``repeatable`` work, which draws no noise, is done again where its worker was lost.
    """
    done: list[Part | None] = [None] * len(parts)
    folders: dict[int, Path] = {}

    def task(number: int, attempt: int) -> tuple[Any, ...]:
        folders[number] = place / f"part-{number}-{attempt}-{secrets.token_hex(4)}"
        return work, folders[number], parts[number]

    with closing(
        engine.run(_perform, len(parts), task, repeatable=repeatable, needs=needs)
    ) as batches:
        for batch in batches:
            for answer in batch:
                if answer.failure:
                    raise SfumatoError(answer.failure)
                digests, value = answer.value
                part = Part(folders[answer.number], digests, value)
                part.require_as_written()
                done[answer.number] = part
                answered(answer.number)
    return [_there(part) for part in done]


def _there(part: Part | None) -> Part:
    if part is None:
        raise SfumatoError("Expected every part of the recording, one is missing: run it again.")
    return part


def _perform(
    work: Callable[..., Any], folder: Path, arguments: tuple[Any, ...]
) -> tuple[dict[str, str], Any]:
    """In a worker: one part in its own folder, and what was written there."""
    try:
        folder.mkdir(mode=0o700)
    except OSError:
        raise SfumatoError(
            "Expected the staging folder of this recording, found none: nothing was read."
        ) from None
    value = work(folder, *arguments)
    return {file.name: sha256(file) for file in folder.iterdir()}, value
