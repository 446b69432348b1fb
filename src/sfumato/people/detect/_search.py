"""Which detectors search for people, and which network makes masks inside what they find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.errors import SfumatoError
from sfumato.media import Image
from sfumato.people._boxes import Box
from sfumato.people.detect._protocols import (
    FaceDetector,
    PersonDetector,
    PersonSegmenter,
    PoseEstimator,
)
from sfumato.people.detect._registry import detectors, make
from sfumato.people.detect._sightings import Look

Probabilities = npt.NDArray[np.float32]
Segment = Callable[[Image], Probabilities]

SEARCH = "movenet+centernet+centerface"
SEGMENTER = "selfie"
POSES = "blazepose"
# What a network says below its own threshold may continue a track; it never begins one. Sizes are the
# smallest at which the labelled people of docs/people.md are found as well.
_SETTINGS: dict[str, dict[str, Any]] = {
    "movenet": {"threshold": 0.08, "sides": (384, 512)},
    "centernet": {"threshold": 0.12, "sides": (384, 512)},
    "centerface": {"sides": (384, 960)},
}
_LEAST = 12  # pixels of a piece of a mask that counts as somebody


def searchers(
    detector: Any = None, *, masks: bool, offline: bool = False
) -> tuple[Look, Segment | None]:
    """What ``people.find`` asks, from names (``a+b``), a :class:`Look` or an object of one's own.

    Names of segmenters choose who makes the masks; names of detectors, who searches. An object with
    ``segment`` does both, one with ``detect`` finds people.
    """
    if detector is None or isinstance(detector, str):
        names, known = (detector or SEARCH).split("+"), detectors()
        segmenters = _for_masks(names, known)
        if segmenters and not masks:
            raise SfumatoError(
                f"Expected detectors of people or faces, got {segmenters[0]!r}, which makes masks, where "
                "none are made: leave it out, or cover whole people (--region people)."
            )
        if len(segmenters) > 1:
            raise SfumatoError(
                f"Expected one network for masks, got {'+'.join(segmenters)}: name one of them."
            )
        search = [n for n in names if n not in segmenters] or SEARCH.split("+")
        segment = _segmenter(segmenters, offline) if masks else None
        return _named(search, known, offline), segment
    if isinstance(detector, PersonSegmenter):
        return Look([Pieces(detector)], []), detector.segment if masks else None
    look = detector if isinstance(detector, Look) else Look([detector], [])
    return look, (_segmenter([], offline) if masks and not look.bare else None)


def segmenter(detector: str | None = None, *, offline: bool = False) -> Segment:
    """Who makes masks where these detectors search, without the detectors."""
    return _segmenter(_for_masks((detector or SEARCH).split("+"), detectors()), offline)


def _for_masks(names: list[str], known: dict[str, list[str]]) -> list[str]:
    return [n for n in names if n in known["masks"] and n not in known["people"]]


def search(detector: Any = None, *, offline: bool = False) -> Look:
    """Who searches for people, to be asked again and again."""
    return searchers(detector, masks=False, offline=offline)[0]


def _named(names: list[str], known: dict[str, list[str]], offline: bool) -> Look:
    bodies, faces = [], []
    for name in names:
        if name in known["faces"] and name not in known["people"]:
            faces.append(make("faces", name, FaceDetector, offline, **_SETTINGS.get(name, {})))
        else:
            more = _SETTINGS.get(name, {})
            bodies.append(make("people", name, PersonDetector, offline, **more))
    poses: PoseEstimator | None = None
    if any(
        hasattr(each, "look") for each in bodies
    ):  # somebody whom only the others see has no joints
        poses = make("poses", POSES, PoseEstimator, offline)
    return Look(bodies, faces, poses)


def _segmenter(names: list[str], offline: bool) -> Segment:
    if names and names != [SEGMENTER]:
        made: PersonSegmenter = make("masks", names[0], PersonSegmenter, offline)
        return made.segment
    from sfumato.people.detect._segmenters import SelfieSegmenter

    return SelfieSegmenter(tiles=False, offline=offline).segment


class Pieces:
    """A segmenter of whole pictures as a detector: every connected piece of its mask is somebody."""

    def __init__(self, segmenter: PersonSegmenter) -> None:
        self.name, self.device, self._segmenter = segmenter.name, segmenter.device, segmenter

    def detect(self, image: Image) -> list[Box]:
        mask = (self._segmenter.segment(image) > 0.4).astype(np.uint8)
        _, _, stats, _ = cv2.connectedComponentsWithStats(mask)
        rows = ((int(value) for value in row) for row in stats[1:])
        return [Box(x, y, x + w, y + h, 1.0, self.name) for x, y, w, h, n in rows if n >= _LEAST]
