"""Adapters: poses and masks that another tool has found, read from files.

For 4D-Humans, Mask DINO and the like: run them as their authors say, write what they found in the
form below, and no detector of ours looks at the recording.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sfumato.body import Camera, layout
from sfumato.media import Image, read_frames
from sfumato.protect._method import ProtectError
from sfumato.protect.video.avatar._found import Found, Track

_FIELDS = ("frame", "person", "joints", "layout")


class ImportedFinder:
    """People from files.

    ``poses`` is an ``.npz``: ``frame`` (N,) and ``person`` (N,) whole numbers, ``joints`` (N, J, 3) in
    metres in the camera's axes (x right, y down, z away), ``layout`` the name of the joint set, and
    optionally ``focal`` in pixels. ``masks`` is a video or a folder of pictures, bright where a person
    is, one for each frame of the recording.
    """

    name = "imported"

    def __init__(self, poses: str | os.PathLike[str], masks: str | os.PathLike[str]) -> None:
        self._rows = _read(Path(poses))
        self._masks = np.asarray(read_frames(masks)[..., 0] > 127)
        self._next = 0

    def find(self, images: Sequence[Image]) -> Found:
        height, width = images[0].shape[:2]
        window = slice(self._next, self._next + len(images))
        masks = self._masks[window]
        if masks.shape != (len(images), height, width):
            raise ProtectError(
                f"Expected {len(images)} masks of {width} x {height} from frame {self._next} on, "
                f"got shape {masks.shape}: export a mask for every frame."
            )
        focal = float(self._rows["focal"]) if "focal" in self._rows else None
        camera = Camera.facing(width, height, focal=focal)
        tracks = tuple(self._tracks(window, camera))
        self._next += len(images)
        return Found(masks, tracks, camera)

    def _tracks(self, window: slice, camera: Camera) -> list[Track]:
        frame, person = self._rows["frame"], self._rows["person"]
        known = layout(str(self._rows["layout"]))
        inside = (frame >= window.start) & (frame < window.stop)
        tracks = []
        for number in np.unique(person[inside]):
            mine = inside & (person == number)
            points = np.full((window.stop - window.start, known.size, 3), np.nan)
            points[frame[mine] - window.start] = self._rows["joints"][mine]
            tracks.append(Track(known.canonical(points @ camera.rotation), int(number)))
        return tracks


def _read(file: Path) -> dict[str, npt.NDArray[np.generic]]:
    if file.suffix != ".npz" or not file.is_file():
        raise ProtectError("Expected poses in an .npz file with frame, person, joints and layout.")
    with np.load(file, allow_pickle=False) as stored:
        missing = sorted(set(_FIELDS) - set(stored.files))
        if missing:
            raise ProtectError(f"Expected the fields {', '.join(_FIELDS)}, missing {missing}.")
        rows = {name: stored[name] for name in stored.files}
    count = len(rows["frame"])
    if rows["joints"].ndim != 3 or not count == len(rows["person"]) == len(rows["joints"]):
        raise ProtectError(
            f"Expected joints (N, J, 3) and as many rows in frame and person, got {count} frames, "
            f"{len(rows['person'])} persons and joints of shape {rows['joints'].shape}."
        )
    return rows
