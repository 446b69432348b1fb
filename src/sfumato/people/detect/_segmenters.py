"""Person masks: the selfie model on the whole picture, and the pose model's own mask a person."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.media import Image
from sfumato.people.detect._blazepose import BlazePose
from sfumato.people.detect._litert import DEVICE, LiteRtModel
from sfumato.people.detect._protocols import PersonSegmenter, Pose
from sfumato.people.detect._square_views import square_views

Probabilities = npt.NDArray[np.float32]


class SelfieSegmenter:
    """``selfie``: finds small people too.

    The network is square and squeezes the picture as it was trained to; with ``tiles`` a wide picture is
    also looked at in overlapping squares and the larger probability counts.
    """

    name = "selfie"
    device = DEVICE

    def __init__(self, *, tiles: bool = True, offline: bool = False) -> None:
        self._model = LiteRtModel("selfie-segmentation", offline=offline)
        self._tiles = tiles

    def segment(self, image: Image) -> Probabilities:
        height, width = image.shape[:2]
        whole = self._run(image)
        found = _resized(whole, width, height)
        if self._tiles:
            views = list(square_views(width, height, tiles=True))[1:]
            for view in views:
                x, y, side = round(view.x), round(view.y), round(view.side)
                part = image[y : y + side, x : x + side]
                seen = self._run(part)
                place = found[y : y + side, x : x + side]
                np.maximum(place, _resized(seen, part.shape[1], part.shape[0]), out=place)
        return found

    def _run(self, part: Image) -> Probabilities:
        rows, columns = self._model.input_size
        # INTER_AREA enlarges to squares, in which the network sees next to nobody
        how = cv2.INTER_AREA if max(part.shape[:2]) > max(rows, columns) else cv2.INTER_LINEAR
        picture = cv2.resize(part, (columns, rows), interpolation=how)
        (raw,) = self._model(picture.astype(np.float32) / np.float32(255))
        return np.asarray(raw[..., 0], dtype=np.float32)


def _resized(small: Probabilities, width: int, height: int) -> Probabilities:
    large = cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(np.clip(large, 0, 1), dtype=np.float32)


class PoseSegmenter:
    """``pose``: the union of the masks that the landmark model gives for each person it finds.

    It follows people through a video: give it the frames in order.
    """

    name = "pose"
    device = DEVICE

    def __init__(self, *, offline: bool = False) -> None:
        self._estimator = BlazePose(masks=True, offline=offline)
        self._previous: tuple[Pose, ...] = ()
        self._shape: tuple[int, ...] = ()

    def segment(self, image: Image) -> Probabilities:
        if image.shape != self._shape:
            self._previous, self._shape = (), image.shape
        self._previous = self._estimator.estimate(image, self._previous)
        found = np.zeros(image.shape[:2], dtype=np.float32)
        for pose in self._previous:
            if pose.mask is not None:
                found[pose.mask] = 1.0
        return found


class UnitedSegmenter:
    """Several segmenters; a pixel counts as much as the one that is surest of it says."""

    def __init__(self, parts: Sequence[PersonSegmenter]) -> None:
        self.parts = tuple(parts)
        self.name = "+".join(part.name for part in parts)
        self.device = ", ".join(dict.fromkeys(part.device for part in parts))

    def segment(self, image: Image) -> Probabilities:
        found = [part.segment(image) for part in self.parts]
        return np.asarray(np.maximum.reduce(found), dtype=np.float32)
