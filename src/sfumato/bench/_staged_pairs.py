"""Staged recordings twice: as filmed ("real"), and through the avatar pipeline ("rendered").

The pipeline gets the stage's own joints and masks, so that a table shows what avatars cost and not
what a pose estimator missed. Clips are made in pieces that are kept, so that a long staging can be
stopped and goes on.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.body import Light, SkinnedBody, people, procedural_body
from sfumato.data import ArrayRecords
from sfumato.files import atomic_output
from sfumato.protect.video.avatar import Found, Rules, Track, replace
from sfumato.stage import Clip, Staging, clips

_PIECE = 100
_ARRAYS = ("real", "rendered", "empty", "person", "public", "joints", "y", "actor")
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

    @property
    def owners(self) -> list[str]:
        return [f"actor{number}" for number in self.actor]

    def records(self, kind: str) -> ArrayRecords:
        """As records of one kind: real, rendered, avatar (alone, on black) or background."""
        if kind == "real":
            x, mask = self.real, self.person
        elif kind == "rendered":
            x, mask = self.rendered, self.public
        elif kind == "avatar":
            x, mask = self.rendered * self.public[..., None], self.public
        else:
            frames = self.real.shape[1]
            x = np.repeat(self.empty[:, None], frames, 1)
            mask = np.ones(self.public.shape, dtype=bool)
        return ArrayRecords(x, self.y, mask=mask, owners=self.owners, classes=self.classes)

    def subset(self, chosen: Sequence[int] | npt.NDArray[np.int64]) -> Pairs:
        """Some of the clips."""
        taken = {name: getattr(self, name)[chosen] for name in _ARRAYS}
        return Pairs(**taken, classes=self.classes)


def staged_pairs(staging: Staging, folder: Path) -> Pairs:
    """All clips of ``staging``, made where they are not in ``folder`` yet.

    Clip n is the same however many there are, so a larger staging goes on from a smaller one.
    """
    stated = repr(dataclasses.replace(staging, clips=1))
    place = folder / f"pairs-{hashlib.sha256(stated.encode()).hexdigest()[:12]}"
    place.mkdir(parents=True, exist_ok=True)
    pieces, avatars = [], None
    for first in range(0, staging.clips, _PIECE):
        last = min(first + _PIECE, staging.clips)
        path = place / f"{first:05d}-{last:05d}.npz"
        if not path.is_file():
            if avatars is None:
                avatars = [procedural_body(person) for person in people()]
            part = dataclasses.replace(staging, clips=last)
            made = [
                _pair(number, clip, staging, avatars)
                for number, clip in enumerate(clips(part, first=first), start=first)
            ]
            with atomic_output(path, force=True) as temporary, open(temporary, "wb") as stream:
                stacked: dict[str, Any] = {
                    key: np.stack([each[key] for each in made]) for key in _ARRAYS
                }
                np.savez(stream, **stacked)
        with np.load(path, allow_pickle=False) as stored:
            pieces.append({key: stored[key] for key in stored.files})
    joined = {key: np.concatenate([piece[key] for piece in pieces]) for key in _ARRAYS}
    return Pairs(**joined, classes=staging.actions)


def _pair(
    number: int, clip: Clip, staging: Staging, avatars: Sequence[SkinnedBody]
) -> dict[str, npt.NDArray[np.generic] | int]:
    rng = np.random.default_rng([_AVATARS_SEED, staging.seed, number])
    avatar = avatars[int(rng.integers(len(avatars)))]
    found = Found(clip.alpha > 0, (Track(clip.joints.astype(float)),), clip.camera, 0.0)
    made = replace(clip.frames, found, [avatar], Rules(), Light(), rate=staging.fps)
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
