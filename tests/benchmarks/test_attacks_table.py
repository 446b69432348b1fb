"""The table of attacks: staged truth, exact protection, cells that are kept, columns that plug in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.attacks import run as attacks
from benchmarks.attacks import stage as staging
from sfumato.audit import Result
from sfumato.audit.measure import Psnr
from sfumato.errors import SfumatoError

TINY = replace(staging.QUICK, clips=4, actors=2, rooms=2, frames=2, width=32, height=32)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attacks")
    staging.staged_clips(TINY, folder)
    return folder


def test_protections_touch_what_they_say(kept: Path) -> None:
    clips, truth = staging.staged_clips(TINY, kept)
    filled = staging.protected_clips("silhouette", clips, truth)
    assert np.ptp(filled[truth.masks].reshape(-1, 3), axis=0).max() == 0
    assert (filled == clips).all(-1)[~truth.masks].mean() > 0.7
    blurred = staging.protected_clips("blur, faces", clips, truth)
    changed = (blurred != clips).any(-1)
    assert changed.any()
    assert changed.mean() < 0.2
    assert set(truth.attributes) == {"face", "skin", "clothing", "sex", "build"}
    assert len(truth.actions.codes) == 4


def test_cells_are_kept_and_a_new_attack_is_a_column(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def attack(originals: attacks.Shown, protected: attacks.Shown, truth: Any) -> list[Result]:
        calls.append(1)
        measure = Psnr()
        measure.update(protected.clips, originals.clips)
        return measure.results(target="mine")

    monkeypatch.setattr(attacks, "QUICK", TINY)
    monkeypatch.setattr(attacks, "ATTACKS", (attacks.Attack("mine", attack),))
    monkeypatch.setattr(attacks, "COLUMNS", {"mine": ("PSNR", "mine")})
    monkeypatch.setattr(attacks, "views_of", lambda *a, **k: {"v": np.zeros((4, 1))})
    options: dict[str, Any] = {"quick": True, "only": "silhouette", "keep": str(kept), "jobs": 1}
    first = attacks.run(**options)
    assert len(calls) == 2
    again = attacks.run(**options)
    assert len(calls) == 2
    assert again["rows"] == first["rows"] == json.loads(json.dumps(first["rows"]))
    values = {way: attacks.cell(row, "mine") for way, row in first["rows"].items()}
    raw, hidden = values[attacks.RAW], values["silhouette"]
    assert raw is not None
    assert hidden is not None
    assert raw["value"] > hidden["value"]
    assert attacks.terminal(first)
    with pytest.raises(SfumatoError, match="blur, faces"):
        attacks.run(only="magic", keep=str(kept))


def test_a_star_means_surely_beyond_guessing() -> None:
    assert attacks.text({"value": 0.6, "low": 0.55, "chance": 0.5}) == "60*"
    assert attacks.text({"value": 0.6, "low": 0.45, "chance": 0.5}) == "60"
    assert attacks.text(None) == "-"
    shifted = {"name": "balanced accuracy of an attribute", "target": "skin", "value": 0.5,
               "note": "trained on raw, tested on protected: domain shift, not leakage"}  # fmt: skip
    headline = shifted | {"note": "trained and tested on protected", "value": 0.9}
    assert attacks.cell([shifted, headline], "skin") == headline
