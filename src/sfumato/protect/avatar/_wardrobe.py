"""Which virtual person stands for whom, and in what light: secret, kept, and unlike the neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.body import SkinnedBody
from sfumato.media import Image
from sfumato.protect.avatar._scene import Track

_TRIED = 6  # of the cast that are considered for somebody new
_TINT, _BRIGHT = (
    (0.78, 1.28),
    (0.55, 1.25),
)  # how far the room's light may change an avatar's colours
_MIDDLE = 0.2  # linear: the usual mean of a picture that is neither dark nor bright


class Wardrobe:
    """Gives every person of a recording one body of the cast, in a secret order.

    The order is drawn from the method's randomness, so that the choice says nothing about the person. Of the next
    few, somebody new gets the one who looks least like those who are in the picture then.
    """

    def __init__(self, cast: Sequence[SkinnedBody], random: np.random.Generator) -> None:
        self._cast = cast
        self._looks = [_look(body) for body in cast]
        self._free: list[int] = []
        self._order = [int(i) for i in random.permutation(len(cast))]
        self._chosen: dict[int, int] = {}

    def dressed(self, tracks: Sequence[Track]) -> list[SkinnedBody]:
        """The body of every track: the same for the same number, whenever it comes."""
        for track in tracks:
            if track.number not in self._chosen:
                beside = [
                    self._chosen[other.number]
                    for other in tracks
                    if other.number in self._chosen and bool((other.found & track.found).any())
                ]
                self._chosen[track.number] = self._next(beside)
        return [self._cast[self._chosen[track.number]] for track in tracks]

    def _next(self, beside: Sequence[int]) -> int:
        if not self._free:  # all were taken: from the first on again
            self._free = list(self._order)
        tried = self._free[:_TRIED]
        best = max(
            tried,
            key=lambda i: min(
                (float(np.linalg.norm(self._looks[i] - self._looks[j])) for j in beside), default=0
            ),
        )
        self._free.remove(best)
        return best


def _look(body: SkinnedBody) -> npt.NDArray[np.float64]:
    """Mean colours of head, chest and legs, as an eye weighs them."""
    height = body.vertices[:, 1] / max(float(body.vertices[:, 1].max()), 1e-6)
    bands = ((0.87, 1.01), (0.55, 0.8), (0.1, 0.45))
    parts = [body.colours[(height >= low) & (height < high)] for low, high in bands]
    return np.concatenate([np.sqrt(p.mean(axis=0)) if len(p) else np.zeros(3) for p in parts])


def room_light(images: Sequence[Image], masks: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
    """The colour of a shot's light against a neutral one, from the mean of what shows no people.

    It is read from the recording: avatars lit by it are for looking at and are no public pixels.
    """
    values = []
    for t in np.unique(np.linspace(0, len(images) - 1, 5).astype(int)):
        factor = 96 / max(images[t].shape[:2])
        size = (round(images[t].shape[1] * factor), round(images[t].shape[0] * factor))
        small = cv2.resize(images[t], size, interpolation=cv2.INTER_AREA)
        bare = cv2.resize(masks[t].astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) == 0
        values.append((np.asarray(small)[bare] / 255.0) ** 2.2)
    shown = np.concatenate(values)
    if len(shown) < 50:
        return np.ones(3, np.float32)
    # black bars are no light
    shown = shown[shown.max(axis=1) > 0.002]
    if not len(shown):
        return np.ones(3, np.float32)
    mean = shown.mean(axis=0)
    grey = float(mean.mean())
    tint = np.clip((mean / max(grey, 1e-6)) ** 0.5, *_TINT)
    bright = float(np.clip((grey / _MIDDLE) ** 0.4, *_BRIGHT))
    return np.asarray(tint / tint.mean() * bright, np.float32)
