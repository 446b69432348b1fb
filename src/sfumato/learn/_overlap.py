"""Is a recording among others? And do two processes hold the same set of records?

A recording counts as the same if all but a few of its values agree, up to a common scale: another
type, pixels in [0, 1] instead of bytes and a flipped bit are seen through. What was cropped, resized
or encoded anew looks like another recording, and no program can tell (R26).
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from sfumato.data import Record, Records

Values = npt.NDArray[np.float64]
# Values of a recording that are compared with every other one; all of them where these agree.
_SAMPLES = 1024
# Shares of values that may differ: in the sample, in the whole, and of what is not background.
_SAMPLED, _WHOLE, _FOREGROUND = 1e-2, 1e-3, 0.1
# Recordings with fewer different values than this must agree in all of them.
_TELLING = 4
# Relative difference of equal values: the coarsest type in use keeps 8 bits.
_EQUAL = 2.0**-8


class RecordingIndex:
    """A set in which recordings are found again. Keeps samples of their values, not the values."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._places: dict[int, list[int]] = {}
        self.owners: set[str] = set()
        samples: dict[int, list[Values]] = {}
        for place in range(len(records)):
            record = records[place]
            self.owners.update(record.owners)
            self._places.setdefault(record.x.size, []).append(place)
            samples.setdefault(record.x.size, []).append(_values(record, _SAMPLES))
        self._samples = {size: np.stack(rows) for size, rows in samples.items()}

    def holds(self, record: Record) -> bool:
        size = record.x.size
        if size not in self._samples:
            return False
        near = _same(self._samples[size], _values(record, _SAMPLES), _SAMPLED)
        places = [self._places[size][place] for place in np.flatnonzero(near)]
        whole = _values(record, size)
        return any(
            bool(_same(_values(self._records[place], size), whole, _WHOLE)) for place in places
        )


def digest(records: Records) -> bytes:
    """What a process says about its records: everything of every one, in order.

    Each is read once more. A few would not do: one that two ranks hold under two numbers has two coins.
    """
    said = hashlib.sha256(f"{len(records)} {tuple(records.classes)!r}".encode())
    for place in range(len(records)):
        record = records[place]
        for part in (record.x, record.y, record.mask):
            array = np.asarray(0 if part is None else part)
            said.update(
                f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes()
            )
        said.update(repr(record.owners).encode())
    return said.digest()


def _values(record: Record, count: int) -> Values:
    """Some or all values; the same places of every recording of that size."""
    values, size = record.x.ravel(), record.x.size
    if size > count:
        values = values[np.sort(np.random.default_rng(size).choice(size, count, replace=False))]
    with np.errstate(all="ignore"):
        return np.nan_to_num(values.astype(np.float64))


def _same(one: Values, other: Values, share: float) -> npt.NDArray[np.bool_]:
    """All but a ``share`` of the values agree, and those are few beside what is not background."""
    with np.errstate(all="ignore"):
        apart = np.abs(one - other) > _EQUAL * np.maximum(np.abs(one), np.abs(other))
        # not "<=": what has no scale is not a number, and apart
        apart &= ~(np.abs(_scaled(one) - _scaled(other)) <= _EQUAL)
    front = (one != _median(one)) | (other != _median(other))
    spare = 1 if len(np.unique(other)) >= _TELLING else 0
    allowed = np.minimum(share * other.size, _FOREGROUND * front.sum(-1)).clip(spare)
    return np.asarray(apart.sum(-1) <= allowed)


def _scaled(values: Values) -> Values:
    """Without offset and scale; not a number for a constant, which has none."""
    low, high = np.quantile(values, [0.05, 0.95], axis=-1, keepdims=True)
    outer = high == low  # background throughout, but for a little
    low = np.where(outer, values.min(-1, keepdims=True), low)
    high = np.where(outer, values.max(-1, keepdims=True), high)
    return np.asarray((values - low) / (high - low))


def _median(values: Values) -> Values:
    return np.asarray(np.quantile(values, 0.5, axis=-1, keepdims=True, method="lower"))
