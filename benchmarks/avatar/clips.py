"""Avatars on real clips, where no truth is known: faces, identity, pose, ghosts and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from benchmarks.avatar.stage import UNCHANGED, timed
from benchmarks.people.labels import LabelledClip
from sfumato import people
from sfumato.media import Frame, open_video
from sfumato.protect.avatar import Avatar, ComposedFrame, OwnPixels, ResidualFaceCheck, Scene
from sfumato.protect.hide._residual_faces import is_one_of

_PERSON = 0.5  # probability above which the segmenter calls a pixel a person
_NEAR = 0.2  # of the torso
_RING = 0.04  # of the picture's shorter side: avatars may be that far from whom they replace
_SURE = 0.3  # confidence that a joint of the original needs to be judged
_JUDGED_EVERY = 5  # frames from one that detectors judge to the next
_GREY_SHARE = 0.002  # of a picture: less grey outside people is nothing an eye sees


class Eyes:
    """The detectors that judge, opened once: faces by the last look's, which took no part in finding."""

    def __init__(self) -> None:
        self.face_check = ResidualFaceCheck()
        self.faces, self.all_faces = self.face_check.checker, self.face_check.search
        self.identity = self.face_check.identity
        self.joints: Any = people.person_detector("movenet")


def judged_clip(
    clip: Path, method: Avatar, frames: int, opened: Callable[[], Eyes], labels: LabelledClip | None
) -> dict[str, Any]:
    """The measures of the first ``frames`` frames of one clip, through the method as a release goes.

    ``vectors`` and ``avatar vectors`` are embeddings of the original faces and of those that stand for
    them: they stay in the notes of the run.
    """
    with open_video(clip, tolerant=True) as reader:
        given = list(islice(reader, frames))
    scenes: list[Scene] = []
    finder = method.finder
    follow = finder.windows  # type: ignore[attr-defined]

    def watched(stream: Iterator[Frame], most: int) -> Iterator[tuple[list[Frame], Scene]]:
        for window, scene in follow(stream, most):
            scenes.append(scene)
            yield window, scene

    finder.windows = watched  # type: ignore[attr-defined]
    made, wall, cpu = timed(lambda: [each for _, each in method.composed(iter(given))])
    eyes, count = opened(), len(given)
    shown = range(0, count, _JUDGED_EVERY)
    before, after = ([given[t].image for t in shown], [made[t].image for t in shown])
    return {
        "clip": clip.name,
        "frames": count,
        "size": f"{given[0].image.shape[1]}x{given[0].image.shape[0]}",
        "people": len({track.number for scene in scenes for track in scene.tracks}),
        **_faces(before, after, eyes),
        **_agreement(before, after, eyes),
        **({} if labels is None else by_labels(labels, made, scenes)),
        "greyed share": float(np.mean([each.blanked.mean() for each in made])),
        "frames a second": count / wall,
        "frames a CPU second": count / cpu,
    }


def by_labels(
    labels: LabelledClip, made: Sequence[ComposedFrame], scenes: Sequence[Scene]
) -> dict[str, Any]:
    """What became of the people who were labelled by eye: replaced by one avatar, a stand-in, or open."""
    count = {"labelled people": 0, "by one avatar": 0, "by a stand-in": 0, "left open": 0}
    grey_frames = looked = 0
    avatars: dict[int, list[int]] = {}
    for frame in labels.frames:
        if frame.number >= len(made) or frame.damaged:
            continue
        looked += 1
        here, t = _scene_of(scenes, frame.number)
        one = made[frame.number]
        for person in frame.people:
            points = [p for p in (person.torso, person.head) if p is not None]
            if not person.counted or not points:
                continue
            count["labelled people"] += 1
            spots = [(min(int(y), one.inside.shape[0] - 1), min(int(x), one.inside.shape[1] - 1))
                     for x, y in points]  # fmt: skip
            if not all(one.inside[spot] for spot in spots):
                count["left open"] += 1
                continue
            who = [
                track.number
                for track in here.tracks
                if track.present[t] and track.regions and _holds(track.regions[t], spots[0])
            ]
            near = _near(np.asarray(one.layer.any(axis=-1)), spots[0], 0.02)
            count["by one avatar"] += bool(who) and near
            count["by a stand-in"] += bool(_near(one.blanked, spots[0], 0.01) and not near)
            if person.who is not None and len(who) == 1:
                avatars.setdefault(person.who, []).append(who[0])
        height, width = one.blanked.shape
        grey_frames += bool((one.blanked & ~frame.reach(width, height)).mean() > _GREY_SHARE)
    switches = sum(a != b for seen in avatars.values() for a, b in pairwise(seen))
    return {
        **count,
        "identity switches": switches,
        "labelled frames": looked,
        "frames with grey outside people": grey_frames,
    }


def _scene_of(scenes: Sequence[Scene], number: int) -> tuple[Scene, int]:
    for scene in scenes:
        if number < len(scene.masks):
            return scene, number
        number -= len(scene.masks)
    raise IndexError(number)


def _holds(region: OwnPixels | None, spot: tuple[int, int]) -> bool:
    if region is None:
        return False
    rows, columns = region.window
    if not (rows.start <= spot[0] < rows.stop and columns.start <= spot[1] < columns.stop):
        return False
    return bool(region.cut[spot[0] - rows.start, spot[1] - columns.start])


def _near(mask: npt.NDArray[np.bool_], spot: tuple[int, int], reach: float) -> bool:
    room = max(2, round(reach * max(mask.shape)))
    rows = slice(max(0, spot[0] - room), spot[0] + room + 1)
    return bool(mask[rows, max(0, spot[1] - room) : spot[1] + room + 1].any())


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


def _agreement(before: Sequence[Any], after: Sequence[Any], eyes: Eyes) -> dict[str, Any]:
    """Joints of people in the original, and how many of them the same detector finds again in the output
    within 0.2 trunks of where they were. Somebody who is not found again counts as missed joints."""
    agreed = asked = 0
    for original, output in zip(before, after, strict=True):
        old, new = eyes.joints.look(original)[0], eyes.joints.look(output)[0]
        for person in old:
            sure = np.flatnonzero(person.confidence[5:] > _SURE) + 5
            trunk = np.linalg.norm(person.joints[5:7].mean(0) - person.joints[11:13].mean(0))
            if person.box.score < _SURE or len(sure) < 6 or trunk < 4:
                continue
            asked += len(sure)
            near = [
                int(
                    (
                        np.linalg.norm(e.joints[sure] - person.joints[sure], axis=1)
                        <= _NEAR * trunk
                    ).sum()
                )
                for e in new
            ]
            agreed += max(near, default=0)
    return {"joints compared": asked, "joints found again": agreed}


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
