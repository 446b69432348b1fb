"""Faces and people of the recording that must not be in an avatar's release."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from sfumato import people
from sfumato.body import Camera
from sfumato.media import VideoWriter, open_video, read_frames
from sfumato.protect import ProtectError
from sfumato.protect.avatar import (
    Avatar,
    Known,
    OwnPixels,
    ResidualFaceCheck,
    Scene,
    Track,
    read_layers,
)
from sfumato.protect.avatar._finder import PeopleFinder
from sfumato.protect.avatar._recover_missed import recover_missed_people
from sfumato.protect.hide._residual_faces import is_one_of

FACE = people.Box(20, 20, 40, 44)
SIZE = (72, 96)


@dataclass
class Marked:
    """Finds a face wherever the picture is textured inside ``FACE``: stands for a real detector."""

    name: str = "marked"
    device: str = "cpu"

    def detect(self, image: npt.NDArray[np.uint8]) -> list[people.Box]:
        part = image[FACE.pixels(image.shape[1], image.shape[0])]
        return [FACE] if part.std() > 20 else []


@dataclass
class Fixed:
    """Finds one face, everywhere the same."""

    face: people.Box
    name: str = "fixed"
    device: str = "cpu"

    def detect(self, image: npt.NDArray[np.uint8]) -> list[people.Box]:
        return [self.face]


@dataclass
class Colours:
    """Identity by the mean colour: stands for a real embedder."""

    name: str = "colours"
    device: str = "cpu"
    same_person: float = 0.2
    asked: list[people.Box] = field(default_factory=list)

    def embed(self, image: npt.NDArray[np.uint8], face: people.Box) -> npt.NDArray[np.float64]:
        self.asked.append(face)
        part = image[face.pixels(image.shape[1], image.shape[0])]
        return np.asarray(part.reshape(-1, 3).mean(axis=0) / 255, dtype=np.float64)


def eyes() -> ResidualFaceCheck:
    look = ResidualFaceCheck()
    look.checker, look.search, look.identity = Marked(), Marked(), Colours()
    return look


def textured(colour: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
    """A picture with a face of stripes about ``colour``."""
    image = np.full((*SIZE, 3), 90, np.uint8)
    rows, columns = FACE.pixels(SIZE[1], SIZE[0])
    face = np.zeros((rows.stop - rows.start, columns.stop - columns.start, 3), np.int16)
    face[:] = colour
    face[::2] += 45
    face[1::2] -= 45
    image[rows, columns] = np.clip(face, 0, 255)
    return image


NOTHING = np.zeros((1, *SIZE), bool)


def test_a_face_that_stayed_is_seen_and_one_that_became_another_is_not() -> None:
    original, stranger = textured((150, 110, 90)), textured((60, 110, 200))
    assert eyes().left(original[None], original[None], NOTHING).any()
    assert not eyes().left(original[None], stranger[None], NOTHING).any()
    slightly = np.clip(original.astype(np.int16) + 10, 0, 255).astype(np.uint8)
    seen = eyes().left(original[None], slightly[None], NOTHING)[0]
    assert seen[FACE.pixels(SIZE[1], SIZE[0])].all()
    assert not seen[:10].any()


def test_the_renderers_mask_answers_for_the_avatars_own_face() -> None:
    face = textured((150, 110, 90))[None]
    look, rendered = eyes(), NOTHING.copy()
    rendered[0][FACE.pixels(SIZE[1], SIZE[0])] = True
    assert not look.left(face, face, rendered).any()
    assert look.identity.asked == []  # type: ignore[attr-defined]
    rendered[0, :36] = False  # the renderer wrote the chin only
    assert look.left(face, face, rendered).any()


def test_a_face_half_out_of_the_picture_is_nobodys_avatar() -> None:
    """Its core may lie outside, where the renderer wrote nothing."""
    outside = people.Box(-30, 20, 2, 44)
    assert outside.scale(0.8).pixels(SIZE[1], SIZE[0])[1] == slice(0, 0)
    look = eyes()
    look.checker = look.search = Fixed(outside)
    face = textured((150, 110, 90))[None]
    assert look.left(face, face, ~NOTHING).any()


def test_a_face_where_nobody_was_is_nobody() -> None:
    empty = np.full((1, *SIZE, 3), 90, np.uint8)
    assert not eyes().left(empty, textured((90, 90, 90))[None], NOTHING).any()


def save(path: Path, frames: npt.NDArray[np.uint8]) -> Path:
    size = (frames.shape[2], frames.shape[1])
    with VideoWriter(path, rate=Fraction(10), size=size, codec="ffv1") as video:
        for image in frames:
            video.write(image)
    return path


def overlooked(**settings: object) -> Avatar:
    """The method with a finder that finds nobody, and eyes that see the face."""
    camera = Camera.facing(SIZE[1], SIZE[0])
    nobody = Known(Scene(np.zeros((3, *SIZE), bool), (), camera))
    method = Avatar(body="procedural", finder=nobody, seed=1, **settings)  # type: ignore[arg-type]
    method._face_check = eyes()
    return method


def test_a_face_left_in_the_output_is_greyed_out_or_stops_the_run(tmp_path: Path) -> None:
    frames = np.repeat(textured((150, 110, 90))[None], 3, axis=0)
    source = save(tmp_path / "in.mkv", frames)
    overlooked().apply(source, tmp_path / "out.mkv")
    for image in read_frames(tmp_path / "out.mkv"):
        assert image[FACE.pixels(SIZE[1], SIZE[0])].std() < 4
        assert abs(int(image[70, 90, 0]) - 90) < 8
    mask, _ = read_layers(tmp_path / "out.mkv")
    assert not mask.any()
    with pytest.raises(ProtectError, match=r"face of the recording was found in the output"):
        overlooked(missed="fail").apply(source, tmp_path / "none.mkv")
    assert not (tmp_path / "none.mkv").exists()


def test_a_real_face_that_no_finder_found_is_not_released(tmp_path: Path, real_data: Path) -> None:
    """The real checker and the real embedder, and an avatar method that is blind."""
    with open_video(real_data / "clips" / "arm_wrestling.mp4") as reader:
        frames = np.stack([frame.image for frame in islice(reader, 3)])
    checker = people.face_detector("blazeface-short")
    assert any(checker.detect(frame) for frame in frames)
    height, width = frames.shape[1:3]
    blind = Known(Scene(np.zeros(frames.shape[:3], bool), (), Camera.facing(width, height)))
    source = save(tmp_path / "in.mkv", frames)
    Avatar(body="procedural", finder=blind, seed=1).apply(source, tmp_path / "out.mkv")
    made = read_frames(tmp_path / "out.mkv")
    for before, after in zip(frames, made, strict=True):
        left = [box for box in checker.detect(after) if is_one_of(box, checker.detect(before))]
        assert left == []
    assert not np.array_equal(made[0], frames[0])


def still_life(count: int = 20) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """A room of noise with a person who sits still, and where the person is."""
    rng = np.random.default_rng(4)
    room = rng.integers(60, 200, (*SIZE, 3)).astype(np.uint8)
    person = np.zeros(SIZE, bool)
    person[30:60, 10:24] = True
    room[person] = (230, 30, 30)
    noisy = room[None] + rng.integers(-3, 4, (count, *SIZE, 3))
    return np.clip(noisy, 0, 255).astype(np.uint8), person


def scene(masks: npt.NDArray[np.bool_], *tracks: Track) -> Scene:
    return Scene(masks, tracks, Camera.facing(SIZE[1], SIZE[0]))


def test_whoever_sits_still_is_covered_in_every_frame() -> None:
    frames, person = still_life()
    masks = np.zeros((len(frames), *SIZE), bool)
    masks[13] = person  # found once only
    kept = recover_missed_people(frames, scene(masks))
    assert kept[:, person].all()
    assert not kept[:, ~cv2.dilate(person.astype(np.uint8), np.ones((5, 5))).astype(bool)].any()


def test_whoever_left_is_not_covered_where_the_room_shows_now() -> None:
    frames, person = still_life()
    frames[:12][:, person] = (20, 200, 40)  # the room, before the person came
    masks = np.zeros((len(frames), *SIZE), bool)
    masks[12:] = person
    assert np.array_equal(recover_missed_people(frames, scene(masks)), masks)


def test_a_loose_mask_around_somebody_who_left_does_not_cover_the_room_again() -> None:
    frames, person = still_life()
    frames[10:, person] = (20, 200, 40)
    masks = np.zeros((len(frames), *SIZE), bool)
    masks[:10, 26:64, 4:30] = True  # twice as large as the person, as an ellipse about a box is
    assert np.array_equal(recover_missed_people(frames, scene(masks)), masks)


def test_a_floor_that_a_segmenter_took_for_a_person_is_not_held_unless_posed() -> None:
    frames, _ = still_life()
    floor = np.zeros(SIZE, bool)
    floor[40:, :60] = True
    masks = np.zeros((len(frames), *SIZE), bool)
    masks[6] = floor
    assert np.array_equal(recover_missed_people(frames, scene(masks)), masks)
    joints = np.full((len(frames), 24, 3), np.nan)
    lying = np.zeros((24, 3))
    lying[:, 0] = np.linspace(-0.8, 0.1, 24)
    joints[6] = lying + np.array([0.0, -0.4, -1.6])
    assert recover_missed_people(frames, scene(masks, Track(joints)))[:, floor].all()


def nobody_posed(count: int, **regions: OwnPixels) -> Track:
    """A person without a pose, whose own pixels are known on frames ``on_7=...``."""
    where = {int(name.removeprefix("on_")): own for name, own in regions.items()}
    joints = np.full((count, 24, 3), np.nan)
    return Track(joints, 0, tuple(where.get(t) for t in range(count)))


def own_pixels(person: npt.NDArray[np.bool_], **more: bool) -> OwnPixels:
    place = (slice(0, SIZE[0]), slice(0, SIZE[1]))
    return OwnPixels(place, person[place], **more)


def test_people_told_apart_are_looked_for_and_floor_that_is_carried_on_is_not() -> None:
    frames, person = still_life()
    masks = np.zeros((len(frames), *SIZE), bool)
    floor = np.zeros(SIZE, bool)
    floor[60:70, 60:80] = True
    masks[13], masks[5] = person, floor
    carried = nobody_posed(len(frames), on_5=own_pixels(floor, looked=False))
    found = nobody_posed(len(frames), on_13=own_pixels(person))
    kept = recover_missed_people(frames, scene(masks, found, carried))
    assert kept[:, person].all()
    rest = np.arange(len(frames)) != 5
    assert not kept[rest][:, floor].any()


def test_somebody_found_late_is_covered_where_he_or_she_came_from() -> None:
    rng = np.random.default_rng(6)
    room = cv2.GaussianBlur(rng.integers(60, 200, (*SIZE, 3)).astype(np.uint8), (0, 0), 3)
    count = 12
    frames = np.repeat(room[None], count, axis=0)
    people_at = np.zeros((count, *SIZE), bool)
    for t in range(count):
        people_at[t, 30:60, 10 + 2 * t : 24 + 2 * t] = True
        frames[t][people_at[t]] = (230, 30, 30)
    masks = np.zeros((count, *SIZE), bool)
    masks[10:] = people_at[10:]
    walker = nobody_posed(
        count, on_10=own_pixels(people_at[10]), on_11=own_pixels(people_at[11], looked=False)
    )
    kept = recover_missed_people(frames, scene(masks, walker))
    for t in range(count):
        assert kept[t][people_at[t]].mean() > 0.8


def pose(x: float, y: float, size: float) -> people.Pose:
    points = np.zeros((33, 3), np.float32)
    points[:, :2] = (x, y)
    points[0, 1] -= size
    return people.Pose(points, points, np.ones(33, np.float32), 1.0)


class Masked:
    """A pose estimator that gives a mask with its pose, as a plug-in may."""

    name, device = "masked", "cpu"

    def estimate(
        self,
        image: npt.NDArray[np.uint8],
        previous: tuple[people.Pose, ...] = (),
        search: bool = True,
    ) -> tuple[people.Pose, ...]:
        mask = np.zeros(image.shape[:2], bool)
        mask[:9, -9:] = True
        return (replace(pose(50, 40, 20), mask=mask),)


def test_masks_that_come_with_poses_are_erased_too() -> None:
    finder = PeopleFinder()
    finder._poses = Masked()
    found = finder.find([np.full((*SIZE, 3), 90, np.uint8)] * 3)
    assert found.masks[0, :9, -9:].all()
