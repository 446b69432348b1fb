"""Checkpoints that survive SIGKILL at any point and never allow one noisy step too many.

A checkpoint is one safetensors file, replaced in one step, with its state as JSON in the header: no
generator, no key, no data. Beside it a journal counts every noisy step *before* it is taken. A
resumed run spends what the journal has left, so steps that were taken but lost are not repeated.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.files import atomic_output

_VERSION = 1
_WIDTH = 20


class CheckpointError(SfumatoError):
    """A checkpoint that does not belong to this run, or is in use."""


@dataclass
class State:
    """Where a run stands: what a checkpoint holds besides tensors."""

    plan: str
    updates: int = 0
    spent: int = 0
    starts: int = 0
    disclosed: list[str] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps({"version": _VERSION, **vars(self)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> State:
        value = json.loads(text)
        if value.pop("version", None) != _VERSION:
            raise CheckpointError(
                f"Expected a checkpoint of version {_VERSION}, got another: resume with the version "
                "of sfumato that wrote it."
            )
        return cls(**value)


def write(target: Path, tensors: dict[str, Tensor], state: State) -> None:
    """Replace the checkpoint in one step."""
    with atomic_output(target, force=True) as temporary:
        plain = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
        save_file(plain, str(temporary), metadata={"sfumato": state.to_json()})


def read(target: Path) -> tuple[dict[str, Tensor], State]:
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
    return tensors, State.from_json(metadata["sfumato"])


class Journal:
    """How many noisy steps were ever started, locked against a second run."""

    def __init__(self, checkpoint: Path) -> None:
        self._path = checkpoint.with_name(checkpoint.name + ".steps")
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            raise CheckpointError(
                "Expected a checkpoint that no other run uses, got one that is locked: two runs "
                "would spend the budget twice. Stop the other one first."
            ) from None

    def spent(self) -> int | None:
        """Steps started so far; None when the journal is new."""
        text = os.pread(self._handle, _WIDTH, 0).decode()
        if not text:
            return None
        if not text.isdigit():
            raise CheckpointError(
                "Expected a count of steps in the journal, got something else: the budget spent is "
                "unknown, so this run cannot be resumed."
            )
        return int(text)

    def begin(self, step: int) -> None:
        """Count a step before it is taken; one write, so a kill leaves the old or the new count."""
        os.pwrite(self._handle, f"{step:0{_WIDTH}d}".encode(), 0)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._handle)
