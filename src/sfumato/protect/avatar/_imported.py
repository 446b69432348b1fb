"""Adapters: poses and masks that another tool finds, people that another tool erases; strictly checked.

What the bundled detectors find is covered as well: another tool (4D-Humans, Mask DINO, ...) adds to q
and never takes from it. A tool that fills the place of people (ProPainter, E2FGVI, ...) never sees
them: it gets a video in which they are grey already, and only filled pixels are taken from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.body import Camera, layout
from sfumato.media import Image
from sfumato.protect._method import ProtectError
from sfumato.protect.avatar._inpaint import Erased
from sfumato.protect.avatar._phalp import phalp_poses
from sfumato.protect.avatar._scene import Continuity, Finder, Scene, Track
from sfumato.protect.avatar._tools import (
    ToolSource,
    read_masks,
    read_npz,
    read_pictures,
    require_file,
)

Rows = dict[str, npt.NDArray[Any]]
Frames = npt.NDArray[np.uint8]
Masks = npt.NDArray[np.bool_]
_FIELDS = ("frame", "person", "joints", "layout")
NEEDED = ("input", "masks", "output")  # files that a command for inpainting is called with
_GREY = 128
_SAME = 8  # grey levels: nearer to the original than this counts as not filled
_MOST = 0.9  # share of the hidden pixels that may be that near: q holds much of the room too


class ImportedFinder:
    """People as other tools find them, united with what ``own`` detectors find.

    ``poses`` gives an ``.npz``: ``frame`` (N,) and ``person`` (N,) whole numbers, ``joints`` (N, J, 3)
    in metres in the camera's axes (x right, y down, z away from the camera, NaN for unknown),
    ``layout`` the name of the joint set, and optionally ``focal`` in pixels. ``masks`` gives an
    ``.npz`` with ``masks`` (T, H, W), a video or a folder of pictures, above 0 or bright where a person
    is, one for each frame. A file speaks of the whole recording, a command of the window it was given.
    """

    name = "imported"

    def __init__(
        self, poses: ToolSource | None, masks: ToolSource | None, *, own: Finder | None = None
    ) -> None:
        if own is None and (poses is None or masks is None):
            raise ProtectError(
                "Expected poses and masks of other tools together without detectors of our own: "
                "a person needs both. Leave second_look on, or give the other one."
            )
        self._poses, self._masks, self._own = poses, masks, own
        self._rows = read_poses(poses) if poses is not None and poses.file else None
        self._shown = read_masks(masks.file) if masks is not None and masks.file else None
        self._persons = Continuity()
        self._next = 0

    @property
    def detectors_used(self) -> tuple[tuple[str, str], ...]:
        """Of our own, beside the other tools."""
        return tuple(getattr(self._own, "detectors_used", ()))

    def find(self, images: Sequence[Image]) -> Scene:
        height, width = images[0].shape[:2]
        window = slice(self._next, self._next + len(images))
        self._next = window.stop
        own = self._own.find(images) if self._own is not None else None
        covered = np.zeros((len(images), height, width), bool) if own is None else own.masks.copy()
        if self._masks is not None:
            covered |= self._masks_of(images, window)
        if self._poses is None:
            assert own is not None
            return Scene(covered, own.tracks, own.camera, own.floor)
        rows = self._rows
        if rows is None:
            with self._poses.made("poses.npz", {"input": images}) as file:
                rows = read_poses(ToolSource(file), frames=len(images))
        camera = Camera.facing(width, height, focal=_focal(rows))
        tracks = _tracks(rows, slice(0, len(images)) if self._rows is None else window, camera)
        if self._rows is None:  # a command numbers people anew in every window
            tracks = self._persons.numbered(tracks, camera)
        return Scene(covered, tuple(tracks), camera)

    def _masks_of(self, images: Sequence[Image], window: slice) -> npt.NDArray[np.bool_]:
        assert self._masks is not None
        if self._shown is not None:
            masks = self._shown[window]
        else:
            with self._masks.made("masks.npz", {"input": images}) as file:
                masks = read_masks(file)
        height, width = images[0].shape[:2]
        if masks.shape != (len(images), height, width):
            raise ProtectError(
                f"Expected {len(images)} masks of {width} x {height} from frame {window.start} on, "
                f"got shape {masks.shape}: export a mask for every frame."
            )
        return masks

    def ended(self) -> None:
        """Refuse files that speak of more frames than the recording has: they belong to another."""
        longest = 0 if self._shown is None else len(self._shown)
        if self._rows is not None and len(self._rows["frame"]):
            longest = max(longest, int(self._rows["frame"].max()) + 1)
        if longest > self._next:
            raise ProtectError(
                f"Expected poses and masks for {self._next} frames, got some for {longest}: they "
                "belong to another recording."
            )


def read_poses(part: ToolSource, *, frames: int | None = None) -> Rows:
    """Rows of poses, refused unless every one of them can be placed; ``frames`` bounds them."""
    assert part.file is not None
    rows = (
        phalp_poses(require_file(part.file))
        if part.file.suffix == ".pkl"
        else read_npz(part.file, _FIELDS)
    )
    frame, person, joints = rows["frame"], rows["person"], rows["joints"]
    known = layout(str(rows["layout"]))
    if not all(
        np.issubdtype(each.dtype, np.integer) and each.ndim == 1 for each in (frame, person)
    ):
        raise ProtectError(
            f"Expected frame and person as rows of whole numbers, got {frame.dtype} and "
            f"{person.dtype} of shapes {frame.shape} and {person.shape}."
        )
    count = len(frame)
    if (
        not np.issubdtype(joints.dtype, np.floating)
        or joints.shape != (count, known.size, 3)
        or len(person) != count
    ):
        raise ProtectError(
            f"Expected joints ({count}, {known.size}, 3) of floats and as many rows in frame and "
            f"person, got {count} frames, {len(person)} persons and {joints.dtype} joints of shape "
            f"{joints.shape}."
        )
    if count and (frame.min() < 0 or person.min() < 0):
        raise ProtectError("Expected frames and persons counted from 0, got negative numbers.")
    if frames is not None and count and int(frame.max()) >= frames:
        raise ProtectError(
            f"Expected poses of frames 0 to {frames - 1}, got one of frame {frame.max()}: the command "
            "must count from the first frame it was given."
        )
    if len(np.unique(np.stack([frame, person]), axis=1).T) != count:
        raise ProtectError(
            "Expected one pose a person and frame, got several: number people apart."
        )
    depth = np.asarray(joints[..., 2], dtype=np.float64)
    if np.isinf(np.asarray(joints, dtype=np.float64)).any() or (depth <= 0).any():
        raise ProtectError(
            "Expected joints in metres in front of the camera (z above 0, NaN for unknown), got others: "
            "add the camera's translation to joints that are centred on the hips."
        )
    return rows


def _focal(rows: Rows) -> float | None:
    if "focal" not in rows:
        return None
    focal = rows["focal"]
    if focal.size != 1 or focal.dtype.kind not in "iuf" or not 0 < float(focal.item()) < np.inf:
        raise ProtectError(
            f"Expected focal as one positive number of pixels, got {focal.dtype} of shape {focal.shape}, or "
            "one that is not positive: leave it out where it is not known."
        )
    return float(focal.item())


def _tracks(rows: Rows, window: slice, camera: Camera) -> list[Track]:
    frame, person = rows["frame"].astype(np.int64), rows["person"].astype(np.int64)
    known = layout(str(rows["layout"]))
    inside = (frame >= window.start) & (frame < window.stop)
    tracks = []
    for number in np.unique(person[inside]):
        mine = inside & (person == number)
        points = np.full((window.stop - window.start, known.size, 3), np.nan)
        points[frame[mine] - window.start] = rows["joints"][mine]
        made = Track(known.canonical(points @ camera.rotation), int(number))
        if made.present.any():
            tracks.append(made)
    return tracks


class ImportedInpainting:
    """What another tool puts in the place of people; called with one window after the other.

    A command gets ``{input}``, grey wherever it must fill, and ``{masks}``, white there, and writes
    ``{output}``, a video of the same size and length.
    """

    def __init__(self, part: ToolSource) -> None:
        self._part = part
        self._shown = None if part.file is None else read_pictures(part.file, "inpainting")
        self._next = 0

    def __call__(self, frames: Sequence[Image] | Frames, hidden: Masks) -> Erased:
        frames = np.asarray(frames)
        start, self._next = self._next, self._next + len(frames)
        if self._shown is not None:
            filled = self._shown[start : self._next]
            _fits(filled, frames)
            _refuse_untouched(filled, frames, hidden)
        else:
            greyed = np.where(hidden[..., None], np.uint8(_GREY), frames)
            white = np.repeat(hidden[..., None], 3, -1) * np.uint8(255)
            given = {"input": list(greyed), "masks": list(white)}
            with self._part.made("output.mkv", given) as file:
                filled = read_pictures(file, "inpainting")
            _fits(filled, frames)
        # nothing is known about how a tool fills, so all of it counts as made up
        return Erased(
            len(frames),
            lambda t: (np.where(hidden[t][..., None], filled[t], frames[t]), hidden[t].copy()),
            False,
        )

    def ended(self) -> None:
        """Refuse a file with more frames than the recording: it belongs to another."""
        if self._shown is not None and len(self._shown) > self._next:
            raise ProtectError(
                f"Expected {self._next} inpainted frames, got {len(self._shown)}: they belong to "
                "another recording."
            )


def _fits(filled: Frames, frames: Frames) -> None:
    if filled.shape != frames.shape:
        count, height, width = frames.shape[:3]
        raise ProtectError(
            f"Expected {count} inpainted frames of {width} x {height}, got "
            f"{len(filled)} of {filled.shape[2]} x {filled.shape[1]}: fill every frame at its size. "
            "Nothing was released."
        )


def _refuse_untouched(filled: Frames, frames: Frames, hidden: Masks) -> None:
    """A file made from the recording may show the person still; refuse one that plainly does."""
    if not hidden.any():
        return
    apart = np.abs(filled[hidden].astype(np.int16) - frames[hidden]).max(axis=1)
    same = float((apart <= _SAME).mean())
    if same > _MOST:
        raise ProtectError(
            f"Expected an inpainted video without people, got one that equals the recording in "
            f"{same:.0%} of what must go: fill all that the masks cover. Nothing was released."
        )
