"""A private folder that remembers a fitted method, its donors and its draws between releases.

Without it every run draws anew, and draws about one person add up (finding H10). The folder is for
its owner only: it holds the memory of draws, never a record of the people who are protected.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attributes._donors import DonorSet
from sfumato.attributes._draws import DrawMemory
from sfumato.attributes._pass import Pass, pass_method
from sfumato.attributes._tasks import AttributesError
from sfumato.data import ArrayRecords
from sfumato.errors import reading
from sfumato.files import atomic_output, write_text
from sfumato.privacy import Randomness

_MODEL, _MEMORY, _DONORS, _ORDER = "model.safetensors", "memory.json", "donors.npz", "order.json"


@dataclass(frozen=True)
class PassState:
    """A fitted method and, of each donor, the row of the data set that donors were taken from."""

    method: Pass
    donor_rows: Sequence[int]


def save_state(folder: Path, state: PassState, settings: Mapping[str, Any]) -> None:
    """Keep everything that the next release needs."""
    method = state.method
    folder.mkdir(parents=True, exist_ok=True)
    os.chmod(folder, 0o700)
    if not (folder / _ORDER).is_file():
        method.save(folder / _MODEL, force=True)
        _save_donors(folder / _DONORS, method)
        body: dict[str, Any] = {
            "method": method.name,
            "settings": dict(settings),
            "declared": method.donors.declared,
            "donor_rows": [int(row) for row in state.donor_rows],
            **method.condition(),
        }
        write_text(folder / _ORDER, json.dumps(body), private=True)
    method.memory.save(folder / _MEMORY, force=True)


@reading("the --state folder of an earlier release", AttributesError)
def open_state(
    folder: Path,
    settings: Mapping[str, Any] | None = None,
    randomness: Randomness | None = None,
) -> PassState | None:
    """What is kept in ``folder``, or None where nothing is kept yet.

    ``settings`` must be those it was fitted with: a change would fit another method, whose draws
    about the same people would add to those made before.
    """
    if not (folder / _ORDER).is_file():
        return None
    body = json.loads((folder / _ORDER).read_text(encoding="utf-8"))
    if settings is not None and body["settings"] != json.loads(json.dumps(settings)):
        raise AttributesError(
            "Expected the settings that the --state folder was made with, got others: its draws "
            "would add to new ones; repeat the settings or name a new folder."
        )
    method = pass_method(body["method"]).load(
        folder / _MODEL,
        _load_donors(folder / _DONORS, body["declared"]),
        remember=DrawMemory.load(folder / _MEMORY),
        randomness=randomness,
    )
    method.restore(body)
    return PassState(method, body["donor_rows"])


def _save_donors(path: Path, method: Pass) -> None:
    """Donors are published anyway: their tensors and attributes, without their names."""
    rows = [method.donors[index] for index in range(len(method.donors))]
    columns: dict[str, Any] = {
        f"attribute_{name}": np.array([row.attributes[name] for row in rows])
        for name in rows[0].attributes
    }
    with atomic_output(path, force=True) as temporary, open(temporary, "wb") as stream:
        x, y = np.stack([row.x for row in rows]), np.array([row.y for row in rows])
        np.savez_compressed(stream, x=x, y=y, **columns)


def _load_donors(path: Path, declared: Any) -> DonorSet:
    with np.load(path, allow_pickle=False) as stored:
        columns = {
            name.removeprefix("attribute_"): stored[name]
            for name in stored.files
            if name.startswith("attribute_")
        }
        return DonorSet(ArrayRecords(stored["x"], stored["y"], attributes=columns), declared)
