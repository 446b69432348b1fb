"""Plain training and scoring of a pose model: public people, and private ones without any promise."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sfumato.data import (
    LSP,
    ArrayRecords,
    CropTransform,
    box_of,
    mirror_order,
    mirrored,
    pck,
    torso_size,
)
from sfumato.models import decode, simcc_loss, split_axes

Pixels = npt.NDArray[np.uint8]
Joints = npt.NDArray[np.float32]
SIZE = (128, 96)
SPLIT, SIGMA = 2.0, 4.0
X_BINS = round(SIZE[1] * SPLIT)
# ImageNet's, so a constant of the model and not of the data
MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
DEVIATION = torch.tensor([0.229, 0.224, 0.225])[:, None, None]


@dataclass(frozen=True)
class People:
    """Pictures with one annotated person each; joints (people, 14, 3) in the pictures' pixels."""

    pictures: Sequence[Pixels]
    joints: Joints

    def __len__(self) -> int:
        return len(self.pictures)

    def crops(self) -> ArrayRecords:
        """Every person cut out, upright, as a test sees them."""
        x, y = [], []
        for picture, joints in zip(self.pictures, self.joints):
            crop = CropTransform.around(box_of(joints), SIZE)
            x.append(crop.picture(picture))
            y.append(crop.joints(joints))
        return ArrayRecords(np.stack(x), np.stack(y))


def loosened(
    picture: Pixels, joints: Joints, rng: np.random.Generator, turn: float
) -> tuple[Pixels, Joints]:
    """A crop with the person a little shifted, scaled, turned, mirrored and lit otherwise.

    For public people and for training without a promise: a private record is one crop, always the
    same, or its gradient would have to be bounded over all its variants.
    """
    crop = CropTransform.around(box_of(joints), SIZE)
    middle = (SIZE[1] / 2, SIZE[0] / 2)
    angle = rng.normal(0, turn) if rng.random() < 0.7 else 0.0
    extra = np.vstack([cv2.getRotationMatrix2D(middle, angle, rng.uniform(0.75, 1.2)), [0, 0, 1]])
    extra[:2, 2] += rng.normal(0, 0.04, 2) * SIZE[::-1]
    matrix = (extra @ np.vstack([crop.matrix, [0, 0, 1]]))[:2]
    x = np.asarray(
        cv2.warpAffine(picture, matrix, SIZE[::-1], flags=cv2.INTER_LINEAR), dtype=np.uint8
    )
    y = joints.copy()
    y[:, :2] = joints[:, :2] @ matrix[:, :2].T + matrix[:, 2]
    inside = (y[:, :2] >= 0).all(1) & (y[:, :2] <= np.array(SIZE[::-1]) - 1).all(1)
    y[:, 2] *= inside
    if rng.random() < 0.5:
        x, y = mirrored(x, y, LSP)
    light = rng.uniform(0.7, 1.3) * rng.uniform(0.85, 1.15, 3)
    lit = (x.astype(np.float32) - 128) * rng.uniform(0.7, 1.3) + 128 * rng.uniform(0.8, 1.2)
    return np.clip(lit * light, 0, 255).astype(np.uint8), y.astype(np.float32)


def prepared(x: npt.NDArray[np.uint8]) -> Tensor:
    """(records, H, W, 3) bytes to what the model eats."""
    pixels = torch.from_numpy(np.ascontiguousarray(x)).permute(0, 3, 1, 2).float() / 255
    return (pixels - MEAN) / DEVIATION


def pose_loss(output: Tensor, y: Tensor) -> Tensor:
    """One value a record."""
    return simcc_loss(output, y[..., :2], y[..., 2], x_bins=X_BINS, split=SPLIT, sigma=SIGMA)


def fit(
    model: nn.Module,
    people: People,
    *,
    epochs: float,
    rate: float,
    turn: float,
    seed: int,
    batch: int = 32,
    averaged: float = 0.99,
    span: tuple[float, float] = (0.0, 1.0),
    say: Callable[[str], None] = print,
) -> None:
    """AdamW with one cycle of the rate; the weights end as their moving average.

    ``span`` is the part of the cycle to go through, so that a long one can be cut and kept.
    """
    rng = np.random.default_rng(seed)
    trained = [p for p in model.parameters() if p.requires_grad]
    total = max(1, round(epochs * len(people) / batch))
    first, last = (round(share * total) for share in span)
    steps = last - first
    optimizer = torch.optim.AdamW(trained, rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=total, pct_start=0.1
    )
    # from its second step on, a later span has the rate of its place in the cycle
    schedule.last_epoch += first
    mean = [p.detach().clone() for p in trained]
    order: list[int] = []
    model.train()
    began, told = time.monotonic(), 0.0
    for step in range(steps):
        if len(order) < batch:
            order += rng.permutation(len(people)).tolist()
        chosen, order = order[:batch], order[batch:]
        made = [loosened(people.pictures[i], people.joints[i], rng, turn) for i in chosen]
        x, y = (np.stack(part) for part in zip(*made))
        loss = pose_loss(model(_laid_out(prepared(x))), torch.from_numpy(y)).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(trained, 5.0)
        optimizer.step()
        schedule.step()
        keep = min(averaged, (1 + step) / (10 + step))
        for kept, p in zip(mean, trained):
            kept.mul_(keep).add_(p.detach(), alpha=1 - keep)
        if time.monotonic() - told > 30:
            told = time.monotonic()
            say(f"step {step} of {steps}, loss {loss.item():.2f}, {told - began:.0f} s")
    with torch.no_grad():
        for kept, p in zip(mean, trained):
            p.copy_(kept)


def _laid_out(x: Tensor) -> Tensor:
    # convolutions run a third faster on this layout, with the same numbers
    return x.contiguous(memory_format=torch.channels_last)


def predict(
    model: Callable[[Tensor], Tensor], inputs: Tensor, *, batch: int = 100
) -> npt.NDArray[np.float32]:
    """Joints (records, 14, 2) in crop pixels."""
    with torch.no_grad():
        found = [
            decode(model(inputs[start : start + batch]), x_bins=X_BINS, split=SPLIT)[0]
            for start in range(0, len(inputs), batch)
        ]
    return np.asarray(torch.cat(found).numpy())


def with_mirror(model: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The mean of what a model says of a picture and of its mirror image, turned back.

    Bin b of x stands for the place b / k, which the mirror moves to W - 1 - b / k: bin k (W - 1) - b.
    """
    sides = mirror_order(LSP)
    ahead = X_BINS - 1 - round(SPLIT * (SIZE[1] - 1))

    def both(x: Tensor) -> Tensor:
        across, down = split_axes(model(x.flip(-1))[:, sides], X_BINS)
        turned = torch.cat((across.flip(-1).roll(-ahead, -1), down), -1)
        return (model(x) + turned) / 2

    return both


def score(predicted: npt.NDArray[np.floating], truth: Joints) -> dict[str, float]:
    """PCK by torso at 0.2 in per cent: each joint (both sides together), and the mean; mean at 0.1."""
    size = torso_size(truth, LSP)
    every = pck(predicted, truth, size, 0.2)
    names = ("head_top", "upper_neck", "shoulder", "elbow", "wrist", "hip", "knee", "ankle")
    rows = {
        name: 100 * float(np.mean([v for joint, v in zip(LSP, every) if joint.endswith(name)]))
        for name in names
    }
    rows["mean"] = 100 * float(every.mean())
    rows["mean_at_0.1"] = 100 * float(pck(predicted, truth, size, 0.1).mean())
    return rows
