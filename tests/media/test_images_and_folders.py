"""Pictures, sequences, folders and releases."""

from __future__ import annotations

import json
import os
import stat
import struct
import zlib
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np
import pytest
from media_pictures import noise_picture, smooth_picture

from sfumato.files import OutputExistsError
from sfumato.jobs import Release
from sfumato.media import (
    MediaError,
    list_media,
    open_sequence,
    read_frames,
    read_image,
    write_image,
)

SECRET = b"P001 secret of the device"


def exif(orientation: int, order: str = "<") -> bytes:
    mark = b"II" if order == "<" else b"MM"
    entries = [struct.pack(f"{order}HHIHH", 274, 3, 1, orientation, 0)]
    entries.append(struct.pack(f"{order}HHII", 271, 2, len(SECRET), 8 + 2 + 24 + 4))
    head = mark + struct.pack(f"{order}HIH", 42, 8, len(entries))
    return head + b"".join(sorted(entries)) + b"\0" * 4 + SECRET


def jpeg_with(tag: bytes, image: np.ndarray) -> bytes:
    encoded = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 100])[1].tobytes()
    block = b"Exif\0\0" + tag
    return encoded[:2] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + encoded[2:]


TURNS = {
    1: lambda image: image,
    2: lambda image: image[:, ::-1],
    3: lambda image: np.rot90(image, 2),
    4: lambda image: image[::-1],
    5: lambda image: image.transpose(1, 0, 2),
    6: lambda image: np.rot90(image, -1),
    7: lambda image: np.rot90(image, 2).transpose(1, 0, 2),
    8: lambda image: np.rot90(image, 1),
}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", TURNS)
def test_exif_orientation_is_applied_and_dropped(
    tmp_path: Path, orientation: int, order: str
) -> None:
    image = smooth_picture(40, 24, 1)
    plain, turned = tmp_path / "plain.jpg", tmp_path / "turned.jpg"
    plain.write_bytes(jpeg_with(exif(1, order), image))
    turned.write_bytes(jpeg_with(exif(orientation, order), image))
    read = read_image(turned)
    np.testing.assert_array_equal(read, TURNS[orientation](read_image(plain)))
    # OpenCV's own reading is the oracle for which way is up.
    np.testing.assert_array_equal(read, cv2.imread(str(turned), cv2.IMREAD_COLOR)[..., ::-1])
    for suffix in (".png", ".jpg", ".webp"):
        write_image(tmp_path / f"out{suffix}", read)
        written = (tmp_path / f"out{suffix}").read_bytes()
        assert SECRET not in written
        assert b"Exif" not in written


@pytest.mark.parametrize("suffix", [".png", ".webp"])
@pytest.mark.parametrize("size", [(1, 1), (7, 5), (64, 48)], ids=str)
def test_png_and_webp_give_back_every_byte(
    tmp_path: Path, suffix: str, size: tuple[int, int]
) -> None:
    image = noise_picture(*size, 3)
    write_image(tmp_path / f"a{suffix}", image)
    np.testing.assert_array_equal(read_image(tmp_path / f"a{suffix}"), image)


def test_jpeg_is_close(tmp_path: Path) -> None:
    image = smooth_picture(64, 48, 0)
    write_image(tmp_path / "a.jpg", image)
    assert np.abs(read_image(tmp_path / "a.jpg").astype(int) - image).mean() < 2


def test_grey_sixteen_bit_and_transparent_pictures(tmp_path: Path) -> None:
    grey = noise_picture(9, 7, 0)[..., 0]
    cv2.imwrite(str(tmp_path / "grey.png"), grey)
    np.testing.assert_array_equal(read_image(tmp_path / "grey.png"), grey[..., None].repeat(3, 2))
    deep = grey.astype(np.uint16) * 257
    cv2.imwrite(str(tmp_path / "deep.png"), deep)
    np.testing.assert_array_equal(read_image(tmp_path / "deep.png"), grey[..., None].repeat(3, 2))
    clear = np.full((7, 9, 4), 255, dtype=np.uint8)
    clear[..., 3], clear[:, :4, 3] = 128, 0
    cv2.imwrite(str(tmp_path / "clear.png"), clear)
    read = read_image(tmp_path / "clear.png")
    assert not read[:, :4].any(), "the colour under alpha 0 was revealed"
    assert (read[:, 4:] == 128).all()


def png_claiming(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def claiming(suffix: str, width: int, height: int) -> bytes:
    """A small sound picture whose header was changed to state this size."""
    small = noise_picture(40, 24, 0)
    encoded = bytearray(cv2.imencode(suffix, small)[1].tobytes())
    if suffix == ".jpg":
        at = encoded.index(b"\xff\xc0") + 5
        encoded[at : at + 4] = struct.pack(">HH", height, width)
    elif suffix == ".bmp":
        encoded[18:26] = struct.pack("<ii", width, -height)
    elif suffix == ".webp":
        encoded[21:25] = ((width - 1) | (height - 1) << 14).to_bytes(4, "little")
    else:
        (directory,) = struct.unpack_from("<I", encoded, 4)
        (count,) = struct.unpack_from("<H", encoded, directory)
        for entry in range(directory + 2, directory + 2 + 12 * count, 12):
            (tag,) = struct.unpack_from("<H", encoded, entry)
            if tag in (256, 257):
                value = width if tag == 256 else height
                encoded[entry : entry + 12] = struct.pack("<HHII", tag, 4, 1, value)
    return bytes(encoded)


@pytest.mark.parametrize("suffix", [".jpg", ".bmp", ".webp", ".tif"])
def test_the_header_of_every_format_is_read_before_anything_is_decoded(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a{suffix}"
    for width, height in ((16383, 16383), (8193, 8192)):
        path.write_bytes(claiming(suffix, width, height))

        def decode(*_: object, **__: object) -> None:
            raise AssertionError("decoded")

        with monkeypatch.context() as patch:
            patch.setattr(cv2, "imdecodeWithMetadata", decode)
            with pytest.raises(MediaError, match=f"{width} x {height}"):
                read_image(path, tolerant=True)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp", ".webp", ".tif"])
def test_the_largest_size_is_a_setting(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a{suffix}"
    cv2.imwrite(str(path), noise_picture(40, 25, 0))
    monkeypatch.setenv("SFUMATO_MAX_PIXELS", "1000")
    assert read_image(path).shape == (25, 40, 3)
    monkeypatch.setenv("SFUMATO_MAX_PIXELS", "999")
    with pytest.raises(MediaError, match="SFUMATO_MAX_PIXELS"):
        read_image(path)
    monkeypatch.setenv("SFUMATO_MAX_PIXELS", "many")
    with pytest.raises(MediaError, match="from 1 to"):
        read_image(path)


def test_a_thumbnail_is_not_taken_for_the_picture(tmp_path: Path) -> None:
    inside = cv2.imencode(".jpg", noise_picture(8, 6, 1))[1].tobytes()
    path = tmp_path / "a.jpg"
    for outer in (claiming(".jpg", 9000, 9000), claiming(".jpg", 40, 24)):
        block = b"Exif\0\0" + inside
        head = b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block
        path.write_bytes(outer[:2] + b"\xff\xff\xff" + head[1:] + outer[2:])
        if b"\x23\x28\x23\x28" in outer:  # 9000 x 9000
            with pytest.raises(MediaError, match="9000 x 9000"):
                read_image(path)
        else:
            assert read_image(path).shape == (24, 40, 3)


@pytest.mark.parametrize("suffix", [".jp2", ".pgm", ".hdr"])
def test_formats_whose_size_is_not_read_first_are_refused(tmp_path: Path, suffix: str) -> None:
    """OpenCV goes by content: another format under a usual name must not reach it."""
    picture = noise_picture(64, 64, 0)
    one = picture[..., 0] if suffix == ".pgm" else picture
    encoded = cv2.imencode(suffix, one.astype(np.float32) if suffix == ".hdr" else one)[1]
    (tmp_path / "a.png").write_bytes(encoded.tobytes())
    with pytest.raises(MediaError, match="PNG, JPEG, WebP, BMP or TIFF"):
        read_image(tmp_path / "a.png", tolerant=True)


@pytest.mark.parametrize("width", [1 << 15, 1 << 31 - 1])
def test_a_picture_that_claims_to_be_huge_is_refused(tmp_path: Path, width: int) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png_claiming(width, 1 << 15))
    with pytest.raises(MediaError):
        read_image(path)


def test_writing_refuses_what_it_cannot_keep(tmp_path: Path) -> None:
    image = smooth_picture(8, 8, 0)
    for wrong in (image.astype(float), image[..., 0], image[:0], np.zeros((4, 4, 4), np.uint8)):
        with pytest.raises(MediaError, match="uint8"):
            write_image(tmp_path / "a.png", wrong)
    with pytest.raises(MediaError, match="ending in"):
        write_image(tmp_path / "a.tga", image)
    write_image(tmp_path / "a.png", image)
    with pytest.raises(OutputExistsError):
        write_image(tmp_path / "a.png", image)
    write_image(tmp_path / "a.png", image[::-1], force=True)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), image[::-1])
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_a_sequence_is_a_video_in_natural_order(tmp_path: Path) -> None:
    folder = tmp_path / "frames"
    folder.mkdir()
    for number in range(12):
        write_image(folder / f"f{number}.png", noise_picture(8, 6, number))
    with open_sequence(folder, Fraction(30000, 1001)) as video:
        assert (video.info.frame_count, video.info.width, video.info.height) == (12, 8, 6)
        for number, frame in enumerate(video):
            assert frame.time == Fraction(number * 1001, 30000)
    wanted = [noise_picture(8, 6, number) for number in range(12)]
    np.testing.assert_array_equal(read_frames(folder), wanted)
    write_image(folder / "f99.png", noise_picture(9, 6, 0))
    with pytest.raises(MediaError, match="throughout"):
        read_frames(folder)


@pytest.mark.parametrize("name", ["a.jfif", "a.JPE", "a.3gpp", "a.qt"])
def test_other_endings_of_the_same_formats_are_recordings_too(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    assert list_media(tmp_path) == [tmp_path / name]


def test_listing_is_natural_and_stays_inside(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.mp4"
    for name in ("b/f10.mp4", "b/f2.MP4", "a.png", ".hidden/x.mp4", "b/.x.mp4", "notes.txt"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    outside.write_bytes(b"x")
    os.symlink(outside, root / "link.mp4")
    names = [path.relative_to(root).as_posix() for path in list_media(root)]
    assert names == ["a.png", "b/f2.MP4", "b/f10.mp4"]
    assert list_media(root, recursive=False) == [root / "a.png"]
    assert [path.name for path in list_media(root, kinds=("video",))] == ["f2.MP4", "f10.mp4"]
    with pytest.raises(MediaError, match="folder"):
        list_media(outside)


def test_a_release_has_random_names_and_its_key_stays_outside(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Release(out) as release:
        for number, name in enumerate(["P001", "P002", "P003"]):
            target = release.add(f"/in/{name}.jpg", split="train", label="walk", suffix=".png")
            write_image(target, noise_picture(8, 8, number))
        assert not out.exists()
    rows = [json.loads(line) for line in (out / "metadata.jsonl").read_text().splitlines()]
    files = {path.relative_to(out).as_posix() for path in out.rglob("*.png")}
    assert {row["file_name"] for row in rows} == files
    assert len(files) == 3
    assert all(row["label"] == "walk" for row in rows)
    for path in out.rglob("*"):
        assert "P00" not in path.name
        assert path.is_dir() or b"P00" not in path.read_bytes()
    assert len({path.stat().st_mtime for path in out.rglob("*")}) == 1
    keys = tmp_path / "out.keys.json"
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    names = json.loads(keys.read_text())["names"]
    assert {names[file] for file in files} == {f"/in/P00{number}.jpg" for number in (1, 2, 3)}
    assert not any("names" in note for note in release.notes)


def test_a_release_is_whole_or_absent(tmp_path: Path) -> None:
    def release(write: bool, **settings: object) -> None:
        with Release(tmp_path / "out", **settings) as folder:  # type: ignore[arg-type]
            first = folder.add("a.png", split="train", label="x")
            folder.add("b.png", split="train", label="x")
            if write:
                write_image(first, noise_picture(4, 4, 0))

    for write in (True, False):
        with pytest.raises(MediaError, match="missing"):
            release(write)
    assert not list(tmp_path.iterdir())
    with pytest.raises(MediaError, match="outside"):
        release(True, key_map=tmp_path / "out" / "keys.json")
    with pytest.raises(MediaError, match="random"):
        release(True, names="other")


@pytest.mark.parametrize("label", ["", "..", "a/b", ".x", "a\\b", "a\nb"])
def test_classes_cannot_lead_out_of_a_release(tmp_path: Path, label: str) -> None:
    def add() -> None:
        with Release(tmp_path / "out") as release:
            release.add("a.png", split="train", label=label)

    with pytest.raises(MediaError, match="plain folder name"):
        add()


def test_kept_names_are_noted_and_collisions_refused(tmp_path: Path) -> None:
    def add_twice(release: Release) -> None:
        with release:
            for source in ("/one/a.png", "/two/a.png"):
                release.add(source, split="train", label="x")

    release = Release(tmp_path / "out", names="keep", key_map=None)
    assert any("names" in note for note in release.notes)
    with pytest.raises(MediaError, match="twice"):
        add_twice(release)
