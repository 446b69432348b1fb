"""Staged recordings as records, from memory or from a folder that ``sfumato stage make`` wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.data._records import ArrayRecords, IterableRecords, Record, RecordsError
from sfumato.errors import reading
from sfumato.media import read_frames
from sfumato.stage import INDEX_NAME, Performance, Staging, make_records


def staged(
    staging: Staging | None = None, *, performances: Sequence[Performance] = ()
) -> ArrayRecords:
    """Records of a staging made in memory; the mask is True (public) on the synthetic person."""
    made = make_records(staging, performances=performances)
    return ArrayRecords(
        made.x,
        made.y,
        mask=made.mask,
        owners=made.owners,
        attributes=dict(made.attributes),
        classes=made.classes,
    )


class StagedFolder(IterableRecords):
    """Records of a written staging, read when they are asked for."""

    @reading("a folder written by sfumato stage make", RecordsError)
    def __init__(self, folder: str | os.PathLike[str], split: str | None = None) -> None:
        self._folder = Path(folder)
        index = self._folder / INDEX_NAME
        if not index.is_file():
            raise RecordsError(
                f"Expected a folder written by sfumato stage make, found no {INDEX_NAME} in it."
            )
        rows = [json.loads(line) for line in index.read_text(encoding="utf-8").splitlines()]
        self._rows = [row for row in rows if split is None or row["split"] == split]
        if not self._rows:
            raise RecordsError(f"Expected clips in split {split!r}, found none: try train or test.")
        self.classes = tuple(sorted({row["action"] for row in rows}))
        self.attribute_classes = {
            name: tuple(sorted({row["attributes"][name] for row in rows}))
            for name in rows[0]["attributes"]
        }

    @property
    def owners(self) -> list[tuple[str, ...]]:
        """Owners of every record, without reading a video."""
        return [tuple(row["owners"]) for row in self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Record:
        row = self._rows[index]
        frames = read_frames(self._folder / row["file_name"])
        return Record(
            x=frames,
            y=self.classes.index(row["action"]),
            mask=self.truth(index)["mask"],
            owners=tuple(row["owners"]),
            attributes={
                name: self.attribute_classes[name].index(value)
                for name, value in row["attributes"].items()
            },
        )

    @reading("a folder written by sfumato stage make", RecordsError)
    def truth(self, index: int) -> dict[str, Any]:
        """Everything known about a clip: mask, alpha, depth, joints, pixels, empty."""
        with np.load(self._folder / self._rows[index]["truth"], allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
