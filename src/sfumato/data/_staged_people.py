"""Staged people with their true joints: the public people of pose estimation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sfumato.data._joints import LSP, translate, vocabulary
from sfumato.data._pose import box_of
from sfumato.data._problems import Problems
from sfumato.data._records import ArrayRecords, RecordsError
from sfumato.errors import reading
from sfumato.files import atomic_output
from sfumato.stage import JOINTS, posed_people

SIDE = 160
# LSP's names for joints that the stage calls otherwise
_OTHER_NAMES = {"upper_neck": "neck", "head_top": "crown"}
_ORDER = [JOINTS.index(_OTHER_NAMES.get(name, name)) for name in LSP]


class StagedPeople(ArrayRecords):
    """Pictures of one staged person each, laid out like the records of pose data sets."""

    unit = "picture"

    def __init__(self, x: np.ndarray, y: np.ndarray, joints: Sequence[str] = LSP) -> None:
        """``y`` (pictures, 14, 3) in LSP's order, in pixels."""
        nobody = np.full((len(x), 1), np.nan, np.float32)
        super().__init__(
            x,
            translate(y, LSP, joints)[:, None],
            attributes={
                "boxes": np.array([[box_of(person)] for person in y], np.float32),
                "head_size": nobody,
                "area": nobody,
            },
        )
        self.joints, self.problems = vocabulary(joints), Problems()


@reading("staged people as sfumato wrote them", RecordsError)
def staged_people(
    count: int,
    *,
    seed: int = 0,
    joints: str | Sequence[str] = "lsp",
    keep: str | os.PathLike[str] | None = None,
) -> StagedPeople:
    """``count`` people in any pose; the same seed gives the same pictures.

    With ``keep``, an .npz file, they are drawn once and read from it afterwards.
    """
    path = None if keep is None else Path(keep)
    if path is not None and path.is_file():
        with np.load(path, allow_pickle=False) as stored:
            return StagedPeople(stored["x"], stored["y"], vocabulary(joints))
    made = list(posed_people(count, seed=seed, side=SIDE))
    x = np.stack([picture for picture, _ in made])
    y = np.ones((count, len(LSP), 3), np.float32)
    # a pixel's centre is at a half on stage, and at a whole number in pose data sets
    y[..., :2] = np.stack([pixels for _, pixels in made])[:, _ORDER] - 0.5
    if path is not None:
        with atomic_output(path, force=True) as temporary, open(temporary, "wb") as stream:
            np.savez_compressed(stream, x=x, y=y)
    return StagedPeople(x, y, vocabulary(joints))
