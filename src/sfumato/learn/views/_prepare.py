"""From decoded pixels to a model's input: frames chosen, resized, scaled by constants.

Nothing here looks at statistics of the data: means and deviations are settings. Masks are applied
*before* any of this (SOUNDNESS F8), which is why no preparation can carry a private pixel into a
public view.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from sfumato.errors import SfumatoError

Array = npt.NDArray[Any]


class PreparationError(SfumatoError):
    """A record that does not fit its preparation."""


class Preparation(Protocol):
    """``prepare(x, clips)``: a tensor for the model, with a leading axis of clips if clips > 1."""

    def __call__(self, x: Array, clips: int) -> Tensor: ...

    def mask(self, mask: npt.NDArray[np.bool_], clips: int) -> Tensor:
        """The public mask at the model's resolution: True where every source pixel is public."""


@dataclass(frozen=True)
class AsIs:
    """Values as float32; with several clips the record brings them on its first axis.

    ``keep_integers`` leaves whole numbers as they are (words, for an embedding).
    """

    keep_integers: bool = False

    def __call__(self, x: Array, clips: int) -> Tensor:
        if clips > 1 and (x.ndim == 0 or x.shape[0] != clips):
            raise PreparationError(
                f"Expected {clips} clips on a record's first axis, got shape {x.shape}."
            )
        whole = self.keep_integers and np.issubdtype(x.dtype, np.integer)
        return torch.from_numpy(np.ascontiguousarray(x, dtype=x.dtype if whole else np.float32))

    def mask(self, mask: npt.NDArray[np.bool_], clips: int) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(mask))


@dataclass(frozen=True)
class Arrays:
    """Windows, log-mel pictures or features of one ``shape``, scaled by constants.

    A record that is longer or shorter on its first axis (time) keeps as many rows, evenly spread.
    """

    shape: tuple[int, ...]
    mean: float = 0.0
    deviation: float = 1.0

    def __call__(self, x: Array, clips: int) -> Tensor:
        if clips != 1 or x.ndim == 0 or x.shape[1:] != self.shape[1:] or not len(x):
            raise PreparationError(
                f"Expected one array of shape {self.shape} a record, got shape {x.shape} and {clips} "
                "clips: state input.shape."
            )
        values = np.ascontiguousarray(self._rows(x), dtype=np.float32)
        return (torch.from_numpy(values) - self.mean) / self.deviation

    def mask(self, mask: npt.NDArray[np.bool_], clips: int) -> Tensor:
        if mask.shape[1:] != self.shape[1:] and mask.shape[1:] == self.shape[1:-1]:
            mask = np.broadcast_to(mask[..., None], (*mask.shape, self.shape[-1]))
        return torch.from_numpy(np.ascontiguousarray(self._rows(mask)))

    def _rows(self, x: Array) -> Array:
        wanted = self.shape[0]
        if len(x) == wanted:
            return x
        places = (np.arange(wanted) + 0.5) * len(x) / wanted
        return x[np.minimum(places.astype(np.int64), len(x) - 1)]


@dataclass(frozen=True)
class VideoClips:
    """Video (T, H, W, C) bytes to clips (C, frames, height, width), scaled to mean 0.

    A picture (H, W, C) is a video of one frame, which is repeated.

    Clip k of K starts k/K of a stride later, so several clips show different frames of the video.
    """

    frames: int = 8
    height: int = 64
    width: int = 64
    mean: float = 0.45
    deviation: float = 0.225

    def __call__(self, x: Array, clips: int) -> Tensor:
        x = x[None] if x.ndim == 3 else x
        if x.ndim != 4:
            raise PreparationError(f"Expected video (T, H, W, C), got shape {x.shape}.")
        made = [self._clip(x[self._times(len(x), k, clips)]) for k in range(clips)]
        return made[0] if clips == 1 else torch.stack(made)

    def _clip(self, frames: Array) -> Tensor:
        pixels = torch.from_numpy(np.ascontiguousarray(frames)).permute(0, 3, 1, 2).float() / 255
        if pixels.shape[2:] != (self.height, self.width):
            pixels = F.interpolate(
                pixels, (self.height, self.width), mode="bilinear", antialias=True
            )
        return ((pixels - self.mean) / self.deviation).permute(1, 0, 2, 3)

    def mask(self, mask: npt.NDArray[np.bool_], clips: int) -> Tensor:
        made, mask = [], mask[None] if mask.ndim == 2 else mask
        for k in range(clips):
            seen = torch.from_numpy(mask[self._times(len(mask), k, clips)]).float()[:, None]
            if seen.shape[2:] != (self.height, self.width):
                seen = F.interpolate(seen, (self.height, self.width), mode="bilinear",
                                     antialias=True)  # fmt: skip
            made.append(seen[:, 0] > 1 - 1e-6)
        return made[0] if clips == 1 else torch.stack(made)

    def _times(self, length: int, clip: int, clips: int) -> npt.NDArray[np.int64]:
        places = (np.arange(self.frames) + (clip + 0.5) / clips) / self.frames
        return np.minimum((places * length).astype(np.int64), length - 1)


@dataclass(frozen=True)
class Pictures:
    """A picture (H, W, C) of bytes to (C, height, width), resized and scaled to mean 0."""

    height: int = 64
    width: int = 64
    mean: float = 0.45
    deviation: float = 0.225

    def __call__(self, x: Array, clips: int) -> Tensor:
        if x.ndim != 3 or clips != 1:
            raise PreparationError(
                f"Expected one picture (H, W, C) a record, got shape {x.shape} and {clips} clips: for "
                "videos, let input.kind be video."
            )
        return self._as_clip()(x, 1)[:, 0]

    def mask(self, mask: npt.NDArray[np.bool_], clips: int) -> Tensor:
        return self._as_clip().mask(mask, 1)[0]

    def _as_clip(self) -> VideoClips:
        return VideoClips(1, self.height, self.width, self.mean, self.deviation)


@dataclass(frozen=True)
class PictureInput:
    """A picture (H, W, 3) of bytes to (3, H, W), each channel scaled by constants (ImageNet's).

    Several people of one picture come as (people, H, W, 3) and count as that many clips.
    """

    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    deviation: tuple[float, float, float] = (0.229, 0.224, 0.225)

    def __call__(self, x: Array, clips: int) -> Tensor:
        expected = 3 if clips == 1 else 4
        if x.ndim != expected or x.shape[-1] != 3 or (clips > 1 and len(x) != clips):
            raise PreparationError(
                f"Expected {'a picture' if clips == 1 else f'{clips} pictures'} with 3 channels, "
                f"got shape {x.shape}."
            )
        pixels = torch.from_numpy(np.ascontiguousarray(x)).float().div_(255)
        scaled = (pixels - torch.tensor(self.mean)) / torch.tensor(self.deviation)
        return scaled.movedim(-1, -3).contiguous()

    def mask(self, mask: npt.NDArray[np.bool_], clips: int) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(mask))
