"""Sound files: as many samples out as in, nothing else of the file, and no damage passed over."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from sfumato.media import MediaError, SoundReader, SoundWriter
from sfumato.media._sound_files import PlacedSound


def tone(samples: int, rate: int, channels: int) -> np.ndarray:
    time = np.arange(samples) / rate
    wave = 0.15 * sum(np.sin(2 * np.pi * hertz * time) for hertz in (310, 1130, 2370))
    return np.stack([wave, -0.5 * wave][:channels])


def read(path: Path) -> np.ndarray:
    with SoundReader(path) as reader:
        return np.concatenate(list(reader), axis=1)


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".mp3", ".m4a", ".ogg"])
@pytest.mark.parametrize(("rate", "channels"), [(8000, 1), (16000, 2), (44100, 2), (48000, 1)])
@pytest.mark.parametrize("samples", [1200, 9001])
def test_as_many_samples_come_back(
    tmp_path: Path, suffix: str, rate: int, channels: int, samples: int
) -> None:
    sound = tone(samples, rate, channels)
    path = tmp_path / f"a{suffix}"
    with SoundWriter(path, rate, channels) as writer:
        for start in range(0, samples, 777):
            writer.write(sound[:, start : start + 777])
    found = read(path)
    assert found.shape == sound.shape
    if suffix in (".wav", ".flac", ".ogg"):
        assert np.abs(found - sound).max() < 1e-4
    elif samples > 9000:
        at = np.arange(2000, 7000)
        alike = [float(found[0, at + shift] @ sound[0, at]) for shift in range(-9, 10)]
        assert int(np.argmax(alike)) == 9  # no sample earlier or later


def test_nothing_appears_when_writing_fails(tmp_path: Path) -> None:
    target = tmp_path / "a.wav"

    def stopped() -> None:
        with SoundWriter(target, 8000, 1) as writer:
            writer.write(tone(100, 8000, 1))
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        stopped()
    with pytest.raises(MediaError, match="got none"), SoundWriter(target, 8000, 1):
        pass
    assert not list(tmp_path.iterdir())


def test_louder_than_full_scale_is_cut_off_not_wrapped(tmp_path: Path) -> None:
    with SoundWriter(tmp_path / "a.wav", 8000, 1) as writer:
        writer.write(np.array([[3.0, -3.0, 0.0]]))
    assert np.allclose(read(tmp_path / "a.wav"), [[1, -1, 0]], atol=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_samples_that_are_no_numbers_are_refused(tmp_path: Path, bad: float) -> None:
    path = tmp_path / "a.wav"
    wave = tone(4000, 8000, 1).astype(np.float32)
    wave[0, 1234] = bad
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_f32le", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(wave, format="flt", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with pytest.raises(MediaError, match="numbers"):
        read(path)


@pytest.mark.parametrize("rate", [4000, 96000])
def test_a_rate_that_voices_are_not_worked_on_is_refused(tmp_path: Path, rate: int) -> None:
    path = tmp_path / "a.wav"
    with SoundWriter(path, rate, 1) as writer:
        writer.write(tone(2000, rate, 1))
    with pytest.raises(MediaError, match="8000 to 48000"):
        read(path)


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".m4a", ".ogg"])
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    noise = 0.1 * np.random.default_rng(0).standard_normal((1, 60_000))
    with SoundWriter(path, 8000, 1) as writer:
        writer.write(noise)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(MediaError):
        read(path)


def test_text_in_the_place_of_sound_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_text("this is no sound" * 50)
    with pytest.raises(MediaError, match="Expected"):
        read(path)


def test_where_sound_is_missing_there_is_silence(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with SoundWriter(path, 8000, 1) as writer:
        writer.write(tone(8000, 8000, 1))
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        placed, blocks = PlacedSound(stream), []
        for number in range(2):
            frame = av.AudioFrame.from_ndarray(np.ones((1, 800), np.float32), "fltp", "mono")
            frame.sample_rate, frame.time_base = 8000, Fraction(1, 8000)
            frame.pts = 100 + number * 2800
            blocks += list(placed.blocks(frame))
    sound = np.concatenate(blocks, axis=1)[0]
    assert placed.start == Fraction(100, 8000)
    assert len(sound) == 3600
    assert sound[:800].all()
    assert not sound[800:2800].any()
    assert sound[2800:].all()


@pytest.mark.parametrize("tags", [0, 30_000])
def test_an_mp3_whose_end_is_missing_is_refused(tmp_path: Path, tags: int) -> None:
    whole, cut = tmp_path / "a.mp3", tmp_path / "cut.mp3"
    with SoundWriter(whole, 16000, 1) as writer:
        writer.write(tone(80_000, 16000, 1))
    content = whole.read_bytes()
    size = bytes(tags >> shift & 127 for shift in (21, 14, 7, 0))
    picture = b"ID3\x04\x00\x00" + size + bytes(tags) if tags else b""
    whole.write_bytes(picture + content)
    assert read(whole).shape[1] == 80_000
    cut.write_bytes(picture + content[: len(content) * 2 // 3])
    with pytest.raises(MediaError, match="damaged"):
        read(cut)
