"""Real people in the table ``attacks``: skeletons of UTD-MHAD, faces of UTKFace, voices of AudioMNIST."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.cells import Cells
from benchmarks.harness.recordings import recordings
from sfumato import protect
from sfumato.audit import Result
from sfumato.audit.attack import (
    Attribute,
    Reidentification,
    discriminant_features,
    gait_vector,
    infer,
    views_of,
    voices_folder,
)
from sfumato.audit.measure import ClassifierScores
from sfumato.data import utd_mhad, utkface
from sfumato.protect import Shape
from sfumato.protect.hide import Hiding, Place

# UTD-MHAD, Kinect's 20 joints: spine, shoulders, arms, hips, legs
KINECT_BONES = ((0, 1), (1, 2), (2, 3), (1, 4), (4, 5), (5, 6), (1, 8), (8, 9), (9, 10), (3, 12),
                (12, 13), (13, 14), (3, 16), (16, 17), (17, 18))  # fmt: skip
_FACES, _QUICK_FACES = 600, 80
# a face fills its picture, so the whole of it is covered
_COVERS: dict[str, tuple[str, dict[str, Any]]] = {
    "nothing": ("", {}),
    "blur, the papers' kernel": ("blur", {"published": True}),
    "blur": ("blur", {}),
    "pixelate": ("pixelate", {}),
}


def real_people(cells: Cells, data: str, *, quick: bool = False) -> list[dict[str, Any]]:
    """One row an attack on what ``data`` holds of real people."""
    folders = recordings(data, "utd_mhad", "utkface", "audiomnist")
    rows: list[dict[str, Any]] = []

    def kept(key: str, measure: Callable[[], list[Result]], **said: str) -> None:
        row = cells.done(key, lambda: {"results": [each.to_json() for each in measure()]})
        rows.extend({**said, **each} for each in row["results"] if "value" in each)

    if "utd_mhad" in folders:
        for name, proportions in (("skeleton", True), ("skeleton of another body", False)):
            kept(f"utd-mhad/{name}", lambda p=proportions: _gait(folders["utd_mhad"], p),  # type: ignore[misc]
                 data="UTD-MHAD", protection=name)  # fmt: skip
    if "utkface" in folders:
        for name in _COVERS:
            kept(f"utkface/{name}/{quick}", lambda n=name: _faces(folders["utkface"], n, quick),  # type: ignore[misc]
                 data="UTKFace", protection=name)  # fmt: skip
    if "audiomnist" in folders and not quick:
        folder = str(folders["audiomnist"])
        kept("audiomnist/raw", lambda: voices_folder(folder, folder)[:2],
             data="AudioMNIST", protection="nothing")  # fmt: skip
    return rows


def _gait(folder: Path, proportions: bool) -> list[Result]:
    """Who it is, by how they move: trials 1 and 2 known, 3 and 4 asked, the same 27 actions."""
    records = list(utd_mhad(folder, "skeleton"))
    vectors = np.stack([
        gait_vector(record.x.reshape(len(record.x), 20, 3), KINECT_BONES, proportions=proportions)
        for record in records
    ])  # fmt: skip
    first = np.array([record.attributes["trial"] <= 2 for record in records])
    whom = np.array([str(record.owners[0]) for record in records])
    gallery, probes = discriminant_features(
        {"gait": vectors[first]}, {"gait": vectors[~first]}, whom[first].tolist()
    )
    measure = Reidentification()
    measure.update(probes, whom[~first].tolist(), gallery, whom[first].tolist())
    return measure.results(target="identity")


def _faces(folder: Path, way: str, quick: bool) -> list[Result]:
    """Sex, race and age by one who learned from faces covered in the same way."""
    records = utkface(folder)
    some = np.linspace(0, len(records) - 1, _QUICK_FACES if quick else _FACES).astype(int)
    chosen = [records[int(i)] for i in some]
    name, settings = _COVERS[way]
    pictures = [_covered(np.asarray(each.x, np.uint8), name, settings)[None] for each in chosen]
    views = views_of(pictures, pictures=1)
    ages = np.digitize([int(each.attributes["age"]) for each in chosen], (30, 45, 60))
    asked = {
        "sex": [int(each.attributes["gender"]) for each in chosen],
        "race": [int(each.attributes["race"]) for each in chosen],
        "age, four groups": ages.tolist(),
    }
    rows = []
    for target, values in asked.items():
        attribute = Attribute.of(values)
        measure = ClassifierScores(len(attribute.classes))
        measure.update(infer(views, views, attribute), attribute.codes)
        rows += measure.results(target=target)[:1]
    return rows


def _covered(picture: Any, name: str, settings: dict[str, Any]) -> Any:
    if not name:
        return picture
    method = protect.make(name, settings)
    assert isinstance(method, Hiding)
    whole = np.ones(picture.shape[:2], dtype=bool)
    return method.make_filter(Shape(*picture.shape[:2]))(picture.copy(), Place(whole, False))


def real_lines(rows: list[dict[str, Any]]) -> list[str]:
    """The same as lines of Markdown."""
    lines = ["| real people | shown | attack | of | got (95 %) | guessing |",
             "| --- | --- | --- | --- | --: | --: |"]  # fmt: skip
    for row in rows:
        interval = "" if row.get("low") is None else (
            f" ({100 * row['low']:.0f}-{100 * row['high']:.0f})")  # fmt: skip
        chance = "" if row.get("chance") is None else f"{100 * row['chance']:.0f}"
        cells = (row["data"], row["protection"], row["name"], row.get("target") or "",
                 f"{100 * row['value']:.0f}{interval}", chance)  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines
