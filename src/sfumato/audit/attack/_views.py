"""What an attacker looks at in a clip: a pretrained network, the colours, the motion.

Several views, because protections differ in what they leave: features of an ImageNet network see
things and textures; small pictures averaged over time see colours and places through noise, since
averaging is what undoes independent noise; a palette sees colours wherever they are; small grey
pictures minus their mean see movement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import cv2
import numpy as np
import numpy.typing as npt
import torch

from sfumato.audit.measure._measure import MeasureError
from sfumato.devices import device_for
from sfumato.models import efficientnet_lite0

Floats = npt.NDArray[np.float32]
Views = Mapping[str, Floats]
Frames = npt.NDArray[np.uint8]

_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
_POOLED = ("_blocks.4", "_blocks.10", "_blocks.15")  # strides 8, 16, 32: texture, parts, things
_COLOURS, _PLACES, _STEPS, _LEVELS = 14, 10, 8, 6


def views_of(
    clips: Iterable[Frames],
    masks: Sequence[npt.NDArray[np.bool_]] | npt.NDArray[np.bool_] | None = None,
    *,
    at: Literal["all", "people", "surroundings"] = "all",
    network: bool = True,
    pictures: int = 3,
    size: int = 96,
    offline: bool = False,
) -> dict[str, Floats]:
    """One row a clip (T, H, W, 3) in every view; a picture is a clip of one frame.

    ``masks`` (T, H, W) are True on people, as found in the originals: an attacker who is told where
    to look is the strongest. With them, ``at="people"`` looks at the box around the people, and once
    more at its upper part, where heads are; ``at="surroundings"`` gives people the mean colour of the
    rest. Clips without a second frame have no ``motion``.
    """
    if (masks is None) != (at == "all"):
        raise MeasureError(
            f"Expected masks to look at people or surroundings, and only then: {at}."
        )
    look = _Network(pictures, size, offline) if network else None
    rows: dict[str, list[Floats]] = {}
    for number, clip in enumerate(clips):
        frames = _checked(clip)
        mask = None if masks is None else _fitting(masks[number], frames)
        found = {}
        if mask is not None and at == "people":
            frames, head = _around(frames, mask)
            found["head"] = _palette(head)
        elif mask is not None:
            frames = _without_people(frames, mask)
        found["colours"] = _colours(frames)
        found["palette"] = _palette(frames)
        if len(frames) > 1:
            found["motion"] = _motion(frames)
        if look is not None:
            found["network"] = look(frames)
        for name, row in found.items():
            rows.setdefault(name, []).append(row)
    count = max((len(each) for each in rows.values()), default=0)
    if not count:
        raise MeasureError("Expected clips to look at, got none.")
    # a view that only some clips have (motion, where one is a still) is no view of the set
    return {name: np.stack(each) for name, each in rows.items() if len(each) == count}


def _checked(clip: Frames) -> Frames:
    frames = np.asarray(clip)
    frames = frames[None] if frames.ndim == 3 else frames
    if frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != np.uint8 or not len(frames):
        raise MeasureError(
            f"Expected clips (frames, height, width, 3) of bytes, got {frames.dtype} "
            f"{frames.shape}."
        )
    return frames


def _fitting(mask: npt.NDArray[np.bool_], frames: Frames) -> npt.NDArray[np.bool_]:
    """The mask at the size and length of the frames: a release may be smaller, or shorter."""
    given = np.asarray(mask, bool)
    given = given[None] if given.ndim == 2 else given
    places = np.minimum(np.arange(len(frames)) * len(given) // len(frames), len(given) - 1)
    if given.shape[1:] == frames.shape[1:3]:
        return given[places]
    wide = (frames.shape[2], frames.shape[1])
    return np.stack([cv2.resize(given[p].astype(np.uint8), wide) > 0 for p in places])


def _around(frames: Frames, mask: npt.NDArray[np.bool_]) -> tuple[Frames, Frames]:
    """The square around everybody in the clip, and around the uppermost part of them."""
    rows, columns = np.flatnonzero(mask.any((0, 2))), np.flatnonzero(mask.any((0, 1)))
    if not len(rows):
        return frames, frames
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    body = _square(frames, (top + bottom) / 2, (left + right) / 2, max(bottom - top, right - left))
    size = max((bottom - top) // 5, 4)
    upper = np.flatnonzero(mask[:, top : top + size].any((0, 1)))
    return body, _square(frames, top + size / 2, float(upper.mean()), size)


def _square(frames: Frames, row: float, column: float, side: float) -> Frames:
    half = 0.55 * side
    y0, x0 = max(0, int(row - half)), max(0, int(column - half))
    return frames[:, y0 : max(y0 + 2, int(row + half)), x0 : max(x0 + 2, int(column + half))]


def _without_people(frames: Frames, mask: npt.NDArray[np.bool_]) -> Frames:
    shown = frames.copy()
    kept = shown[~mask]
    shown[mask] = kept.mean(0).round().astype(np.uint8) if len(kept) else 0
    return shown


def _small(image: npt.NDArray[np.float32], side: int) -> Floats:
    return np.asarray(cv2.resize(image, (side, side), interpolation=cv2.INTER_AREA), np.float32)


def _colours(frames: Frames) -> Floats:
    """Mean over time in small: the best guess under noise that is new in every frame."""
    mean = frames.mean(0, dtype=np.float32) / 255
    return _small(mean, _COLOURS).reshape(-1)


def _palette(frames: Frames) -> Floats:
    """How often each of 6 x 6 x 6 colours occurs, wherever it is; roots, so that rare ones count."""
    some = frames[:: max(1, len(frames) // 4)]
    bins = (some.reshape(-1, 3).astype(np.int64) * _LEVELS) // 256
    counts = np.bincount(bins @ (_LEVELS**2, _LEVELS, 1), minlength=_LEVELS**3)
    return np.asarray(np.sqrt(counts / counts.sum()), dtype=np.float32)


def _motion(frames: Frames) -> Floats:
    """Small grey pictures over the clip minus their mean over time, and where they change."""
    grey = np.stack([_small(cv2.cvtColor(f, cv2.COLOR_RGB2GRAY) / np.float32(255), _PLACES)
                     for f in frames])  # fmt: skip
    places = np.minimum(np.arange(_STEPS) * len(grey) // _STEPS, len(grey) - 1)
    moved = grey[places] - grey.mean(0)
    return np.concatenate([moved.reshape(-1), np.abs(moved).mean(0).reshape(-1)])


class _Network:
    """Mean and deviation over each map of EfficientNet-Lite0, averaged over a few frames."""

    def __init__(self, pictures: int, size: int, offline: bool) -> None:
        network = efficientnet_lite0(0, pretrained=True, offline=offline)
        self._device = device_for("network that looks at pictures")
        self._steps = network.to(self._device).steps()
        self._pictures, self._size = pictures, size

    @torch.no_grad()
    def __call__(self, frames: Frames) -> Floats:
        count = min(self._pictures, len(frames))
        places = ((np.arange(count) + 0.5) * len(frames) / count).astype(int)
        shape = (self._size, self._size)
        shown = np.stack([cv2.resize(f, shape, interpolation=cv2.INTER_AREA) if f.shape[0] > shape[0]
                          else cv2.resize(f, shape) for f in frames[places]])  # fmt: skip
        x = torch.from_numpy((shown.astype(np.float32) / 255 - _MEAN) / _DEVIATION)
        x, pooled = x.permute(0, 3, 1, 2).contiguous().to(self._device), []
        for step in self._steps:
            x = step.run(x)
            if step.name in _POOLED:
                pooled += [x.mean((2, 3)), x.std((2, 3))]
        return torch.cat(pooled, 1).mean(0).cpu().numpy()
