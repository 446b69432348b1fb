"""Nothing but pixels, times and, if asked, sound reaches the output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from media_pictures import smooth_picture

from sfumato.media import MediaError, VideoWriter, audio_windows, open_video, read_audio

MakeVideo = Callable[..., Path]

PLANTED = {
    "title": "PLANTED-TITLE of P001",
    "artist": "PLANTED-ARTIST",
    "comment": "PLANTED-COMMENT",
    "location": "+46.9480+007.4474/",
    "creation_time": "2019-05-06T07:08:09.000000Z",
    "make": "PLANTED-MAKE",
    "model": "PLANTED-MODEL",
    "encoder": "PLANTED-ENCODER",
}
# Tags that the writer's own containers always have; none of them depends on the input.
CONSTANT = {
    ("major_brand", "isom"),
    ("major_brand", "qt  "),
    ("minor_version", "512"),
    ("compatible_brands", "isomiso2avc1mp41"),
    ("compatible_brands", "qt  "),
    ("encoder", "Lavf"),
    ("language", "und"),
    ("handler_name", "VideoHandler"),
    ("handler_name", "SoundHandler"),
    ("vendor_id", "FFMP"),
    ("vendor_id", "[0][0][0][0]"),
}
OUTPUTS = [
    ("h264", ".mp4"),
    ("h264", ".mov"),
    ("h264", ".mkv"),
    ("h264rgb", ".mp4"),
    ("ffv1", ".mkv"),
]


def copy(source: Path, target: Path, codec: str, *, keep_audio: bool = False) -> None:
    with (
        open_video(source) as video,
        VideoWriter(
            target, video.info, codec=codec, keep_audio_from=source if keep_audio else None
        ) as writer,
    ):
        for frame in video:
            writer.write(frame.image, frame.time)


@pytest.mark.parametrize("keep_audio", [False, True])
@pytest.mark.parametrize(("codec", "suffix"), OUTPUTS)
@pytest.mark.parametrize("container", [".mp4", ".mkv"])
def test_planted_metadata_never_reaches_the_output(
    make_video: MakeVideo,
    tmp_path: Path,
    container: str,
    codec: str,
    suffix: str,
    keep_audio: bool,
) -> None:
    source = make_video(f"P001{container}", metadata=PLANTED, sound=16000)
    planted = source.read_bytes()
    assert b"PLANTED-TITLE" in planted
    assert b"x264" in planted
    target = tmp_path / f"out{suffix}"
    copy(source, target, codec, keep_audio=keep_audio)
    written = target.read_bytes()
    secrets = [value.encode() for value in PLANTED.values()]
    for secret in (*secrets, b"PLANTED", b"P001", b"x264", b"Lavc", b"options:", b"7.4474"):
        assert secret not in written
    with av.open(str(target)) as probe:
        tags = [*probe.metadata.items()]
        for stream in probe.streams:
            tags += stream.metadata.items()
        assert not probe.chapters()
    assert {tag for tag in tags if tag[0] != "DURATION"} <= CONSTANT
    with open_video(target) as video:
        assert video.info.has_audio == keep_audio
        assert len(list(video)) == 10


def test_the_same_pixels_give_the_same_file(make_video: MakeVideo, tmp_path: Path) -> None:
    """Whatever differs between two sources but for pixels and times leaves no trace."""
    one = make_video("one.mp4", metadata=PLANTED, options={"crf": "0"})
    two = make_video("two.mkv", metadata={"title": "other"}, options={"crf": "0", "bf": "2"})
    for codec, suffix in OUTPUTS:
        written = []
        for source in (one, two):
            target = tmp_path / f"{source.stem}-{codec}{suffix}"
            with (
                open_video(source) as video,
                VideoWriter(target, rate=25, size=(32, 24), codec=codec) as writer,
            ):
                for frame in video:
                    writer.write(frame.image, frame.time)
            written.append(target.read_bytes())
        assert written[0] == written[1], codec


_ENCODE = """
import hashlib, sys
sys.path.insert(0, sys.argv[2])
from media_pictures import smooth_picture
from sfumato.media import VideoWriter
with VideoWriter(sys.argv[1], rate=25, size=(176, 144), codec=sys.argv[3]) as writer:
    for number in range(30):
        writer.write(smooth_picture(176, 144, number))
"""


@pytest.mark.parametrize(("codec", "suffix"), OUTPUTS)
def test_what_memory_held_before_leaves_no_trace(tmp_path: Path, codec: str, suffix: str) -> None:
    """Memory that an encoder reads before writing it may hold the original (MALLOC_PERTURB_ fills it)."""
    written = set()
    for filling in ("0", "1", "165"):
        target = tmp_path / f"{filling}{suffix}"
        subprocess.run(
            [sys.executable, "-c", _ENCODE, str(target), str(Path(__file__).parent), codec],
            env={**os.environ, "MALLOC_PERTURB_": filling},
            check=True,
        )
        written.add(target.read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv"])
def test_kept_sound_is_the_sound_in_its_place(
    make_video: MakeVideo, tmp_path: Path, suffix: str
) -> None:
    source = make_video("a.mp4", frames=30, sound=16000)
    target = tmp_path / f"out{suffix}"
    copy(source, target, "h264", keep_audio=True)
    before, after = read_audio(source, 16000), read_audio(target, 16000)
    shared = min(len(before), len(after))
    assert abs(len(before) - len(after)) <= 2048
    assert shared >= 15000
    # A shift of a few samples would destroy the correlation of a 440 Hz tone.
    assert np.corrcoef(before[2000 : shared - 2000], after[2000 : shared - 2000])[0, 1] > 0.98


def test_sound_is_dropped_by_default(make_video: MakeVideo, tmp_path: Path) -> None:
    source = make_video("a.mp4", sound=16000)
    copy(source, tmp_path / "out.mp4", "h264")
    with pytest.raises(MediaError, match="no audio stream"):
        read_audio(tmp_path / "out.mp4", 16000)


def test_sound_that_is_not_there_cannot_be_kept(make_video: MakeVideo, tmp_path: Path) -> None:
    source = make_video("silent.mp4")
    with pytest.raises(MediaError, match="audio"):
        copy(source, tmp_path / "out.mp4", "h264", keep_audio=True)
    assert not (tmp_path / "out.mp4").exists()


def tone_file(path: Path, samples: int, rate: int = 8000, layout: str = "stereo") -> np.ndarray:
    wave = (0.5 * np.sin(2 * np.pi * 200 * np.arange(samples) / rate)).astype(np.float32)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_f32le", rate=rate, layout=layout)
        data = np.repeat(wave[:, None], 2, axis=1).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(data), format="flt", layout=layout)
        frame.sample_rate = rate
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return wave


def test_audio_is_mono_float_at_the_rate_asked_for(tmp_path: Path) -> None:
    wave = tone_file(tmp_path / "a.wav", 8000)
    same = read_audio(tmp_path / "a.wav", 8000)
    assert same.dtype == np.float32
    np.testing.assert_allclose(same, wave, atol=1e-6)
    double = read_audio(tmp_path / "a.wav", 16000)
    assert abs(len(double) - 16000) <= 64
    np.testing.assert_allclose(double[2000:6000:2], wave[1000:3000], atol=0.01)
    with pytest.raises(MediaError, match="limit_bytes"):
        read_audio(tmp_path / "a.wav", 8000, limit_bytes=4 * 8000 - 1)


@pytest.mark.parametrize(
    ("length", "hop"), [(100, None), (100, 30), (100, 250), (4096, 1000), (1, 1)]
)
def test_windows_are_the_slices_of_the_whole(tmp_path: Path, length: int, hop: int | None) -> None:
    tone_file(tmp_path / "a.wav", 5000)
    whole = read_audio(tmp_path / "a.wav", 8000)
    step = hop or length
    wanted = [whole[at : at + length] for at in range(0, len(whole) - length + 1, step)]
    windows = list(audio_windows(tmp_path / "a.wav", 8000, length, hop))
    assert len(wanted) > 0
    np.testing.assert_array_equal(np.stack(windows), np.stack(wanted))


def test_pixel_shape_survives(tmp_path: Path, make_video: MakeVideo) -> None:
    source = make_video("a.mp4", options={"aspect": "2:1"})
    with av.open(str(source), "r") as probe:
        aspect = Fraction(probe.streams.video[0].sample_aspect_ratio or 1)
    with open_video(source) as video:
        assert video.info.pixel_aspect == aspect
        info = video.info
    with VideoWriter(tmp_path / "b.mp4", info) as writer:
        writer.write(smooth_picture(32, 24, 0))
    with open_video(tmp_path / "b.mp4") as video:
        assert video.info.pixel_aspect == aspect
