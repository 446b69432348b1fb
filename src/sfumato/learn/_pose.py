"""Pose estimation under a plan: SimCC's loss a record, held-out PCK, and skeletons from a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sfumato.data import LSP, CropTransform, pck, torso_size
from sfumato.learn._scores import Scores
from sfumato.learn.views._prepare import PictureInput
from sfumato.models import decode, device_of, simcc_loss

_THRESHOLD = 0.2
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class PoseLoss:
    """SimCC's loss of one crop, and PCK by torso on held-out ones.

    Labels are (joints, 3): x, y in crop pixels and a weight. With ``people`` above one a record is a
    picture with that many crops, and its loss their mean: they are clipped together, so the promise
    covers the picture (SOUNDNESS G9).
    """

    x_bins: int
    split: float = 2.0
    sigma: float = 6.0
    people: int = 1
    joints: tuple[str, ...] = LSP

    def __call__(self, output: Tensor, y: Tensor) -> Tensor:
        y = self._one_a_row(y)
        return simcc_loss(
            output, y[..., :2], y[..., 2], x_bins=self.x_bins, split=self.split, sigma=self.sigma
        )

    def _one_a_row(self, y: Tensor) -> Tensor:
        """A record's labels come with each of its rows; row k shows person k."""
        if self.people == 1:
            return y
        rows = torch.arange(len(y), device=y.device)
        return y[rows, rows % self.people]

    def scores(self, output: Tensor, y: Tensor) -> Scores:
        """Mean PCK@0.2 over joints, and each joint's own."""
        truth = self._one_a_row(y).cpu().numpy()
        found = decode(output, x_bins=self.x_bins, split=self.split)[0].cpu().numpy()
        every = pck(found, truth, torso_size(truth, self.joints), _THRESHOLD)
        per_joint = {n: float(v) for n, v in zip(self.joints, every) if np.isfinite(v)}
        mean = float(np.mean(list(per_joint.values()))) if per_joint else float("nan")
        return Scores(mean, float(self(output, y).mean()), per_joint, f"PCK@{_THRESHOLD} by torso")


@dataclass(frozen=True, eq=False)
class SkeletonFinder:
    """A trained pose model that looks at people in a picture."""

    model: nn.Module
    size: tuple[int, int]
    joints: tuple[str, ...]
    x_bins: int
    split: float = 2.0

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
            places, scores = decode(self.model(rows), x_bins=self.x_bins, split=self.split)
        found = [crop.back(place) for crop, place in zip(crops, places.cpu().double().numpy())]
        return np.concatenate([np.stack(found), scores.cpu().double().numpy()[..., None]], axis=2)
