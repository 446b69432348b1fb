"""From a picture with people to person crops of one size: the inputs of a pose model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.data._joints import Joints, mirror_order
from sfumato.data._records import IterableRecords, Record, Records, RecordsError

Pixels = npt.NDArray[np.uint8]


class JointRecords(Records, Protocol):
    """Pictures of people: y (people, joints, 3), and ``boxes`` and ``head_size`` as attributes."""

    @property
    def joints(self) -> tuple[str, ...]: ...

    @property
    def unit(self) -> str: ...


@dataclass(frozen=True)
class CropTransform:
    """An affine map from picture to crop: ``crop = picture @ matrix[:, :2].T + matrix[:, 2]``."""

    matrix: npt.NDArray[np.float64]
    size: tuple[int, int]

    @classmethod
    def around(
        cls, box: tuple[float, float, float, float], size: tuple[int, int], margin: float = 1.25
    ) -> CropTransform:
        """The smallest crop of ``size`` (height, width) that shows the box times ``margin``."""
        left, top, width, height = box
        if width <= 0 or height <= 0:
            raise RecordsError(f"Expected a box with a size, got {width} x {height} pixels.")
        scale = min(size[0] / (height * margin), size[1] / (width * margin))
        centre = np.array([left + width / 2, top + height / 2])
        shift = np.array([size[1] / 2, size[0] / 2]) - scale * centre
        return cls(np.array([[scale, 0, shift[0]], [0, scale, shift[1]]]), size)

    def picture(self, image: Pixels) -> Pixels:
        """The crop's pixels; black beyond the picture."""
        height, width = self.size
        shrinks = self.matrix[0, 0] < 1
        if shrinks:  # a soft picture first, or thin limbs would alias away
            sigma = 0.4 * (1 / self.matrix[0, 0] - 1)
            if sigma > 0.1:
                image = np.asarray(cv2.GaussianBlur(image, (0, 0), sigma), dtype=np.uint8)
        return np.asarray(
            cv2.warpAffine(image, self.matrix, (width, height), flags=cv2.INTER_LINEAR)
        )

    def joints(self, joints: Joints) -> Joints:
        """Joints (..., J, 3) in the crop; those outside it get weight 0."""
        out = joints.copy()
        out[..., :2] = joints[..., :2] @ self.matrix[:, :2].T + self.matrix[:, 2]
        beyond = (out[..., :2] < 0).any(-1)
        beyond |= (out[..., 0] > self.size[1] - 1) | (out[..., 1] > self.size[0] - 1)
        out[beyond, 2] = 0
        return out

    def back(self, places: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Places (..., 2) of the crop in the picture."""
        scale = self.matrix[0, 0]
        return np.asarray((places - self.matrix[:, 2]) / scale, dtype=np.float64)


class PersonCrops(IterableRecords):
    """Records of exactly ``people`` crops each: x (people, H, W, 3), y (people, joints, 3).

    A picture with fewer people repeats its first one with weight 0, one with more keeps the largest
    boxes; ``people=1`` drops the leading axis. The unit stays the picture, as in the source.
    """

    def __init__(
        self,
        records: JointRecords,
        size: tuple[int, int] = (256, 192),
        people: int = 1,
    ) -> None:
        if people < 1:
            raise RecordsError(f"Expected at least one person a record, got {people}.")
        self.records, self.size, self.people = records, size, people
        self.classes, self.joints, self.unit = records.classes, records.joints, records.unit

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Record:
        record = self.records[index]
        boxes = record.attributes["boxes"]
        order = np.argsort(-boxes[:, 2] * boxes[:, 3], kind="stable")[: self.people]
        x, y, matrices = [], [], []
        for place in range(self.people):
            which = int(order[place]) if place < len(order) else int(order[0])
            crop = CropTransform.around(tuple(boxes[which].tolist()), self.size)
            joints = crop.joints(record.y[which])
            if place >= len(order):
                joints[:, 2] = 0
            x.append(crop.picture(record.x))
            y.append(joints)
            matrices.append(crop.matrix)
        facts = {
            "crop": np.stack(matrices),
            "head_size": _chosen(record.attributes["head_size"], order, self.people),
            "area": _chosen(record.attributes["area"], order, self.people),
        }
        if self.people == 1:
            return Record(x[0], y[0], None, record.owners, facts)
        return Record(np.stack(x), np.stack(y), None, record.owners, facts)


def _chosen(
    values: npt.NDArray[np.float32], order: npt.NDArray[np.intp], people: int
) -> npt.NDArray[np.float32]:
    out = np.full(people, np.nan, np.float32)
    out[: len(order)] = values[order]
    return out


def mirrored(x: Pixels, y: Joints, names: str | tuple[str, ...]) -> tuple[Pixels, Joints]:
    """A crop and its joints seen in a mirror: augmentation, for non-private training alone."""
    flipped = y[..., mirror_order(names), :].copy()
    flipped[..., 0] = x.shape[-2] - 1 - flipped[..., 0]
    return np.ascontiguousarray(x[..., ::-1, :]), flipped
