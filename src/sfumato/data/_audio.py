"""AudioMNIST and FSDD: spoken digits as log-mel pictures (mels, frames, 1) of bytes.

The digit is useful; sex, accent, age and speaker are private.
"""

from __future__ import annotations

import itertools
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.data._problems import Problems, existing_file, existing_folder, require_some
from sfumato.data._records import AttributeRecords, RecordsError
from sfumato.errors import reading

_DIGITS = tuple(str(digit) for digit in range(10))
_FSDD_TEST_TAKES = 5  # its authors test on takes 0 to 4
MELS, FRAMES, _RATE, _RANGE_DB = 40, 32, 16_000, 80.0


@reading("AudioMNIST as it is published", RecordsError)
def audio_mnist(root: str | os.PathLike[str], part: str | None = None) -> AttributeRecords:
    """``data/01/0_01_0.wav`` with ``audioMNIST_meta.txt``, or packed ``logmel.npz``.

    ``part``: takes 0 to 39 train, 40 to 49 test; None is all. The owner is the speaker. Accents are
    compared in lower case; ages are classes in increasing order, as in the PASS paper's table 2.
    """
    if part not in (None, "train", "test"):
        raise RecordsError(f"Expected part train, test or None, got {part!r}.")
    folder = existing_folder(root, "AudioMNIST")
    problems = Problems()
    if (folder / "logmel.npz").is_file():
        speakers = existing_file(folder / "speakers.json", "the speakers of AudioMNIST")
        with np.load(folder / "logmel.npz", allow_pickle=False) as stored:
            pictures, digit, speaker, take = (
                stored[name] for name in ("logmel", "digit", "speaker", "take")
            )
        kept = _takes(take, part)
        pictures, digit, speaker = pictures[kept], digit[kept], speaker[kept]
    else:
        data = folder / "data" if (folder / "data").is_dir() else folder
        speakers = existing_file(data / "audioMNIST_meta.txt", "the speakers of AudioMNIST")
        pictures, digit, speaker = _recordings(data, part, problems)
    return _spoken(
        pictures, digit, speaker, json.loads(speakers.read_text(encoding="utf-8")), problems
    )


def _takes(take: npt.NDArray[Any], part: str | None) -> npt.NDArray[np.bool_]:
    return np.ones(len(take), bool) if part is None else (take < 40) == (part == "train")


def _recordings(
    data: Path, part: str | None, problems: Problems
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any], npt.NDArray[Any]]:
    rows = []
    for path in sorted(data.glob("*/*.wav")):
        digit, speaker, take = path.stem.split("_")
        if not _takes(np.array([int(take)]), part)[0]:
            continue
        rate, sound = read_wav(path)
        if len(sound) == 0:
            problems.add("Expected recordings with sound in them, got empty ones: left out.")
            continue
        rows.append((log_mel(sound, rate), int(digit), int(speaker)))
    require_some(rows, "recordings of AudioMNIST", problems)
    pictures, digits, people = zip(*rows)
    return np.stack(pictures), np.array(digits), np.array(people)


@reading("a WAV file", RecordsError)
def read_wav(path: Path) -> tuple[int, npt.NDArray[Any]]:
    """Sampling rate and samples; whatever else is in the file (title, artist, place) is passed over."""
    from scipy.io import wavfile

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wavfile.WavFileWarning)
        rate, sound = wavfile.read(path)
    return rate, sound


def log_mel(sound: npt.NDArray[Any], rate: int) -> npt.NDArray[np.uint8]:
    """(40, 32) bytes: one second around the middle, 40 mel bands, 80 dB below the loudest to 255."""
    from scipy.signal import resample_poly, stft

    if sound.ndim > 1:
        sound = sound.mean(1)
    if rate != _RATE:
        divisor = int(np.gcd(rate, _RATE))
        sound = resample_poly(sound.astype(np.float64), _RATE // divisor, rate // divisor)
    second = np.zeros(_RATE)
    middle = np.asarray(sound[max((len(sound) - _RATE) // 2, 0) :][:_RATE], dtype=np.float64)
    second[(_RATE - len(middle)) // 2 :][: len(middle)] = middle
    hop = _RATE // FRAMES
    spectrum = stft(second, _RATE, nperseg=1024, noverlap=1024 - hop)[2]
    power = _mel_filters(1024) @ np.abs(spectrum[:, :FRAMES]) ** 2
    level = 10 * np.log10(np.maximum(power, 1e-12))
    scaled = (level - level.max() + _RANGE_DB) / _RANGE_DB
    return np.asarray(np.clip(scaled, 0, 1) * 255).round().astype(np.uint8)


def _mel_filters(size: int) -> npt.NDArray[np.float64]:
    """Triangles evenly spaced on the mel scale (2595 log10(1 + f / 700))."""
    top = 2595 * np.log10(1 + _RATE / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, MELS + 2) / 2595) - 1)
    frequency = np.linspace(0, _RATE / 2, size // 2 + 1)
    left, centre, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (frequency - left) / (centre - left), (right - frequency) / (right - centre)
    return np.maximum(np.minimum(rising, falling), 0.0)


def _spoken(
    pictures: npt.NDArray[np.uint8],
    digit: npt.NDArray[Any],
    speaker: npt.NDArray[Any],
    facts: dict[str, dict[str, Any]],
    problems: Problems,
) -> AttributeRecords:
    ids = np.array([f"{int(number):02d}" for number in speaker])
    known = np.isin(ids, list(facts))
    problems.add("Expected every speaker in the list, got others: left out.", int((~known).sum()))
    pictures, digit, ids = pictures[known], digit[known], ids[known]
    require_some(ids.tolist(), "recordings by listed speakers", problems)
    described: dict[str, dict[str, Any]] = {
        number: {
            "sex": str(fact["gender"]).lower(),
            "accent": str(fact["accent"]).lower(),
            "age": int(fact["age"]),
        }
        for number, fact in facts.items()
    }
    attributes: dict[str, npt.ArrayLike] = {"digit": digit.astype(np.int64)}
    classes: dict[str, tuple[str, ...]] = {"digit": _DIGITS}
    for name in ("sex", "accent", "age"):
        values = sorted({fact[name] for fact in described.values()})
        table = {number: values.index(fact[name]) for number, fact in described.items()}
        attributes[name] = np.array([table[number] for number in ids])
        classes[name] = tuple(str(value) for value in values)
    people = tuple(sorted(set(ids.tolist())))
    attributes["speaker"] = np.searchsorted(people, ids)
    classes["speaker"] = people
    return AttributeRecords(
        pictures[..., None],
        "digit",
        attributes,
        classes,
        owners=[f"speaker_{number}" for number in ids],
        problems=problems,
    )


@reading("the Free Spoken Digit Dataset as it is published", RecordsError)
def fsdd(root: str | os.PathLike[str], part: str | None = None) -> AttributeRecords:
    """``recordings/7_jackson_32.wav``, or samples packed in ``fsdd.npz``.

    ``part``: takes 0 to 4 test, the others train, as its authors say; None is all. The owner is the
    speaker. Recordings have 8 kHz: the upper bands of their pictures are empty.
    """
    if part not in (None, "train", "test"):
        raise RecordsError(f"Expected part train, test or None, got {part!r}.")
    folder = existing_folder(root, "the Free Spoken Digit Dataset")
    problems, rows = Problems(), []
    packed = folder / "fsdd.npz"
    if packed.is_file():
        with np.load(packed, allow_pickle=False) as stored:
            x, offsets, rate = stored["x"], stored["offsets"], int(stored["rate"])
            named = list(zip(*(stored[key].tolist() for key in ("digit", "speaker", "take"))))
        sounds = ((rate, x[start:end]) for start, end in itertools.pairwise(offsets))
    else:
        inner = folder / "recordings"
        paths = sorted((inner if inner.is_dir() else folder).glob("*_*_*.wav"))
        named = [tuple(path.stem.split("_")) for path in paths]
        sounds = (read_wav(path) for path in paths)
    for (digit, speaker, take), (rate, sound) in zip(named, sounds):
        if part is not None and (int(take) < _FSDD_TEST_TAKES) != (part == "test"):
            continue
        if len(sound) == 0:
            problems.add("Expected recordings with sound in them, got empty ones: left out.")
            continue
        rows.append((log_mel(sound, rate), int(digit), str(speaker)))
    require_some(rows, "recordings of spoken digits", problems)
    pictures, digits, speakers = zip(*rows)
    people = tuple(sorted(set(speakers)))
    return AttributeRecords(
        np.stack(pictures)[..., None],
        "digit",
        {
            "digit": np.array(digits, dtype=np.int64),
            "speaker": np.searchsorted(people, speakers),
        },
        {"digit": _DIGITS, "speaker": people},
        owners=[f"speaker_{name}" for name in speakers],
        problems=problems,
    )
