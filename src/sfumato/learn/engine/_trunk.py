"""The trunk cache: where only the last layers train, the frozen part runs once per record and view.

What it holds are features of private records: the file is readable by its user alone and already
unlinked while it is in use, so it vanishes with the run however that ends (R16), unless it is kept
on purpose.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from sfumato.data import Record, Records
from sfumato.files import for_owner_only
from sfumato.learn._plan import Plan
from sfumato.learn._projector import content_hash
from sfumato.learn.engine._speed import Speed
from sfumato.learn.views._prepare import Preparation
from sfumato.models import Step, cut, device_of

_DIGEST = 32


class Tail(nn.Module):
    """The part that trains, fed with what the trunk gave. Parameters are the model's own."""

    def __init__(self, model: nn.Module, steps: list[Step]) -> None:
        super().__init__()
        self.model = model
        self._steps = steps

    def forward(self, *state: Tensor) -> Any:
        out: Any = state[0] if len(state) == 1 else state
        for step in self._steps:
            out = step.run(out)
        return out


class TrunkCache:
    """Answers with a record's trunk features, computing them the first time only."""

    def __init__(
        self, model: nn.Module, trunk: list[Step], tail: list[Step], count: int, clips: int,
        speed: Speed, key: str,
    ) -> None:  # fmt: skip
        self.tail = Tail(model, tail)
        self.kept = speed.keep_cache
        self.computed = 0
        self._trunk, self._count, self._clips, self._speed = trunk, count, clips, speed
        self._files: dict[str, _Shelf | None] = {}
        self._key = key

    def keep(
        self, index: int, view: str, load: Callable[[], Record], compute: Callable[[Record], Any]
    ) -> Any:
        """Trunk features of one record's view, from the shelf or computed now."""
        shelf = self._files.get(view)
        if shelf is not None and shelf.trusted[index]:
            return self._here(shelf.read(index))
        record = load()
        digest = _content(record)
        if shelf is not None and shelf.holds(index, digest):
            return self._here(shelf.read(index))
        features = self.features(compute(record))
        self.computed += 1
        if view not in self._files:
            shelf = self._files[view] = self._shelf(view, features)
            if shelf is not None and shelf.holds(index, digest):
                return features
        if shelf is not None:
            shelf.write(index, digest, features)
        return features

    def _here(self, features: Any) -> Any:
        """Features from a shelf, which is memory of the CPU, where the trained part is."""
        device = device_of(self.tail)
        if isinstance(features, tuple):
            return tuple(part.to(device) for part in features)
        return features.to(device)

    def holds(self, index: int) -> bool:
        """Whether no view that was asked for so far needs the record again."""
        shelves = self._files.values()
        return bool(shelves) and all(s is not None and s.trusted[index] for s in shelves)

    def own_names(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The model's names for the tail's parameters."""
        return {name.removeprefix("model."): tensor for name, tensor in tensors.items()}

    def close(self) -> None:
        for shelf in self._files.values():
            if shelf is not None:
                shelf.close()
        self._files.clear()

    def features(self, seen: Any) -> Any:
        """The trunk's answer to one record; one at a time, so a token-dropping model pads nothing."""
        single = self._clips == 1
        parts = self._here(seen if isinstance(seen, tuple) else (seen,))
        state: Any = tuple(part[None] if single else part for part in parts)
        state = state if len(state) > 1 else state[0]
        with torch.no_grad():
            for step in self._trunk:
                state = step.run(state)
        if isinstance(state, tuple):
            return tuple(_padded(part, parts[-1], single) for part in state)
        return state[0] if single else state

    def _shelf(self, view: str, features: Any) -> _Shelf | None:
        parts = features if isinstance(features, tuple) else (features,)
        size = self._count * (_DIGEST + sum(part.nbytes for part in parts))
        if size > self._speed.cache_bytes:
            return None
        return _Shelf(f"{self._key}-{view}", self._count, parts, self._speed)


def _content(record: Record) -> bytes:
    mask = b"" if record.mask is None else np.packbits(record.mask).tobytes()
    return hashlib.sha256(content_hash(record) + mask).digest()


def _padded(part: Tensor, keep: Tensor, single: bool) -> Tensor:
    """Kept tokens filled up to all tokens, so that every record takes the same place on the shelf."""
    missing = keep.shape[-1] - part.shape[1]
    widths = [0, 0] * (part.dim() - 2) + [0, missing]
    whole = torch.nn.functional.pad(part, widths)
    return whole[0] if single else whole


class _Shelf:
    """Memory-mapped features of all records for one view."""

    def __init__(self, name: str, count: int, parts: tuple[Tensor, ...], speed: Speed) -> None:
        self._shapes = [(tuple(part.shape), part.dtype, part.nbytes) for part in parts]
        self._row = _DIGEST + sum(part.nbytes for part in parts)
        folder = speed.cache_folder or Path(tempfile.gettempdir())
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"sfumato-trunk-{name}"
        if speed.keep_cache:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            for_owner_only(handle)
        else:
            handle, temporary = tempfile.mkstemp(prefix="sfumato-trunk-", dir=folder)
            os.unlink(temporary)
        os.ftruncate(handle, count * self._row)
        with os.fdopen(handle, "r+b", closefd=True) as stream:
            self._map = np.memmap(stream, dtype=np.uint8, mode="r+", shape=(count, self._row))
        self.trusted = np.zeros(count, dtype=bool)

    def holds(self, index: int, digest: bytes) -> bool:
        """Content is compared once a run; then the row is trusted."""
        if not self.trusted[index] and self._map[index, :_DIGEST].tobytes() == digest:
            self.trusted[index] = True
        return bool(self.trusted[index])

    def read(self, index: int) -> Any:
        found, start = [], _DIGEST
        for shape, dtype, size in self._shapes:
            raw = torch.from_numpy(self._map[index, start : start + size].copy())
            found.append(raw.view(dtype).reshape(shape))
            start += size
        return found[0] if len(found) == 1 else tuple(found)

    def write(self, index: int, digest: bytes, features: Any) -> None:
        start = _DIGEST
        for part in features if isinstance(features, tuple) else (features,):
            raw = part.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            self._map[index, start : start + len(raw)] = raw
            start += len(raw)
        # the digest goes last: a row that was cut short is not mistaken for a whole one
        self._map[index, :_DIGEST] = np.frombuffer(digest, dtype=np.uint8)
        self.trusted[index] = True

    def close(self) -> None:
        self._map.flush()
        del self._map


@contextmanager
def open_trunk(
    model: nn.Module, records: Records, plan: Plan, prepare: Preparation, speed: Speed
) -> Iterator[TrunkCache | None]:
    """A cache where the model has a frozen beginning, else None; closed when the run ends."""
    cache = _fitting(model, records, plan, prepare, speed)
    try:
        yield cache
    finally:
        if cache is not None:
            cache.close()


def _fitting(
    model: nn.Module, records: Records, plan: Plan, prepare: Preparation, speed: Speed
) -> TrunkCache | None:
    if not speed.trunk_cache or not hasattr(model, "steps"):
        return None
    trunk, tail = cut(model)
    layers = [layer for step in trunk for part in step.modules for layer in part.modules()]
    random = any(isinstance(m, _DropoutNd) and m.training and m.p > 0 for m in layers)
    if not tail or random or not any(True for m in layers for _ in m.parameters(recurse=False)):
        return None
    digest = hashlib.sha256(f"{plan.public_view!r} {plan.clips} {prepare!r}".encode())
    for step in trunk:
        digest.update(step.name.encode())
        for part in step.modules:
            for tensor in (*part.parameters(), *part.buffers()):
                plain = tensor.detach().cpu().contiguous().reshape(-1)
                digest.update(plain.view(torch.uint8).numpy().tobytes())
    return TrunkCache(model, trunk, tail, len(records), plan.clips, speed, digest.hexdigest()[:32])
