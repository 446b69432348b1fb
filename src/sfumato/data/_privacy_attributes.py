"""PA-HMDB51 and VISPR: what a picture or a video shows about the people in it."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.data._problems import Problems, existing_file, existing_folder, read_json, require_some
from sfumato.data._records import IterableRecords, Record, RecordsError
from sfumato.data._videos import Sampling, VideoItem, VideoRecords
from sfumato.errors import reading
from sfumato.media import read_image

# Largest value of each attribute of PA-HMDB51 (Wu et al. 2020); 0 is "cannot be told". Several
# people with different values are written as a list and count as the largest, "coexisting".
PA_ATTRIBUTES = {"skin_color": 4, "face": 2, "gender": 3, "nudity": 2, "relationship": 1}


class PrivacyAnnotations(Mapping[str, Mapping[str, npt.NDArray[np.int64]]]):
    """Video name -> attribute -> one value a frame. ``actions`` maps a name to its class."""

    def __init__(
        self,
        values: Mapping[str, Mapping[str, npt.NDArray[np.int64]]],
        actions: Mapping[str, str],
        problems: Problems,
    ) -> None:
        self._values, self.actions, self.problems = dict(values), dict(actions), problems

    def __getitem__(self, name: str) -> Mapping[str, npt.NDArray[np.int64]]:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def visible(self, name: str) -> dict[str, int]:
        """One value a video: the strongest that any frame shows."""
        return {attribute: int(values.max()) for attribute, values in self[name].items()}


@reading("PA-HMDB51 as it is published", RecordsError)
def pa_hmdb51(folder: str | os.PathLike[str]) -> PrivacyAnnotations:
    """``CLASS.json`` files: for each video and attribute, spans [first, last, value] of frames.

    Values outside their range, spans that run backwards and frames that no span covers (which get
    0, "cannot be told") are counted.
    """
    root = existing_folder(folder, "the annotations of PA-HMDB51")
    problems = Problems()
    values: dict[str, dict[str, npt.NDArray[np.int64]]] = {}
    actions: dict[str, str] = {}
    for path in sorted(root.glob("*.json")):
        for name, spans in read_json(path).items():
            length = max((s[1] + 1 for a in PA_ATTRIBUTES for s in spans.get(a, [])), default=0)
            if length == 0:
                problems.add("Expected spans of frames for every video, got none: left out.")
                continue
            values[name] = {
                a: _frames(spans.get(a, []), a, length, problems) for a in PA_ATTRIBUTES
            }
            actions[name] = path.stem
    require_some(list(values), "annotated videos", problems)
    return PrivacyAnnotations(values, actions, problems)


def _frames(
    spans: list[list[Any]], attribute: str, length: int, problems: Problems
) -> npt.NDArray[np.int64]:
    frames = np.full(length, -1, dtype=np.int64)
    for first, last, value in spans:
        if isinstance(value, list):
            told = {each for each in value if each}
            value = PA_ATTRIBUTES[attribute] if len(told) > 1 else max(value, default=0)
        if not 0 <= first <= last:
            problems.add("Expected spans that start before they end, got others: left out.")
        elif not 0 <= value <= PA_ATTRIBUTES[attribute]:
            problems.add(f"Expected {attribute} from 0 to {PA_ATTRIBUTES[attribute]}: left out.")
        else:
            frames[first : last + 1] = value
    problems.add(
        "Expected a value for every frame, got none for some: 0 there.", int((frames < 0).any())
    )
    return np.maximum(frames, 0)


@reading("PA-HMDB51 as it is published", RecordsError)
def pa_hmdb51_videos(
    videos: str | os.PathLike[str],
    annotations: str | os.PathLike[str],
    *,
    sampling: Sampling | None = None,
) -> VideoRecords:
    """The annotated videos of HMDB51 (``videos/CLASS/*.avi``); attributes are the strongest shown."""
    root = existing_folder(videos, "the videos of HMDB51")
    notes = pa_hmdb51(annotations)
    classes = sorted(set(notes.actions.values()))
    items = []
    for name, action in notes.actions.items():
        path = root / action / name
        if path.is_file():
            items.append(VideoItem(path, classes.index(action), (), notes.visible(name)))
        else:
            notes.problems.add("Expected every annotated video, but some are not there: left out.")
    return VideoRecords(items, classes, sampling=sampling, problems=notes.problems)


class Vispr(IterableRecords):
    """Pictures of VISPR; y is the multi-hot vector of the privacy attributes, named by ``classes``."""

    def __init__(
        self,
        rows: list[tuple[Path, npt.NDArray[np.float32]]],
        classes: list[str],
        problems: Problems,
    ) -> None:
        self._rows, self.classes, self.problems = rows, tuple(classes), problems
        require_some(rows, "annotated pictures of VISPR", problems)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Record:
        path, labels = self._rows[index]
        facts = {name: int(value) for name, value in zip(self.classes, labels)}
        return Record(read_image(path), labels, attributes=facts)


@reading("VISPR as it is published", RecordsError)
def vispr(root: str | os.PathLike[str], part: str = "train") -> Vispr:
    """``attributes.tsv`` and, for each picture, ``train2017/ID.json`` (or annotations/train2017).

    A picture without private attributes carries ``a0_safe`` alone.
    """
    if part not in ("train", "val", "test"):
        raise RecordsError(f"Expected part train, val or test, got {part!r}.")
    folder = existing_folder(root, "VISPR")
    table = existing_file(folder / "attributes.tsv", "the attributes of VISPR")
    classes = _vispr_classes(table)
    notes = next(
        (f for f in (folder / "annotations" / f"{part}2017", folder / f"{part}2017") if f.is_dir()),
        None,
    )
    if notes is None:
        raise RecordsError(f"Expected the annotations of VISPR in a folder {part}2017, found none.")
    problems, rows = Problems(), []
    for path in sorted(notes.glob("*.json")):
        note: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        picture = _vispr_picture(folder, part, note, path)
        if picture is None:
            problems.add("Expected every annotated picture, but some are not there: left out.")
            continue
        labels = note.get("labels", [])
        unknown = [label for label in labels if label not in classes]
        problems.add("Expected attributes of attributes.tsv, got others: ignored.", len(unknown))
        rows.append((picture, np.array([c in labels for c in classes], dtype=np.float32)))
    return Vispr(rows, classes, problems)


def _vispr_classes(table: Path) -> list[str]:
    """The attributes in the order of ``idx``; the authors left out those that have none."""
    with open(table, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    if not rows or not {"idx", "attribute_id"} <= set(rows[0]):
        raise RecordsError("Expected columns idx and attribute_id in attributes.tsv, got others.")
    used = [row for row in rows if (row["idx"] or "").strip()]
    if not used:
        raise RecordsError("Expected attributes with an idx in attributes.tsv, got none.")
    return [row["attribute_id"].strip() for row in sorted(used, key=lambda row: int(row["idx"]))]


def _vispr_picture(folder: Path, part: str, note: dict[str, Any], path: Path) -> Path | None:
    named = str(note.get("image_path", f"{part}2017/{path.stem}.jpg"))
    places = (folder / named, folder / "images" / named, folder / "images" / Path(named).name)
    return next((place for place in places if place.is_file()), None)
