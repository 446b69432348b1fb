"""Pose estimation under a plan: a loss a record, held-out scores, and skeletons from a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sfumato.data import LSP, CropTransform, pose_measures
from sfumato.learn._scores import Scores
from sfumato.learn.views._prepare import PictureInput
from sfumato.models import decode, device_of, simcc_loss

Box = tuple[float, float, float, float]


class _PersonRows(ABC):
    """Labels are (joints, 3): x, y in crop pixels and a weight. With ``people`` above one a record is
    a picture with that many crops, and its loss their mean: they are clipped together, so the promise
    covers the picture (SOUNDNESS G9)."""

    people: int
    joints: tuple[str, ...]

    @abstractmethod
    def __call__(self, output: Tensor, y: Tensor) -> Tensor:
        """One value a row."""

    @abstractmethod
    def places(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """Joints (rows, J, 2) in crop pixels and a score of each."""

    def one_a_row(self, y: Tensor) -> Tensor:
        """A record's labels come with each of its rows; row k shows person k."""
        if self.people == 1:
            return y
        rows = torch.arange(len(y), device=y.device)
        return y[rows, rows % self.people]

    def scores(self, output: Tensor, y: Tensor, facts: Sequence[Mapping[str, Any]] = ()) -> Scores:
        """The measure of the data set (PCKh where head sizes are known, else OKS average precision
        where areas are, else PCK by torso), each joint's own, and the others beside it."""
        truth = self.one_a_row(y).cpu().numpy()
        places, sure = self.places(output)
        known = [_in_crops(fact, self.people) for fact in facts if "crop" in fact]
        sizes = {n: np.concatenate([k[n] for k in known]) for n in (known[0] if known else ())}
        found = pose_measures(
            places.cpu().numpy(), truth, self.joints, sure.mean(1).cpu().numpy(), **sizes
        )
        return Scores(
            found.value, float(self(output, y).mean()), found.per_joint, found.name, found.others
        )


def _in_crops(fact: Mapping[str, Any], people: int) -> dict[str, npt.NDArray[np.float64]]:
    """Head sizes and areas in pixels of the crops, where the data set has any."""
    scale = np.asarray(fact["crop"], np.float64)[:people, 0, 0]
    head, area = (np.asarray(fact[name], np.float64)[:people] for name in ("head_size", "area"))
    return {"head_size": head * scale, "area": area * scale**2}


@dataclass(frozen=True)
class PoseLoss(_PersonRows):
    """SimCC's loss of one crop."""

    x_bins: int
    split: float = 2.0
    sigma: float = 6.0
    people: int = 1
    joints: tuple[str, ...] = LSP

    def __call__(self, output: Tensor, y: Tensor) -> Tensor:
        y = self.one_a_row(y)
        return simcc_loss(
            output, y[..., :2], y[..., 2], x_bins=self.x_bins, split=self.split, sigma=self.sigma
        )

    def places(self, output: Tensor) -> tuple[Tensor, Tensor]:
        return decode(output, x_bins=self.x_bins, split=self.split)


@dataclass(frozen=True)
class PlaceLoss(_PersonRows):
    """The loss of a model that says places (rows, J, 3), mean over joints: reach^2 (1 - exp(-d^2 /
    (2 reach^2))), half the squared distance in pixels where that is small.

    A joint that is far off pulls at nothing (it is another person's, or left for right), so no
    record's gradient is much longer than another's, and clipping costs little.
    """

    reach: float = 8.0
    people: int = 1
    joints: tuple[str, ...] = LSP

    def __call__(self, output: Tensor, y: Tensor) -> Tensor:
        y = self.one_a_row(y)
        away = (output[..., :2] - y[..., :2]).square().sum(-1)
        missed = self.reach**2 * (1 - torch.exp(-away / (2 * self.reach**2)))
        weight = y[..., 2]
        return (missed * weight).sum(-1) / weight.sum(-1).clamp(min=1)

    def places(self, output: Tensor) -> tuple[Tensor, Tensor]:
        return output[..., :2], output[..., 2]


@dataclass(frozen=True, eq=False)
class SkeletonFinder:
    """A trained pose model that looks at people in a picture; ``places`` reads its output."""

    model: nn.Module
    size: tuple[int, int]
    joints: tuple[str, ...]
    places: Callable[[Tensor], tuple[Tensor, Tensor]]

    @property
    def device(self) -> str:
        return str(device_of(self.model))

    def find(self, picture: npt.NDArray[np.uint8], boxes: Sequence[Box]) -> npt.NDArray[np.float64]:
        """Joints (people, J, 3) in the picture's pixels, with a score in [0, 1]; box: left, top,
        width, height."""
        if not boxes:
            return np.zeros((0, len(self.joints), 3))
        prepare = PictureInput()
        crops = [CropTransform.around(box, self.size) for box in boxes]
        with torch.no_grad():
            rows = torch.stack([prepare(crop.picture(picture), 1) for crop in crops])
            rows = rows.to(device_of(self.model))
            places, scores = self.places(self.model(rows))
        found = [crop.back(place) for crop, place in zip(crops, places.cpu().double().numpy())]
        return np.concatenate([np.stack(found), scores.cpu().double().numpy()[..., None]], axis=2)
