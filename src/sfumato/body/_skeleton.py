"""The one skeleton every body shares, and the joint sets that other tools use.

World frame: metres, y up, right-handed; at rest a person faces +z with the left hand towards +x.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.errors import SfumatoError
from sfumato.settings import shown

Floats = npt.NDArray[np.floating]

# name -> parent, parents first. ``crown``, ``*_toe`` and ``*_hand`` are ends: they never rotate.
_TREE: dict[str, str | None] = {
    "pelvis": None,
    "spine": "pelvis",
    "chest": "spine",
    "neck": "chest",
    "head": "neck",
    "crown": "head",
    "left_hip": "pelvis",
    "left_knee": "left_hip",
    "left_ankle": "left_knee",
    "left_toe": "left_ankle",
    "right_hip": "pelvis",
    "right_knee": "right_hip",
    "right_ankle": "right_knee",
    "right_toe": "right_ankle",
    "left_collar": "chest",
    "left_shoulder": "left_collar",
    "left_elbow": "left_shoulder",
    "left_wrist": "left_elbow",
    "left_hand": "left_wrist",
    "right_collar": "chest",
    "right_shoulder": "right_collar",
    "right_elbow": "right_shoulder",
    "right_wrist": "right_elbow",
    "right_hand": "right_wrist",
}
JOINTS: tuple[str, ...] = tuple(_TREE)
INDEX: Mapping[str, int] = {name: i for i, name in enumerate(JOINTS)}
PARENTS: tuple[int, ...] = tuple(-1 if p is None else INDEX[p] for p in _TREE.values())
# the joints that every source observes; errors and scales are computed on these
MAIN: tuple[int, ...] = tuple(
    INDEX[f"{side}_{name}"]
    for side in ("left", "right")
    for name in ("hip", "knee", "ankle", "shoulder", "elbow", "wrist")
)


class LayoutError(SfumatoError):
    """Joints that do not fit the layout they are said to have."""


@dataclass(frozen=True)
class Layout:
    """How a foreign joint set gives ours: each joint is a weighted sum of foreign ones."""

    name: str
    size: int
    recipe: Mapping[str, Mapping[int, float]]
    unit: float = 1.0  # metres per unit of the source

    def canonical(self, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """(..., size, 3) foreign joints -> (..., 24, 3) ours; NaN where nothing is observed."""
        given = np.asarray(points, dtype=np.float64)
        if given.shape[-2:] != (self.size, 3):
            raise LayoutError(
                f"Expected joints shaped (..., {self.size}, 3) for layout {self.name!r}, "
                f"got {given.shape}: choose another layout ({', '.join(LAYOUTS)})."
            )
        out = np.full((*given.shape[:-2], len(JOINTS), 3), np.nan)
        for name, weights in self.recipe.items():
            out[..., INDEX[name], :] = sum(w * given[..., i, :] for i, w in weights.items())
        return out * self.unit


def _both_sides(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, dict[int, float]]:
    named = {f"left_{k}": {v: 1.0} for k, v in left.items()}
    return named | {f"right_{k}": {v: 1.0} for k, v in right.items()}


def _limbs(first_left: Mapping[str, int], offset: int) -> dict[str, dict[int, float]]:
    return _both_sides(first_left, {k: v + offset for k, v in first_left.items()})


_KINECT = {
    **_limbs({"shoulder": 4, "elbow": 5, "wrist": 6}, 4),
    **_limbs({"hip": 12, "knee": 13, "ankle": 14}, 4),
    "pelvis": {12: 0.5, 16: 0.5},
    "neck": {1: 1.0},
    "crown": {0: 1.5, 1: -0.5},
}
_CMU = {
    **_limbs({"hip": 1, "knee": 2, "ankle": 3, "toe": 4}, 4),
    **_limbs({"shoulder": 16, "elbow": 17, "wrist": 18}, 4),
    "pelvis": {1: 0.5, 5: 0.5},
    "neck": {13: 0.5, 16: 0.25, 20: 0.25},
    "crown": {14: 2.0, 13: -1.0},
}
_MEDIAPIPE = {
    **_both_sides(
        {"shoulder": 11, "elbow": 13, "wrist": 15, "hip": 23, "knee": 25, "ankle": 27, "toe": 31},
        {"shoulder": 12, "elbow": 14, "wrist": 16, "hip": 24, "knee": 26, "ankle": 28, "toe": 32},
    ),
    "left_hand": {17: 0.5, 19: 0.5},
    "right_hand": {18: 0.5, 20: 0.5},
    "pelvis": {23: 0.5, 24: 0.5},
    "neck": {11: 0.5, 12: 0.5},
    # the ears lie at mid skull: the crown is about as far above them as they are above the neck
    "crown": {7: 0.95, 8: 0.95, 11: -0.45, 12: -0.45},
}
_SMPL = {
    **_limbs({"hip": 1, "knee": 4, "ankle": 7, "toe": 10}, 1),
    **_limbs({"collar": 13, "shoulder": 16, "elbow": 18, "wrist": 20, "hand": 22}, 1),
    "pelvis": {1: 0.5, 2: 0.5},
    "neck": {12: 1.0},
    # their head joint is the base of the skull: the crown is about twice as far above it as the neck
    # is below
    "crown": {15: 3.0, 12: -2.0},
}
_BODY25 = {  # OpenPose's, as HMR and 4D-Humans give them
    **_both_sides(
        {"shoulder": 5, "elbow": 6, "wrist": 7, "hip": 12, "knee": 13, "ankle": 14, "toe": 19},
        {"shoulder": 2, "elbow": 3, "wrist": 4, "hip": 9, "knee": 10, "ankle": 11, "toe": 22},
    ),
    "pelvis": {9: 0.5, 12: 0.5},
    "neck": {1: 1.0},
    "crown": {17: 0.95, 18: 0.95, 2: -0.45, 5: -0.45},
}
LAYOUTS: Mapping[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("sfumato24", len(JOINTS), {name: {i: 1.0} for i, name in enumerate(JOINTS)}),
        Layout("kinect20", 20, _KINECT),
        Layout("cmu23", 23, _CMU, unit=0.0254 / 0.45),  # CMU's skeleton files use inches / 0.45
        Layout("mediapipe33", 33, _MEDIAPIPE),
        Layout("smpl24", 24, _SMPL),
        Layout("body25", 25, _BODY25),
    )
}


def layout(name: str) -> Layout:
    """The layout called ``name``."""
    if name not in LAYOUTS:
        raise LayoutError(f"Expected a layout out of {', '.join(LAYOUTS)}, got {shown(name)}.")
    return LAYOUTS[name]


def forward(
    rest: Floats, rotations: Floats, translation: Floats, scale: Floats | float = 1.0
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Forward kinematics over any leading axes.

    ``rotations`` (..., 24, 3, 3) turn each joint against its parent, at rest all are the identity;
    ``translation`` (..., 3) is where the pelvis is. Returns global rotations and joint positions.
    """
    lead = rotations.shape[:-3]
    turned = np.empty((*lead, len(JOINTS), 3, 3))
    placed = np.empty((*lead, len(JOINTS), 3))
    factor = np.asarray(scale, dtype=np.float64)[..., None]
    for j, parent in enumerate(PARENTS):
        if parent < 0:
            turned[..., j, :, :] = rotations[..., j, :, :]
            placed[..., j, :] = translation
            continue
        turned[..., j, :, :] = turned[..., parent, :, :] @ rotations[..., j, :, :]
        offset = turned[..., parent, :, :] @ (rest[j] - rest[parent])
        placed[..., j, :] = placed[..., parent, :] + factor * offset
    return turned, placed
