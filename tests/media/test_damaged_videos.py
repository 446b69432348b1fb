"""Damage is never silent: an error by default, counted when the caller tolerates it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from media_pictures import noise_picture

from sfumato.media import MediaError, VideoWriter, open_video, read_frames, read_image, write_image

MakeVideo = Callable[..., Path]


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.avi", "a.mov"])
def test_a_cut_file_is_refused_and_tolerated_only_on_request(
    make_video: MakeVideo, tmp_path: Path, name: str
) -> None:
    codec = {"a.mp4": "libx264", "a.mov": "qtrle", "a.avi": "mpeg4", "a.mkv": "ffv1"}[name]
    pixels = {"a.mov": "rgb24"}.get(name, "yuv420p")
    # The index of an MP4 goes first, as phones and web sites write it.
    options = {"movflags": "faststart"}
    path = make_video(name, codec=codec, pix_fmt=pixels, frames=20, options=options)
    whole = path.read_bytes()
    for missing in (1, len(whole) // 10, len(whole) // 3):
        path.write_bytes(whole[:-missing])
        with pytest.raises(MediaError, match="tolerant"):
            open_video(path)
    path.write_bytes(whole)
    with open_video(path) as video:
        assert len(list(video)) == 20


def test_a_damaged_packet_is_an_error_or_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.mkv"
    with VideoWriter(path, rate=25, size=(32, 24), codec="ffv1") as writer:
        for number in range(10):
            writer.write(noise_picture(32, 24, number))
    data = bytearray(path.read_bytes())
    at = len(data) // 2
    data[at : at + 8] = bytes(byte ^ 0xFF for byte in data[at : at + 8])
    path.write_bytes(data)
    with pytest.raises(MediaError, match="damaged"):
        read_frames(path)
    with open_video(path, tolerant=True) as video:
        frames = list(video)
        damage = video.damage
    exact = [
        any(np.array_equal(frame.image, noise_picture(32, 24, number)) for frame in frames)
        for number in range(10)
    ]
    assert exact.count(True) == 9
    assert damage.packets_lost + damage.frames_corrupt == 1
    assert len(frames) + damage.packets_lost == 10


@pytest.mark.parametrize("slices", ["4", "9", "24"])
@pytest.mark.parametrize("checksums", ["0", "1"])
def test_ffv1_of_other_writers_passes_its_own_checksums(
    make_video: MakeVideo, slices: str, checksums: str
) -> None:
    path = make_video(
        "a.mkv",
        codec="ffv1",
        size=(96, 64),
        options={"level": "3", "slices": slices, "slicecrc": checksums},
    )
    assert len(read_frames(path)) == 10


def test_any_flipped_byte_of_a_picture_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.mkv"
    with VideoWriter(path, rate=25, size=(64, 48), codec="ffv1") as writer:
        for number in range(4):
            writer.write(noise_picture(64, 48, number))
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for at in rng.integers(len(whole) // 3, len(whole) * 9 // 10, size=30):
        broken = bytearray(whole)
        broken[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        with pytest.raises(MediaError):
            read_frames(path)


def test_fewer_frames_than_the_header_says_is_an_error(make_video: MakeVideo) -> None:
    path = make_video("a.avi", codec="mpeg4", frames=10)
    data = bytearray(path.read_bytes())
    at = data.index(b"strh") + 8 + 32  # dwLength of the stream
    assert int.from_bytes(data[at : at + 4], "little") == 10
    data[at : at + 4] = (25).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(MediaError, match="25 frames"):
        read_frames(path)
    with open_video(path, tolerant=True) as video:
        assert len(list(video)) == 10
        assert video.damage.end_missing


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp"])
def test_a_cut_picture_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    write_image(path, noise_picture(64, 64, 0))
    whole = path.read_bytes()
    for share in (30, 60, 90):
        path.write_bytes(whole[: len(whole) * share // 100])
        with pytest.raises(MediaError):
            read_image(path)


def test_folders_missing_files_and_playlists_are_refused(tmp_path: Path) -> None:
    playlist = tmp_path / "a.mp4"
    playlist.write_text("#EXTM3U\n#EXTINF:1,\n/etc/passwd\n")
    for path, words in (
        (tmp_path, "folder"),
        (tmp_path / "absent.mp4", "nothing there"),
        (playlist, "what its name says"),
    ):
        with pytest.raises(MediaError, match=words):
            open_video(path)
    with pytest.raises(MediaError, match="nothing there"):
        open_video("http://127.0.0.1:9/a.mp4")


@pytest.mark.parametrize(
    ("codec", "suffix", "lossless"),
    [("h264rgb", ".mp4", True), ("ffv1", ".mkv", True), ("h264", ".mp4", False)],
)
def test_public_pixels_do_not_depend_on_private_ones_through_lossless_codecs(
    tmp_path: Path, codec: str, suffix: str, lossless: bool
) -> None:
    """SOUNDNESS R8: what is read back as public is the same whatever the private pixels were."""
    private = np.zeros((48, 64), dtype=bool)
    private[12:36, 16:48] = True
    read = []
    for world in range(2):
        path = tmp_path / f"{world}{suffix}"
        with VideoWriter(path, rate=25, size=(64, 48), codec=codec) as writer:
            assert writer.lossless == lossless
            for number in range(6):
                image = noise_picture(64, 48, number)
                image[private] = noise_picture(64, 48, 1000 * (world + 1) + number)[private]
                writer.write(image)
        read.append(read_frames(path)[:, ~private])
    assert np.array_equal(*read) == lossless
