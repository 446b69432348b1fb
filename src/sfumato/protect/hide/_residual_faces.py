"""Looking at what was made, with other eyes: nobody may be left where somebody was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import cache
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from sfumato import people
from sfumato.media import IMAGE_SUFFIXES, Image, ahead, open_video, read_image
from sfumato.progress import track
from sfumato.protect.hide._region import face_detector

_SAME_PLACE, _PART = 0.3, 0.5
_MUCH, _INSIDE = 5.0, 0.9
_CORE, _CODEC_NOISE = 0.8, 4.0
_AROUND, _SMALLEST = 1.3, 16  # sides of a pose and pixels of the part that is looked at again
_SAME_POSE = 0.3  # of the trunk
_TRUNK = [11, 12, 23, 24]  # shoulders and hips among the landmarks
_SAME_STRUCTURE, _FAINT, _PLAIN = 0.6, 0.4, 0.5
Faces = tuple[people.Box, ...] | None


def faces_left(
    source: Path,
    made: Path,
    *,
    first: Any = None,
    second: Any,
    tolerant: bool = False,
    near: Iterable[Faces] = (),
) -> Iterator[tuple[int, list[people.Box]]]:
    """Frames, with the faces of the original that ``second`` still finds in the output.

    A place that shows one colour only is no face, whatever a detector makes of the shoulders below.
    It was there if either detector finds it in the original, which is searched only where something
    was found in the output. ``near`` says for each frame where the search found faces, if it looked:
    a detector that can look at parts of a picture then looks at these, for only there can a face be
    left that was found before; any other detector looks at the whole frame. That look is easily
    alarmed, and after an alarm the whole frame is looked at.
    """
    # the thread that decodes has ended when this does, whatever happens
    with closing(ahead(frame_pairs(source, made, tolerant))) as pairs:
        yield from _left_in(pairs, near, first, face_detector(second))


def _left_in(
    pairs: Iterable[tuple[Image, Image]],
    near: Iterable[Faces],
    first: Any,
    after: people.FaceDetector,
) -> Iterator[tuple[int, list[people.Box]]]:
    before: people.FaceDetector | None = None
    for number, ((original, output), known) in enumerate(zip(pairs, chain(near, repeat(None)))):
        in_parts = known is not None and hasattr(after, "detect_near")
        if in_parts and not people.look_near(after, output, known or ()):
            continue
        left = each_find(after, output)
        if not left:
            continue
        before = before or face_detector(first)
        sure = each_find(before, original)
        there = [*sure, *credible(each_find(after, original), sure)]
        open_faces = [
            face
            for face in there
            if any(is_one_of(one, [face]) for one in left) and not _flat(output, face)
        ]
        if open_faces:
            yield number, open_faces


def people_left(
    source: Path, made: Path, *, second: people.PoseEstimator, every: int, tolerant: bool = False
) -> Iterator[tuple[int, list[people.Box]]]:
    """Frames, with the people whom ``second`` finds in the output on every ``every``-th frame, in the
    pose that they have in the original, and whose trunk looks as it did there."""
    with closing(ahead(frame_pairs(source, made, tolerant))) as pairs:
        for number, (original, output) in enumerate(pairs):
            if number % every:
                continue
            found = [
                pose
                for pose in second.estimate(output)
                if _credible_pose(pose) and still_shows(original, output, _trunk(pose))
            ]
            if found:  # in covers and around them estimators see people who never were
                there = second.estimate(original, tuple(found), True)
                found = [pose for pose in found if any(_same_pose(pose, one) for one in there)]
            boxes = [box for pose in found for box in _confirmed(original, pose)]
            if boxes:
                yield number, boxes


def _confirmed(original: Image, pose: people.Pose) -> list[people.Box]:
    """Who is found in that part of the original alone: estimators see people in floors and walls."""
    height, width = original.shape[:2]
    rows, columns = pose.box.scale(_AROUND).pixels(width, height)
    part = np.ascontiguousarray(original[rows, columns])
    if min(part.shape[:2]) < _SMALLEST:
        return []
    trunk = _trunk(pose)
    bodies = [one.box.shift(columns.start, rows.start) for one in _search()(part) if one.body]
    return [box for box in bodies if box.covers(trunk) > _PART]


@cache
def _search() -> people.Look:
    return people.search()


def _credible_pose(pose: people.Pose) -> bool:
    trunk = _trunk(pose)
    sides = sorted((trunk.width, trunk.height))
    return bool(pose.visibility[_TRUNK].min() >= 0.5 and sides[1] <= 6 * sides[0])


def _same_pose(a: people.Pose, b: people.Pose) -> bool:
    trunk = _trunk(a)
    size = max(trunk.width, trunk.height)
    apart = np.linalg.norm(a.points[_TRUNK, :2] - b.points[_TRUNK, :2], axis=1)
    return float(apart.max()) <= _SAME_POSE * size


def _trunk(pose: people.Pose) -> people.Box:
    points = pose.points[_TRUNK, :2]
    (x0, y0), (x1, y1) = points.min(axis=0), points.max(axis=0)
    return people.Box(float(x0), float(y0), float(x1), float(y1))


def still_shows(original: Image, output: Image, box: people.Box) -> bool:
    """Whether a place shows in the output what it showed before: its fine structure is the same. Whatever
    covers it, flat or patterned, has another one, or none."""
    height, width = original.shape[:2]
    place = box.pixels(width, height)
    if min(original[place].shape[:2]) < 3:
        return False
    before, after = (_structure(image[place]) for image in (original, output))
    if float(before.std()) < _PLAIN:  # nothing to compare but the colour
        apart = np.abs(original[place].astype(np.int16) - output[place])
        return float(apart.mean()) < _CODEC_NOISE
    strength = float(np.linalg.norm(before) * np.linalg.norm(after))
    if float(np.linalg.norm(after)) < _FAINT * float(np.linalg.norm(before)):
        return False
    return float((before * after).sum()) / strength >= _SAME_STRUCTURE


def _structure(part: Image) -> npt.NDArray[np.float32]:
    grey = cv2.cvtColor(part, cv2.COLOR_RGB2GRAY).astype(np.float32)
    return np.asarray(grey - cv2.GaussianBlur(grey, (0, 0), 2.0), np.float32)


def each_find(detector: people.FaceDetector, image: Image) -> list[people.Box]:
    """What every part of a united detector finds: a box around two finds may be like neither."""
    parts = getattr(detector, "parts", (detector,))
    return [box for part in parts for box in part.detect(image)]


def _flat(image: Image, face: people.Box) -> bool:
    """Whether the place of a face shows one colour, but for what a codec adds."""
    height, width = image.shape[:2]
    part = image[face.scale(_CORE).pixels(width, height)]
    return part.size == 0 or float(part.reshape(-1, 3).std(axis=0).max()) <= _CODEC_NOISE


def credible(faces: Sequence[people.Box], known: Sequence[people.Box] = ()) -> list[people.Box]:
    """Without boxes that hold a much smaller face, of these or of the ``known`` ones.

    No face has another one inside; a weak detector takes a whole group of people for a face. So this
    is for the finds of the detector that checks: what the search found is always believed.
    """
    return [
        face
        for face in faces
        if not any(
            other.area and other.area * _MUCH <= face.area and face.covers(other) >= _INSIDE
            for other in (*faces, *known)
        )
    ]


def is_one_of(left: people.Box, faces: Iterable[people.Box]) -> bool:
    """Whether a box of the output is a face, or a part of one, that was there before.

    A box much larger than any face is not: covers have edges, and detectors see faces in them.
    """
    return any(
        people.iou(left, face) >= _SAME_PLACE or face.covers(left) >= _PART for face in faces
    )


def frame_pairs(source: Path, made: Path, tolerant: bool) -> Iterator[tuple[Image, Image]]:
    """Every frame of the recording with the one that was made of it."""
    if source.suffix.lower() in IMAGE_SUFFIXES:
        yield read_image(source, tolerant=tolerant), read_image(made)
        return
    with open_video(source, tolerant=tolerant) as originals, open_video(made) as outputs:
        frames = zip(originals, outputs, strict=True)
        for original, output in track(frames, "checking", outputs.info.expected_frames):
            yield original.image, output.image
