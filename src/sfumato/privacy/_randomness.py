"""Randomness that protects people: keyed by the operating system, never by a seed.

A seed is for tests and benchmarks. Whatever is drawn from a seeded source is labelled "not
private" on its card, because whoever knows the seed can subtract the noise.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_KEY_BITS = 128
_CIPHER_KEY_BYTES = 32


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

    def keystream(self) -> KeyStream:
        """A new stream of random bits, independent of everything else this source has given."""
        if self._sequence is None:
            return KeyStream(secrets.token_bytes(_CIPHER_KEY_BYTES))
        words = self._sequence.spawn(1)[0].generate_state(_CIPHER_KEY_BYTES // 4)
        return KeyStream(words.tobytes())

    def __repr__(self) -> str:
        return f"Randomness({self.label})"

    def __reduce__(self) -> str:
        raise TypeError("A source of randomness is not stored: make a fresh one instead.")


def new_run_id() -> str:
    """A name for one run of a job: 128 random bits, kept in the run's journal and nowhere derived.

    Whoever draws noise under it continues that run; a fresh start takes a fresh one (R20). It
    comes from the operating system even in a seeded run: two runs are two runs.
    """
    return secrets.token_hex(_KEY_BITS // 8)


class KeyStream:
    """Random bits by the gigabyte: AES-256 in counter mode under one key.

    ``next_part`` gives the parts of it one after the other, each of 2^64 counters of its own, apart from
    what ``bits`` gives: what is drawn for the n-th piece of a recording is then the same whoever draws for
    the pieces before it. Parts are only ever passed on the way forward, so that none is drawn twice.
    """

    __slots__ = ("_cipher", "_key", "_part", "_zeros")

    def __init__(self, key: bytes) -> None:
        # a fresh key for every stream, so the counter may start at zero
        self._key, self._part = key, 0
        self._cipher = _counting(key, 0)
        self._zeros = b""

    def skip_to(self, part: int) -> None:
        """Leave out the parts before this one: they are for others to draw."""
        if not self._part <= part < (1 << 64) - 1:  # noise that is drawn twice can be subtracted
            raise ValueError(f"Expected a part from {self._part} on, got {part}: it is used up.")
        self._part = part

    def next_part(self) -> KeyStream:
        """A stream of the next part's bits."""
        stream = KeyStream(self._key)
        self._part += 1
        stream._cipher = _counting(self._key, self._part << 64)
        return stream

    def bits(self, size: int) -> bytearray:
        """The next ``size`` random bytes."""
        if len(self._zeros) != size:
            self._zeros = bytes(size)
        drawn = bytearray(size)
        self._cipher.update_into(self._zeros, drawn)
        return drawn

    def __reduce__(self) -> str:
        raise TypeError("A source of randomness is not stored: make a fresh one instead.")


def _counting(key: bytes, counter: int) -> Any:
    return Cipher(algorithms.AES(key), modes.CTR(counter.to_bytes(16, "big"))).encryptor()
