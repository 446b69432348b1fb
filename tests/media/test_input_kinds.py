"""Every kind of picture that cameras and tools produce is read as a viewer shows it."""

from __future__ import annotations

import itertools
import struct
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from media_pictures import noise_picture, smooth_picture

from sfumato.media import MediaError, VideoWriter, open_video, read_frames

MakeVideo = Callable[..., Path]


def images(path: Path) -> list[np.ndarray]:
    with open_video(path) as video:
        frames = [frame.image for frame in video]
    assert all(image.dtype == np.uint8 and image.ndim == 3 for image in frames)
    return frames


@pytest.mark.parametrize(
    ("name", "codec", "pix_fmt", "size"),
    [
        ("a.mp4", "libx264", "yuv420p", (32, 24)),
        ("a.mp4", "libx264", "yuv420p10le", (32, 24)),
        ("a.mp4", "libx264", "yuv444p10le", (33, 25)),
        ("a.mp4", "libx264", "yuv422p", (32, 25)),
        ("a.mp4", "libx264", "gray", (32, 24)),
        ("a.mp4", "libx264", "yuvj420p", (32, 24)),
        ("a.mkv", "ffv1", "gray16le", (31, 23)),
        ("a.mkv", "ffv1", "yuv420p", (33, 25)),
        ("a.mkv", "ffv1", "yuv420p16le", (32, 24)),
        ("a.avi", "mpeg4", "yuv420p", (33, 25)),
        ("a.avi", "mjpeg", "yuvj420p", (33, 25)),
        ("a.mov", "qtrle", "rgb24", (33, 25)),
        ("a.webm", "libvpx-vp9", "yuv420p", (33, 25)),
        ("a.mpg", "mpeg2video", "yuv420p", (32, 24)),
        ("a.ts", "mpeg2video", "yuv420p", (32, 24)),
        ("a.gif", "gif", "rgb8", (33, 25)),
    ],
)
def test_formats_are_read_at_their_size_with_their_colours(
    make_video: MakeVideo, name: str, codec: str, pix_fmt: str, size: tuple[int, int]
) -> None:
    path = make_video(name, codec=codec, pix_fmt=pix_fmt, size=size, frames=6)
    frames = images(path)
    assert len(frames) == 6
    for number, image in enumerate(frames):
        assert image.shape == (size[1], size[0], 3)
        wanted = smooth_picture(*size, number).astype(float)
        if pix_fmt.startswith("gray"):
            wanted = np.repeat((wanted @ [0.299, 0.587, 0.114])[..., None], 3, axis=2)
        difference = image - wanted
        assert np.abs(difference).mean() < (25 if codec == "gif" else 12)
        if number == 0:
            # Later frames smear at this size. In the first one, a wrong range or matrix moves the
            # mean of a channel by five levels and more.
            assert np.abs(difference.mean((0, 1))).max() < 3


def rotate(path: Path, matrix: tuple[int, int, int, int]) -> None:
    """Write a display matrix into the track header of an MP4 file."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 4 + 5 * 4 + 2 * 4 + 4 * 2  # version 0: times, ids, layer, ...
    a, b, c, d = (value << 16 for value in matrix)
    assert struct.unpack_from(">i", data, at)[0] == 1 << 16
    data[at : at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("matrix", "expected", "degrees"),
    [
        ((1, 0, 0, 1), lambda image: image, 0),
        ((0, 1, -1, 0), lambda image: np.rot90(image, -1), 90),
        ((-1, 0, 0, -1), lambda image: np.rot90(image, 2), 180),
        ((0, -1, 1, 0), lambda image: np.rot90(image, 1), 270),
        ((-1, 0, 0, 1), lambda image: image[:, ::-1], 0),
    ],
)
def test_rotation_metadata_is_applied(
    make_video: MakeVideo,
    matrix: tuple[int, int, int, int],
    expected: Callable[[np.ndarray], np.ndarray],
    degrees: int,
) -> None:
    path = make_video("turned.mp4", size=(48, 32))
    upright = images(path)
    rotate(path, matrix)
    with open_video(path) as video:
        info = video.info
        turned = [frame.image for frame in video]
    np.testing.assert_array_equal(turned, [expected(image) for image in upright])
    assert (info.height, info.width) == turned[0].shape[:2]
    assert info.rotation == degrees


def test_a_rotated_video_is_written_upright_and_stays_so(
    make_video: MakeVideo, tmp_path: Path
) -> None:
    path = make_video("turned.mp4", size=(48, 32))
    rotate(path, (0, 1, -1, 0))
    with (
        open_video(path) as video,
        VideoWriter(tmp_path / "up.mp4", video.info, codec="h264rgb") as writer,
    ):
        for frame in video:
            writer.write(frame.image, frame.pts)
    with open_video(tmp_path / "up.mp4") as video:
        assert (video.info.width, video.info.height, video.info.rotation) == (32, 48, 0)
    np.testing.assert_array_equal(images(tmp_path / "up.mp4"), images(path))


def test_what_is_transparent_stays_hidden(make_video: MakeVideo) -> None:
    def with_alpha(image: np.ndarray) -> av.VideoFrame:
        alpha = np.full((*image.shape[:2], 1), 255, dtype=np.uint8)
        alpha[:, :16] = 0
        return av.VideoFrame.from_ndarray(np.concatenate([image, alpha], 2), format="rgba")

    path = make_video("a.mov", codec="qtrle", pix_fmt="argb", convert=with_alpha, frames=3)
    for number, image in enumerate(images(path)):
        assert not image[:, :16].any(), "the colour under alpha 0 was revealed"
        np.testing.assert_array_equal(image[:, 16:], smooth_picture(32, 24, number)[:, 16:])


def test_interlaced_frames_are_read_woven(make_video: MakeVideo) -> None:
    def comb(width: int, height: int, number: int) -> np.ndarray:
        image = np.full((height, width, 3), 40, dtype=np.uint8)
        image[::2] = 200
        return image

    path = make_video(
        "i.mpg",
        codec="mpeg2video",
        picture=comb,
        frames=4,
        options={"flags": "+ildct+ilme", "top": "1", "field_order": "tt", "qscale": "2"},
    )
    with open_video(path) as video:
        frames = [frame.image for frame in video]
        assert video.info.interlaced
    assert len(frames) == 4
    for image in frames:
        assert image[::2].mean() > 180
        assert image[1::2].mean() < 60


def test_times_of_avi_with_b_frames_are_in_order(make_video: MakeVideo) -> None:
    path = make_video("b.avi", frames=12, options={"bf": "3", "b-adapt": "0"})
    with open_video(path) as video:
        frames = list(video)
    assert [frame.time for frame in frames] == [Fraction(number, 25) for number in range(12)]
    for number, frame in enumerate(frames):
        wanted = smooth_picture(32, 24, number)
        assert np.abs(frame.image.astype(int) - wanted).mean() < 12


@pytest.mark.parametrize("name", ["v.mp4", "v.mkv", "v.ts"])
def test_variable_rate_of_other_writers_is_read(make_video: MakeVideo, name: str) -> None:
    stamps = [0, 40, 80, 200, 240, 480, 481, 1000, 1040, 2000]
    path = make_video(name, stamps=stamps, time_base=Fraction(1, 1000), options={"bf": "0"})
    with open_video(path) as video:
        times = [frame.time for frame in video]
        assert video.info.variable_rate
    assert [time - times[0] for time in times] == [Fraction(stamp, 1000) for stamp in stamps]


def test_memory_does_not_grow_with_length(make_video: MakeVideo, tmp_path: Path) -> None:
    path = make_video("long.mp4", size=(64, 64), frames=600, options={"preset": "ultrafast"})
    one = 64 * 64 * 3
    tracemalloc.start()
    try:
        with open_video(path) as video, VideoWriter(tmp_path / "copy.mp4", video.info) as writer:
            for frame in video:
                writer.write(frame.image, frame.pts)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert writer.frames_written == 600
    assert peak < 40 * one  # of 600 frames


def test_a_whole_video_is_read_only_within_the_bound(make_video: MakeVideo, tmp_path: Path) -> None:
    path = make_video("a.mkv", codec="ffv1", pix_fmt="bgr0", frames=20, picture=noise_picture)
    need = 20 * 32 * 24 * 3
    whole = read_frames(path, limit_bytes=need)
    np.testing.assert_array_equal(whole, [noise_picture(32, 24, number) for number in range(20)])
    with pytest.raises(MediaError, match="limit_bytes"):
        read_frames(path, limit_bytes=need - 1)


def test_a_reader_is_read_once(make_video: MakeVideo) -> None:
    with open_video(make_video("a.mp4")) as video:
        assert len(list(video)) == 10
        with pytest.raises(MediaError, match="open the video again"):
            list(video)


@pytest.mark.parametrize("name", ["early.mkv", "early.mp4"])
def test_times_before_zero_are_shifted_and_no_frame_is_lost(
    make_video: MakeVideo, name: str
) -> None:
    path = make_video(name, codec="ffv1" if name.endswith("mkv") else "libx264", frames=6)
    with open_video(path) as video:
        clock = video._clock
        stamped = []
        for number, pts in enumerate((-80, -40, 0, 40)):
            frame = av.VideoFrame(16, 16, "rgb24")
            frame.pts = pts
            stamped.append(clock.stamp(frame))
            assert stamped[number][1] == stamped[number][0] * clock.time_base
    steps = [after[0] - before[0] for before, after in itertools.pairwise(stamped)]
    assert stamped[0][0] == 0
    assert min(steps) > 0
    assert not clock.mended
