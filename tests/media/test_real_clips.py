"""Every real clip is read whole, in order, and copied with its times and without its tags."""

from __future__ import annotations

from itertools import islice, pairwise
from pathlib import Path

import av
import numpy as np
import pytest

from sfumato.media import VideoWriter, _container, list_media, open_video

NAMES = [
    "arm_wrestling.mp4",
    "basketball.mp4",
    "cartwheel_bad_metadata.avi",
    "kinetics_a.mp4",
    "ntu_drink.avi",
    "skeleton_demo.mp4",
    "soccer_juggling.avi",
    "wave_street.avi",
]
COPIED = 12


def plain_count(path: Path) -> int:
    """The number of frames by the shortest way there is.

    One clip was cut after a packet that holds two pictures: FFmpeg never shows its last one.
    """
    with av.open(str(path), **_container._ANY_TAGS) as container:
        container.streams.video[0].thread_type = "AUTO"
        shown = sum(1 for _ in container.decode(video=0))
    return shown + (path.name == "cartwheel_bad_metadata.avi")


@pytest.mark.real_data
def test_all_clips_are_tried(real_data: Path) -> None:
    assert [path.name for path in list_media(real_data / "clips")] == NAMES


@pytest.mark.real_data
@pytest.mark.parametrize("name", NAMES)
def test_a_clip_is_read_whole_and_copied_exactly(
    real_data: Path, tmp_path: Path, name: str
) -> None:
    source, target = real_data / "clips" / name, tmp_path / "copy.mp4"
    times, kept = [], []
    with open_video(source) as video:
        info = video.info
        for frame in video:
            assert frame.image.shape == (info.height, info.width, 3)
            assert frame.time == frame.pts * info.time_base
            times.append(frame.time)
            if len(kept) < COPIED:
                kept.append(frame)
        assert not video.damage.packets_lost
        assert not video.damage.times_mended
    assert len(times) == plain_count(source)
    assert all(before < after for before, after in pairwise(times))
    assert info.variable_rate == (name == "skeleton_demo.mp4")
    if not info.variable_rate:
        assert all(after - before == 1 / info.rate for before, after in pairwise(times))

    with VideoWriter(target, info) as writer:
        for frame in kept:
            writer.write(frame.image, frame.pts)
    with open_video(target) as copy:
        assert (copy.info.width, copy.info.height) == (info.width, info.height)
        assert copy.info.pixel_aspect == info.pixel_aspect
        assert not copy.info.has_audio
        copied = list(copy)
    assert [frame.time for frame in copied] == times[:COPIED]
    for before, after in zip(kept, copied):
        assert np.abs(before.image.astype(int) - after.image).mean() < 4
    written = target.read_bytes()
    for tag in (b"HumanActionDB", b"MotionClips", b"L-SMASH", b"AVC Coding", b"Lavf", b"x264"):
        assert tag not in written


@pytest.mark.real_data
def test_lossless_copies_of_real_frames_are_exact(real_data: Path, tmp_path: Path) -> None:
    for name in ("arm_wrestling.mp4", "cartwheel_bad_metadata.avi"):
        with open_video(real_data / "clips" / name) as video:
            info, frames = video.info, list(islice(video, COPIED))
        for codec, suffix in (("h264rgb", ".mp4"), ("ffv1", ".mkv")):
            target = tmp_path / f"{name}{suffix}"
            with VideoWriter(target, info, codec=codec) as writer:
                for frame in frames:
                    writer.write(frame.image, frame.pts)
            with open_video(target) as copy:
                read = list(copy)
            assert [frame.time for frame in read] == [frame.time for frame in frames]
            for before, after in zip(frames, read):
                np.testing.assert_array_equal(before.image, after.image)


@pytest.mark.real_data
def test_clips_of_a_real_data_set_are_read_whole(real_data: Path) -> None:
    clips = list_media(real_data / "airtlab")[::30]
    assert len(clips) >= 5
    for clip in clips:
        with open_video(clip) as video:
            assert sum(1 for _ in video) == video.info.frame_count
            assert (video.info.width, video.info.height, video.info.rate) == (224, 126, 15)
