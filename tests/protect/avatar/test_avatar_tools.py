"""Other tools' poses, masks and inpainting: taken over exactly, and nobody is let through by them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from sfumato.body import JOINTS, Camera, layout
from sfumato.media import Image, VideoWriter
from sfumato.privacy import card_path
from sfumato.protect import ProtectError, release
from sfumato.protect.avatar import Avatar, Known, Scene, Track, read_layers
from sfumato.protect.avatar import _avatar as method_module
from sfumato.protect.avatar._imported import ImportedInpainting, read_poses
from sfumato.protect.avatar._tools import ToolSource
from sfumato.stage import Clip, Staging, clips

PLAN = Staging(clips=1, frames=8, fps=10, width=96, height=72, seed=3, actions=("walk",))


@pytest.fixture(scope="module")
def clip() -> Clip:
    return next(iter(clips(PLAN)))


class Ours:
    """The bundled detectors' part: sees nobody but ``extra`` pixels."""

    name = "people"

    def __init__(self, extra: Any = None) -> None:
        self.extra, self.next = extra, 0

    def find(self, images: Sequence[Image]) -> Scene:
        height, width = images[0].shape[:2]
        masks = np.zeros((len(images), height, width), bool)
        if self.extra is not None:
            masks |= self.extra[self.next : self.next + len(images)]
        self.next += len(images)
        return Scene(masks, (), Camera.facing(width, height))


@pytest.fixture
def source(tmp_path: Path, clip: Clip) -> Path:
    path = tmp_path / "in.mkv"
    with VideoWriter(path, rate=Fraction(10), size=(96, 72), codec="ffv1") as video:
        for image in clip.frames:
            video.write(image)
    return path


def rows(clip: Clip, **changes: Any) -> dict[str, Any]:
    count = len(clip.frames)
    return {
        "frame": np.arange(count),
        "person": np.full(count, 3),
        "joints": clip.camera.to_camera(clip.joints),
        "layout": "sfumato24",
        "focal": clip.camera.focal,
    } | changes


def script(folder: Path, name: str, text: str) -> str:
    """A command that runs ``text`` with the given files in ``sys.argv``."""
    file = folder / f"{name}.py"
    file.write_text(
        "import sys\nimport numpy as np\nfrom sfumato.media import VideoWriter, read_frames\n"
        + text
    )
    places = "{input} {masks} {output}" if name == "inpaint" else "{input} {output}"
    return f"command:{sys.executable} {file} {places}"


def tools(folder: Path, clip: Clip) -> dict[str, str]:
    """Tiny tools that know the truth; they find their window by its first frame."""
    np.savez(folder / "truth.npz", frames=clip.frames, mask=clip.alpha > 0, **rows(clip))
    start = (
        f"truth = np.load({str(folder / 'truth.npz')!r})\nframes = read_frames(sys.argv[1])\n"
        "start = next(t for t in range(8) if (truth['frames'][t] == frames[0]).all())\n"
        "here = slice(start, start + len(frames))\n"
    )
    return {
        "poses": script(
            folder,
            "poses",
            start + "np.savez(sys.argv[2], frame=np.arange(len(frames)), "
            "person=np.zeros(len(frames), int), joints=truth['joints'][here], "
            "layout='sfumato24', focal=truth['focal'])\n",
        ),
        "masks": script(
            folder, "masks", start + "np.savez(sys.argv[2], masks=truth['mask'][here])\n"
        ),
        "inpainting": script(
            folder,
            "inpaint",
            "frames, masks = read_frames(sys.argv[1]), read_frames(sys.argv[2]) > 127\n"
            "assert (frames[masks] == 128).all()\n"
            "size = frames.shape[2], frames.shape[1]\n"
            "with VideoWriter(sys.argv[3], rate=25, size=size, codec='ffv1') as video:\n"
            "    for frame in frames:\n"
            "        video.write(np.full_like(frame, (10, 200, 30)))\n",
        ),
    }


def avatar(**settings: Any) -> Avatar:
    return Avatar(body="procedural", seed=1, **({"window": 4} | settings))


def test_commands_give_what_the_truth_gives(
    tmp_path: Path, clip: Clip, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(method_module, "_bundled", Ours)
    given = tools(tmp_path, clip)
    # as the command line reads it
    given = {name: yaml.safe_load(text) for name, text in given.items()}
    method = avatar(**given)
    target = tmp_path / "out" / "out.mp4"
    method.apply(source, target)
    public, layer = read_layers(target)
    true = clip.mask
    assert (public & true).sum() / (public | true).sum() > 0.7
    card = json.loads(card_path(target).read_text())
    assert card["settings"]["poses"] == f"command {Path(sys.executable).name}"
    assert card["settings"]["finder"] == "imported and people"
    assert str(tmp_path) not in card_path(target).read_text()
    # one person stays one avatar over the windows: the same as with one window
    whole = avatar(**given, window=8)
    whole.apply(source, tmp_path / "whole" / "out.mp4")
    again, other = read_layers(tmp_path / "whole" / "out.mp4")
    both = public & again
    assert np.abs(layer[both].astype(int) - other[both]).mean() < 12


def test_filled_pixels_come_from_the_tool_and_no_others(tmp_path: Path, clip: Clip) -> None:
    part = ToolSource.of(tools(tmp_path, clip)["inpainting"], ("input", "masks", "output"), 60)
    hidden = clip.alpha > 0
    made = ImportedInpainting(part)(clip.frames, hidden)
    assert (made.frames[hidden] == (10, 200, 30)).all()
    assert np.array_equal(made.frames[~hidden], clip.frames[~hidden])


def test_whom_only_our_detectors_find_is_still_covered(
    tmp_path: Path, clip: Clip, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = np.zeros_like(clip.mask)
    extra[:, 5:25, 4:12] = True
    monkeypatch.setattr(method_module, "_bundled", lambda: Ours(extra))
    given = tools(tmp_path, clip)
    method = avatar(poses=given["poses"], masks=given["masks"])
    frames = np.stack([made.image for _, made in method.composed(_frames(clip))])
    assert (frames[:, 8:22, 6:10] == 128).all()  # a silhouette, soft at its rim
    with pytest.raises(ProtectError, match="could not be replaced"):
        avatar(poses=given["poses"], masks=given["masks"], missed="fail").apply(
            source, tmp_path / "out.mp4"
        )
    assert not (tmp_path / "out.mp4").exists()
    # a tool's masks alone add to what ours find, they do not replace it
    alone = avatar(masks=given["masks"]).finder.find(list(clip.frames[:4]))
    assert np.array_equal(alone.masks, extra[:4] | (clip.alpha[:4] > 0))


def _frames(clip: Clip) -> Any:
    from sfumato.media import Frame

    return (Frame(image, i, Fraction(i, 10)) for i, image in enumerate(clip.frames))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"frame": np.arange(8.0)}, "whole numbers"),
        ({"person": np.zeros(7, int)}, "as many rows"),
        ({"joints": np.ones((8, 23, 3))}, r"joints \(8, 24, 3\)"),
        ({"joints": np.ones((8, 24, 3), int)}, "floats"),
        ({"joints": np.zeros((8, 24, 3))}, "in front of the camera"),
        ({"joints": np.full((8, 24, 3), np.inf)}, "in front of the camera"),
        ({"frame": np.arange(8) - 1}, "counted from 0"),
        ({"frame": np.arange(8) + 1}, "frames 0 to 7"),
        ({"frame": np.zeros(8, int)}, "one pose a person and frame"),
        ({"layout": "stickman"}, "layout"),
        ({"frame": np.array([None] * 8)}, "plain arrays"),
    ],
)
def test_wrong_poses_are_refused(
    tmp_path: Path, clip: Clip, changes: dict[str, Any], words: str
) -> None:
    np.savez(tmp_path / "poses.npz", **rows(clip, **changes))
    with pytest.raises(Exception, match=words) as refused:
        read_poses(ToolSource(tmp_path / "poses.npz"), frames=8)
    assert type(refused.value).__name__ in {"ProtectError", "LayoutError"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "masks",
            "np.savez(sys.argv[2], masks=np.zeros((3, 72, 96), bool))",
            "mask for every frame",
        ),
        (
            "masks",
            "np.savez(sys.argv[2], masks=np.zeros((4, 72, 95), bool))",
            "mask for every frame",
        ),
        ("masks", "np.savez(sys.argv[2], masks=np.zeros((4, 72, 96)))", "bool or uint8"),
        ("masks", "np.savez(sys.argv[2], other=np.zeros(3))", "missing"),
        ("masks", "open(sys.argv[2], 'w').write('no')", "cannot be read"),
        ("poses", "sys.exit(3)", "code 3"),
        ("poses", "", "wrote nothing"),
        (
            "inpaint",
            "frames = read_frames(sys.argv[1])\n"
            "with VideoWriter(sys.argv[3], rate=25, size=(96, 72), codec='ffv1') as video:\n"
            "    video.write(frames[0])",
            "4 inpainted frames",
        ),
    ],
)
def test_a_tool_that_fails_releases_nothing(
    tmp_path: Path, clip: Clip, source: Path, monkeypatch: pytest.MonkeyPatch,
    name: str, text: str, words: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(method_module, "_bundled", lambda: Ours(clip.alpha > 0))
    setting = {"inpaint": "inpainting"}.get(name, name)
    method = avatar(**{setting: script(tmp_path, name, text)})
    target = tmp_path / "out" / "out.mp4"
    with pytest.raises(ProtectError, match=words):
        release(method, source, target)
    assert not list(target.parent.iterdir())


def test_files_must_fit_the_whole_recording(tmp_path: Path, clip: Clip, source: Path) -> None:
    np.savez(tmp_path / "poses.npz", **rows(clip))
    truth = clip.alpha > 0
    for name, masks in (("right", truth), ("long", np.concatenate([truth, truth[:1]]))):
        np.savez(tmp_path / f"{name}.npz", masks=masks)
    settings = {"poses": f"path:{tmp_path / 'poses.npz'}", "second_look": False}
    avatar(masks=f"path:{tmp_path / 'right.npz'}", **settings).apply(source, tmp_path / "a.mp4")
    with pytest.raises(ProtectError, match="another recording"):
        avatar(masks=str(tmp_path / "long.npz"), **settings).apply(source, tmp_path / "b.mp4")
    assert not (tmp_path / "b.mp4").exists()


def test_the_recording_itself_is_no_inpainting(tmp_path: Path, clip: Clip, source: Path) -> None:
    known = Known(Scene(clip.alpha > 0, (Track(clip.joints.astype(float)),), clip.camera, 0.0))
    settings = {"finder": known, "window": 8}
    with pytest.raises(ProtectError, match="without people"):
        avatar(inpainting=str(source), **settings).apply(source, tmp_path / "a.mp4")
    empty = tmp_path / "empty.mkv"
    with VideoWriter(empty, rate=10, size=(96, 72), codec="ffv1") as video:
        for image in np.broadcast_to(clip.empty, clip.frames.shape):
            video.write(image)
    made = [made for _, made in avatar(inpainting=str(empty), **settings).composed(_frames(clip))]
    shown = np.stack([each.image for each in made])
    hole = np.stack([(each.weight == 1) & ~each.layer.any(axis=-1) for each in made])
    same = (shown == np.broadcast_to(clip.empty, shown.shape)).all(axis=-1)[hole]
    assert same.mean() > 0.7  # all but the avatar's contact shadow


def test_settings_of_tools_are_checked() -> None:
    with pytest.raises(ProtectError, match=r"\{masks\}"):
        avatar(inpainting="command:fill {input} {output}")
    with pytest.raises(ProtectError, match=r"\{output\}"):
        avatar(poses="command:find {input}")
    with pytest.raises(ProtectError, match="both"):
        avatar(poses="a.npz", finder=Ours())


def test_smpl_joints_are_ours_by_name() -> None:
    theirs = np.arange(72.0).reshape(24, 3)
    ours = dict(zip(JOINTS, layout("smpl24").canonical(theirs), strict=True))
    order = ("hip", "knee", "ankle", "toe", "shoulder", "elbow", "wrist", "hand")
    for name, left in zip(order, (1, 4, 7, 10, 16, 18, 20, 22), strict=True):
        assert np.array_equal(ours[f"left_{name}"], theirs[left])
        assert np.array_equal(ours[f"right_{name}"], theirs[left + 1])
    assert np.isnan(ours["spine"]).all()
