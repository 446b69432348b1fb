"""Regions and chains: what is still guaranteed then (R9, R10), and what is refused."""

from __future__ import annotations

import os
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from red_faces import HEIGHT, WIDTH, RedFaces, draw_faces, moving_face

from sfumato.errors import SfumatoError
from sfumato.media import Frame, open_video, write_image
from sfumato.privacy import Guarantee, NoGuarantee, Unit
from sfumato.protect import OutputSettings, Shape, make, release
from sfumato.protect._chain import Chain
from sfumato.protect._limited import Limited
from sfumato.protect.hide import AppearanceFree, Blur, Edges, Region
from sfumato.protect.noise import LaplaceNoise, VideoDprp

SHAPE = Shape(HEIGHT, WIDTH, 8)
DP = {"epsilon": 4.0, "delta": 1e-5}
SMALL = {"block": 4, "kept_frames": 2, "kept_size": 4}


def dprp(unit: str, **changes: Any) -> VideoDprp:
    return VideoDprp(**(DP | SMALL | {"unit": unit} | changes))


def half_mask(path: Path) -> Path:
    mask = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    mask[:, : WIDTH // 2] = 255
    write_image(path, mask)
    return path


@pytest.mark.parametrize("region", ["faces", "people", "background"])
def test_a_region_found_by_a_detector_voids_the_guarantee(region: str) -> None:
    """Seeded bug 41."""
    for unit in ("pixels(4, frames=1)", "frame", "video"):
        made = make("dprp", DP | SMALL | {"unit": unit, "region": region})
        promise = made.promise(SHAPE)
        assert isinstance(promise, NoGuarantee)
        assert "in the clear" in promise.reason


def test_a_mask_from_a_file_keeps_one_only_if_it_is_declared_public(tmp_path: Path) -> None:
    mask = str(half_mask(tmp_path / "mask.png"))
    settings = DP | SMALL | {"unit": "pixels(4, frames=2)", "region": mask}
    assert isinstance(make("dprp", settings).promise(SHAPE), NoGuarantee)
    promise = make("dprp", settings | {"public_mask": True}).promise(SHAPE)
    assert isinstance(promise, Guarantee)
    assert promise.unit == Unit.pixels(4, frames=2, inside_public_mask=True)
    assert promise.epsilon == dprp("pixels(4, frames=2)").promise(SHAPE).epsilon  # type: ignore[union-attr]
    assert any("outside" in sentence for sentence in promise.public)
    for unit in ("frame", "video"):
        with pytest.raises(SfumatoError, match=r"Expected the unit pixels\(m, frames=n\)"):
            make("dprp", settings | {"public_mask": True, "unit": unit}).promise(SHAPE)
    with pytest.raises(SfumatoError, match="declared public"):
        make("dprp", settings | {"region": "faces", "public_mask": True})
    assert str(tmp_path) not in str(make("dprp", settings).settings)


def test_inside_the_public_mask_only_the_protected_picture_is_shown(tmp_path: Path) -> None:
    """Frames that differ inside the mask differ in the output there alone, and only as the inner
    method lets them: the public half is bit for bit the recording."""
    mask = half_mask(tmp_path / "mask.png")
    region = Region(str(mask), public_mask=True)
    frames = moving_face(8)
    inner = [frame.image for frame in LaplaceNoise(epsilon=1, unit="frame", seed=2).frames(frames)]
    limited = Limited(LaplaceNoise(epsilon=1, unit="frame", seed=2), region)
    for number, image in enumerate(limited.transform(iter(frames), SHAPE)):
        half = WIDTH // 2
        np.testing.assert_array_equal(image.image[:, half:], frames[number].image[:, half:])
        np.testing.assert_array_equal(image.image[:, :half], inner[number][:, :half])


def test_background_is_everything_but_the_people() -> None:
    from red_faces import RedPeople

    frames = moving_face(8)
    out = list(Limited(AppearanceFree(), Region("background", RedPeople())).frames(frames))
    for number in range(8):
        face = (slice(12, 20), slice(7 + number, 15 + number))
        np.testing.assert_array_equal(out[number].image[face], frames[number].image[face])
        assert (out[number].image[30:] != frames[number].image[30:]).mean() > 0.9


def test_limited_streams_stay_in_step_whatever_both_sides_hold_back() -> None:
    frames = moving_face(21)
    made = Limited(dprp("frame"), Region("faces", RedFaces()))
    out = list(made.frames(frames))
    assert [frame.pts for frame in out] == [frame.pts for frame in frames]
    for before, after in zip(frames, out):
        np.testing.assert_array_equal(before.image[36:], after.image[36:])


def test_a_mask_of_another_size_is_refused(tmp_path: Path) -> None:
    write_image(tmp_path / "mask.png", np.zeros((4, 4, 3), np.uint8))
    made = Limited(Edges(), Region(str(tmp_path / "mask.png")))
    with pytest.raises(SfumatoError, match="draw it in the recording's size"):
        list(made.frames(moving_face(2)))
    with pytest.raises(SfumatoError, match="a mask file that exists"):
        Region("no-such-mask.png")


def test_what_comes_after_a_dp_method_is_post_processing() -> None:
    alone = dprp("pixels(4, frames=1)").promise(SHAPE)
    chained = Chain([dprp("pixels(4, frames=1)"), Edges(), Blur(detector=RedFaces())])
    promise = chained.promise(SHAPE)
    assert isinstance(alone, Guarantee)
    assert isinstance(promise, Guarantee)
    assert (promise.epsilon, promise.unit) == (alone.epsilon, alone.unit)
    assert "edges, blur" in str(promise)


@pytest.mark.parametrize("unit", ["pixels(4, frames=1)", "frame", "frame(3)"])
def test_small_units_do_not_survive_a_stage_without_guarantee(unit: str) -> None:
    with pytest.raises(SfumatoError, match="Expected the unit clip or video after edges"):
        Chain([Edges(), dprp(unit)]).promise(SHAPE)


@pytest.mark.parametrize("unit", ["clip", "video"])
def test_whole_recordings_survive_it(unit: str) -> None:
    promise = Chain([Edges(), dprp(unit)]).promise(SHAPE)
    assert isinstance(promise, Guarantee)
    assert str(promise.unit) == unit


def test_chains_without_any_guarantee_say_so() -> None:
    promise = Chain([Edges(), AppearanceFree(seed=1)]).promise(SHAPE)
    assert isinstance(promise, NoGuarantee)
    assert promise.randomness == "seeded (not private)"


def test_files_made_from_the_recording_void_the_guarantee(tmp_path: Path) -> None:
    """Boxes of the original, imported after the noise, carry the original past it."""
    (tmp_path / "boxes.json").write_text("{}")
    blur = Blur(import_boxes=tmp_path / "boxes.json")
    mask = Limited(Edges(), Region(str(half_mask(tmp_path / "mask.png"))))
    for stage in (blur, mask):
        for stages in ([dprp("video"), stage], [stage, dprp("video")]):
            promise = Chain(stages).promise(SHAPE)
            assert isinstance(promise, NoGuarantee)
            assert "past the noise" in promise.reason


def test_a_limited_dp_stage_counts_as_none() -> None:
    limited = make("dprp", DP | SMALL | {"unit": "frame", "region": "faces"})
    assert isinstance(Chain([limited, Edges()]).promise(SHAPE), NoGuarantee)


def test_a_seed_in_any_stage_makes_the_chain_not_private() -> None:
    promise = Chain([dprp("frame"), AppearanceFree(seed=1)]).promise(SHAPE)
    assert not promise.is_private


def test_stages_run_in_order_and_keep_every_frame() -> None:
    frames = moving_face(10)
    chained = list(make("edges+isr", {"isr.size": "8x6", "rotation": 0, "shift": 0, "scale": 0}).frames(frames))  # fmt: skip
    assert [frame.pts for frame in chained] == list(range(10))
    lines = [frame.image for frame in Edges().frames(frames)]
    mean = lines[0].reshape(6, 8, 8, 8, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(chained[0].image[::8, ::8], mean, atol=1)


def test_settings_of_a_chain_reach_their_stage() -> None:
    made = make("dprp+edges", DP | SMALL | {"unit": "video", "edges.blur": 3.0})
    assert isinstance(made, Chain)
    assert made.stages[1].settings["blur"] == 3.0
    with pytest.raises(SfumatoError, match="None of the chained methods"):
        make("dprp+edges", DP | {"unit": "video", "strength": 1})
    with pytest.raises(SfumatoError, match="needs a region"):
        make("edges", {"detector": "centerface"})


def test_under_a_guarantee_no_look_at_the_original_decides_what_is_released(
    face_video: Path, tmp_path: Path
) -> None:
    class Nosy(RedFaces):
        def detect(self, image: Any) -> Any:
            assert not RedFaces().detect(image), "the original was looked at"
            return []

    chain = Chain([dprp("video", seed=1), Blur(detector=Nosy(), check=Nosy())])
    release(chain, face_video, tmp_path / "a.mkv", output=OutputSettings(codec="ffv1"))
    assert (tmp_path / "a.mkv").exists()


COPY = f"{sys.executable} -c 'import shutil, sys; shutil.copy(*sys.argv[1:3])' {{input}} {{output}}"


def test_external_tools_see_a_neutral_name_and_are_written_anew(
    face_video: Path, tmp_path: Path
) -> None:
    script = tmp_path / "tool.py"
    script.write_text(
        "import shutil, sys\nassert 'faces' not in sys.argv[1]\nshutil.copy(*sys.argv[1:3])\n"
    )
    command = f"{sys.executable} {script} {{input}} {{output}}"
    target = tmp_path / "out" / "a.mkv"
    output = OutputSettings(codec="ffv1")
    promise = release(make("external", {"command": command}), face_video, target, output=output)
    assert isinstance(promise, NoGuarantee)
    with open_video(face_video) as before, open_video(target) as after:
        for one, two in zip(before, after, strict=True):
            np.testing.assert_array_equal(one.image, two.image)
    for path in target.parent.iterdir():
        assert str(tmp_path).encode() not in path.read_bytes()


@pytest.mark.parametrize(
    ("code", "match"),
    [
        ("raise SystemExit(3)", "ended with code 3"),
        ("pass", "wrote nothing"),
        ("open(sys.argv[2], 'w').write('no video')", "video"),
        ("cut(sys.argv[1], sys.argv[2])", "got fewer"),
    ],
)
def test_a_tool_that_fails_releases_nothing(
    face_video: Path, tmp_path: Path, code: str, match: str
) -> None:
    script = tmp_path / "tool.py"
    script.write_text(
        "import sys\n"
        "from sfumato.media import VideoWriter, open_video\n"
        "def cut(source, target):\n"
        "    with open_video(source) as video:\n"
        "        with VideoWriter(target, video.info, codec='ffv1') as writer:\n"
        "            for number, frame in enumerate(video):\n"
        "                if number != 5: writer.write(frame.image, frame.pts)\n"
        f"{code}\n"
    )
    made = make("external", {"command": f"{sys.executable} {script} {{input}} {{output}}"})
    with pytest.raises(SfumatoError, match=match):
        release(made, face_video, tmp_path / "out" / "a.mkv", output=OutputSettings(codec="ffv1"))
    assert list((tmp_path / "out").iterdir()) == []


def test_external_tools_find_files_that_were_named_from_here(
    face_video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = Path(os.path.relpath(face_video))
    release(make("external", {"command": "cp {input} {output}"}), source, Path("made.mkv"))
    assert (tmp_path / "made.mkv").exists()


def test_external_needs_its_places_and_a_file() -> None:
    with pytest.raises(SfumatoError, match=r"\{input\} and \{output\}"):
        make("external", {"command": "cp a b"})
    made = make("external", {"command": "cp {input} {output}"})
    with pytest.raises(SfumatoError, match="got frames"):
        list(made.frames([Frame(draw_faces([]), 0, Fraction(0))]))
