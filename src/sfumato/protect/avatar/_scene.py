"""What is known about the people in a recording before they are replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfumato.body import INDEX, Camera
from sfumato.media import Image

Floats = npt.NDArray[np.floating]
AHEAD = 12  # frames after a window that its poses are fitted with
SHORTEST = 3  # frames: a pose found for less is a flicker, its place is erased and greyed
_NEAR = 0.15  # of the picture's diagonal: a track that goes on there across windows is the same


@dataclass(frozen=True)
class OwnPixels:
    """One person's own pixels on a frame: ``cut`` inside rows and columns of the picture.

    They are erased in any case. Where it is not ``sure`` that somebody is there at all, nobody stands in.
    Of a frame on which nobody ``looked`` they are carried on from others.
    """

    window: tuple[slice, slice]
    cut: npt.NDArray[np.bool_]
    sure: bool = True
    looked: bool = True

    @property
    def height(self) -> int:
        return int(self.cut.shape[0])


@dataclass(frozen=True)
class Track:
    """One person along a recording: joints (T, 24, 3) in the camera's world, NaN where unseen.

    ``number`` tells people apart over the whole recording, beyond one window of frames. ``regions`` are the
    person's own pixels on every frame, where a finder tells people apart: an avatar then shows no
    farther than they reach, so that whoever sits behind a table stays behind it. A frame with a region and
    without joints is one on which the pose is not believed.
    """

    joints: Floats
    number: int = 0
    regions: tuple[OwnPixels | None, ...] = ()

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """In which frames the person has a pose."""
        return np.asarray(np.isfinite(self.joints).any(axis=(1, 2)))

    @property
    def found(self) -> npt.NDArray[np.bool_]:
        """In which frames the person was found, posed or not."""
        if not self.regions:
            return self.present
        return np.array([region is not None for region in self.regions])


@dataclass(frozen=True)
class Scene:
    """The people of a recording of T frames.

    ``masks`` (T, H, W) hold every pixel that any detector gives to a person; ``floor`` is the
    height of the floor in the camera's world, if known.
    """

    masks: npt.NDArray[np.bool_]
    tracks: tuple[Track, ...]
    camera: Camera
    floor: float | None = None


class Finder(Protocol):
    """Finds people: bundled detectors, files made by other tools, or known truth.

    One with a method ``windows(frames, most)`` follows people over the whole recording itself.
    """

    @property
    def name(self) -> str: ...

    def find(self, images: Sequence[Image]) -> Scene: ...


@dataclass(frozen=True)
class Known:
    """A finder that was told: for staged recordings, and to hold the pose in tests."""

    found: Scene
    name: str = "known"

    def find(self, images: Sequence[Image]) -> Scene:
        return self.found


class Continuity:
    """Numbers people over windows: who goes on from the last window keeps the number of then."""

    def __init__(self) -> None:
        self._ended: list[tuple[int, npt.NDArray[np.float64]]] = []
        self._count = 0

    def numbered(self, tracks: Sequence[Track], camera: Camera) -> list[Track]:
        """The tracks of the next window with their numbers."""
        reach = _NEAR * float(np.hypot(camera.width, camera.height))
        named, ended = [], []
        for track in tracks:
            there = np.flatnonzero(track.present)
            hips = camera.project(track.joints[there][:, INDEX["pelvis"]])
            number = self._count
            for earlier, spot in self._ended:
                if there[0] < SHORTEST and np.linalg.norm(spot - hips[0]) < reach:
                    number = earlier
                    self._ended = [each for each in self._ended if each[0] != earlier]
                    break
            self._count = max(self._count, number + 1)
            named.append(Track(track.joints, number))
            if there[-1] >= len(track.joints) - SHORTEST:
                ended.append((number, hips[-1]))
        self._ended = ended
        return named


def place(
    world: Floats, pixels: Floats, weight: Floats, camera: Camera, *, smooth: float = 1.5
) -> Floats:
    """Put hip-centred metric joints (T, J, 3) where the camera saw them at pixels (T, J, 2).

    For each frame the shift s solves, in least squares, f (x + s_x) = (u - c_x)(z + s_z) and the
    same for y: the pinhole equations multiplied out, linear in s. Returns shifts (T, 3) in the
    camera's world, smoothed without lag.
    """
    from scipy.ndimage import gaussian_filter1d

    seen = world @ camera.rotation.T  # the camera's axes: x right, y down, z away
    cx, cy = camera.principal
    u, v = pixels[..., 0] - cx, pixels[..., 1] - cy
    f, count = camera.focal, len(world)
    shifts = np.full((count, 3), np.nan)
    for t in range(count):
        ok = np.isfinite(seen[t]).all(-1) & np.isfinite(pixels[t]).all(-1) & (weight[t] > 0)
        if ok.sum() < 4:
            continue
        w = np.sqrt(weight[t, ok])
        zero = np.zeros(ok.sum())
        left = np.concatenate([
            np.stack([f * w, zero, -u[t, ok] * w], 1), np.stack([zero, f * w, -v[t, ok] * w], 1)
        ])  # fmt: skip
        right = np.concatenate([
            (u[t, ok] * seen[t, ok, 2] - f * seen[t, ok, 0]) * w,
            (v[t, ok] * seen[t, ok, 2] - f * seen[t, ok, 1]) * w,
        ])  # fmt: skip
        shifts[t] = np.linalg.lstsq(left, right, rcond=None)[0]
    known = np.isfinite(shifts[:, 0])
    if not known.any():
        return shifts
    times = np.arange(count)
    full = np.stack([np.interp(times, times[known], shifts[known, k]) for k in range(3)], 1)
    full[:, 2] = np.maximum(full[:, 2], 0.5)
    if smooth > 0 and count > 2:
        full = gaussian_filter1d(full, smooth, axis=0, mode="nearest")
    return np.asarray(full @ camera.rotation)


def outline(joints: Floats, camera: Camera, *, slim: float = 1.0) -> npt.NDArray[np.bool_]:
    """A generous silhouette (H, W) around one person's joints (24, 3): thick limbs, trunk, head."""
    import cv2

    canvas = np.zeros((camera.height, camera.width), np.uint8)
    known = np.asarray(np.isfinite(joints).all(axis=-1))
    if not known.any():
        return canvas.astype(bool)
    seen = camera.to_camera(joints)
    spots = camera.project(joints)
    for a, b, thick in _LIMBS:
        i, j = INDEX[a], INDEX[b]
        if known[i] and known[j] and seen[i, 2] > 0.1 and seen[j, 2] > 0.1:
            near = min(seen[i, 2], seen[j, 2])
            width = min(2000, max(1, round(slim * thick * camera.focal / near)))
            ends = [
                (round(float(x)), round(float(y))) for x, y in np.clip(spots[[i, j]], -9999, 9999)
            ]
            cv2.line(canvas, ends[0], ends[1], 255, width)
    return canvas > 0


# bones with the width, in metres, that surely holds the limb and its clothes
_LIMBS = (
    *(
        (f"{side}_{a}", f"{side}_{b}", thick)
        for side in ("left", "right")
        for a, b, thick in (
            ("shoulder", "elbow", 0.15), ("elbow", "wrist", 0.13), ("wrist", "hand", 0.14),
            ("hip", "knee", 0.22), ("knee", "ankle", 0.17), ("ankle", "toe", 0.13),
            ("shoulder", "hip", 0.22),
        )
    ),
    ("left_shoulder", "right_hip", 0.26), ("right_shoulder", "left_hip", 0.26),
    ("left_shoulder", "right_shoulder", 0.16), ("left_hip", "right_hip", 0.2),
    ("neck", "crown", 0.25),
)  # fmt: skip
