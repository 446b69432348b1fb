"""Ways to undo a protection: what an attacker computes from the protected frames alone.

Each takes protected frames (T, H, W, 3) and the places that were changed, and returns frames of the
same shape. None sees an original; the learned one trains on public pictures that anybody can protect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sfumato.audit._measure import MeasureError

Frames = npt.NDArray[np.uint8]
Masks = npt.NDArray[np.bool_]
Undo = Callable[[Frames, Masks], Frames]

# Rounding to 8 bits adds a variance of 1/12; pictures have about 60^2 around their mean.
ROUNDING = (1 / 12) / 60.0**2
_GREY = 127


def tikhonov(
    picture: npt.NDArray[np.uint8], kernel: int, sigma: float, weight: float = ROUNDING
) -> Frames:
    """The picture whose blur is nearest, with ``weight`` on its size (SOUNDNESS G5).

    A Gaussian blur is one matrix along each axis; with their singular values the least-squares
    problem |A X B' - Y|^2 + weight |X|^2 is solved exactly, however large the picture.
    """
    high, wide = picture.shape[:2]
    (u, s, v), (p, t, q) = _decomposed(high, kernel, sigma), _decomposed(wide, kernel, sigma)
    gains = s[:, None] * t[None, :]
    filtered = gains / (gains**2 + weight)
    mean = picture.reshape(-1, 3).mean(0)
    back = np.empty(picture.shape)
    for channel in range(3):
        seen = picture[..., channel].astype(np.float64) - mean[channel]
        back[..., channel] = v @ (filtered * (u.T @ seen @ p)) @ q.T + mean[channel]
    return np.clip(np.rint(back), 0, 255).astype(np.uint8)


@lru_cache(maxsize=16)
def _decomposed(length: int, kernel: int, sigma: float) -> tuple[npt.NDArray[np.float64], ...]:
    columns = cv2.GaussianBlur(np.eye(length), (1, kernel), sigmaX=sigma, sigmaY=sigma)
    u, s, vt = np.linalg.svd(columns)
    return u, s, vt.T


def deblurred(kernel: int = 21, sigma: float = 10.0) -> Undo:
    """Tikhonov inversion of every place by itself: a cover is blurred within its own box."""

    def undo(frames: Frames, masks: Masks) -> Frames:
        out = frames.copy()
        for picture, mask in zip(out, masks):
            for rows, columns in _boxes(mask):
                part = picture[rows, columns]
                back = tikhonov(part, kernel, sigma)
                inside = mask[rows, columns]
                part[inside] = back[inside]
        return out

    return undo


def averaged(frames: Frames, masks: Masks) -> Frames:
    """The mean over time wherever noise was drawn anew for every frame of a still scene."""
    mean = np.rint(frames.mean(0, dtype=np.float64)).astype(np.uint8)
    return np.where(masks[..., None], mean[None], frames)


def gathered(frames: Frames, masks: Masks) -> Frames:
    """Against snow: of all frames, the mean of what was shown where grey was not."""
    shown = (frames != _GREY).any(-1, keepdims=True)
    count = shown.sum(0)
    total = np.where(shown, frames, 0).sum(0, dtype=np.float64)
    mean = np.where(count > 0, total / np.maximum(count, 1), _GREY)
    return np.where(masks[..., None], np.rint(mean).astype(np.uint8)[None], frames)


def smoothed(frames: Frames, masks: Masks) -> Frames:
    """Against pixelation without training: squares blended into one another."""
    out = frames.copy()
    for picture, mask in zip(out, masks):
        side = max(3, round(np.sqrt(mask.sum()) / 4)) | 1
        back = cv2.GaussianBlur(picture, (side, side), 0)
        picture[mask] = back[mask]
    return out


class _Inverse(nn.Module):
    """Five convolutions that add what is missing; the last two look at a wider place."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(4, width, 5, padding=2), nn.ReLU()]
        for dilation in (2, 4, 2):
            layers += [nn.Conv2d(width, width, 3, padding=dilation, dilation=dilation), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        missing: torch.Tensor = self.layers(x)
        return x[:, :3] + missing


def learned(
    pairs: Iterable[tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.bool_]]],
    *,
    steps: int = 300,
    seed: int = 0,
) -> Undo:
    """A small network trained on (public picture, the same protected, where it was changed)."""
    known = list(pairs)
    if not known:
        raise MeasureError("Expected public pictures to train an attacker on, got none.")
    inputs = [_planes(shown, mask) for _, shown, mask in known]
    wanted = [torch.from_numpy(clear).permute(2, 0, 1).float() / 255 for clear, _, _ in known]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = _Inverse()
        optimizer = torch.optim.Adam(network.parameters(), 2e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        rng = np.random.default_rng(seed)
        for _ in range(steps):
            index = int(rng.integers(len(known)))
            x, y = inputs[index][None], wanted[index][None]
            inside = x[:, 3:]
            loss = ((network(x) - y).square() * inside).sum() / inside.sum().clamp(min=1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()

    def undo(frames: Frames, masks: Masks) -> Frames:
        out = frames.copy()
        with torch.no_grad():
            for picture, mask in zip(out, masks):
                back = network(_planes(picture, mask)[None])[0].permute(1, 2, 0) * 255
                values = np.clip(np.rint(back.numpy()), 0, 255).astype(np.uint8)
                picture[mask] = values[mask]
        return out

    return undo


def _planes(picture: npt.NDArray[np.uint8], mask: npt.NDArray[np.bool_]) -> torch.Tensor:
    colours = torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1).float() / 255
    return torch.cat([colours, torch.from_numpy(mask)[None].float()])


def _boxes(mask: npt.NDArray[np.bool_]) -> list[tuple[slice, slice]]:
    count, _, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8))
    boxes = [tuple(int(side) for side in stats[label][:4]) for label in range(1, count)]
    return [(slice(y, y + high), slice(x, x + wide)) for x, y, wide, high in boxes]
