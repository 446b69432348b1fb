"""Skeletons drawn over pictures: limbs between named joints, left and right told apart."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.data._joints import vocabulary

Pixels = npt.NDArray[np.uint8]
# from the trunk outwards; a limb is drawn where the vocabulary has both ends
_LIMBS = (
    ("head_top", "upper_neck"), ("upper_neck", "thorax"), ("thorax", "pelvis"),
    ("thorax", "left_shoulder"), ("thorax", "right_shoulder"), ("pelvis", "left_hip"),
    ("pelvis", "right_hip"),
    ("nose", "left_eye"), ("nose", "right_eye"), ("left_eye", "left_ear"),
    ("right_eye", "right_ear"), ("left_shoulder", "right_shoulder"), ("left_hip", "right_hip"),
    *((f"{side}_{a}", f"{side}_{b}") for side in ("left", "right") for a, b in (
        ("shoulder", "elbow"), ("elbow", "wrist"), ("shoulder", "hip"), ("hip", "knee"),
        ("knee", "ankle"))),
)  # fmt: skip
# Okabe and Ito: told apart by people who do not see all colours
_COLOURS = {"left": (230, 159, 0), "right": (86, 180, 233)}
_MIDDLE = (240, 240, 240)


def limbs(names: str | Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of joints that a vocabulary joins by a line."""
    have = vocabulary(names)
    found = [(have.index(a), have.index(b)) for a, b in _LIMBS if a in have and b in have]
    if "upper_neck" in have and "thorax" not in have:
        neck = have.index("upper_neck")
        found += [(neck, have.index(f"{side}_shoulder")) for side in ("left", "right")]
    return found


def draw_skeletons(
    picture: Pixels, people: npt.NDArray[np.floating], names: str | Sequence[str]
) -> Pixels:
    """A copy of ``picture`` with people (P, J, 3) drawn over it; joints of weight or score 0 are not."""
    have = vocabulary(names)
    drawn = np.ascontiguousarray(picture).copy()
    width = max(1, round(min(picture.shape[:2]) / 120))
    for person in people:
        places = [(round(x), round(y)) for x, y in person[:, :2].tolist()]
        for a, b in limbs(have):
            if person[a, 2] > 0 and person[b, 2] > 0:
                colour = _colour(have[a], have[b])
                cv2.line(drawn, places[a], places[b], (0, 0, 0), width + 2, cv2.LINE_AA)
                cv2.line(drawn, places[a], places[b], colour, width, cv2.LINE_AA)
        for name, place, weight in zip(have, places, person[:, 2]):
            if weight > 0:
                cv2.circle(drawn, place, width + 1, _colour(name, name), -1, cv2.LINE_AA)
    return drawn


def _colour(first: str, second: str) -> tuple[int, int, int]:
    sides = {name.partition("_")[0] for name in (first, second)}
    side = sides.pop() if len(sides) == 1 else ""
    return _COLOURS.get(side, _MIDDLE)
