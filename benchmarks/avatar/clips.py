"""Avatars on real clips, where no truth is known: faces, identity, pose, ghosts and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from benchmarks.avatar.stage import UNCHANGED, timed
from sfumato import people
from sfumato.body import Light
from sfumato.media import Frame, open_video
from sfumato.protect.avatar import (
    Avatar,
    Erased,
    ResidualFaceCheck,
    Rules,
    Scene,
    erase,
    grey_out,
    replace,
)
from sfumato.protect.hide._residual_faces import is_one_of

_PERSON = 0.5  # probability above which the segmenter calls a pixel a person
_MAIN = [11, 12, 13, 14, 15, 16, 23, 24, 25, 26, 27, 28]
_NEAR = 0.2  # of the torso
_RING = 0.04  # of the picture's shorter side: avatars may be that far from whom they replace
_SEEN = 0.5  # visibility that a joint of the original needs to be judged


class Eyes:
    """The detectors that judge, opened once: faces by the last look's, which took no part in finding."""

    def __init__(self) -> None:
        self.face_check = ResidualFaceCheck()
        self.faces, self.all_faces = self.face_check.checker, self.face_check.search
        self.identity = self.face_check.identity
        self.segmenter = people.person_segmenter("selfie")
        self.poses = people.pose_estimator("blazepose")


def judged_clip(
    clip: Path, method: Avatar, frames: int, opened: Callable[[], Eyes]
) -> dict[str, Any]:
    """The measures of the first ``frames`` frames of one clip.

    ``vectors`` and ``avatar vectors`` are embeddings of the original faces and of those that stand for
    them: they stay in the notes of the run.
    """
    with open_video(clip, tolerant=True) as reader:
        given = list(islice(reader, frames))
    images = np.stack([frame.image for frame in given])
    finder, spent = method.finder, [0.0]
    found, find_wall, find_cpu = timed(lambda: finder.find(list(images)))

    def watched(frames: npt.NDArray[np.uint8], hidden: npt.NDArray[np.bool_]) -> Erased:
        made: Erased
        made, _, cpu = timed(lambda: erase(frames, hidden))
        spent[0] += cpu
        return made

    chosen = [method.bodies[(7 * track.number) % len(method.bodies)] for track in found.tracks]
    made, wall, cpu = timed(
        lambda: replace(images, found, chosen, Rules(), Light(), eraser=watched)
    )
    count, eyes = len(images), opened()
    seen, look_wall, look_cpu = timed(
        lambda: eyes.face_check.left(images, made.frames, made.public)
    )
    made = grey_out(made, seen, Rules())
    wall, all_cpu = find_wall + wall + look_wall, find_cpu + cpu + look_cpu
    alone = _alone(found)
    return {
        "clip": clip.name,
        "frames": count,
        "size": f"{images.shape[2]}x{images.shape[1]}",
        "people": len(found.tracks),
        **_faces(images, made.frames, eyes),
        "pose agreement": _agreement(given, made.frames, eyes) if alone else None,
        "ghost share": ghost_share(made.erased.frames, made.public, eyes.segmenter.segment),
        "greyed share": float(made.blanked.mean()),
        "frames greyed by the last look": int(seen.any((1, 2)).sum()),
        "frames a second": count / wall,
        "frames a CPU second": count / all_cpu,
        "finding CPU ms": 1000 * find_cpu / count,
        "erasing CPU ms": 1000 * spent[0] / count,
        "fitting, drawing, merging CPU ms": 1000 * (cpu - spent[0]) / count,
        "last look CPU ms": 1000 * look_cpu / count,
    }


def _alone(found: Scene) -> bool:
    """Whether the clip shows one person: the issue asks for the pose of such clips only."""
    return len(found.tracks) == 1


def _faces(before: Any, after: Any, eyes: Eyes) -> dict[str, Any]:
    """Original faces that are left, and how far the new faces are from the ones they stand for."""
    left = shown = 0
    apart, vectors, others = [], [], []
    for original, output in zip(before, after, strict=True):
        height, width = original.shape[:2]
        same = np.abs(original.astype(np.int16) - output).max(axis=-1) <= UNCHANGED
        boxes = eyes.faces.detect(output)
        theirs = eyes.faces.detect(original)
        # an avatar has a face too: the original's is one that still stands there as it was; and a box
        # in which no detector saw a face before is no face of the original
        stayed = [box for box in boxes if same[box.scale(0.8).pixels(width, height)].mean() > 0.5]
        left += bool(stayed) and any(
            is_one_of(box, [*theirs, *eyes.all_faces.detect(original)]) for box in stayed
        )
        shown += bool(theirs)
        for face in theirs:
            vector = eyes.identity.embed(original, face)
            vectors.append(vector)
            near = [
                eyes.identity.embed(output, box) for box in boxes if people.iou(box, face) > 0.2
            ]
            others += near
            apart += [float(np.linalg.norm(vector - other)) for other in near]
    return {
        "frames with a face": shown,
        "frames with an original face left": left,
        "identity distance": float(np.mean(apart)) if apart else None,
        "faces compared": len(apart),
        "vectors": [vector.tolist() for vector in vectors[::8]],
        "avatar vectors": [vector.tolist() for vector in others[::8]],
    }


def _agreement(given: Sequence[Frame], after: Any, eyes: Eyes) -> float | None:
    """Share of joints found again in the output within 0.2 torso of where the original has them.

    A frame in which nobody is found again counts as missed joints.
    """
    first = [tracked.poses for _, tracked in people.poses(iter(given), eyes.poses)]
    output = (
        Frame(image, frame.pts, frame.time) for frame, image in zip(given, after, strict=True)
    )
    second = [tracked.poses for _, tracked in people.poses(output, eyes.poses)]
    agreed = asked = 0
    for before, later in zip(first, second, strict=True):
        if len(before) != 1:
            continue
        points = before[0].points[:, :2]
        joints = [j for j in _MAIN if before[0].visibility[j] > _SEEN]
        torso = np.linalg.norm(points[[11, 12]].mean(0) - points[[23, 24]].mean(0))
        asked += len(joints)
        if later and joints:
            near = [
                np.linalg.norm(each.points[joints, :2] - points[joints], axis=1) <= _NEAR * torso
                for each in later
            ]
            agreed += int(max(each.sum() for each in near))
    return agreed / asked if asked else None


def ghost_share(
    empty: npt.NDArray[np.uint8],
    avatars: npt.NDArray[np.bool_],
    segment: Callable[[npt.NDArray[np.uint8]], Any],
) -> float | None:
    """How much more of a person a segmenter sees where the avatars stand than around them, in the
    scene without people: a ghost has the outline of whom it was left by.

    A segmenter that takes a whole floor for a person sees as much around, and that is nobody's ghost.
    """
    more = total = 0.0
    for image, avatar in zip(empty, avatars, strict=True):
        if not avatar.any():
            continue
        reach = 2 * max(2, round(_RING * min(avatar.shape))) + 1
        round_kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (reach, reach))
        near = cv2.dilate(avatar.view(np.uint8), round_kernel) > 0
        around = (cv2.dilate(near.view(np.uint8), round_kernel) > 0) & ~near
        seen = np.asarray(segment(image)) > _PERSON
        beside = float(seen[around].mean()) if around.any() else 0.0
        more += float(avatar.sum()) * max(0.0, float(seen[avatar].mean()) - beside)
        total += float(avatar.sum())
    return more / total if total else None
