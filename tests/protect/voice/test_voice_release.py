"""Releases of sound, and of videos with sound: what comes out, what never does, what the card says."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from sfumato import protect
from sfumato.media import MediaError, SoundReader, SoundWriter
from sfumato.privacy import read_card
from sfumato.protect import OutputSettings, ProtectError, release
from sfumato.protect.voice import Voice
from sfumato.protect.voice._voice import MEASURED, within_scale

REPOSITORY = Path(__file__).parents[3]
RATE = 8000
ALGORITHMS = ["world", "mcadams", "distort"]


def speech(samples: int, pitch: float = 120.0) -> np.ndarray:
    """Four bursts a second of something like vowels, with silence between them."""
    time = np.arange(samples) / RATE
    harmonics = np.arange(1, 25)[:, None] * pitch
    weights = np.exp(-(((harmonics - 700) / 600) ** 2)) + 0.4 * np.exp(
        -(((harmonics - 1800) / 400) ** 2)
    )
    buzz = (weights * np.sin(2 * np.pi * harmonics * time)).sum(0)
    return 0.1 * buzz * (np.sin(2 * np.pi * 2 * time) > 0)


def write(path: Path, *channels: np.ndarray, rate: int = RATE) -> Path:
    with SoundWriter(path, rate, len(channels)) as writer:
        writer.write(np.stack(channels))
    return path


def read(path: Path, track: int = 0) -> np.ndarray:
    with SoundReader(path, track) as reader:
        return np.concatenate(list(reader), axis=1)


def film(path: Path, *tracks: np.ndarray, frames: int = 20) -> Path:
    """A video of a white flash at frame 10, with PCM sound."""
    with av.open(str(path), "w") as container:
        video = container.add_stream("ffv1", rate=10)
        video.width, video.height, video.pix_fmt = 64, 48, "bgr0"
        sounds = [container.add_stream("pcm_s16le", rate=RATE, layout="mono") for _ in tracks]
        for number in range(frames):
            picture = np.full((48, 64, 3), 255 if number == 10 else 40, np.uint8)
            container.mux(video.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(video.encode(None))
        for stream, track in zip(sounds, tracks, strict=True):
            whole = np.rint(np.clip(track, -1, 1) * 32767).astype(np.int16)[None]
            frame = av.AudioFrame.from_ndarray(whole, format="s16", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = RATE, 0, Fraction(1, RATE)
            container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    return path


def coherence(first: np.ndarray, second: np.ndarray) -> float:
    """The share of ``second`` that a linear filter makes of ``first``: what of it went through."""
    from scipy.signal import coherence as by_frequency

    return float(by_frequency(first, second, RATE, nperseg=256)[1].mean())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_sound_file_is_as_long_and_its_channels_are_one(tmp_path: Path, algorithm: str) -> None:
    left, right = speech(9001), speech(9001, 210.0)
    source = write(tmp_path / "talk.wav", left, right)
    release(Voice(algorithm=algorithm), source, tmp_path / "out.flac")
    made = read(tmp_path / "out.flac")
    assert made.shape == (2, 9001)
    assert np.array_equal(made[0], made[1])  # the difference of channels would carry the original
    assert 0.01 < np.abs(made).max() < 1
    card = read_card(tmp_path / "out.flac")
    assert card.settings["algorithm"] == algorithm
    assert not {"pitch", "warp", "tint", "coefficient", "seed"} & set(card.settings)


@pytest.mark.parametrize("algorithm", ["world", "distort"])
def test_no_sample_of_the_recording_goes_through(tmp_path: Path, algorithm: str) -> None:
    """Loud, quiet, first, last, noise: a vocoder's output is no filtered original anywhere."""
    generator = np.random.default_rng(0)
    for loudness, sound in ((1.0, speech(24_000)), (0.01, speech(24_000)),
                            (1.0, 0.05 * generator.standard_normal(24_000))):  # fmt: skip
        source = write(tmp_path / f"{generator.random()}.wav", loudness * sound)
        target = source.with_suffix(".out.wav")
        release(Voice(algorithm=algorithm), source, target)
        made, before = read(target)[0], read(source)[0]
        by_chance = coherence(before, np.roll(made, 12_345))
        assert coherence(before, made) < by_chance + 0.12
        for part in (slice(0, 4000), slice(-4000, None)):
            assert coherence(before[part], made[part]) < 0.45


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_secrets_are_new_for_every_release(tmp_path: Path, algorithm: str) -> None:
    source = write(tmp_path / "talk.wav", speech(8000))
    for name in ("a.wav", "b.wav"):
        release(Voice(algorithm=algorithm), source, tmp_path / name)
    assert not np.array_equal(read(tmp_path / "a.wav"), read(tmp_path / "b.wav"))


def test_a_seed_repeats_it_and_is_not_private(tmp_path: Path) -> None:
    source = write(tmp_path / "talk.wav", speech(8000))
    for name in ("a.wav", "b.wav"):
        promise = release(Voice(seed=3), source, tmp_path / name)
        assert "not private" in promise.randomness
    assert np.array_equal(read(tmp_path / "a.wav"), read(tmp_path / "b.wav"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("samples", [1, 100, 8000])
def test_silence_stays_silence(tmp_path: Path, algorithm: str, samples: int) -> None:
    source = write(tmp_path / "talk.wav", np.zeros(samples))
    release(Voice(algorithm=algorithm), source, tmp_path / "out.wav")
    made = read(tmp_path / "out.wav")
    assert made.shape == (1, samples)
    assert np.abs(made).max() < 1e-4


def test_tags_do_not_survive(tmp_path: Path) -> None:
    source = tmp_path / "talk.mp3"
    with av.open(str(source), "w") as container:
        container.metadata.update({"title": "Jane Doe", "comment": "ward 7"})
        stream = container.add_stream("libmp3lame", rate=RATE, layout="mono")
        frame = av.AudioFrame.from_ndarray(speech(9216).astype(np.float32)[None], "fltp", "mono")
        frame.sample_rate = RATE
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    assert b"Jane" in source.read_bytes()
    for suffix in (".mp3", ".m4a", ".flac", ".ogg", ".wav"):
        release(Voice(), source, tmp_path / f"out{suffix}")
        data = (tmp_path / f"out{suffix}").read_bytes()
        assert b"Jane" not in data
        assert b"ward" not in data
        assert read(tmp_path / f"out{suffix}").shape == read(source).shape


def test_what_a_format_cannot_hold_is_not_released(tmp_path: Path) -> None:
    source = write(tmp_path / "talk.wav", speech(1))
    with pytest.raises(ProtectError, match="cannot hold that few"):
        release(Voice(), source, tmp_path / "out.mp3")
    assert [path.name for path in tmp_path.iterdir()] == ["talk.wav"]


def test_too_loud_is_bent_below_full_scale() -> None:
    loud = np.linspace(-5, 5, 1001)
    bent = within_scale(loud)
    assert np.abs(bent).max() <= 1
    assert (np.diff(bent) >= 0).all()
    quiet = np.abs(loud) < 0.7
    assert np.array_equal(bent[quiet], loud[quiet])


@pytest.mark.parametrize("suffix", [".mkv", ".mp4"])
def test_a_video_has_other_voices_in_the_same_places(tmp_path: Path, suffix: str) -> None:
    """Sound that starts with the flash, is longer than the picture, and comes in two tracks."""
    first = speech(30_000)
    first[: RATE + 100] = 0  # from one second on, when the flash is
    source = film(tmp_path / "a.mkv", first, speech(16_000, 200.0))
    target = tmp_path / f"out{suffix}"
    how = OutputSettings(audio="anonymize", voice={"algorithm": "world"})
    promise = release(protect.make("edges", {}), source, target, output=how)
    with SoundReader(target) as reader:
        assert reader.info.tracks == 2
    made = read(target)[0]
    assert len(made) == 30_000
    assert len(read(target, 1)[0]) == 16_000
    loud = np.abs(made) > 0.1 * np.abs(made).max()
    assert abs(int(loud.argmax()) - (first != 0).argmax()) < 0.032 * RATE
    assert (
        coherence(first[RATE:], made[RATE:])
        < coherence(first[RATE:], np.roll(made[RATE:], 5000)) + 0.12
    )
    card = read_card(tmp_path / f"out{suffix}")
    assert card.settings["audio"] == "anonymize"
    assert card.settings["voice"] == {"algorithm": "world", "speakers": "one"}
    assert "anonymized" in card.done
    assert any("anonymized" in each for each in promise.not_covered)
    # what is not proven about voices stands in the reason of the card, as for kept sound
    assert card.promise == promise
    assert promise.reason.endswith("nothing bounds what can still be recognised in them.")
    assert "Any voices were changed" in promise.reason
    assert "as they were" not in promise.reason


@pytest.mark.parametrize(
    ("settings", "drawn"),
    [
        ({}, "operating system entropy"),
        ({"seed": 5}, "seeded (not private)"),
        (None, "nothing is drawn"),
    ],
)
def test_a_card_says_where_the_secrets_of_voices_come_from(
    tmp_path: Path, settings: dict[str, int] | None, drawn: str
) -> None:
    """The picture of ``edges`` draws nothing; the voices do."""
    source = film(tmp_path / "a.mkv", speech(16_000))
    how = (
        OutputSettings() if settings is None else OutputSettings(audio="anonymize", voice=settings)
    )
    promise = release(protect.make("edges", {}), source, tmp_path / "out.mkv", output=how)
    assert drawn in promise.randomness


def test_kept_sound_is_said_to_be_as_it_was(tmp_path: Path) -> None:
    source = film(tmp_path / "a.mkv", speech(16_000))
    how = OutputSettings(audio="keep")
    promise = release(protect.make("edges", {}), source, tmp_path / "out.mkv", output=how)
    assert "Voices are as they were" in promise.reason
    assert "Voices are as they were" in read_card(tmp_path / "out.mkv").done
    assert coherence(speech(16_000), read(tmp_path / "out.mkv")[0]) > 0.8


@pytest.mark.parametrize(
    ("tracks", "said"), [(1, "Its sound was dropped."), (0, "It had no sound.")]
)
def test_dropped_sound_is_gone_and_said(tmp_path: Path, tracks: int, said: str) -> None:
    source = film(tmp_path / "a.mkv", *[speech(16_000)] * tracks)
    release(protect.make("edges", {}), source, tmp_path / "out.mkv")
    assert said in read_card(tmp_path / "out.mkv").done
    with pytest.raises(MediaError, match="no audio"):
        read(tmp_path / "out.mkv")


def test_no_card_of_a_protected_recording_tells_whether_it_had_sound(tmp_path: Path) -> None:
    told = []
    for name, tracks in (("a", 1), ("b", 0)):
        source = film(tmp_path / f"{name}.mkv", *[speech(16_000)] * tracks)
        method = protect.make("dprp", {"epsilon": 8, "delta": 1e-5, "unit": "video"})
        release(method, source, tmp_path / f"out-{name}.mkv")
        card = read_card(tmp_path / f"out-{name}.mkv")
        told.append((card.done, card.settings, card.versions))
    assert told[0] == told[1]


def test_a_video_without_sound_has_nothing_to_anonymize(tmp_path: Path) -> None:
    source = film(tmp_path / "a.mkv")
    how = OutputSettings(audio="anonymize")
    release(protect.make("edges", {}), source, tmp_path / "out.mkv", output=how)
    card = read_card(tmp_path / "out.mkv")
    assert card.settings["audio"] == "drop"
    assert "voice" not in card.settings


def test_anonymized_sound_voids_a_promise_about_the_whole_recording(tmp_path: Path) -> None:
    source = film(tmp_path / "a.mkv", speech(16_000))
    method = protect.make("dprp", {"epsilon": 8, "delta": 1e-5, "unit": "video"})
    how = OutputSettings(audio="anonymize")
    promise = release(method, source, tmp_path / "out.mkv", output=how)
    assert "without a proof" in promise.reason


def test_a_folder_of_sound(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / "jane.wav", speech(9000))
    write(folder / "john.flac", speech(8000, 90.0))
    film(folder / "film.mkv")
    request = protect.Request(
        source=folder, target=tmp_path / "out", method="voice", settings={}, workers=1
    )
    report = protect.run(request, None, lambda _: None)
    assert report.failed == 0
    assert sorted(path.suffix for path in report.outputs) == [".flac", ".wav"]
    assert [each["name"] for each in report.payload["left_out"]] == ["film.mkv"]
    assert "jane" not in json.dumps(report.payload["outputs"])


@pytest.mark.parametrize(
    ("source", "method", "match"),
    [
        ("a.mp4", "voice", "--audio anonymize"),
        ("a.mp4", "silhouette+voice", "by itself"),
        ("a.wav", "silhouette", "--method voice"),
    ],
)
def test_methods_of_sound_and_of_pictures_are_not_mistaken(
    source: str, method: str, match: str
) -> None:
    with pytest.raises(ProtectError, match=match):
        protect.check_intention(Path(source), Path("out" + Path(source).suffix), method, {})


def test_wishes_for_sound_are_checked() -> None:
    own, voice = protect.sound_wishes(
        "anonymize", {"edges.blur": 3, "voice.algorithm": "world"}, "edges", None
    )
    assert (own, voice) == ({"edges.blur": 3}, {"algorithm": "world"})
    for audio, settings, method in (
        ("loud", {}, "edges"),
        ("keep", {"voice.algorithm": "world"}, "edges"),
        ("anonymize", {"voice.algorithm": "helium"}, "edges"),
        ("keep", {}, "voice"),
    ):
        with pytest.raises(ProtectError, match="Expected"):
            protect.sound_wishes(audio, settings, method, None)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_card_says_what_was_measured_and_nothing_of_frames(
    tmp_path: Path, algorithm: str
) -> None:
    """The numbers on cards are those of the table ``voice``: neither changes without the other."""
    whole = json.loads((REPOSITORY / "benchmarks/voice/results/voice.json").read_text("utf-8"))
    (cell,) = (
        each
        for each in whole["cells"]
        if (each["algorithm"], each["data"]) == (algorithm, "digits")
    )
    # a secret a recording, as it is released
    rates = cell["attacks"]["recording"]
    best = min(found["eer"][0] for name, found in rates.items() if "semi-informed, " in name)
    understood = cell["digits"]["trained on protected"]
    assert MEASURED[algorithm] == (round(100 * best), round(100 * understood))

    source = write(tmp_path / "talk.wav", speech(4000))
    release(Voice(algorithm=algorithm), source, tmp_path / "out.wav")
    heard, page = read_card(tmp_path / "out.wav"), tmp_path / "out.wav.card.md"
    assert heard is not None
    assert f"an equal error rate of {MEASURED[algorithm][0]} %" in heard.done
    assert "frames" not in page.read_text("utf-8")
