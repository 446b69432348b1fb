"""Real motion for the stage: UTD-MHAD skeletons and CMU motion capture, when the user has them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sfumato.body import layout
from sfumato.errors import reading
from sfumato.stage._make import Performance, StageError

# UTD-MHAD's 27 actions -> the stage's action of the same kind; the others have no counterpart
_UTD = {
    3: "wave", 4: "clap", 5: "throw", 16: "throw", 17: "punch", 22: "walk", 23: "sit",
    24: "sit", 27: "squat", 21: "pick_up", 14: "punch", 26: "kick",
}  # fmt: skip
_CMU = {
    "walk": "walk", "run": "run", "jump": "jump", "kick": "kick", "punch": "punch", "sit": "sit",
    "throw": "throw", "wave": "wave", "drink": "drink", "pickup": "pick_up",
}  # fmt: skip
_UTD_FILE = re.compile(r"a(\d+)_s(\d+)_t(\d+)_skeleton\.mat")


@reading("motion as UTD-MHAD has it, or packed", StageError)
def performances(path: str | os.PathLike[str]) -> tuple[Performance, ...]:
    """Read motion: a folder of UTD-MHAD ``a*_s*_t*_skeleton.mat``, or a packed ``.npz``.

    A packed file has ``x`` (frames, joints, 3), ``offsets`` and ``action``, one action a clip;
    20 joints are Kinect's (UTD-MHAD), 23 are CMU's.
    """
    place = Path(path)
    if place.is_dir():
        found = tuple(_utd_folder(place))
    elif place.suffix == ".npz" and place.is_file():
        found = tuple(_packed(place))
    else:
        raise StageError(
            "Expected a folder of UTD-MHAD skeleton files or a packed .npz with x, offsets and "
            "action: check the path."
        )
    if not found:
        raise StageError("Expected motion of actions that the stage knows, found none there.")
    return found


def _packed(file: Path) -> Iterator[Performance]:
    with np.load(file, allow_pickle=False) as stored:
        missing = {"x", "offsets", "action"} - set(stored.files)
        if missing:
            raise StageError(f"Expected arrays x, offsets and action, missing {sorted(missing)}.")
        points, offsets, actions = stored["x"], stored["offsets"], stored["action"]
    kind = {20: "kinect20", 23: "cmu23"}.get(points.shape[1])
    if kind is None:
        raise StageError(f"Expected 20 (Kinect) or 23 (CMU) joints, got {points.shape[1]}.")
    for i, label in enumerate(actions):
        name = _UTD.get(int(label)) if kind == "kinect20" else _CMU.get(str(label))
        if name is not None:
            yield _performance(name, points[offsets[i] : offsets[i + 1]], kind)


def _utd_folder(folder: Path) -> Iterator[Performance]:
    from scipy.io import loadmat

    for file in sorted(folder.rglob("a*_s*_t*_skeleton.mat")):
        named = _UTD_FILE.fullmatch(file.name)
        name = _UTD.get(int(named.group(1))) if named else None
        if name is not None:
            points = np.moveaxis(loadmat(file, variable_names=["d_skel"])["d_skel"], 2, 0)
            yield _performance(name, points, "kinect20")


def _performance(action: str, points: npt.NDArray[np.floating], kind: str) -> Performance:
    """Joints with their feet on the floor, facing the stage's camera."""
    joints = layout(kind).canonical(points)
    if kind == "kinect20":  # the sensor looks along +z: people face it, that is -z
        joints = joints * np.array([-1.0, 1.0, -1.0])
    floor = np.nanpercentile(joints[..., 1].min(axis=1, where=~np.isnan(joints[..., 1]),
                                                initial=np.inf), 5)  # fmt: skip
    joints[..., 1] -= floor - 0.08  # the lowest seen joint is an ankle
    return Performance(action, joints)
