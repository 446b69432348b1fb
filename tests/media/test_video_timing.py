"""Times and pixels survive writing and reading, exactly."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from media_pictures import noise_picture, smooth_picture

from sfumato.files import OutputExistsError
from sfumato.media import USUAL_RATES, MediaError, VideoInfo, VideoWriter, open_video, write_image

MakeVideo = Callable[..., Path]
NTSC = Fraction(30000, 1001)
RATES = [Fraction(25), NTSC, Fraction(24000, 1001), Fraction(2160, 77), Fraction(1), Fraction(240)]
OUTPUTS = [
    ("h264", ".mp4"),
    ("h264", ".mov"),
    ("h264", ".mkv"),
    ("h264rgb", ".mp4"),
    ("ffv1", ".mkv"),
]


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize(("codec", "suffix"), OUTPUTS)
def test_rational_rates_survive_in_every_container(
    tmp_path: Path, codec: str, suffix: str, rate: Fraction
) -> None:
    target = tmp_path / f"out{suffix}"
    times = [number / rate for number in range(7)]
    with VideoWriter(target, rate=rate, size=(32, 24), codec=codec) as writer:
        for number, time in enumerate(times):
            writer.write(smooth_picture(32, 24, number), time)
    with open_video(target) as video:
        assert [frame.time for frame in video] == times
        assert video.info.rate == rate
        assert not video.info.variable_rate


@pytest.mark.parametrize("codec", ["h264", "h264rgb"])
@given(
    steps=st.lists(st.integers(1, 200_000), min_size=1, max_size=12),
    start=st.integers(0, 500_000),
    base=st.sampled_from([90_000, 30_000, 12_345, 1000, 600]),
)
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_variable_rates_survive_tick_by_tick(
    tmp_path: Path, codec: str, steps: list[int], start: int, base: int
) -> None:
    times = [Fraction(start + sum(steps[:number]), base) for number in range(len(steps) + 1)]
    target = tmp_path / "vfr.mp4"
    with VideoWriter(
        target,
        rate=Fraction(25),
        size=(16, 16),
        time_base=Fraction(1, base),
        codec=codec,
        force=True,
    ) as writer:
        for number, time in enumerate(times):
            writer.write(smooth_picture(16, 16, number), time)
    with open_video(target) as video:
        frames = list(video)
        assert [frame.time for frame in frames] == times
        assert all(frame.pts * video.info.time_base == frame.time for frame in frames)
        if len(set(steps)) > 1:
            assert video.info.variable_rate


@pytest.mark.parametrize(
    ("codec", "suffix"), [("ffv1", ".mkv"), ("h264rgb", ".mp4"), ("h264rgb", ".mkv")]
)
@pytest.mark.parametrize("size", [(32, 24), (33, 17), (1, 1), (7, 64)], ids=str)
def test_lossless_codecs_give_back_every_byte(
    tmp_path: Path, codec: str, suffix: str, size: tuple[int, int]
) -> None:
    target = tmp_path / f"exact{suffix}"
    images = [noise_picture(*size, number) for number in range(5)]
    with VideoWriter(target, rate=NTSC, size=size, codec=codec) as writer:
        assert writer.lossless
        for image in images:
            writer.write(image)
    with open_video(target) as video:
        read = [frame.image for frame in video]
    np.testing.assert_array_equal(np.stack(read), np.stack(images))


def test_a_grey_mask_is_given_back_in_all_channels(tmp_path: Path) -> None:
    masks = [noise_picture(33, 17, number)[..., 0] for number in range(3)]
    with VideoWriter(
        tmp_path / "mask.mkv", rate=NTSC, size=(33, 17), codec="ffv1", grey=True
    ) as writer:
        for mask in masks:
            writer.write(mask)
        with pytest.raises(MediaError, match="shape"):
            writer.write(noise_picture(33, 17, 3))
    with open_video(tmp_path / "mask.mkv") as video:
        read = np.stack([frame.image for frame in video])
    np.testing.assert_array_equal(read, np.repeat(np.stack(masks)[..., None], 3, -1))
    with pytest.raises(MediaError, match="ffv1"):
        VideoWriter(tmp_path / "mask.mp4", rate=NTSC, size=(33, 17), grey=True)


@pytest.mark.parametrize("size", [(64, 48), (65, 48), (64, 47), (65, 47), (1280, 720)], ids=str)
def test_h264_keeps_odd_sizes_and_colours(tmp_path: Path, size: tuple[int, int]) -> None:
    target = tmp_path / "odd.mp4"
    image = smooth_picture(*size, 3)
    image[: size[1] // 4, : size[0] // 4] = 128  # no sharp coloured edge: chroma is halved
    with VideoWriter(target, rate=25, size=size, quality=4) as writer:
        for _ in range(3):
            writer.write(image)
    with open_video(target) as video:
        assert (video.info.width, video.info.height) == size
        read = next(iter(video)).image
    # A wrong colour matrix or range would move whole areas by ten levels and more.
    assert np.abs(read.astype(int) - image).mean() < 2.5


def test_lossy_output_is_not_called_lossless(tmp_path: Path) -> None:
    assert not VideoWriter(tmp_path / "a.mp4", rate=25, size=(2, 2)).lossless


def test_pts_of_a_reader_may_be_handed_to_a_writer(tmp_path: Path, make_video: MakeVideo) -> None:
    source = make_video("in.mkv", rate=NTSC, frames=12)
    with open_video(source) as video, VideoWriter(tmp_path / "out.mp4", video.info) as writer:
        times = []
        for frame in video:
            writer.write(frame.image, frame.pts)
            times.append(frame.time)
    with open_video(tmp_path / "out.mp4") as video:
        assert [frame.time for frame in video] == times == [n / NTSC for n in range(12)]


def test_matroska_refuses_times_it_would_round(tmp_path: Path) -> None:
    target = tmp_path / "a.mkv"
    with (
        pytest.raises(MediaError, match="Matroska"),
        VideoWriter(
            target, rate=25, size=(16, 16), codec="ffv1", time_base=Fraction(1, 90_000)
        ) as writer,
    ):
        writer.write(noise_picture(16, 16, 0), Fraction(7, 90_000))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("when", [Fraction(2, 25), Fraction(1, 25), 1])
def test_times_must_increase(tmp_path: Path, when: Fraction | int) -> None:
    def write() -> None:
        with VideoWriter(tmp_path / "a.mp4", rate=25, size=(16, 16)) as writer:
            writer.write(smooth_picture(16, 16, 0), Fraction(2, 25))
            writer.write(smooth_picture(16, 16, 1), when)

    with pytest.raises(MediaError, match="order they are shown"):
        write()
    assert not list(tmp_path.iterdir())


def test_a_failing_writer_leaves_nothing_and_an_old_file_alone(tmp_path: Path) -> None:
    target = tmp_path / "a.mp4"
    target.write_bytes(b"precious")
    with pytest.raises(OutputExistsError), VideoWriter(target, rate=25, size=(16, 16)):
        pass

    def stop_half_way(frames: int, error: Exception | None) -> None:
        with VideoWriter(target, rate=25, size=(16, 16), force=True) as writer:
            for number in range(frames):
                writer.write(smooth_picture(16, 16, number))
            if error:
                raise error

    with pytest.raises(RuntimeError, match="half way"):
        stop_half_way(3, RuntimeError("half way"))
    with pytest.raises(MediaError, match="at least one frame"):
        stop_half_way(0, None)
    assert target.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [target]


def test_frames_before_zero_are_refused_because_players_drop_them(tmp_path: Path) -> None:
    with (
        pytest.raises(MediaError, match="0 or later"),
        VideoWriter(tmp_path / "a.mp4", rate=25, size=(16, 16)) as writer,
    ):
        writer.write(smooth_picture(16, 16, 0), Fraction(-1, 25))


def test_a_file_in_the_place_of_the_folder_gives_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    target = tmp_path / "file" / "a.mp4"
    with pytest.raises(MediaError, match="output folder"):
        VideoWriter(target, rate=25, size=(16, 16)).__enter__()
    with pytest.raises(MediaError, match="output folder"):
        write_image(target.with_suffix(".png"), smooth_picture(16, 16, 0))


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("a.avi", {}, "ending in"),
        ("a.mp4", {"codec": "divx"}, "codec out of"),
        ("a.mp4", {"codec": "ffv1"}, "ending in .mkv"),
        ("a.mp4", {"quality": 99}, "between 0"),
        ("a.mp4", {"codec": "h264rgb", "quality": 1}, "no quality"),
        ("a.mp4", {"size": (0, 4)}, "positive"),
        ("a.mp4", {"rate": -1}, "positive"),
        ("a.mp4", {"size": (1 << 20, 1 << 20)}, "pixels"),
    ],
)
def test_settings_that_cannot_work_are_refused_in_a_sentence(
    tmp_path: Path, name: str, arguments: dict[str, object], sentence: str
) -> None:
    with pytest.raises(MediaError, match=sentence):
        VideoWriter(tmp_path / name, **{"rate": 25, "size": (16, 16), **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", ["1/60", "23", "24000/1001", "2997/100", "27.31", "90", "1000"])
def test_a_usual_grid_tells_one_of_a_few_rates(rate: str) -> None:
    """R22: of rate, times and pixel shape of a recording only a usual rate is left."""
    own = Fraction(rate)
    info = VideoInfo(
        32, 24, own, Fraction(1, 90_000), 7, Fraction(3), pixel_aspect=Fraction(64, 45),
        variable_rate=True,
    )  # fmt: skip
    shown = info.on_usual_grid()
    assert shown.rate in USUAL_RATES
    assert (shown.time_base, shown.pixel_aspect, shown.variable_rate) == (1 / shown.rate, 1, False)
    assert all(
        max(shown.rate / own, own / shown.rate) <= max(other / own, own / other)
        for other in USUAL_RATES
    )
    assert shown == shown.on_usual_grid()
    assert (shown.width, shown.height, shown.frame_count) == (32, 24, 7)
