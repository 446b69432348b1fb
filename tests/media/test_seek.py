"""A frame by its number is the very picture that reading from the beginning gives."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from media_pictures import noise_picture

from sfumato.errors import SfumatoError
from sfumato.media import FrameIndex, Image, MediaError, SeekableVideo, _seek, open_video

LONG_GROUPS = {"x264-params": "keyint=200:min-keyint=200:scenecut=0:bframes=3:b-pyramid=normal"}
OPEN_GROUPS = {"x264-params": "keyint=12:open-gop=1:bframes=3:scenecut=0"}
KINDS: dict[str, dict[str, Any]] = {
    "b-frames.mp4": {"options": {"x264-params": "keyint=10:bframes=3:scenecut=0"}},
    "long-groups.mp4": {"options": LONG_GROUPS, "frames": 90},
    "open-groups.mp4": {"options": OPEN_GROUPS},
    "open-groups.mkv": {"options": OPEN_GROUPS},
    "only-keys.avi": {"codec": "mjpeg", "pix_fmt": "yuvj420p"},
    "mpeg4.avi": {"codec": "mpeg4", "options": {"g": "9"}},
    "mpeg4-b.avi": {"codec": "mpeg4", "options": {"g": "9", "bf": "2"}},
    "transport.ts": {"options": {"x264-params": "keyint=8:scenecut=0"}},
    "refresh.ts": {"options": {"x264-params": "keyint=16:intra-refresh=1:bframes=0"}},
    "mpeg2.mpg": {"codec": "mpeg2video", "options": {"g": "9", "bf": "2"}},
    "lossless.mkv": {"codec": "ffv1"},
    "web.webm": {
        "codec": "libvpx-vp9",
        "options": {"g": "10", "deadline": "realtime", "cpu-used": "8"},
    },
    "variable.mp4": {
        "stamps": [n * n + 3 * n for n in range(40)],
        "time_base": Fraction(1, 1000),
        "options": {"x264-params": "keyint=7:bframes=2"},
    },
    "one.mp4": {"frames": 1},
}


def in_order(path: Path) -> list[Image]:
    with open_video(path) as video:
        return [frame.image for frame in video]


def compare(path: Path, **more: Any) -> SeekableVideo:
    """Every frame, backwards and in random order, against the oracle."""
    oracle = in_order(path)
    video = SeekableVideo(path, **more)
    assert len(video) == len(oracle)
    shuffled = list(range(len(oracle)))
    random.Random(5).shuffle(shuffled)
    for number in (*shuffled, *reversed(range(len(oracle)))):
        np.testing.assert_array_equal(video.frame(number), oracle[number], err_msg=str(number))
    return video


@pytest.mark.parametrize("name", KINDS)
def test_every_frame_is_that_of_reading_in_order(make_video: Any, name: str) -> None:
    path = make_video(name, **{"frames": 40, "picture": noise_picture, **KINDS[name]})
    with compare(path, cached=200_000):
        pass


def test_groups_of_pictures_are_really_used(make_video: Any) -> None:
    path = make_video("a.mp4", frames=60, options={"x264-params": "keyint=10:scenecut=0"})
    with SeekableVideo(path) as video:
        assert video.index.by_time
        assert len(video.index.keys) == 6
        assert [video.index.key_before(n) for n in (0, 9, 10, 59)] == [0, 0, 10, 50]
        video.frame(55)
        assert len(video._decoders) == 1
        assert video._decoders[0].start == 50


def test_an_index_that_lies_is_found_out_and_frames_are_counted(
    make_video: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Key frames from which nothing can be decoded give no wrong picture."""
    path = make_video("a.mp4", frames=40, picture=noise_picture, options=LONG_GROUPS)
    true = FrameIndex.of(path)
    wrong = FrameIndex(true.count, true.times, true.times[::5])
    with compare(path, index=wrong):
        pass
    shifted = FrameIndex(true.count, true.times + 1, true.keys + 1)
    with compare(path, index=shifted) as video:
        assert not video._by_time


def test_memory_is_bounded_by_bytes(make_video: Any) -> None:
    path = make_video("a.mp4", frames=60, size=(64, 48))
    one = 64 * 48 * 3 // 2
    with SeekableVideo(path, cached=5 * one) as video:
        for number in range(0, 60, 7):
            video.frame(number)
            assert 1 <= len(video._cache) <= 5
            assert len(video._decoders) <= _seek._DECODERS


def test_the_times_of_frames_are_those_of_reading_in_order(make_video: Any) -> None:
    path = make_video("variable.mp4", frames=20, **KINDS["variable.mp4"] | {"options": {}})
    with open_video(path) as reader:
        times = [frame.time for frame in reader]
    with SeekableVideo(path) as video:
        assert [video.seconds(n) for n in range(20)] == [time - times[0] for time in times]


def test_a_number_that_no_frame_has_is_refused(make_video: Any) -> None:
    with SeekableVideo(make_video("a.mp4", frames=3)) as video:
        for wrong in (-1, 3, 10**12):
            with pytest.raises(MediaError, match="from 0 to 2"):
                video.frame(wrong)


def test_an_index_is_kept_for_the_owner_and_read_again(make_video: Any, tmp_path: Path) -> None:
    path = make_video("a.mp4", frames=30, options=OPEN_GROUPS)
    index, kept = FrameIndex.of(path), tmp_path / "kept" / "a.npz"
    index.save(kept)
    assert kept.stat().st_mode & 0o077 == 0
    again = FrameIndex.load(kept)
    assert again.count == index.count
    np.testing.assert_array_equal(again.times, index.times)
    np.testing.assert_array_equal(again.keys, index.keys)
    kept.write_bytes(b"something else")
    with pytest.raises(SfumatoError, match="an index of frames"):
        FrameIndex.load(kept)


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["kinetics_a.mp4", "soccer_juggling.avi", "wave_street.avi"])
def test_real_clips_are_read_frame_by_frame(real_data: Path, name: str) -> None:
    path = real_data / "clips" / name
    oracle = in_order(path)
    with SeekableVideo(path) as video:
        assert len(video) == len(oracle)
        for number in random.Random(3).sample(range(len(oracle)), 24):
            np.testing.assert_array_equal(video.frame(number), oracle[number])
