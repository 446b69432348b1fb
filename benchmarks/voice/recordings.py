"""Recordings to attack: strings of real digits, and sentences by voices of a synthesiser."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.signal import resample_poly

from sfumato.errors import SfumatoError

Floats = npt.NDArray[np.float64]
_PAUSE = 400  # samples between digits
_DIGITS_A_STRING = 5
_TEST_TAKES = 10  # the authors' five test takes and five more, so that a point is more than a digit


@dataclass(frozen=True)
class Recording:
    """Mono sound; ``digits`` are (digit, first sample, last sample)."""

    sound: Floats
    speaker: int
    test: bool
    digits: tuple[tuple[int, int, int], ...] = ()


def digit_strings(folder: Path, *, train: int, test: int, seed: int = 0) -> list[Recording]:
    """Of the Free Spoken Digit Dataset: for each of four speakers, strings of five digits at 8 kHz."""
    place = folder / "fsdd.npz"
    if not place.is_file():
        raise SfumatoError(f"Expected fsdd.npz in the folder {folder.name!r}, found none there.")
    with np.load(place, allow_pickle=False) as stored:
        facts = {name: stored[name] for name in ("x", "offsets", "digit", "speaker", "take")}
    generator = np.random.default_rng(seed)
    found = []
    for speaker in np.unique(facts["speaker"]):
        for is_test, wanted in ((False, train), (True, test)):
            part = (facts["take"] < _TEST_TAKES) == is_test
            takes = generator.permutation(np.flatnonzero((facts["speaker"] == speaker) & part))
            for first in range(0, min(len(takes), wanted * _DIGITS_A_STRING), _DIGITS_A_STRING):
                chosen = takes[first : first + _DIGITS_A_STRING]
                found.append(_string(facts, chosen, int(speaker), is_test))
    return found


def _string(
    facts: dict[str, npt.NDArray[np.generic]], takes: npt.NDArray[np.int64], who: int, test: bool
) -> Recording:
    pieces, digits, at = [np.zeros(_PAUSE)], [], _PAUSE
    for take in takes:
        start, end = (int(each) for each in facts["offsets"][take : take + 2])
        piece = np.asarray(facts["x"][start:end], float) / 32768
        digits.append((int(facts["digit"][take]), at, at + len(piece)))
        pieces += [piece, np.zeros(_PAUSE)]
        at += len(piece) + _PAUSE
    return Recording(np.concatenate(pieces), who, test, tuple(digits))


_SENTENCES = (
    "The boy was there when the sun rose, and the fish twisted on the bent hook.",
    "A rod is used to catch pink salmon; the source of the huge river is the clear spring.",
    "Kick the ball straight and follow through, then help the woman get back to her feet.",
    "A pot of tea helps to pass the evening while smoky fires lack flame and heat.",
    "The soft cushion broke the man's fall as the salt breeze came across from the sea.",
)
_DIGIT_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
)  # fmt: skip
_VARIANTS = tuple(f"m{k}" for k in range(1, 9)) + tuple(f"f{k}" for k in range(1, 6))


def synthetic_voices(speakers: int, *, rate: int = 16_000) -> list[Recording]:
    """Sentences by voices of espeak-ng, which differ in variant, accent, pitch and speed.

    They are easier to tell apart than people, and to make alike: what they show is how an attack
    fares with more speakers than four, no more.
    """
    found = []
    for speaker, voice in enumerate(_voices(speakers)):
        for number, sentence in enumerate(_SENTENCES):
            found.append(Recording(_spoken(voice, sentence, rate), speaker, number >= 3))
    return found


def synthetic_digits(
    speakers: int, *, strings: int = 6, rate: int = 8000, seed: int = 2
) -> list[Recording]:
    """Strings of five digits by the same voices, for an attacker who learns from others than its targets."""
    generator = np.random.default_rng(seed)
    return [
        Recording(_spoken(voice, _said(generator), rate), who, False)
        for who, voice in enumerate(_voices(speakers))
        for _ in range(strings)
    ]


def _said(generator: np.random.Generator) -> str:
    return ", ".join(_DIGIT_WORDS[k] for k in generator.integers(0, 10, _DIGITS_A_STRING))


def _voices(speakers: int) -> list[tuple[str, ...]]:
    """What espeak-ng is told, for each speaker."""
    generator = np.random.default_rng(1)
    accents = ("en-us", "en-gb", "en-gb-scotland", "en-029")
    return [
        ("-v", f"{accents[k % 4]}+{_VARIANTS[k % len(_VARIANTS)]}",
         "-p", str(generator.integers(25, 75)), "-s", str(generator.integers(135, 185)))
        for k in range(speakers)
    ]  # fmt: skip


def _spoken(voice: tuple[str, ...], words: str, rate: int) -> Floats:
    program = shutil.which("espeak-ng")
    if program is None:
        raise SfumatoError("Expected espeak-ng on this machine, found none: install it.")
    done = subprocess.run([program, *voice, "--stdout", words], capture_output=True, check=True)
    samples = np.frombuffer(done.stdout[44:][: (len(done.stdout) - 44) // 2 * 2], "<i2") / 32768
    return np.asarray(resample_poly(samples, rate // 50, 441))
