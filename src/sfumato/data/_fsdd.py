"""Free Spoken Digit Dataset: digits by a few speakers, as the log-mel pictures of AudioMNIST."""

from __future__ import annotations

import itertools
import os

import numpy as np

from sfumato.data._audio import Spoken, log_mel, read_wav
from sfumato.data._problems import Problems, existing_folder, some
from sfumato.data._records import RecordsError
from sfumato.errors import reading

_DIGITS = tuple(str(digit) for digit in range(10))
_TEST_TAKES = 5  # the authors test on takes 0 to 4


@reading("the Free Spoken Digit Dataset as it is published", RecordsError)
def fsdd(root: str | os.PathLike[str], part: str | None = None) -> Spoken:
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
        if part is not None and (int(take) < _TEST_TAKES) != (part == "test"):
            continue
        if len(sound) == 0:
            problems.add("Expected recordings with sound in them, got empty ones: left out.")
            continue
        rows.append((log_mel(sound, rate), int(digit), str(speaker)))
    some(rows, "recordings of spoken digits", problems)
    pictures, digits, speakers = zip(*rows)
    people = tuple(sorted(set(speakers)))
    records = Spoken(
        np.stack(pictures)[..., None],
        np.array(digits, dtype=np.int64),
        owners=[f"speaker_{name}" for name in speakers],
        attributes={"digit": np.array(digits), "speaker": np.searchsorted(people, speakers)},
        classes=_DIGITS,
    )
    records.attribute_classes = {"digit": _DIGITS, "speaker": people}
    records.problems = problems
    return records
