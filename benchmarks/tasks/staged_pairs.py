"""Staged recordings twice: as filmed ("real"), and through the avatar pipeline ("rendered").

By ``truth`` the pipeline gets the stage's own joints and masks, so that a table shows what avatars cost and not
what a pose estimator missed; by ``detectors`` it finds people in the pictures, as in a recording. ``BY_WHOM`` is what
the page of such a table must say. Clips are made in pieces that are kept, so that a long staging can be stopped and goes on.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.tasks.rough_filming import rough_clips, sensed
from sfumato.body import Light, SkinnedBody, procedural_body
from sfumato.body import people as virtual_people
from sfumato.files import atomic_output
from sfumato.media import Frame
from sfumato.protect.avatar import Avatar, Rules, Scene, Track, replace
from sfumato.stage import Clip, Staging, clips

BY_TRUTH = (
    "Avatars and masks here come from the stage's true joints and masks, not from the detectors that a "
    "recording gets. No figure of this table was measured with those, so expect less of a recording: how "
    "far off they are is in the table avatar, in its rows by detectors."
)
BY_DETECTORS = "Avatars and masks here come from the detectors that a recording gets; the same table by truth shows what those cost."
BY_WHOM = {"truth": BY_TRUTH, "detectors": BY_DETECTORS}
_PIECE = 100
_ARRAYS = ("real", "rendered", "empty", "person", "public", "joints", "y", "actor")
_ROOMS_SEED = 78
_AVATARS_SEED = 77  # which avatar a clip gets says nothing about its actor


@dataclass(frozen=True)
class Pairs:
    """N clips of T frames. ``person`` and ``public`` are the masks of ``real`` and ``rendered``;
    ``empty`` is one inpainted frame a clip; ``joints`` are where the person's joints are in the
    picture, in picture widths and heights."""

    real: npt.NDArray[np.uint8]
    rendered: npt.NDArray[np.uint8]
    empty: npt.NDArray[np.uint8]
    person: npt.NDArray[np.bool_]
    public: npt.NDArray[np.bool_]
    joints: npt.NDArray[np.float32]
    y: npt.NDArray[np.int64]
    actor: npt.NDArray[np.int64]
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.y)

    def clips(self, kind: str) -> npt.NDArray[np.uint8]:
        """What a kind of clip shows: the person as filmed (``real``) or as an avatar (``rendered``),
        the ``person`` or ``avatar`` alone on black, the avatar ``elsewhere`` in public rooms as a cheap
        camera sees it, or the ``background`` alone."""
        match kind:
            case "real":
                return self.real
            case "rendered":
                return self.rendered
            case "person":
                return self.real * self.person[..., None]
            case "avatar":
                return self.rendered * self.public[..., None]
            case "elsewhere":
                return in_public_rooms(self.rendered, self.public)
            case _:
                return np.repeat(self.empty[:, None], self.real.shape[1], 1)


@dataclass(frozen=True)
class Piece:
    """Some clips of a staging in one file, which is made when it is first asked for."""

    staging: Staging
    first: int
    last: int
    path: Path
    people: str = "truth"
    rough: bool = False

    def made(self) -> Path:
        if not self.path.is_file():
            part = dataclasses.replace(self.staging, clips=self.last)
            film = rough_clips if self.rough else clips
            made = [
                _pair(number, clip, part, _avatars(), self.people)
                for number, clip in enumerate(film(part, first=self.first), start=self.first)
            ]
            with atomic_output(self.path, force=True) as temporary, open(temporary, "wb") as stream:
                stacked: dict[str, Any] = {
                    key: np.stack([each[key] for each in made]) for key in _ARRAYS
                }
                np.savez(stream, **stacked)
        return self.path

    def load(self) -> Pairs:
        with np.load(self.made(), allow_pickle=False) as stored:
            return Pairs(**{key: stored[key] for key in _ARRAYS}, classes=self.staging.actions)

    def labels(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """What is done and who does it, without the pictures."""
        with np.load(self.made(), allow_pickle=False) as stored:
            return stored["y"], stored["actor"]


def pieces(
    staging: Staging, folder: Path, people: str = "truth", *, rough: bool = False
) -> list[Piece]:
    """All clips of ``staging``, a file for each hundred; ``rough`` ones are filmed badly.

    Clip n is the same however many there are, so a larger staging goes on from a smaller one.
    """
    stated = repr(dataclasses.replace(staging, clips=1)) + ("" if people == "truth" else people)
    stated += "rough" if rough else ""
    place = folder / f"pairs-{hashlib.sha256(stated.encode()).hexdigest()[:12]}"
    place.mkdir(parents=True, exist_ok=True)
    bounds = [
        (first, min(first + _PIECE, staging.clips)) for first in range(0, staging.clips, _PIECE)
    ]
    return [
        Piece(staging, first, last, place / f"{first:05d}-{last:05d}.npz", people, rough)
        for first, last in bounds
    ]


def staged_pairs(staging: Staging, folder: Path) -> Pairs:
    """All clips of ``staging`` at once, made where they are not in ``folder`` yet."""
    parts = [piece.load() for piece in pieces(staging, folder)]
    joined = {key: np.concatenate([getattr(part, key) for part in parts]) for key in _ARRAYS}
    return Pairs(**joined, classes=staging.actions)


@cache
def _avatars() -> list[SkinnedBody]:
    return [procedural_body(person) for person in virtual_people()]


@cache
def _finder() -> Any:
    return Avatar(body="procedural").finder


def found_in(clip: Clip, people: str, fps: float) -> Scene:
    """Who is where in a staged clip: by the stage's truth, by the detectors that a recording gets, or
    nobody, where nobody is to be replaced."""
    if people == "nobody":
        return Scene(np.zeros_like(clip.mask), (), clip.camera, 0.0)
    if people == "truth":
        return Scene(clip.alpha > 0, (Track(clip.joints.astype(float)),), clip.camera, 0.0)
    frames = [Frame(each, i, i / Fraction(fps)) for i, each in enumerate(clip.frames)]
    ((_, scene),) = _finder().windows(iter(frames), len(frames))
    return scene  # type: ignore[no-any-return]


@cache
def _public_rooms(side: int) -> tuple[npt.NDArray[np.uint8], ...]:
    """Rooms of the public stage without anybody."""
    public = Staging(clips=18, actors=1, rooms=18, frames=1, width=side, height=side, seed=42)
    return tuple(clip.empty for clip in clips(public))


def in_public_rooms(
    rendered: npt.NDArray[np.uint8], public: npt.NDArray[np.bool_]
) -> npt.NDArray[np.uint8]:
    """Public pixels before a public room instead of black, seen by a cheap camera: nothing private."""
    rng = np.random.default_rng(_ROOMS_SEED)
    rooms = _public_rooms(rendered.shape[2])
    return np.stack([
        sensed(np.where(mask[..., None], clip, rooms[int(rng.integers(len(rooms)))]), rng)
        for clip, mask in zip(rendered, public)
    ])  # fmt: skip


def _pair(
    number: int, clip: Clip, staging: Staging, avatars: Sequence[SkinnedBody], people: str
) -> dict[str, npt.NDArray[np.generic] | int]:
    rng = np.random.default_rng([_AVATARS_SEED, staging.seed, number])
    avatar = avatars[int(rng.integers(len(avatars)))]
    found = found_in(clip, people, staging.fps)
    bodies = [avatar] * len(found.tracks)
    made = replace(clip.frames, found, bodies, Rules(), Light(), rate=staging.fps)
    return {
        "real": clip.frames,
        "rendered": made.frames,
        "empty": made.erased.frames[len(clip.frames) // 2],
        "person": clip.mask,
        "public": made.public,
        "joints": clip.pixels / np.array([staging.width, staging.height], np.float32),
        "y": staging.actions.index(clip.action),
        "actor": int(clip.actor.removeprefix("actor")),
    }
