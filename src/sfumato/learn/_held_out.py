"""Held-out records are scored in the clear, so none of them may be a private one (R4)."""

from __future__ import annotations

import hashlib

import numpy as np

from sfumato.data import Record, Records
from sfumato.errors import SfumatoError
from sfumato.learn.engine._sampling import owners_of


class HeldOutError(SfumatoError):
    """Held-out records that were not held out."""


def refuse_shared(held_out: Records, private: Records, *, by_person: bool) -> None:
    """Raise if a record, or with unit person anybody's records, are on both sides.

    Records are compared by content, whatever file, folder or list they came from; what was encoded
    anew or cut otherwise looks like another record, and no program can tell.
    """
    if by_person:
        people = {owner for owners in owners_of(held_out) for owner in owners}
        shared = people.intersection(owner for owners in owners_of(private) for owner in owners)
        if shared:
            raise HeldOutError(
                f"Expected held-out records of other people, got {len(shared)} who also own records "
                "to train on: with unit person everything of theirs is promised to be protected, and "
                "scores on held-out records are shown without noise. Hold out people, not records."
            )
    seen = {_values(held_out[index]) for index in range(len(held_out))}
    count = sum(_values(private[index]) in seen for index in range(len(private)))
    if count:
        raise HeldOutError(
            f"Expected held-out records that are not trained on, got {count} that are on both sides "
            "(equal content): their scores would be shown without noise. Name another split, folder "
            "or seed in held_out, or take them out of one side."
        )


def _values(record: Record) -> bytes:
    """The record's numbers alone: stored in another type or with another axis, it is the same."""
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(record.x, dtype=np.float32) + np.float32(0)  # no minus zero
    return hashlib.sha256(numbers.tobytes()).digest()
