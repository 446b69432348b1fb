"""One picture of every release method, from a staged clip: python docs/pictures.py [NAME...].

Staged people have no faces that detectors know, so the places come from the stage's own truth.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # other packages install a folder named benchmarks too

from benchmarks.attacks.stage import with_known_people
from sfumato import people, protect, stage
from sfumato.media import Frame, write_image

FOLDER = Path(__file__).resolve().parent / "pictures"
SHOWN, LARGEST = 14, 30_000
DP = {"epsilon": 8.0, "delta": 1e-5, "unit": "pixels(16, frames=1)"}
SETTINGS: dict[str, dict[str, Any]] = {
    "dprp": {"kept_size": 32},
    "laplace": {"epsilon": 400.0},
    "dppix": {"b": 8},
    "dp-image": {"epsilon": 40.0, "unit": "frame"},
    "snow": {"p": 0.5, "unit": "pixels(1, frames=1)"},
    "randomized-response": {"epsilon": 240.0, "unit": "pixels(16, frames=1)"},
}


class Truth:
    """Head boxes from the stage; asked frame by frame."""

    name, device = "stage", "stage"

    def __init__(self, clip: stage.Clip) -> None:
        self._clip, self._next = clip, 0

    def _mask(self) -> Any:
        mask = np.asarray(self._clip.mask[self._next % len(self._clip.mask)]) > 0
        self._next += 1
        return mask

    def detect(self, image: Any) -> list[people.Box]:
        rows, columns = np.nonzero(self._mask())
        if not len(rows):
            return []
        top, size = rows.min(), 0.16 * (rows.max() - rows.min())
        near = columns[rows < top + size]
        left, right = near.mean() - size / 2, near.mean() + size / 2
        return [people.Box(float(left), float(top), float(right), float(top + size))]


def main(names: list[str]) -> None:
    staging = stage.Staging(clips=1, actors=2, rooms=2, frames=24, width=320, height=240, seed=3)
    (clip,) = stage.clips(staging)
    frames = [Frame(image, n, Fraction(n, 25)) for n, image in enumerate(clip.frames)]
    FOLDER.mkdir(exist_ok=True)
    save("original", frames[SHOWN].image)
    for name in names or protect.names():
        if name == "external":
            continue
        accepted = protect.get(name).accepted_settings()
        settings = {key: value for key, value in DP.items() if key in accepted}
        settings |= SETTINGS.get(name, {})
        if "detector" in accepted:
            settings |= {"detector": Truth(clip), "check": None}
        method = protect.make(name, settings)
        if method.region is not None and method.region.kind == "people":
            with_known_people(method.region, np.asarray(clip.mask) > 0)
        save(name, list(method.frames(frames))[SHOWN].image)
        print(name)


def save(name: str, image: Any) -> None:
    path = FOLDER / f"{name}.jpg"
    for quality in (85, 70, 50, 35, 20):
        write_image(path, image, quality=quality, force=True)
        if path.stat().st_size <= LARGEST:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
