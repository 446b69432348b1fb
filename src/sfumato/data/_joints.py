"""One vocabulary of joints, and how COCO-17, MPII-16 and LSP-14 translate into each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sfumato.data._records import RecordsError

Joints = npt.NDArray[np.float32]

COCO = (
    *("nose", "left_eye", "right_eye", "left_ear", "right_ear"),
    *("left_shoulder", "right_shoulder", "left_elbow", "right_elbow", "left_wrist", "right_wrist"),
    *("left_hip", "right_hip", "left_knee", "right_knee", "left_ankle", "right_ankle"),
)
MPII = (
    *("right_ankle", "right_knee", "right_hip", "left_hip", "left_knee", "left_ankle"),
    *("pelvis", "thorax", "upper_neck", "head_top"),
    *("right_wrist", "right_elbow", "right_shoulder"),
    *("left_shoulder", "left_elbow", "left_wrist"),
)
LSP = (
    *("right_ankle", "right_knee", "right_hip", "left_hip", "left_knee", "left_ankle"),
    *("right_wrist", "right_elbow", "right_shoulder"),
    *("left_shoulder", "left_elbow", "left_wrist", "upper_neck", "head_top"),
)
VOCABULARIES = {"coco": COCO, "mpii": MPII, "lsp": LSP}
_KNOWN = frozenset(COCO) | frozenset(MPII)
# Joints that are the middle of two others. COCO has nothing for the neck and the top of the head:
# those stay absent (weight 0) rather than guessed from the face.
_MIDDLES = {"pelvis": ("left_hip", "right_hip"), "thorax": ("left_shoulder", "right_shoulder")}


def vocabulary(names: str | Sequence[str]) -> tuple[str, ...]:
    """Joint names of "coco", "mpii" or "lsp", or a list of known names."""
    if isinstance(names, str):
        if names not in VOCABULARIES:
            raise RecordsError(f"Expected joints of {', '.join(VOCABULARIES)}, got {names!r}.")
        return VOCABULARIES[names]
    unknown = [name for name in names if name not in _KNOWN]
    if unknown:
        raise RecordsError(
            f"Expected joint names out of {', '.join(sorted(_KNOWN))}, got {', '.join(unknown)}."
        )
    return tuple(names)


def translate(joints: Joints, source: str | Sequence[str], target: str | Sequence[str]) -> Joints:
    """(..., J, 3) from one vocabulary to another; what the source does not have gets weight 0.

    The third number is the weight: 1 annotated, 0 absent. A middle counts where both its ends do.
    """
    have, want = vocabulary(source), vocabulary(target)
    if joints.shape[-2:] != (len(have), 3):
        raise RecordsError(
            f"Expected joints of shape (..., {len(have)}, 3), got {joints.shape}: x, y and weight."
        )
    out = np.zeros((*joints.shape[:-2], len(want), 3), np.float32)
    for i, name in enumerate(want):
        if name in have:
            out[..., i, :] = joints[..., have.index(name), :]
        elif name in _MIDDLES and set(_MIDDLES[name]) <= set(have):
            left, right = (joints[..., have.index(end), :] for end in _MIDDLES[name])
            out[..., i, :2] = (left[..., :2] + right[..., :2]) / 2
            out[..., i, 2] = np.minimum(left[..., 2], right[..., 2])
    return out


def mirror_order(names: str | Sequence[str]) -> list[int]:
    """Where each joint lies after a mirror: left and right change places."""
    have = vocabulary(names)
    swapped = [
        name.replace("left_", "\0").replace("right_", "left_").replace("\0", "right_")
        for name in have
    ]
    return [have.index(name) for name in swapped]
