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
from sfumato.files import atomic_output, write_json
from sfumato.media import Frame
from sfumato.people._boxes import Box
from sfumato.people._person import People, bounds, by_hand
from sfumato.people.detect._protocols import Mask

_CATEGORIES = {"face": 1, "person": 2}


@dataclass
class CocoWriter:
    """Collects annotations frame by frame; :meth:`write` makes the file."""

    width: int
    height: int
    category: str = "face"
    _images: list[dict[str, Any]] = field(default_factory=list)
    _annotations: list[dict[str, Any]] = field(default_factory=list)

    def add(self, found: People) -> None:
        """The next frame: heads as boxes if the category is ``face``, else people with their masks."""
        self._images.append(_image(found.number, self.width, self.height, found.blank))
        first = len(self._annotations) + 1
        self._annotations += _annotations(found, self.category, first)

    def write(
        self, path: str | os.PathLike[str], *, note: str | None = None, force: bool = False
    ) -> None:
        document = {
            **_frame_of_file(note),
            "images": self._images,
            "annotations": self._annotations,
        }
        write_json(path, document, force=force)


def write_coco(
    path: str | os.PathLike[str],
    found: Iterable[People],
    *,
    width: int,
    height: int,
    category: str = "person",
    note: str | None = None,
    force: bool = False,
) -> None:
    """The same file for the owner only, a frame at a time: memory does not grow with the recording."""
    with (
        atomic_output(path, force=force, private=True) as temporary,
        open(temporary, "w", encoding="utf-8") as file,
    ):
        file.write('{"annotations": [')
        written, blanks = 0, []
        for people in found:
            for one in _annotations(people, category, written + 1):
                file.write(f"{',' if written else ''}\n{json.dumps(one, sort_keys=True)}")
                written += 1
            blanks.append(people.blank)
        file.write('\n], "images": [')
        for number, blank in enumerate(blanks):
            entry = json.dumps(_image(number, width, height, blank), sort_keys=True)
            file.write(f"{',' if number else ''}\n{entry}")
        file.write(f"\n], {json.dumps(_frame_of_file(note), sort_keys=True)[1:]}\n")


def _image(number: int, width: int, height: int, blank: bool) -> dict[str, Any]:
    return {
        "id": number + 1,
        "frame_index": number,
        "file_name": f"frame-{number:06d}",
        "width": width,
        "height": height,
        "blank": blank,
    }


def _annotations(found: People, category: str, first: int) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for person in found:
        box = person.box
        fields: Mapping[str, Any] = {}
        if category == "face":
            box = person.head or person.box
        elif person.cut is not None and person.cut.any():
            fields = _mask_fields(person.mask)
        fields = fields or {
            "bbox": [box.x0, box.y0, box.width, box.height],
            "area": box.area,
        }
        made.append(
            {
                "id": first + len(made),
                "image_id": found.number + 1,
                "category_id": _CATEGORIES[category],
                "iscrowd": int("segmentation" in fields),
                "track_id": person.track,
                "score": box.score,
                "state": person.state,
                **fields,
            }
        )
    return made


def _frame_of_file(note: str | None) -> dict[str, Any]:
    return {
        "info": {"description": note or "people found by sfumato"},
        "categories": [{"id": i, "name": name} for name, i in _CATEGORIES.items()],
    }


@dataclass(frozen=True)
class CocoAnnotations:
    """What a file says of each frame. A frame it does not name is an error, never an empty one."""

    width: int
    height: int
    frames: Mapping[int, People]

    def people(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, People]]:
        """The video's frames with those whom the file names; a box counts with its whole area."""
        for index, frame in enumerate(frames):
            if frame.image.shape[:2] != (self.height, self.width) or index not in self.frames:
                raise SfumatoError(
                    f"Expected annotations of {frame.image.shape[1]} x {frame.image.shape[0]} for "
                    f"frame {index}, but the file has {self.width} x {self.height} and "
                    f"{len(self.frames)} frames: export them from this very video."
                )
            yield frame, self.frames[index]


_LARGEST = 1 << 30  # bytes: masks of hours are less


@reading("COCO JSON with images and annotations")
def read_coco(path: str | os.PathLike[str]) -> CocoAnnotations:
    """Read a COCO file; raises a sentence when it is not one."""
    try:
        file = Path(path)
        size = file.stat().st_size
        if not file.is_dir() and (not file.is_file() or size > _LARGEST):
            raise SfumatoError(
                f"Expected a COCO JSON file of at most {_LARGEST >> 20} MB, got a larger one, or a device: "
                "check its name."
            )
        text = file.read_text(encoding="utf-8")
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
    frames = {
        order[key]: People((), order[key], bool(image.get("blank", False)))
        for key, image in images.items()
    }
    for one in document["annotations"]:
        found, track = frames[order[one["image_id"]]], int(one.get("track_id", -1))
        if one.get("segmentation"):
            mask = _mask(one["segmentation"], width, height)
            if mask.any():
                found.append(by_hand(bounds(mask), (height, width), track, mask))
            continue
        x, y, wide, high = (float(v) for v in one["bbox"])
        if not all(np.isfinite([x, y, wide, high])) or wide < 0 or high < 0:
            raise ValueError("a box has finite corners and no negative side")
        box = Box(x, y, x + wide, y + high, float(one.get("score", 1.0)), "imported")
        found.append(by_hand(box, (height, width), track))
    return CocoAnnotations(width, height, frames)


def _mask_fields(mask: Mask) -> dict[str, Any]:
    flat = mask.ravel(order="F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    starts = np.concatenate([[0], edges, [flat.size]])
    counts = np.diff(starts).tolist()
    if flat[0]:
        counts.insert(0, 0)  # run lengths begin with a run of background
    box = bounds(mask)
    return {
        "segmentation": {"size": list(mask.shape), "counts": counts},
        "bbox": [box.x0, box.y0, box.width, box.height],
        "area": int(mask.sum()),
    }


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


def run_length_mask(segmentation: Any, width: int, height: int) -> Mask:
    """The mask of one COCO segmentation: polygons, or run lengths, compressed or not."""
    return _mask(segmentation, width, height)


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
