"""Randomness that protects people: keyed by the operating system, never by a seed.

A seed is for tests and benchmarks. Whatever is drawn from a seeded source is labelled "not
private" on its card, because whoever knows the seed can subtract the noise.
"""

from __future__ import annotations

import secrets

import numpy as np

_KEY_BITS = 128


class Randomness:
    """A source of generators with 128-bit keys (numpy Philox), one fresh key per generator.

    ``Randomness()`` draws every key from the operating system. ``Randomness(seed)`` derives them
    from the seed and is not private. Keys are never stored, logged or pickled.
    """

    __slots__ = ("_sequence",)

    def __init__(self, seed: int | None = None) -> None:
        self._sequence = None if seed is None else np.random.SeedSequence(seed)

    @property
    def private(self) -> bool:
        return self._sequence is None

    @property
    def label(self) -> str:
        return "operating system entropy" if self.private else "seeded (not private)"

    def generator(self) -> np.random.Generator:
        """A new generator, independent of every other one this source has given."""
        if self._sequence is None:
            key = secrets.randbits(_KEY_BITS)
            return np.random.Generator(np.random.Philox(key=key))
        return np.random.Generator(np.random.Philox(self._sequence.spawn(1)[0]))

    def __repr__(self) -> str:
        return f"Randomness({self.label})"

    def __reduce__(self) -> str:
        raise TypeError("A source of randomness is not stored: make a fresh one instead.")
