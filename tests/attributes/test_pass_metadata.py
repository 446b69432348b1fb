"""What a release of donors' files shows beside pixels and samples: nothing (R22)."""

from __future__ import annotations

import io
import json
import os
import struct
import wave
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest
from scipy.io import wavfile
from typer.testing import CliRunner, Result

from sfumato.attributes import read_dataset
from sfumato.cli.protect import app as protect
from sfumato.data import sisfall
from sfumato.media import read_image
from sfumato.privacy import read_card

LATITUDE, CAMERA, ARTIST = b"48.137154N", b"Camera of Anna Example", b"Anna Example, ward 3"
SECRETS = (LATITUDE, CAMERA, ARTIST, b"GPS", b"Exif", b"xmpmeta", b"ICC_PROFILE", b"INFO", b"bext")


def segment(marker: int, content: bytes) -> bytes:
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(content) + 2) + content


def exif_with_place(orientation: int) -> bytes:
    """A TIFF header with orientation, camera, and a GPS directory that holds the latitude as text."""
    entries = [
        struct.pack("<HHIHH", 0x0112, 3, 1, orientation, 0),
        struct.pack("<HHII", 0x0110, 2, len(CAMERA), 100),
        struct.pack("<HHII", 0x8825, 4, 1, 200),  # where the GPS directory is
    ]
    first = struct.pack("<H", len(entries)) + b"".join(entries) + b"\0" * 4
    body = (b"II*\0" + struct.pack("<I", 8) + first).ljust(100, b"\0") + CAMERA
    gps = struct.pack("<HHHII", 1, 0x001D, 2, len(LATITUDE), 220) + b"\0" * 4
    return (body.ljust(200, b"\0") + gps).ljust(220, b"\0") + LATITUDE


def jpeg(picture: np.ndarray, orientation: int = 1) -> bytes:
    """A JPEG with GPS, XMP, a colour profile, a comment and bytes behind its end."""
    plain = cv2.imencode(".jpg", picture[..., ::-1])[1].tobytes()
    inside = segment(0xE1, b"Exif\0\0" + exif_with_place(orientation))
    inside += segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta>" + ARTIST)
    inside += segment(0xE2, b"ICC_PROFILE\0\x01\x01" + b"made for " + CAMERA)
    inside += segment(0xFE, b"taken by " + ARTIST)
    return plain[:2] + inside + plain[2:]


@pytest.fixture
def few_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours instead of a network's features: no model is needed here."""

    def colours(pictures: list[np.ndarray]) -> np.ndarray:
        return np.stack([each.reshape(-1, 3).mean(axis=0) for each in pictures]).astype(np.float32)

    monkeypatch.setattr("sfumato.attributes._layouts.picture_features", colours)


def faces(root: Path, count: int = 40) -> Path:
    root.mkdir()
    generator = np.random.default_rng(0)
    for number in range(count):
        picture = generator.integers(0, 256, (20, 16, 3)).astype(np.uint8)
        picture[:, :, 0] = 200 * (number % 2)
        name = root / f"{20 + number}_{number % 2}_{number % 4}_201701{number:06d}.jpg"
        name.write_bytes(jpeg(picture, orientation=6 if number % 3 == 0 else 1))
        os.utime(name, (1_500_000_000 + number, 1_500_000_000 + number))
    return root


def released(source: Path, target: Path, *more: str) -> Result:
    words = [
        str(source),
        str(target),
        "--method",
        "pass",
        "--donors-are",
        "public",
        "--donors",
        "20",
    ]
    quick = ["--set", "steps=4", "--set", "batch=16", "--set", "dimension=8"]
    result = CliRunner().invoke(protect, [*words, *quick, *more])
    assert result.exit_code == 0, result.output or result.exception
    return result


def png_chunks(content: bytes) -> list[bytes]:
    found, place = [], 8
    while place < len(content):
        (length,) = struct.unpack_from(">I", content, place)
        found.append(content[place + 4 : place + 8])
        place += 12 + length
    return found


def riff_chunks(content: bytes) -> list[bytes]:
    found, place = [], 12
    while place + 8 <= len(content):
        (length,) = struct.unpack_from("<I", content, place + 4)
        found.append(content[place : place + 4])
        place += 8 + length + length % 2
    return found


@pytest.mark.usefixtures("few_features")
def test_no_metadata_of_a_donors_picture_is_released(tmp_path: Path) -> None:
    source, out = faces(tmp_path / "faces"), tmp_path / "out"
    assert all(LATITUDE in path.read_bytes() for path in source.iterdir())
    released(source, out, "--private", "gender", "--useful", "race")
    files = sorted((out / "files").iterdir())
    assert len(files) == 40
    originals = [read_image(path) for path in source.iterdir()]
    for path in files:
        content = path.read_bytes()
        assert path.suffix == ".png"
        assert set(png_chunks(content)) == {b"IHDR", b"IDAT", b"IEND"}
        assert not any(secret in content for secret in SECRETS)
        # pixels are those of a donor, turned as its EXIF said
        assert any(np.array_equal(read_image(path), each) for each in originals)
    whole = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    assert not any(secret in whole for secret in (LATITUDE, CAMERA, ARTIST))


@pytest.mark.usefixtures("few_features")
def test_equal_donors_give_equal_bytes_and_nothing_shows_an_order(tmp_path: Path) -> None:
    source, out = faces(tmp_path / "faces"), tmp_path / "out"
    released(source, out, "--private", "gender", "--useful", "race")
    with np.load(out / "records.npz") as stored:
        donors = stored["donor"].tolist()
    contents = [path.read_bytes() for path in sorted((out / "files").iterdir())]
    by_donor: dict[int, set[bytes]] = {}
    for donor, content in zip(donors, contents, strict=True):
        by_donor.setdefault(donor, set()).add(content)
    assert len(donors) > len(by_donor) > 1
    assert all(len(each) == 1 for each in by_donor.values())
    # another release of other records may draw the same donors: their files are the same again
    again = tmp_path / "again"
    released(source, again, "--private", "gender", "--useful", "race")
    others = {path.read_bytes() for path in (again / "files").iterdir()}
    data = read_dataset(source)
    assert data.write_file is not None
    alone = {
        data.write_file(row, tmp_path / f"alone{row}").read_bytes()
        for row in range(len(data.records))
    }
    assert (set(contents) | others) <= alone
    times = {path.stat().st_mtime for path in (out, *out.rglob("*"))}
    assert len(times) == 1
    with zipfile.ZipFile(out / "records.npz") as archive:
        assert {each.date_time for each in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.usefixtures("few_features")
def test_the_card_says_what_of_the_donors_is_published(tmp_path: Path) -> None:
    released(faces(tmp_path / "faces"), tmp_path / "out", "--private", "gender", "--useful", "race")
    card = read_card(tmp_path / "out")
    assert "pixels or samples are published" in card.done
    assert any("pixels or samples are published" in each for each in card.promise.not_covered)


@pytest.mark.usefixtures("few_features")
def test_pictures_in_an_archive_and_of_celeba_are_written_anew_too(tmp_path: Path) -> None:
    packed, plain = tmp_path / "packed", faces(tmp_path / "plain")
    packed.mkdir()
    rows = ["file,age,gender,race"]
    with zipfile.ZipFile(packed / "faces.zip", "w") as archive:
        for path in sorted(plain.iterdir()):
            archive.write(path, path.name)
            rows.append(",".join([path.name, *path.name.split("_")[:3]]))
    (packed / "index.csv").write_text("\n".join(rows))
    celeba = tmp_path / "celeba"
    (celeba / "img_align_celeba").mkdir(parents=True)
    names = []
    for path in sorted(plain.iterdir()):
        names.append(path.name)
        (celeba / "img_align_celeba" / path.name).write_bytes(path.read_bytes())
    lines = [f"{name} {1 - 2 * (n % 2)} {1 - 2 * (n % 3 == 0)}" for n, name in enumerate(names)]
    (celeba / "list_attr_celeba.txt").write_text("\n".join(["40", "Male Smiling", *lines]))
    parts = [f"{name} {0 if n < 30 else 2}" for n, name in enumerate(names)]
    (celeba / "list_eval_partition.txt").write_text("\n".join(parts))
    for folder in (packed, plain, celeba):
        data = read_dataset(folder)
        assert data.write_file is not None
        for row in (0, 7, 29, 30, 39):
            made = data.write_file(row, tmp_path / f"{folder.name}{row}")
            assert set(png_chunks(made.read_bytes())) == {b"IHDR", b"IDAT", b"IEND"}
            # the very record that the encoder saw under this number
            seen = data.records.x[row]
            assert np.allclose(read_image(made).reshape(-1, 3).mean(axis=0), seen, atol=1e-3)


def spoken(path: Path, samples: np.ndarray, rate: int = 16_000) -> None:
    """A WAV with a title, an artist, a broadcast chunk and something unknown around its samples."""
    plain = io.BytesIO()
    wavfile.write(plain, rate, samples)
    content = plain.getvalue()
    info = b"INFOIART" + struct.pack("<I", len(ARTIST)) + ARTIST
    extra = b"".join(
        name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)
        for name, body in ((b"LIST", info), (b"bext", CAMERA), (b"GPS ", LATITUDE))
    )
    # before the samples and behind them
    data = content.index(b"data")
    whole = content[8:data] + extra + content[data:] + extra
    path.write_bytes(b"RIFF" + struct.pack("<I", len(whole)) + whole)


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.uint8, np.float32])
def test_no_metadata_of_a_donors_recording_is_released(tmp_path: Path, kind: type) -> None:
    root, out = tmp_path / "speech", tmp_path / "out"
    facts = {}
    generator = np.random.default_rng(1)
    for number in range(1, 5):
        speaker = f"{number:02d}"
        (root / "data" / speaker).mkdir(parents=True)
        facts[speaker] = {
            "accent": "x",
            "age": 20 + number,
            "gender": ("male", "female")[number % 2],
        }
        for digit in range(2):
            for take in (0, 1, 2, 3, 40):
                tone = np.sin(np.arange(4000) * (0.1 + digit / 5 + number / 50))
                tone = 0.4 * tone + 0.01 * generator.standard_normal(4000)
                top = 1.0 if kind is np.float32 else np.iinfo(kind).max
                samples = tone * top if kind is not np.uint8 else 128 + 100 * tone
                name = root / "data" / speaker / f"{digit}_{speaker}_{take}.wav"
                spoken(name, samples.astype(kind))
    (root / "data" / "audioMNIST_meta.txt").write_text(json.dumps(facts))
    released(root, out, "--private", "gender", "--useful", "digit")
    files = sorted((out / "files").iterdir())
    assert len(files) == 4 * 2 * 5
    originals = []
    for path in (root / "data").rglob("*.wav"):
        assert ARTIST in path.read_bytes()
        with pytest.warns(wavfile.WavFileWarning):
            originals.append(wavfile.read(path)[1])
    for path in files:
        content = path.read_bytes()
        assert set(riff_chunks(content)) <= {b"fmt ", b"data", b"fact"}
        assert not any(secret in content for secret in SECRETS)
        rate, samples = wavfile.read(path)
        assert rate == 16_000
        assert samples.dtype == kind
        assert any(np.array_equal(samples, each) for each in originals)
    if kind is np.int16:
        with wave.open(str(files[0])) as plain:
            assert plain.getnframes() == 4000


def test_windows_of_motion_are_released_as_the_sensor_gave_them(tmp_path: Path) -> None:
    source, out = tmp_path / "sisfall", tmp_path / "out"
    source.mkdir()
    generator = np.random.default_rng(0)
    people, length = ("SA01", "SA02", "SE01"), 1100
    named = [(activity, who) for activity in ("D01", "D03") for who in people]
    x = generator.integers(-400, 400, (len(named) * length, 6)).astype(np.int16)
    np.savez(
        source / "packed.npz",
        x=x,
        offsets=np.arange(len(named) + 1) * length,
        activity=[activity for activity, _ in named],
        subject=[who for _, who in named],
    )
    (source / "subjects.csv").write_text("subject,sex\nSA01,M\nSA02,F\nSE01,M\n")
    released(source, out, "--private", "sex", "--useful", "activity")
    originals = {each.tobytes() for each in sisfall(source, magnitude=False).x}
    files = sorted((out / "files").iterdir())
    with np.load(out / "records.npz") as stored:
        assert len(files) == len(stored["x"]) == 96
        for path, spectra in zip(files, stored["x"]):
            window = np.load(path)
            assert window.shape == (128, 6)
            assert window.tobytes() in originals
            assert np.allclose(np.log1p(np.abs(np.fft.rfft(window, axis=0))), spectra, atol=1e-4)
