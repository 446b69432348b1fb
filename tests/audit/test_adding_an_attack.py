"""An attack and a measure of one's own, by the seams that the command line uses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.audit import REID_ATTACKS, Measure, Result, attack_folder, register_attack
from sfumato.audit.attack import ReleaseFolders
from sfumato.cli.main import app
from sfumato.errors import SfumatoError
from sfumato.report import parse_measures


class NearestBrightness(Measure):
    """How often the original with the nearest brightness is the right one."""

    name = "rank-1 by brightness"
    higher_is_better = False
    bounds = (0.0, 1.0)

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._hits: list[bool] = []

    def update(self, probe: float, gallery: list[float], right: int) -> None:
        self._hits.append(int(np.abs(np.array(gallery) - probe).argmin()) == right)

    def compute(self) -> float:
        return float(np.mean(self._hits))


def by_brightness(folders: ReleaseFolders) -> list[Result]:
    pairs, measure = folders.pairs, NearestBrightness()
    gallery = [float(clip.mean()) for clip in pairs.clips(False)]
    for number, clip in enumerate(pairs.clips(True)):
        measure.update(float(clip.mean()), gallery, number)
    return measure.results(target="file", release="toy")


@pytest.fixture
def registered() -> Iterator[None]:
    register_attack("brightness", by_brightness)
    yield
    del REID_ATTACKS["brightness"]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Four pictures; what was made of them is darker, in the same order."""
    made = tmp_path / "originals", tmp_path / "protected"
    for folder, scale in zip(made, (1.0, 0.98), strict=True):
        folder.mkdir()
        for number in range(4):
            grey = np.full((16, 16, 3), int(scale * (40 + 50 * number)), np.uint8)
            cv2.imwrite(str(folder / f"{number}.png"), grey)
    return made


def test_a_registered_attack_is_run_and_reported(
    registered: None, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "toy"
    line = ["audit", "reid", *map(str, folders), "--by", "brightness", "--out", str(out), "--json"]
    done = CliRunner().invoke(app, line, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["measures"]
    assert (row["name"], row["value"]) == ("rank-1 by brightness", 1.0)
    assert row["higher_is_better"] is False
    written = json.loads(out.with_name("toy.measures.json").read_text())
    assert len(parse_measures(written).measures) == 1


def test_an_unknown_attack_is_answered_with_the_list(
    registered: None, folders: tuple[Path, Path]
) -> None:
    with pytest.raises(SfumatoError, match=r"face, gait, room, voice, brightness, got 'shoes'"):
        attack_folder("shoes", *folders)
    with pytest.raises(SfumatoError, match="taken"):
        register_attack("face", by_brightness)
