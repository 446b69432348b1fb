"""Who gets an avatar, which one, and where it may be seen."""

from __future__ import annotations

from dataclasses import replace as replace_region
from fractions import Fraction

import numpy as np
import pytest

from sfumato import people
from sfumato.body import (
    INDEX,
    POINTS,
    Camera,
    Light,
    SkinnedBody,
    cast_of,
    joint_paths,
    rest_motion,
)
from sfumato.media import Frame
from sfumato.protect import ProtectError
from sfumato.protect.avatar import Avatar, Known, OwnPixels, Rules, Scene, Track, replace
from sfumato.protect.avatar._finder import (
    _doubt_where_elsewhere,
    _doubt_without_head,
    _lens,
    _part_of_another,
    _surely_there,
    is_cut,
)
from sfumato.protect.avatar._inpaint import SceneEraser
from sfumato.protect.avatar._replace import ComposedFrame, covered
from sfumato.protect.avatar._sighted import (
    Seen,
    Sighted,
    alike,
    appearance,
    belongs,
    estimated,
    faces_alone,
    sightings,
)
from sfumato.protect.avatar._wardrobe import Wardrobe, room_light
from sfumato.stage import Clip, Staging, clips

SIZE = (72, 96)


@pytest.fixture(scope="module")
def clip() -> Clip:
    (made,) = clips(
        Staging(clips=1, frames=6, fps=10, width=96, height=72, seed=3, actions=("wave",))
    )
    return made


@pytest.fixture(scope="module")
def cast() -> tuple[SkinnedBody, ...]:
    return cast_of("procedural")


def regions(masks: np.ndarray) -> tuple[OwnPixels, ...]:
    whole = (slice(0, masks.shape[1]), slice(0, masks.shape[2]))
    return tuple(OwnPixels(whole, mask) for mask in masks)


def test_whoever_is_behind_a_table_stays_behind_it(
    clip: Clip, cast: tuple[SkinnedBody, ...]
) -> None:
    masks = clip.alpha > 0
    table = int(np.flatnonzero(masks.any(axis=(0, 2)))[-1]) - 24
    masks[:, table:] = False  # the legs are hidden
    joints = clip.joints.astype(float)
    track = Track(joints, 0, regions(masks))
    made = replace(
        clip.frames, Scene(masks, (track,), clip.camera, 0.0), cast[:1], Rules(), Light(), rate=10
    )
    drawn = made.layer.any(axis=-1)
    assert drawn[:, :table].any(axis=(1, 2)).all()
    assert not drawn[:, table + 12 :].any()
    # and the mask of what the renderer alone wrote has no pixel that fades out there
    free = replace(
        clip.frames,
        Scene(masks, (Track(joints),), clip.camera, 0.0),
        cast[:1],
        Rules(),
        Light(),
        rate=10,
    )
    assert np.array_equal(made.public_layer()[made.public], free.layer[made.public])


def test_a_person_whose_pose_is_not_believed_is_a_silhouette_in_the_own_outline(
    clip: Clip, cast: tuple[SkinnedBody, ...]
) -> None:
    masks = clip.alpha > 0
    nowhere = np.full_like(clip.joints.astype(float), np.nan)
    scene = Scene(masks, (Track(nowhere, 0, regions(masks)),), clip.camera)
    made = replace(clip.frames, scene, cast[:1], Rules(), Light(), rate=10)
    assert np.array_equal(made.blanked, masks)
    assert not made.public.any()
    red = clip.frames.copy()
    red[masks] = (255, 0, 255)
    assert np.array_equal(
        replace(red, scene, cast[:1], Rules(), Light(), rate=10).frames, made.frames
    )
    far = ~made.erase_mask.inside & (made.erase_mask.weight == 0)
    assert np.array_equal(made.frames[far], clip.frames[far])


def test_one_number_is_one_avatar_and_neighbours_differ(cast: tuple[SkinnedBody, ...]) -> None:
    there = np.zeros((4, 24, 3))
    tracks = [Track(there, number) for number in (3, 8, 3)]
    wardrobe = Wardrobe(cast, np.random.default_rng(0))
    first = wardrobe.dressed(tracks)
    assert first[0] is first[2]
    assert first[0] is not first[1]
    assert wardrobe.dressed([Track(there, 8)])[0] is first[1]  # in a later window too
    many = wardrobe.dressed([Track(there, number) for number in range(32)])
    assert len({id(body) for body in many}) == 32
    apart = []
    for seed in range(8):
        two = Wardrobe(cast, np.random.default_rng(seed)).dressed(
            [Track(there, 0), Track(there, 1)]
        )
        apart.append(np.abs(two[0].colours.mean(0) - two[1].colours.mean(0)).sum())
    assert min(apart) > 0.02


def test_the_rooms_light_is_in_the_video_and_not_in_the_public_layer(clip: Clip) -> None:
    scene = Scene(clip.alpha > 0, (Track(clip.joints.astype(float)),), clip.camera, 0.0)
    frames = [Frame(image, i, Fraction(i, 10)) for i, image in enumerate(clip.frames)]
    warm = [
        Frame(np.clip(f.image * [1.0, 0.7, 0.4], 0, 255).astype(np.uint8), f.pts, f.time)
        for f in frames
    ]
    made = {}
    for name, light, given in (
        ("fixed", "fixed", warm),
        ("room", "room", warm),
        ("cold", "room", frames),
    ):
        method = Avatar(
            body="procedural", finder=Known(scene), seed=5, light=light, second_look=False
        )  # type: ignore[arg-type]
        made[name] = [each for _, each in method.composed(iter(given))]
    for one, two, three in zip(*made.values(), strict=True):
        assert np.array_equal(one.public, two.public)
        assert np.array_equal(one.layer, two.layer)
        assert np.array_equal(two.layer, three.layer)
        assert np.array_equal(one.image[one.public], one.layer[one.public])
        assert not np.array_equal(two.image[two.public], two.layer[two.public])
    tint = room_light([f.image for f in warm], scene.masks)
    assert tint[0] > tint[2]


def test_a_room_is_remembered_from_window_to_window() -> None:
    rng = np.random.default_rng(0)
    room = rng.integers(60, 180, (*SIZE, 3)).astype(np.uint8)
    here = np.zeros((4, *SIZE), bool)
    here[:, 20:60, 10:30] = True
    there = np.zeros((4, *SIZE), bool)
    there[:, 20:60, 50:70] = True
    eraser, alone = SceneEraser(), SceneEraser()
    first = np.repeat(room[None], 4, 0)
    second = first.copy()
    first[here], second[there] = 255, 255
    eraser(first, here)
    made = eraser(second, there)  # the second window hides what the first one showed
    assert np.abs(made.frames.astype(int) - room)[there].max() <= 1
    assert np.abs(alone(second, there).frames.astype(int) - room)[there].mean() > 5
    other = np.clip(255 - second.astype(int), 0, 255).astype(np.uint8)  # another room
    assert np.abs(eraser(other, there).frames.astype(int) - room)[there].mean() > 5


def sighted(box: people.Box, joints: int) -> Sighted:
    found = np.zeros((17, 3), np.float32)
    found[:joints, 2] = 0.9
    return Sighted(None, box, found)


def test_a_ball_that_somebody_holds_is_not_a_person() -> None:
    player = Seen(0, {t: sighted(people.Box(20, 10, 60, 110), 17) for t in range(9)})
    ball = Seen(1, {t: sighted(people.Box(48, 30, 60, 42), 3) for t in range(9)})
    child = Seen(2, {t: sighted(people.Box(25, 60, 45, 108), 15) for t in range(9)})
    everybody = {0: player, 1: ball, 2: child}
    assert _part_of_another(ball, everybody, 0)
    assert not _part_of_another(child, everybody, 0)
    assert not _part_of_another(player, everybody, 0)


def pose(points: np.ndarray) -> people.Pose:
    full = np.zeros((33, 3), np.float32)
    full[:, :2] = points
    return people.Pose(full, full / 100, np.ones(33, np.float32), 1.0)


def test_a_pose_of_somebody_else_does_not_belong() -> None:
    rng = np.random.default_rng(0)
    box = people.Box(10, 10, 40, 90)
    assert belongs(pose(rng.uniform([12, 12], [38, 88], (33, 2))), box)
    assert not belongs(pose(rng.uniform([62, 12], [88, 88], (33, 2))), box)
    assert not belongs(pose(rng.uniform([0, 0], [300, 300], (33, 2))), box)  # a giant


def test_a_body_squeezed_into_a_face_is_not_heard() -> None:
    camera = Camera.facing(96, 72)
    points = np.random.default_rng(0).uniform([30, 20], [60, 60], (33, 2))
    points[[7, 8, 11, 12]] = [[44, 22], [46, 22], [42, 28], [48, 28]]
    heard = []
    for high in (8.0, 40.0):
        seen, head = Seen(0), people.Box(40, 20, 40 + high, 20 + high)
        seen.frames[0] = Sighted(
            None, people.Box(20, 10, 70, 70), np.zeros((17, 3), np.float32), pose(points), head
        )
        heard.append(sightings(seen, 0, 1, camera).trust.sum())
    assert heard[0] > 5
    assert heard[1] == 0


def standing(left: float = 1.0) -> tuple[people.Pose, np.ndarray]:
    """A pose that faces the camera, and MoveNet's joints in the same places; ``left`` -1 turns the pose
    about."""
    points = np.zeros((33, 2))
    joints = np.zeros((17, 3), np.float32)
    joints[:, 2] = 0.9
    for end, (mediapipe, coco, half, y) in {
        "ear": (7, 3, 3, 15), "shoulder": (11, 5, 10, 30), "elbow": (13, 7, 13, 45),
        "wrist": (15, 9, 14, 58), "hip": (23, 11, 6, 60), "knee": (25, 13, 6, 78),
        "ankle": (27, 15, 6, 96), "hand": (19, -1, 14, 62), "toe": (31, -1, 7, 99),
    }.items():  # fmt: skip
        for right, side in ((0, 1), (1, -1)):
            points[mediapipe + right] = [50 + left * side * half, y]
            if coco >= 0:
                joints[coco + right, :2] = [50 + side * half, y]
        if end == "hand":
            points[[17, 18]] = points[[19, 20]]
    return pose(points), joints


def test_a_whole_body_is_heard_however_large_its_head_was_taken_for() -> None:
    camera, head = Camera.facing(100, 110), people.Box(25, 0, 75, 50)
    body, joints = standing()
    heard = []
    for found in (joints, np.zeros_like(joints)):
        seen = Seen(0, {0: Sighted(None, people.Box(30, 5, 70, 105), found, body, head)})
        heard.append(sightings(seen, 0, 1, camera).local_trust.sum())
    assert heard[0] > 10  # MoveNet has the joints where the pose has them
    assert heard[1] == 0


def test_left_and_right_of_a_pose_are_those_of_a_sure_movenet() -> None:
    camera = Camera.facing(100, 110)
    turned, joints = standing(-1.0)
    for sure in (0.9, 0.3):
        joints[:, 2] = sure
        seen = Seen(0, {0: Sighted(None, people.Box(30, 5, 70, 105), joints, turned)})
        found = sightings(seen, 0, 1, camera)
        left, right = (POINTS.index(f"{side}_shoulder") for side in ("left", "right"))
        first, second = found.places[0, 0], found.places[1, 0]
        assert (first[left, 0] > first[right, 0]) == (sure == 0.9)
        assert (second[left, 0] > second[right, 0]) == (sure == 0.9)  # both agree in either case


def test_a_mirrored_look_finds_what_a_straight_one_does() -> None:
    """An estimator without any preference for a side: the two looks differ in nothing."""

    class Brightest:
        name, device = "brightest", "none"

        def estimate(
            self, image: np.ndarray, previous: tuple[people.Pose, ...] = (), search: bool = True
        ) -> tuple[people.Pose, ...]:
            y, x = np.unravel_index(image[..., 0].argmax(), image.shape[:2])
            out = []
            for old in previous:
                assert old.circle is not None
                assert abs(old.circle[0, 0] - (x + 0.5)) < 1  # it looks where the person is
                points = np.zeros((33, 3), np.float32)
                points[:, 0], points[:, 1] = x + 0.5, y + 0.5
                points[11, 0] += 4  # the left shoulder, for somebody who faces the camera
                points[12, 0] -= 4
                world = (points - [x + 0.5, y + 0.5, 0]).astype(np.float32) / 10
                out.append(
                    people.Pose(points, world, np.ones(33, np.float32), 1.0, None, old.person)
                )
            return tuple(out)

    image = np.zeros((40, 60, 3), np.uint8)
    image[20, 11] = 255
    nobody = np.zeros((33, 3), np.float32)
    circle = np.array([[11.5, 20.5], [11.5, 5.0]], np.float32)
    place = people.Pose(nobody, nobody, nobody[:, 0], 1.0, None, 7, circle)
    (one,), (two,) = (
        estimated(Brightest(), image, [place], mirrored=mirrored) for mirrored in (False, True)
    )
    assert two.person == 7
    assert np.allclose(one.points, two.points)
    assert np.allclose(one.world, two.world)
    assert one.points[11, 0] > one.points[12, 0]


def test_nobody_stands_in_where_nobody_was_surely_seen(
    clip: Clip, cast: tuple[SkinnedBody, ...]
) -> None:
    masks = np.zeros((len(clip.frames), *SIZE), bool)
    masks[:, 20:50, 10:30] = True
    lost = np.full((len(clip.frames), 24, 3), np.nan)
    for sure in (True, False):
        own = tuple(replace_region(each, sure=sure) for each in regions(masks))
        scene = Scene(masks, (Track(lost, 0, own),), clip.camera)
        made = replace(clip.frames, scene, [cast[0]], Rules(), Light())
        assert made.blanked.any() == sure
        assert made.erase_mask.inside[masks].all()  # erased in either case
        with pytest.raises(ProtectError, match="could not be replaced"):
            replace(clip.frames, scene, [cast[0]], Rules(missed="fail"), Light())


def test_what_was_taken_for_somebody_once_is_erased_later_and_nobody_stands_in(
    clip: Clip, cast: tuple[SkinnedBody, ...]
) -> None:
    still = np.stack([clip.frames[0]] * 6)  # a pattern that looks the same on every frame
    masks = np.zeros((6, *SIZE), bool)
    masks[2, 20:50, 10:30] = True
    lost = np.full((6, 24, 3), np.nan)
    for sure in (True, False):
        own = tuple(
            replace_region(each, sure=sure) if t == 2 else None
            for t, each in enumerate(regions(masks))
        )
        scene = Scene(masks, (Track(lost, 0, own),), clip.camera, 0.0)
        made = replace(still, scene, cast[:1], Rules(), Light(), rate=10)
        assert made.erase_mask.inside[5, 22:48, 12:28].all()
        assert made.blanked[5].any() == sure


def test_joints_that_were_guessed_inside_a_box_are_not_evidence() -> None:
    _, joints = standing()
    image, seen = np.zeros((110, 100, 3), np.uint8), Seen(0)
    found = ("movenet+centernet", "centernet", "centernet+centerface", "movenet", "bridged", "yolo")
    for t, evidence in enumerate(found):
        box = people.Box(30, 5, 70, 105)
        seen.add(t, people.Person(0, box, joints, None, evidence, (110, 100)), None, image)
    heard = [bool(seen.frames[t].joints[:, 2].any()) for t in range(len(found))]
    assert heard == [True, False, False, True, False, True]


def test_somebody_is_surely_there_between_near_looks_that_saw_joints() -> None:
    box = people.Box(20, 10, 60, 110)
    looks = {0: 9, 4: 9, 8: 0, 12: 9, 30: 9, 34: 2}
    seen = Seen(0, {t: sighted(box, looks.get(t, 0)) for t in range(36)})
    there = _surely_there(seen, 0, 36)
    assert np.flatnonzero(there).tolist() == [*range(13), 30]
    assert np.flatnonzero(_surely_there(seen, 10, 36)).tolist() == [0, 1, 2, 20]


def test_a_giant_or_a_head_elsewhere_is_not_drawn() -> None:
    camera = Camera.facing(160, 120)
    body = cast_of("procedural")[0]
    still = rest_motion(body)

    def placed(away: float, up: float = 0.0) -> np.ndarray:
        joints = body.joints(still) + np.array([0.0, -0.9 + up, -away])
        return np.asarray(joints, np.float64)

    spot = camera.project((placed(4.0)[0, INDEX["neck"]] + placed(4.0)[0, INDEX["crown"]]) / 2)
    head = people.Box(spot[0] - 5, spot[1] - 5, spot[0] + 5, spot[1] + 5)
    frame = Sighted(None, people.Box(55, 20, 105, 100), np.zeros((17, 3), np.float32), None, head)
    seen = Seen(0, {0: frame})
    kept = {}
    lift = 0.9 - 0.9 * 0.9 / 4  # its head is as high in the picture, and much larger
    folded = placed(
        4.0
    )  # neck and crown exchanged: the head where it was found, upside down on the chest
    folded[0, [INDEX["neck"], INDEX["crown"]]] = folded[0, [INDEX["crown"], INDEX["neck"]]]
    for name, joints in {
        "right": placed(4.0),
        "elsewhere": placed(4.0, -0.7),
        "giant": placed(0.9, lift - 0.75),
        "folded": folded,
    }.items():
        tried = joints.copy()
        _doubt_without_head(tried, seen, 0, camera)
        kept[name] = bool(np.isfinite(tried).any())
    assert kept == {"right": True, "elsewhere": False, "giant": False, "folded": False}


def talking_head(scale: float) -> Seen:
    """Somebody near the camera of whom the face alone is seen, ``scale`` pixels a metre."""
    found = np.zeros((17, 3), np.float32)
    around = {0: (0, 0.03), 1: (0.034, 0), 2: (-0.034, 0), 3: (0.08, 0.01), 4: (-0.08, 0.01)}
    for joint, (x, y) in around.items():
        found[joint] = 80 + x * scale, 50 + y * scale, 0.6
    head = people.Box(80 - 0.1 * scale, 50 - 0.14 * scale, 80 + 0.1 * scale, 50 + 0.12 * scale)
    each = Sighted(None, people.Box(20, 5, 140, 120), found, None, head)
    return Seen(0, dict.fromkeys(range(6), each))


@pytest.mark.parametrize("scale", [90.0, 260.0])
def test_of_whom_only_the_face_is_seen_has_shoulders_below_it_and_faces_the_camera(
    scale: float,
) -> None:
    seen = talking_head(scale)
    camera = _lens({0: seen}, 160, 120)
    joints = joint_paths(sightings(seen, 0, 6, camera), 25.0).joints() @ camera.rotation
    left, right, crown = (
        camera.project(joints[3, INDEX[name]])
        for name in ("left_shoulder", "right_shoulder", "crown")
    )
    assert left[0] - right[0] == pytest.approx(0.33 * scale, rel=0.15)
    assert abs((left[0] + right[0]) / 2 - 80) < 0.05 * scale
    assert crown[1] < 50 - 0.1 * scale
    assert left[1] > 50 + 0.12 * scale
    # a usual lens, unless the camera would have to touch the face
    depth = -joints[3, INDEX["neck"], 2]
    assert depth > 0.7
    assert (camera.focal > Camera.facing(160, 120).focal) == (scale > 160)


def face_behind(tall: tuple[float, ...], joints: int = 0) -> Seen:
    """Somebody of whom a detector of faces saw the head on every frame, so many pixels ``tall``."""
    found = np.zeros((17, 3), np.float32)
    found[:joints] = 80, 50, 0.9
    nobody = np.zeros((17, 3), np.float32)
    frames = {}
    for t, height in enumerate(tall):
        head = people.Box(80 - 0.4 * height, 50 - height / 2, 80 + 0.4 * height, 50 + height / 2)
        frames[t] = Sighted(None, head, nobody if t else found, None, head, face=True)
    return Seen(1, frames)


def test_a_face_alone_is_somebody_if_its_size_is_steady_and_no_joints_say_otherwise() -> None:
    camera = Camera.facing(160, 120)
    assert faces_alone(face_behind((40, 41, 39, 90, 40)), camera) == [0, 1, 2, 4]
    assert not faces_alone(face_behind((40, 41)), camera)  # twice may be chance
    assert not faces_alone(face_behind((29, 54, 50, 40)), camera)  # a pattern
    assert not faces_alone(face_behind((12, 12, 12, 12)), camera)  # too small to be posed
    assert not faces_alone(face_behind((80, 80, 80, 80)), camera)  # too near
    assert not faces_alone(face_behind((40, 41, 39, 40), joints=9), camera)


def test_a_face_alone_gets_a_head_of_its_size_where_it_was_seen() -> None:
    seen, camera = face_behind((40,) * 6), Camera.facing(160, 120)
    joints = joint_paths(sightings(seen, 0, 6, camera), 25.0).joints() @ camera.rotation
    neck, crown = (camera.project(joints[3, INDEX[name]]) for name in ("neck", "crown"))
    assert abs(neck[0] - 80) < 4
    assert abs(crown[0] - 80) < 4
    assert crown[1] < 50 < neck[1]
    assert 30 < neck[1] - crown[1] < 80


def test_a_face_far_from_the_head_of_whoever_stands_before_it_is_somebody_behind() -> None:
    def before(head: people.Box) -> dict[int, Seen]:
        nobody = np.zeros((17, 3), np.float32)
        each = Sighted(None, people.Box(20, 5, 140, 120), nobody, None, head)
        return {0: Seen(0, dict.fromkeys(range(6), each))}

    face = face_behind((40,) * 6)
    assert not _part_of_another(face, before(people.Box(110, 5, 138, 40)), 0)
    assert _part_of_another(face, before(people.Box(66, 32, 96, 70)), 0)  # the head itself


def test_pixels_beyond_the_box_do_not_take_a_pose_away() -> None:
    camera = Camera.facing(160, 120)
    body = cast_of("procedural")[0]
    joints = np.asarray(body.joints(rest_motion(body)) + np.array([0.0, -0.9, -4.0]), np.float64)
    spots = camera.project(joints[0])
    (x0, y0), (x1, y1) = spots.min(axis=0) - 3, spots.max(axis=0) + 3
    region = OwnPixels((slice(0, 120), slice(0, 160)), np.ones((120, 160), bool))
    kept = {}
    for name, box in {
        "own": people.Box(x0, y0, x1, y1),
        "all": people.Box(0, 0, 160, 120),
    }.items():
        seen = Seen(0, {0: Sighted(region, box, np.zeros((17, 3), np.float32))})
        tried = joints[:1].copy()
        _doubt_where_elsewhere(tried, seen, (region,), 0, camera)
        kept[name] = bool(np.isfinite(tried).any())
    assert kept == {"own": True, "all": False}


def test_a_face_that_is_left_is_covered_by_its_surroundings_alone() -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(100, 120, (*SIZE, 3)).astype(np.uint8)
    image[30:40, 30:40] = rng.integers(0, 256, (10, 10, 3))
    seen, none = np.zeros(SIZE, bool), np.zeros(SIZE, bool)
    seen[30:40, 30:40] = True
    weight = np.zeros(SIZE, np.float32)
    made = []
    for other in (image, np.where(seen[..., None], 255 - image, image).astype(np.uint8)):
        frame = ComposedFrame(other, none, other, none, weight, none)
        made.append(covered(frame, seen, Rules()))
    assert np.array_equal(made[0].image, made[1].image)  # nothing of what it hides
    assert (np.abs(made[0].image[seen].astype(int) - 110) <= 12).all()
    assert made[0].blanked[seen].all()
    public = ComposedFrame(image, seen, image, seen, weight, none)
    assert np.array_equal(covered(public, seen, Rules()).image[seen], image[seen])


def test_people_are_recognised_by_their_clothes() -> None:
    rng = np.random.default_rng(0)

    def somebody(top: tuple[int, int, int], legs: tuple[int, int, int]) -> Seen:
        seen = Seen(0)
        for _ in range(4):
            image = np.zeros((60, 30, 3), np.uint8)
            image[:30], image[30:] = top, legs
            image = np.clip(image + rng.integers(-9, 10, image.shape), 0, 255).astype(np.uint8)
            look = appearance(
                image, OwnPixels((slice(0, 60), slice(0, 30)), np.ones((60, 30), bool))
            )
            assert look is not None
            seen.looks.append(look)
        return seen

    one, two = (somebody((200, 30, 40), (20, 20, 90)) for _ in range(2))
    other = somebody((30, 40, 200), (220, 220, 220))
    assert alike(one, two) > 0.9 > 0.5 > alike(one, other)
    assert alike(one, Seen(1)) == 0


def test_another_shot_is_noticed_and_motion_is_none() -> None:
    rng = np.random.default_rng(0)
    room = rng.integers(0, 256, (80, 120, 3)).astype(np.uint8) // 4 + 20
    moved = np.roll(room, 6, axis=1)
    outside = rng.integers(0, 256, (80, 120, 3)).astype(np.uint8) // 4 + 180
    assert is_cut(room, outside)
    assert not is_cut(room, moved)
    assert not is_cut(room, room)
