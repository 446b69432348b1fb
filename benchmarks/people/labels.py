"""The people who were labelled by eye, read from ``labels.json``."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

FILE = Path(__file__).with_name("labels.json")
Point = tuple[float, float]

# In ways from the head to the middle of the trunk: the feet are twice that below it, arms and bent
# legs about that far to the sides. Somebody bent towards the camera is seen shortened.
_FEET, _ASIDE, _BENT, _ALONE, _SHORTENED = 2.0, 1.2, 1.6, 2.0, 0.7
# A person whose head or trunk is out of view, on a frame where nobody else tells a scale.
_SCALE = 1 / 8


@dataclass(frozen=True)
class Somebody:
    """One person of a frame: points that are in view, in pixels.

    ``limb`` is set for people of whom only arms or legs are in view. ``counted`` is False for
    reflections and pictures. ``who`` is the same number on all frames of a clip, where it is known.
    """

    head: Point | None
    torso: Point | None
    limb: Point | None
    hard: bool
    counted: bool
    who: int | None

    @property
    def points(self) -> list[Point]:
        return [point for point in (self.head, self.torso, self.limb) if point is not None]

    @property
    def scale(self) -> float | None:
        """The way from the head to the middle of the trunk, if both are in view."""
        if self.head is None or self.torso is None:
            return None
        return float(np.hypot(self.head[0] - self.torso[0], self.head[1] - self.torso[1]))


@dataclass(frozen=True)
class LabelledFrame:
    """Everybody on frame ``number``; on a ``damaged`` one nobody can be made out."""

    number: int
    people: tuple[Somebody, ...]
    damaged: bool

    def scale(self, height: int) -> float:
        """The usual way from a head to a trunk on this frame."""
        known = [each.scale for each in self.people if each.scale is not None]
        return float(np.median(known)) if known else height * _SCALE

    def reach(self, width: int, height: int) -> npt.NDArray[np.bool_]:
        """Pixels that may belong to somebody: as far as arms and legs go from the labelled points."""
        found = np.zeros((height, width), np.uint8)
        usual = self.scale(height)
        for each in self.people:
            scale = max(each.scale or usual, _SHORTENED * usual)
            if each.head is not None and each.torso is not None:
                head, torso = np.array(each.head), np.array(each.torso)
                feet = torso + _FEET * (torso - head)
                cv2.line(found, _pixel(head), _pixel(feet), 1, round(2 * _ASIDE * scale))
                cv2.circle(found, _pixel(torso), round(_BENT * scale), 1, -1)
            for point in each.points:
                alone = each.head is None or each.torso is None
                radius = (_ALONE if alone else _ASIDE) * scale
                cv2.circle(found, _pixel(np.array(point)), round(radius), 1, -1)
        return found.astype(bool)


@dataclass(frozen=True)
class LabelledClip:
    """A clip below the root of the recordings; nothing may be tuned on it unless ``tuning``."""

    name: str
    size: tuple[int, int]
    tuning: bool
    frames: tuple[LabelledFrame, ...]

    @property
    def folder(self) -> str:
        return self.name.partition("/")[0]

    @cached_property
    def numbers(self) -> frozenset[int]:
        return frozenset(frame.number for frame in self.frames)


def labelled(path: Path = FILE) -> list[LabelledClip]:
    stored = json.loads(path.read_text(encoding="utf-8"))
    return [
        LabelledClip(
            each["clip"],
            (each["size"][0], each["size"][1]),
            each["tuning"],
            tuple(_frame(frame) for frame in each["labels"]),
        )
        for each in stored["clips"]
    ]


def digest(path: Path = FILE) -> str:
    """Results of other labels are other results."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _frame(stored: dict[str, Any]) -> LabelledFrame:
    people = tuple(
        Somebody(
            _point(each["head"]),
            _point(each["torso"]),
            _point(each.get("limb")),
            each["hard"],
            each.get("kind") != "picture",
            each.get("who"),
        )
        for each in stored["people"]
    )
    return LabelledFrame(stored["frame"], people, "note" in stored)


def _point(stored: list[float] | None) -> Point | None:
    return None if stored is None else (stored[0], stored[1])


def _pixel(point: npt.NDArray[np.float64]) -> tuple[int, int]:
    return round(float(point[0])), round(float(point[1]))
