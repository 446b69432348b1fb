"""Checkpoints that survive SIGKILL at any point and never allow one noisy step too many.

A checkpoint is one safetensors file, replaced in one step, with its state as JSON in the header: no
generator, no key, no data. Beside it a journal names the run by a random id (R20), says what cannot
change while it lasts (plan, starting weights, and that it was ever seeded), and counts every noisy
step *before* it is taken. A resumed run spends what the journal has left, so steps that were taken
but lost are not repeated. Both files are readable by the owner alone, from their first byte on.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.files import atomic_output, for_owner_only, lock_file
from sfumato.privacy import new_run_id

_VERSION = 2
_WIDTH = 20
_SEEDED = "seeded"


class CheckpointError(SfumatoError):
    """A checkpoint that does not belong to this run, or is in use."""


@dataclass
class TrainingState:
    """Where a run stands: what a checkpoint holds besides tensors."""

    plan: str
    run: str = ""
    seeded: bool = False
    updates: int = 0
    spent: int = 0
    starts: int = 0
    disclosed: list[str] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps({"version": _VERSION, **vars(self)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> TrainingState:
        value = json.loads(text)
        if value.pop("version", None) != _VERSION:
            raise CheckpointError(
                f"Expected a checkpoint of version {_VERSION}, got another: resume with the version "
                "of sfumato that wrote it."
            )
        return cls(**value)


def write(target: Path, tensors: dict[str, Tensor], state: TrainingState) -> None:
    """Replace the checkpoint in one step; it shows a model that nobody released, so to nobody else."""
    with atomic_output(target, force=True, private=True) as temporary:
        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(plain, str(temporary), metadata={"sfumato": state.to_json()})


def read(target: Path) -> tuple[dict[str, Tensor], TrainingState]:
    try:
        with safe_open(str(target), framework="pt") as stored:
            metadata = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    except (OSError, ValueError) as error:
        raise CheckpointError("Expected a readable checkpoint, got none: start anew.") from error
    except Exception as error:  # safetensors raises its own kind, which has no public base
        raise CheckpointError("Expected a whole checkpoint, got a damaged file.") from error
    if "sfumato" not in metadata:
        raise CheckpointError("Expected a checkpoint of sfumato, got another safetensors file.")
    return tensors, TrainingState.from_json(metadata["sfumato"])


@dataclass
class Facts:
    """What a run is and stays, through every resume: its id, its plan and where it started.

    ``seeded`` only ever turns true: a run that was seeded once is not private (R25).
    """

    plan: str
    start: str
    seeded: bool
    run: str = field(default_factory=new_run_id)


class Journal:
    """One run's id and facts, and how many noisy steps it ever started; locked against a second run.

    The file is a count of fixed width, which is overwritten, and then one line of facts, followed by
    a line ``seeded`` if a later start was.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._path = checkpoint.with_name(checkpoint.name + ".steps")
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock_file(self._handle)
        except OSError:
            os.close(self._handle)
            raise CheckpointError(
                "Expected a checkpoint that no other run uses, got one that is locked: two runs "
                "would spend the budget twice. Stop the other one first."
            ) from None
        for_owner_only(self._handle)

    def facts(self) -> Facts | None:
        """Which run this is; None when the journal is new."""
        count, *lines = self._text().split("\n")
        if not count and not lines:
            return None
        try:
            facts = Facts(**json.loads(lines[0]))
        except (IndexError, TypeError, ValueError):
            raise _damaged() from None
        if lines[1:] not in ([""], [_SEEDED, ""]):
            raise _damaged()
        facts.seeded = facts.seeded or _SEEDED in lines
        return facts

    def spent(self) -> int:
        """Steps started so far."""
        text = self._text()[:_WIDTH]
        if text and not (len(text) == _WIDTH and text.isdigit()):
            raise _damaged()
        return int(text or 0)

    def start(self, facts: Facts) -> None:
        """Forget whatever was here: a new run, on disk before anything is reserved or drawn for it."""
        os.ftruncate(self._handle, 0)
        text = f"{0:0{_WIDTH}d}\n{json.dumps(vars(facts), sort_keys=True)}\n"
        os.pwrite(self._handle, text.encode(), 0)
        os.fsync(self._handle)

    def mark_seeded(self) -> None:
        """From now on, and for ever, this run is not private."""
        facts = self.facts()
        if facts is not None and not facts.seeded:
            end = os.fstat(self._handle).st_size
            os.pwrite(self._handle, f"{_SEEDED}\n".encode(), end)
            os.fsync(self._handle)

    def begin(self, step: int) -> None:
        """Count a step before it is taken; one write, so a kill leaves the old or the new count."""
        os.pwrite(self._handle, f"{step:0{_WIDTH}d}".encode(), 0)

    def _text(self) -> str:
        size = os.fstat(self._handle).st_size
        return os.pread(self._handle, size, 0).decode("ascii", errors="replace")

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)


def _damaged() -> CheckpointError:
    return CheckpointError(
        "Expected a journal that this version of sfumato wrote, got something else: what the run "
        "spent is unknown, so it cannot be resumed. Start anew (--force); with a ledger, what it "
        "reserved stays counted."
    )
