"""The two streams of a step: which rows the model sees for the units that were drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as tree

from sfumato.data import ReadAhead, Record, Records
from sfumato.learn._plan import Plan
from sfumato.learn.engine._routes import Rows
from sfumato.learn.engine._trunk import TrunkCache
from sfumato.learn.views._prepare import Preparation
from sfumato.learn.views._public_view import is_blank, stack
from sfumato.models import device_of


class Streams:
    """Inputs for the private and the public stream, laid out as rows.

    With a trunk cache the rows hold the trunk's features instead of pixels, the input of the trained part.
    """

    def __init__(
        self,
        model: nn.Module,
        records: Records,
        plan: Plan,
        prepare: Preparation,
        cache: TrunkCache | None = None,
        ahead: ReadAhead | None = None,
    ) -> None:
        self._model, self._records, self._plan = model, records, plan
        self._prepare, self._cache = prepare, cache
        self._ahead = ahead or ReadAhead(records, 0)
        self._facts: dict[int, tuple[bool, Any]] = {}
        self._last: tuple[int, Record] | None = None
        self._clear: tuple[Records, Rows | None] | None = None

    @property
    def reads_ahead(self) -> bool:
        return self._ahead.is_open

    def expect(self, indices: Iterable[int]) -> None:
        """These come next: begin to read those that no cache holds."""
        cached = self._cache.holds if self._cache is not None else lambda index: False
        self._ahead.expect(index for index in indices if not cached(index))

    def private(self, indices: Iterable[int]) -> Rows | None:
        """Rows of the given records; blank ones are left out, so they contribute exactly zero."""
        seen, labels = [], []
        for index in map(int, indices):
            blank, label = self._fact(index)
            if not blank:
                seen.append(self._seen(index, "private", self._private))
                labels.append(label)
        return self._rows(seen, labels)

    def public(self, indices: Iterable[int]) -> Rows | None:
        """Rows of the public view, whose inputs are public things alone."""
        chosen = [int(index) for index in indices]
        seen = [self._seen(index, "public", self._public) for index in chosen]
        return self._rows(seen, [self._fact(index)[1] for index in chosen])

    def clear(self, records: Records) -> Rows | None:
        """Rows of other, public records (the projector's), as the trained part sees them.

        They do not change while a run lasts (a trunk is frozen), so they are prepared once.
        """
        if self._clear is None or self._clear[0] is not records:
            chosen = [records[index] for index in range(len(records))]
            seen: list[Any] = [self._prepare(record.x, self._plan.clips) for record in chosen]
            if self._cache is not None:
                seen = [self._cache.features(each) for each in seen]
            self._clear = (records, self._rows(seen, [record.y for record in chosen]))
        return self._clear[1]

    def held_out(self, records: Records | list[Record], indices: Iterable[int]) -> Rows | None:
        """Rows of held-out records, as the whole model sees them."""
        chosen = [records[int(index)] for index in indices]
        seen = [self._prepare(record.x, self._plan.clips) for record in chosen]
        return self._rows(seen, [record.y for record in chosen])

    def _seen(self, index: int, view: str, compute: Callable[[Record], Any]) -> Any:
        load = partial(self._record, index)
        if self._cache is None:
            return compute(load())
        return self._cache.keep(index, view, load, compute)

    def _private(self, record: Record) -> Any:
        view, clips = self._plan.public_view, self._plan.clips
        if view is None:
            return self._prepare(record.x, clips)
        return view.private_input(record, self._prepare, self._model, clips)

    def _public(self, record: Record) -> Any:
        view = self._plan.public_view
        assert view is not None
        return view.public_input(record, self._prepare, self._model, self._plan.clips)

    def _record(self, index: int) -> Record:
        if self._last is None or self._last[0] != index:
            self._last = (index, self._ahead.get(index))
        return self._last[1]

    def _fact(self, index: int) -> tuple[bool, Any]:
        """Blank or not, and the label: remembered, so that a cached record is not read again."""
        if index not in self._facts:
            record = self._record(index)
            self._facts[index] = (is_blank(record, self._plan.public_view), record.y)
        return self._facts[index]

    def _rows(self, seen: list[Any], labels: list[Any]) -> Rows | None:
        if not seen:
            return None
        clips = self._plan.clips
        device = device_of(self._model)
        x: Any = tree.tree_map(lambda t: t.to(device), stack(seen))
        y = torch.from_numpy(np.stack([np.asarray(label) for label in labels])).to(device)
        if clips > 1:
            x = tree.tree_map(lambda t: t.flatten(0, 1), x)
            y = y.repeat_interleave(clips, 0)
        return Rows(x, y, torch.full((len(seen), clips), 1.0 / clips, device=device))
