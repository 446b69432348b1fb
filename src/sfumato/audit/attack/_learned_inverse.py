"""A small network that learned to undo a protection from public pictures that anybody can protect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sfumato.audit.attack._undo import Frames, Masks, Undo, boxes_of
from sfumato.audit.measure._measure import MeasureError
from sfumato.devices import device_for, device_of

Picture = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Pair = tuple[Picture, Picture, Mask]

# Covers are as coarse as the place is large, so places are looked at in one size.
_SIDE, _BATCH, _WIDTH = 48, 8, 16


class _Inverse(nn.Module):
    """Adds what is missing, seen at three scales."""

    def __init__(self, width: int = _WIDTH) -> None:
        super().__init__()
        self.whole = nn.Conv2d(4, width, 3, padding=1)
        self.halved = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.quartered = nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1)
        self.wide = nn.Conv2d(4 * width, 4 * width, 3, padding=2, dilation=2)
        self.from_quarter = nn.Conv2d(6 * width, 2 * width, 3, padding=1)
        self.from_half = nn.Conv2d(3 * width, width, 3, padding=1)
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What to add to the colours of ``x`` (N, 4, H, W), H and W divisible by four."""
        fine = torch.relu(self.whole(x))
        half = torch.relu(self.halved(fine))
        deep = torch.relu(self.quartered(half))
        deep = deep + torch.relu(self.wide(deep))
        back = torch.relu(self.from_quarter(torch.cat([_larger(deep), half], 1)))
        back = torch.relu(self.from_half(torch.cat([_larger(back), fine], 1)))
        missing: torch.Tensor = self.last(back)
        return missing


def learned(
    pairs: Iterable[Pair], *, at_places: bool = True, steps: int = 200, seed: int = 0
) -> Undo:
    """A network trained on (public picture, the same protected, where it was changed).

    ``at_places`` looks at every changed place in one size, which fits covers that grow with it;
    without it the network looks at pixels as they are, which fits noise.
    """
    known = list(_examples(pairs, at_places))
    if not known:
        raise MeasureError("Expected public pictures to train an attacker on, got none.")
    inputs = torch.stack([_planes(shown, mask) for _, shown, mask in known])
    missing = torch.stack([_colours(clear.astype(np.float32) - shown) for clear, shown, _ in known])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        device = device_for("network that learns to undo")
        network = _Inverse().to(device)
        optimizer = torch.optim.Adam(network.parameters(), 3e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        rng = np.random.default_rng(seed)
        for _ in range(steps):
            rows = torch.from_numpy(rng.integers(len(known), size=_BATCH))
            x, y = (t.to(device) for t in _varied(inputs[rows], missing[rows], rng))
            inside = x[:, 3:]
            loss = ((network(x) - y).square() * inside).sum() / inside.sum().clamp(min=1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()

    def undo(frames: Frames, masks: Masks) -> Frames:
        out = frames.copy()
        for picture, mask in zip(out, masks):
            places = boxes_of(mask) if at_places else [(slice(None), slice(None))]
            for rows, columns in places:
                part, inside = picture[rows, columns], mask[rows, columns]
                missing = _missing(network, part, inside, at_places)
                back = np.clip(np.rint(part + missing), 0, 255).astype(np.uint8)
                part[inside] = back[inside]
        return out

    return undo


@torch.no_grad()
def _missing(
    network: _Inverse, part: Picture, inside: Mask, at_places: bool
) -> npt.NDArray[np.float32]:
    high, wide = part.shape[:2]
    size = (_SIDE, _SIDE) if at_places else (wide // 4 * 4, high // 4 * 4)
    if min(size) == 0:
        return np.zeros(part.shape, np.float32)
    planes = _planes(_sized(part, size), _sized(inside.view(np.uint8), size) > 0)
    given = planes[None].to(device_of(network))
    found = (network(given)[0].permute(1, 2, 0) * 255).cpu().numpy()
    return np.asarray(cv2.resize(found, (wide, high), interpolation=cv2.INTER_LINEAR))


def _examples(pairs: Iterable[Pair], at_places: bool) -> Iterator[Pair]:
    """Places in one size, or squares cut out of the picture."""
    for clear, shown, mask in pairs:
        if at_places:
            for rows, columns in boxes_of(mask):
                size = (_SIDE, _SIDE)
                inside = np.ascontiguousarray(mask[rows, columns]).view(np.uint8)
                yield (_sized(clear[rows, columns], size), _sized(shown[rows, columns], size),
                       _sized(inside, size) > 0)  # fmt: skip
            continue
        high, wide = mask.shape
        for top in range(0, high - _SIDE + 1, _SIDE):
            for left in range(0, wide - _SIDE + 1, _SIDE):
                cut = np.s_[top : top + _SIDE, left : left + _SIDE]
                yield clear[cut], shown[cut], mask[cut]


def _sized(picture: Picture, size: tuple[int, int]) -> Picture:
    smaller = picture.shape[0] > size[1]
    how = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, size, interpolation=how), dtype=np.uint8)


def _planes(picture: Picture, mask: Mask) -> torch.Tensor:
    """Colours around their mean inside the place, which a cover keeps: dark or light is no matter."""
    mean = picture[mask].mean(0, dtype=np.float32) if mask.any() else np.float32(128)
    colours = _colours(picture.astype(np.float32) - mean)
    return torch.cat([colours, torch.from_numpy(np.ascontiguousarray(mask))[None].float()])


def _colours(picture: npt.NDArray[np.float32]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1) / 255


def _varied(
    x: torch.Tensor, y: torch.Tensor, rng: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mirrored, in other colours and with more or less contrast: a few pictures teach more."""
    if rng.random() < 0.5:
        x, y = x.flip(3), y.flip(3)
    order = torch.from_numpy(rng.permutation(3))
    contrast = float(rng.uniform(0.5, 1.5))
    return torch.cat([contrast * x[:, order], x[:, 3:]], 1), contrast * y[:, order]


def _larger(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")
