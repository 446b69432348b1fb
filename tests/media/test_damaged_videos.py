"""Damage is never silent: an error by default, counted when the caller tolerates it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
from media_pictures import noise_picture

from sfumato.media import MediaError, VideoWriter, open_video, read_frames, read_image, write_image
from sfumato.media._pictures import PictureCount

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


def rewritten(source: Path, target: Path, edit: Callable[[list[bytes]], list[bytes]]) -> Path:
    """The packets of a video, changed by ``edit``, in a new file of the same kind."""
    with av.open(str(source)) as old, av.open(str(target), "w") as new:
        stream = old.streams.video[0]
        copy = new.add_stream_from_template(stream)
        packets = [packet for packet in old.demux(stream) if packet.size]
        first = packets[0].dts
        assert first is not None
        for number, data in enumerate(edit([bytes(packet) for packet in packets])):
            packet = av.Packet(data)
            packet.pts = packet.dts = first + number * packets[0].duration
            packet.time_base, packet.stream = packets[0].time_base, copy
            new.mux(packet)
    return target


@pytest.mark.parametrize(("name", "codec"), [("a.ts", "mpeg2video"), ("a.mpg", "mpeg1video")])
def test_frames_that_the_decoder_leaves_out_are_missed(
    make_video: MakeVideo, tmp_path: Path, name: str, codec: str
) -> None:
    """Without its first picture, those that refer to it vanish; FFmpeg says nothing."""
    whole = make_video(name, codec=codec, frames=20, options={"bf": "2"})
    assert len(read_frames(whole)) == 20
    cut = rewritten(whole, tmp_path / f"cut{whole.suffix}", lambda packets: packets[1:])
    with av.open(str(cut)) as container:
        left = sum(1 for _ in container.decode(video=0))
    assert left < 19
    with pytest.raises(MediaError, match=f"19 frames, as many as its packets hold, got {left}"):
        read_frames(cut)
    with open_video(cut, tolerant=True) as video:
        assert len(list(video)) == left
        assert video.damage.frames_missing == 19 - left
        assert f"{19 - left} frames were left out" in str(video.damage)


NO_PICTURE = b"\0\0\1\xb6" + bytes(
    [0b01_0_1_0000, 0b0_1_0_11111]
)  # P, no second, time 0, not coded


def packed(packets: list[bytes]) -> list[bytes]:
    """As DivX writes them: a picture and the one shown before it in a packet, then a placeholder."""
    mark = b"\0\0\1\xb2DivX503b1338p"
    vop = packets[0].index(b"\0\0\1\xb6")
    made = [packets[0][:vop] + mark + packets[0][vop:]]
    for later, earlier in zip(packets[1::2], packets[2::2]):
        made += [later + earlier, NO_PICTURE]
    return made


@pytest.mark.parametrize("dropped", [0, 1])
def test_two_pictures_in_a_packet_both_come_out(
    make_video: MakeVideo, tmp_path: Path, dropped: int
) -> None:
    """Also at the end of a video that was cut between them and their placeholder."""
    whole = make_video("a.avi", codec="mpeg4", frames=11, options={"bf": "1", "b_strategy": "0"})
    made = rewritten(
        whole, tmp_path / "packed.avi", lambda packets: packed(packets)[: 11 - dropped]
    )
    np.testing.assert_array_equal(read_frames(made), read_frames(whole))


def test_packets_without_a_picture_are_no_loss(make_video: MakeVideo, tmp_path: Path) -> None:
    whole = make_video("a.avi", codec="mpeg4", frames=10)
    made = rewritten(
        whole,
        tmp_path / "b.avi",
        lambda packets: [*packets[:4], NO_PICTURE, *packets[4:]],
    )
    assert len(read_frames(made)) == 10


@pytest.mark.parametrize(
    ("codec", "data", "pictures"),
    [
        ("vp8", b"\x10\0\0", 1),
        ("vp8", b"\x01\0\0", 0),
        ("vp9", b"\x82\0", 1),
        ("vp9", b"\x80\0", 0),
        ("vp9", b"\x88\0", 1),
        ("vp9", b"\x80\0\xc0", 1),
        ("h264", b"anything", 1),
        ("qtrle", b"anything", 0),
    ],
)
def test_pictures_are_counted_only_where_packets_tell(
    codec: str, data: bytes, pictures: int
) -> None:
    count = PictureCount(codec, None, "matroska,webm")
    count.add(av.Packet(data))
    assert count.missing(0, interlaced=False) == pictures


def test_fields_of_bare_h264_are_halves_of_a_frame() -> None:
    for container, missing in (("mpegts", 0), ("mov,mp4,m4a,3gp,3g2,mj2", 10)):
        count = PictureCount("h264", None, container)
        for _ in range(20):
            count.add(av.Packet(b"field"))
        assert count.missing(10, interlaced=True) == missing
        assert count.missing(9, interlaced=True) == missing + 1


@pytest.mark.parametrize("name", ["a.webm", "a.mkv"])
def test_a_reader_does_not_step_over_a_broken_part(
    make_video: MakeVideo, tmp_path: Path, name: str
) -> None:
    """Damage that makes FFmpeg look for the next part it can read, and so lose what lies between."""
    codec, pixels = {
        "a.webm": ("libvpx", "yuv420p"),
        "a.mkv": ("libx264", "yuv420p"),
    }[name]
    path = make_video(name, codec=codec, pix_fmt=pixels, frames=20, picture=noise_picture)
    whole = path.read_bytes()
    lost = 0
    for at in range(len(whole) // 4, len(whole) - 64, len(whole) // 60):
        path.write_bytes(whole[:at] + whole[at + 3 :])
        with open_video(path, tolerant=True) as video:
            try:
                left = len(list(video))
            except MediaError:
                continue
        if left < 20:
            lost += 1
            with pytest.raises(MediaError):
                read_frames(path)
    assert lost > 5


def test_a_gif_ends_where_its_blocks_lead(make_video: MakeVideo) -> None:
    path = make_video("a.gif", codec="gif", pix_fmt="rgb8", frames=20, picture=noise_picture)
    whole = path.read_bytes()
    assert len(read_frames(path)) == 20
    at = whole.index(b"\x21\xf9", len(whole) // 2)  # where a picture begins
    for broken in (whole[:at] + bytes(8) + whole[at + 8 :], whole[:at] + b"\xaa" + whole[at:]):
        path.write_bytes(broken)
        with open_video(path, tolerant=True) as video:
            assert len(list(video)) < 20
        with pytest.raises(MediaError, match="damaged"):
            read_frames(path)
