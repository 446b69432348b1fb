"""Boxes and masks as COCO JSON, out and back in, so that a person can correct them.

One image entry a frame (``frame_index``, no names), one annotation a box or mask, with ``track_id``
and ``score`` beside COCO's own fields. Masks are run-length encoded down the columns, as COCO does.
Reading also takes what annotation tools write: compressed run lengths and polygons.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from sfumato.errors import SfumatoError, reading
from sfumato.files import write_json
from sfumato.media import Frame
from sfumato.people._boxes import Box, box_mask
from sfumato.people.detect._protocols import Mask
from sfumato.people.track._mask_stream import TrackedMask
from sfumato.people.track._tracker import TrackedBox, TrackedBoxes

_CATEGORIES = {"face": 1, "person": 2}


@dataclass
class CocoWriter:
    """Collects annotations frame by frame; :meth:`write` makes the file."""

    width: int
    height: int
    category: str = "face"
    _images: list[dict[str, Any]] = field(default_factory=list)
    _annotations: list[dict[str, Any]] = field(default_factory=list)

    def add(self, found: TrackedBoxes | TrackedMask) -> None:
        self._images.append(
            {
                "id": found.index + 1,
                "frame_index": found.index,
                "file_name": f"frame-{found.index:06d}",
                "width": self.width,
                "height": self.height,
                "blank": found.blank,
            }
        )
        if isinstance(found, TrackedMask):
            if found.mask.any():
                self._annotate(found.index, _mask_fields(found.mask), -1, 1.0, found.state)
            return
        for one in found.tracked:
            box = one.box
            fields = {"bbox": [box.x0, box.y0, box.width, box.height], "area": box.area}
            self._annotate(found.index, fields, one.track, box.score, one.state)

    def _annotate(
        self, index: int, fields: Mapping[str, Any], track: int, score: float, state: str
    ) -> None:
        self._annotations.append(
            {
                "id": len(self._annotations) + 1,
                "image_id": index + 1,
                "category_id": _CATEGORIES[self.category],
                "iscrowd": int("segmentation" in fields),
                "track_id": track,
                "score": score,
                "state": state,
                **fields,
            }
        )

    def write(
        self, path: str | os.PathLike[str], *, note: str | None = None, force: bool = False
    ) -> None:
        document = {
            "info": {"description": note or "people found by sfumato"},
            "images": self._images,
            "annotations": self._annotations,
            "categories": [{"id": i, "name": name} for name, i in _CATEGORIES.items()],
        }
        write_json(path, document, force=force)


@dataclass(frozen=True)
class CocoAnnotations:
    """What a file says of each frame. A frame it does not name is an error, never an empty one."""

    width: int
    height: int
    frames: Mapping[int, tuple[list[TrackedBox], list[Mask], bool]]

    def boxes(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, TrackedBoxes]]:
        """The video's frames with their boxes (a mask counts with its bounding box)."""
        for index, frame in enumerate(frames):
            tracked, masks, blank = self._of(index, frame)
            drawn = [TrackedBox(_bounds(mask), -1, "imported") for mask in masks if mask.any()]
            yield frame, TrackedBoxes(index, (*tracked, *drawn), blank)

    def masks(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, TrackedMask]]:
        """The video's frames with their masks (a box counts with its area)."""
        for index, frame in enumerate(frames):
            tracked, masks, blank = self._of(index, frame)
            mask = box_mask((one.box for one in tracked), self.width, self.height)
            for part in masks:
                mask |= part
            yield frame, TrackedMask(index, mask, "imported", blank)

    def _of(self, index: int, frame: Frame) -> tuple[list[TrackedBox], list[Mask], bool]:
        if frame.image.shape[:2] != (self.height, self.width) or index not in self.frames:
            raise SfumatoError(
                f"Expected annotations of {frame.image.shape[1]} x {frame.image.shape[0]} for frame "
                f"{index}, but the file has {self.width} x {self.height} and "
                f"{len(self.frames)} frames: export them from this very video."
            )
        return self.frames[index]


@reading("COCO JSON with images and annotations")
def read_coco(path: str | os.PathLike[str]) -> CocoAnnotations:
    """Read a COCO file; raises a sentence when it is not one."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SfumatoError(
            f"Expected a COCO JSON file, but it cannot be opened ({error.strerror}): check its name."
        ) from error
    return _parse(json.loads(text))


def _parse(document: Any) -> CocoAnnotations:
    images = {image["id"]: image for image in document["images"]}
    sizes = {(int(image["width"]), int(image["height"])) for image in images.values()}
    if len(sizes) != 1:
        raise ValueError("images of one video have one size")
    ((width, height),) = sizes
    order = {key: int(image.get("frame_index", i)) for i, (key, image) in enumerate(images.items())}
    frames: dict[int, tuple[list[TrackedBox], list[Mask], bool]] = {
        order[key]: ([], [], bool(image.get("blank", False))) for key, image in images.items()
    }
    for one in document["annotations"]:
        boxes, masks, _ = frames[order[one["image_id"]]]
        if one.get("segmentation"):
            masks.append(_mask(one["segmentation"], width, height))
            continue
        x, y, wide, high = (float(v) for v in one["bbox"])
        if not all(np.isfinite([x, y, wide, high])) or wide < 0 or high < 0:
            raise ValueError("a box has finite corners and no negative side")
        box = Box(x, y, x + wide, y + high, float(one.get("score", 1.0)), "imported")
        boxes.append(TrackedBox(box, int(one.get("track_id", -1)), "imported"))
    return CocoAnnotations(width, height, frames)


def _mask_fields(mask: Mask) -> dict[str, Any]:
    flat = mask.ravel(order="F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    starts = np.concatenate([[0], edges, [flat.size]])
    counts = np.diff(starts).tolist()
    if flat[0]:
        counts.insert(0, 0)  # run lengths begin with a run of background
    box = _bounds(mask)
    return {
        "segmentation": {"size": list(mask.shape), "counts": counts},
        "bbox": [box.x0, box.y0, box.width, box.height],
        "area": int(mask.sum()),
    }


def _bounds(mask: Mask) -> Box:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return Box(float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))


def _mask(segmentation: Any, width: int, height: int) -> Mask:
    if isinstance(segmentation, list):
        drawn = np.zeros((height, width), dtype=np.uint8)
        for polygon in segmentation:
            points = np.array(polygon, dtype=np.float64).reshape(-1, 2)
            cv2.fillPoly(drawn, [np.round(points).astype(np.int32)], (1,))
        return drawn > 0
    counts = segmentation["counts"]
    runs = _decompress(counts) if isinstance(counts, str) else [int(run) for run in counts]
    if [int(side) for side in segmentation["size"]] != [height, width]:
        raise ValueError("the mask has the size of the picture")
    if min(runs, default=0) < 0 or sum(runs) != width * height:
        raise ValueError("the runs fill the picture")
    values = np.arange(len(runs)) % 2 == 1
    return np.repeat(values, runs).reshape((height, width), order="F")


def _decompress(text: str) -> list[int]:
    """COCO's compressed run lengths: five bits a character, from the third run as differences."""
    runs: list[int] = []
    place = 0
    while place < len(text):
        value, shift, more = 0, 0, True
        while more:
            piece = ord(text[place]) - 48
            value |= (piece & 0x1F) << shift
            more = bool(piece & 0x20)
            place, shift = place + 1, shift + 5
            if not more and piece & 0x10:
                value |= -1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
    return runs
