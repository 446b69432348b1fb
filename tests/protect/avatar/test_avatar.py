"""Avatars: the public mask is the renderer's alone, and nobody who was found stays."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sfumato.body import (
    Camera,
    Light,
    SkinnedBody,
    cast_of,
    draw,
    fit,
    proportions,
    stretched,
    to_srgb,
)
from sfumato.files import OutputExistsError
from sfumato.media import Frame, VideoWriter, read_frames
from sfumato.privacy import NoGuarantee, card_path
from sfumato.protect import ProtectError, Shape
from sfumato.protect.avatar import (
    Avatar,
    Known,
    Rules,
    Scene,
    Track,
    layer_paths,
    place,
    read_layers,
    replace,
)
from sfumato.protect.avatar._avatar import in_windows
from sfumato.stage import Clip, Staging, clips

PLAN = Staging(
    clips=4, frames=8, fps=10, width=96, height=72, seed=3, actions=("walk", "wave", "kick", "sit")
)


@pytest.fixture(scope="module")
def staged() -> list[Clip]:
    return list(clips(PLAN))


@pytest.fixture(scope="module")
def cast() -> tuple[SkinnedBody, ...]:
    return cast_of("procedural")


def found(clip: Clip) -> Scene:
    return Scene(clip.alpha > 0, (Track(clip.joints.astype(float)),), clip.camera, 0.0)


def save(path: Path, frames: np.ndarray) -> Path:
    size = (frames.shape[2], frames.shape[1])
    with VideoWriter(path, rate=Fraction(10), size=size, codec="ffv1") as video:
        for image in frames:
            video.write(image)
    return path


def avatar(clip: Clip, **settings: object) -> Avatar:
    return Avatar(body="procedural", finder=Known(found(clip)), seed=5, **settings)  # type: ignore[arg-type]


def test_public_pixels_survive_any_change_of_the_source_when_the_pose_is_held(
    tmp_path: Path, staged: list[Clip]
) -> None:
    clip = staged[0]
    noise = np.random.default_rng(0).integers(0, 256, clip.frames.shape).astype(np.uint8)
    results = []
    for name, frames in (("a", clip.frames), ("b", noise)):
        source = save(tmp_path / f"{name}-source.mkv", frames)
        avatar(clip).apply(source, tmp_path / f"{name}.mp4")
        results.append(
            (read_layers(tmp_path / f"{name}.mp4"), read_frames(tmp_path / f"{name}.mp4"))
        )
    ((mask_a, layer_a), seen_a), ((mask_b, layer_b), seen_b) = results
    assert np.array_equal(mask_a, mask_b)
    assert np.array_equal(layer_a, layer_b)
    assert 0.01 < mask_a.mean() < 0.5
    assert (layer_a[~mask_a] == 0).all()
    # the ordinary video is not such a layer: its codec mixes what surrounds the avatar in (R8)
    assert not np.array_equal(seen_a[mask_a], seen_b[mask_b])


def test_the_public_layer_is_what_the_renderer_wrote(
    staged: list[Clip], cast: tuple[SkinnedBody, ...]
) -> None:
    clip = staged[1]
    made = replace(clip.frames, found(clip), cast[:1], Rules(), Light(), rate=PLAN.fps)
    joints = clip.joints.astype(float)
    body = stretched(cast[0], proportions(joints, cast[0]))
    motion = fit(joints, body, smooth=Rules().smooth * PLAN.fps, floor=0.0).motion
    for t in range(len(clip.frames)):
        alone = draw([body.mesh(motion, t)], clip.camera)
        assert np.array_equal(made.public[t], alone.mask & made.erase_mask.inside[t])
        assert np.array_equal(made.public_layer()[t][made.public[t]],
                              to_srgb(alone.colour)[made.public[t]])  # fmt: skip
        edge = alone.touched & ~alone.mask
        assert edge.any()
        assert not (made.public[t] & edge).any()


def test_no_pixel_of_the_person_is_left(staged: list[Clip], cast: tuple[SkinnedBody, ...]) -> None:
    clip = staged[2]
    red = clip.frames.copy()
    red[clip.alpha > 0] = (255, 0, 255)  # a person nobody could overlook
    before = replace(clip.frames, found(clip), cast[:1], Rules(), Light(), rate=PLAN.fps)
    after = replace(red, found(clip), cast[:1], Rules(), Light(), rate=PLAN.fps)
    assert np.array_equal(before.frames, after.frames)


@pytest.mark.parametrize("number", range(4))
def test_quality_on_known_truth(
    staged: list[Clip], cast: tuple[SkinnedBody, ...], number: int
) -> None:
    clip = staged[number]
    made = replace(clip.frames, found(clip), [cast[7]], Rules(), Light(), rate=PLAN.fps)
    assert made.errors[0] <= 0.05
    body = stretched(cast[7], proportions(clip.joints, cast[7]))
    motion = fit(clip.joints, body, smooth=0.4, floor=0.0).motion
    overlap = []
    for t in range(len(clip.frames)):
        drawn, true = draw([body.mesh(motion, t)], clip.camera).alpha > 0.5, clip.alpha[t] > 127
        overlap.append((drawn & true).sum() / (drawn | true).sum())
    assert np.mean(overlap) >= 0.80
    assert made.erased.still_camera


def test_a_walker_is_erased_by_what_other_frames_saw() -> None:
    plan = Staging(clips=1, frames=24, fps=10, width=96, height=72, seed=4, actions=("walk",))
    (clip,) = clips(plan)
    made = replace(
        clip.frames, found(clip), cast_of("procedural")[:1], Rules(hold=1), Light(), rate=10
    )
    assert made.erased.unseen.sum() < 0.3 * made.erase_mask.inside.sum()
    inside = made.erase_mask.inside
    error = (made.erased.frames.astype(float) - clip.empty)[inside]
    assert 10 * np.log10(255**2 / np.mean(error**2)) >= 24


def test_a_person_without_a_pose_is_greyed_out_or_stops_the_run(
    staged: list[Clip], cast: tuple[SkinnedBody, ...]
) -> None:
    clip = staged[0]
    masks = clip.alpha > 0
    masks[3:6, 5:25, 4:12] = True  # somebody at the edge whom no pose explains
    seen = Scene(masks, (Track(clip.joints.astype(float)),), clip.camera, 0.0)
    made = replace(clip.frames, seen, cast[:1], Rules(), Light(), rate=PLAN.fps)
    assert made.blanked[3:6, 5:25, 4:12].all()
    assert not made.blanked[:, 40:].any()  # nothing elsewhere
    assert not made.blanked[:2].any()
    assert (made.frames[3:6, 8:22, 6:10] == 128).all()
    red = clip.frames.copy()
    red[3:6, 5:25, 4:12] = (255, 0, 255)  # nothing of whoever is behind the silhouette shows
    assert np.array_equal(
        made.frames, replace(red, seen, cast[:1], Rules(), Light(), rate=PLAN.fps).frames
    )
    assert not made.public[made.blanked & ~made.public].any()
    assert not replace(clip.frames, found(clip), cast[:1], Rules(), Light()).blanked.any()
    with pytest.raises(ProtectError, match="could not be replaced on frame 3"):
        replace(clip.frames, seen, cast[:1], Rules(missed="fail"), Light(), rate=PLAN.fps)


def test_a_person_missed_by_segmentation_is_erased_by_the_pose(
    staged: list[Clip], cast: tuple[SkinnedBody, ...]
) -> None:
    clip = staged[3]
    seen = Scene(np.zeros_like(clip.mask), (Track(clip.joints.astype(float)),), clip.camera, 0.0)
    made = replace(clip.frames, seen, cast[:1], Rules(), Light(), rate=PLAN.fps)
    assert made.erase_mask.inside[clip.alpha > 127].mean() > 0.99


def test_a_release_is_whole_and_carries_its_card(tmp_path: Path, staged: list[Clip]) -> None:
    source = save(tmp_path / "in.mkv", staged[0].frames)
    target = tmp_path / "out" / "out.mp4"
    promise = avatar(staged[0]).apply(source, target)
    assert isinstance(promise, NoGuarantee)
    words = str(promise)
    for named in ("gait", "shadows", "pose"):
        assert named in words
    card = json.loads(card_path(target).read_text())
    assert {each["name"] for each in card["outputs"]} == {
        target.name, *(path.name for path in layer_paths(target))
    }  # fmt: skip
    assert "in.mkv" not in card_path(target).read_text()
    with pytest.raises(OutputExistsError):
        avatar(staged[0]).apply(source, target)
    avatar(staged[0]).apply(source, target, force=True)


def test_a_failed_run_leaves_nothing_behind(tmp_path: Path, staged: list[Clip]) -> None:
    source = save(tmp_path / "in.mkv", staged[0].frames)
    nobody = Known(Scene(staged[0].mask, (), staged[0].camera))
    folder = tmp_path / "out"
    with pytest.raises(ProtectError, match="could not be replaced"):
        Avatar(body="procedural", missed="fail", finder=nobody).apply(source, folder / "out.mp4")
    assert not folder.exists() or not list(folder.iterdir())


def test_a_stream_gives_every_frame_once_with_its_time(staged: list[Clip]) -> None:
    given = [Frame(image, 3 * i, Fraction(3 * i, 30)) for i, image in enumerate(staged[0].frames)]
    method = avatar(staged[0], window=8)
    stream = method.frames(iter(given))
    came = list(stream)
    assert [(f.pts, f.time) for f in came] == [(f.pts, f.time) for f in given]
    assert not any(np.array_equal(a.image, b.image) for a, b in zip(given, came, strict=True))
    assert isinstance(stream.guarantee, NoGuarantee)
    assert stream.lookahead == 10


def test_who_replaces_whom_is_drawn_anew_and_says_so(staged: list[Clip]) -> None:
    frames = [Frame(image, i, Fraction(i, 10)) for i, image in enumerate(staged[0].frames[:1])]
    seen = found(staged[0])
    one = Scene(seen.masks[:1], (Track(seen.tracks[0].joints[:1]),), seen.camera, 0.0)
    looks = set()
    for _ in range(6):
        method = Avatar(body="procedural", finder=Known(one))
        (image,) = (frame.image for frame in method.frames(iter(frames)))
        looks.add(image.tobytes())
        assert method.promise(Shape(72, 96)).randomness == "operating system entropy"
    assert len(looks) >= 2
    assert "seeded" in avatar(staged[0]).promise(Shape(72, 96)).randomness


def test_two_people_get_two_avatars_and_the_nearer_is_in_front(
    cast: tuple[SkinnedBody, ...], staged: list[Clip]
) -> None:
    joints = staged[1].joints.astype(float)
    near = joints + staged[1].camera.position * [0.25, 0, 0.25]
    both = Scene(staged[1].alpha > 0, (Track(joints, 0), Track(near, 1)), staged[1].camera, 0.0)
    made = replace(staged[1].frames, both, cast[:2], Rules(), Light(), rate=PLAN.fps)
    swapped = Scene(both.masks, both.tracks[::-1], both.camera, 0.0)
    again = replace(staged[1].frames, swapped, cast[1::-1], Rules(), Light(), rate=PLAN.fps)
    assert np.array_equal(made.frames, again.frames)


def test_what_another_tool_found_is_taken_over(tmp_path: Path, staged: list[Clip]) -> None:
    clip = staged[0]
    count = len(clip.frames)
    seen = clip.camera.to_camera(clip.joints)
    poses = tmp_path / "poses.npz"
    np.savez(
        poses, frame=np.arange(count), person=np.full(count, 3), joints=seen, layout="sfumato24",
        focal=clip.camera.focal,
    )  # fmt: skip
    masks = save(
        tmp_path / "masks.mkv", np.repeat((clip.alpha > 0)[..., None], 3, -1) * np.uint8(255)
    )
    source = save(tmp_path / "in.mkv", clip.frames)
    # windows of 3 frames: the files are read on where the last window ended
    method = Avatar(
        body="procedural", poses=str(poses), masks=str(masks), seed=1, window=3, second_look=False
    )
    method.apply(source, tmp_path / "out.mp4")
    public, _ = read_layers(tmp_path / "out.mp4")
    true = clip.mask
    assert (public & true).sum() / (public | true).sum() > 0.7
    assert method.settings["finder"] == "imported"
    assert method.uses_side_files
    with pytest.raises(ProtectError, match="together"):
        Avatar(poses=str(poses), second_look=False)
    short = save(tmp_path / "short.mkv", clip.frames[:2])
    with pytest.raises(ProtectError, match="mask for every frame"):
        Avatar(body="procedural", poses=str(poses), masks=str(short), second_look=False).apply(
            source, tmp_path / "x.mp4"
        )


def test_windows_hold_every_frame_once_and_none_is_a_stump() -> None:
    image = np.zeros((4, 6, 3), np.uint8)
    for count in range(1, 60):
        frames = [Frame(image, i, Fraction(i)) for i in range(count)]
        parts = list(in_windows(iter(frames), 12))
        assert [f.pts for part in parts for f in part] == list(range(count))
        assert all(len(part) <= 12 + 12 // 4 for part in parts)
        assert len(parts) == 1 or min(len(part) for part in parts) >= 3
    assert list(in_windows(iter([]), 12)) == []
    large = [Frame(np.zeros((1080, 1920, 3), np.uint8), i, Fraction(i)) for i in range(40)]
    assert max(len(part) for part in in_windows(iter(large), 30)) <= 37


def test_settings_are_checked() -> None:
    for wrong in ({"missed": "keep"}, {"body": "doll"}, {"proportions": "mine"}, {"window": 0}):
        with pytest.raises(ProtectError):
            Avatar(**wrong)
    assert json.dumps(Avatar(body="procedural").settings)


def test_metric_joints_are_put_where_the_camera_saw_them() -> None:
    rng = np.random.default_rng(0)
    camera = Camera.facing(160, 120)
    local = rng.normal(0, 0.4, (6, 33, 3))
    true = np.array([0.3, -0.2, -3.5]) + np.linspace(0, 0.5, 6)[:, None] * [1, 0, 0.4]
    pixels = camera.project(local + true[:, None])
    weight = np.ones((6, 33))
    assert np.allclose(place(local, pixels, weight, camera, smooth=0), true, atol=1e-6)
    weight[3] = 0  # a frame in which nothing was seen is interpolated
    assert np.allclose(place(local, pixels, weight, camera, smooth=0)[3], true[3], atol=1e-6)
