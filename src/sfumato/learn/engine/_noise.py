"""Gaussian noise for a whole step at once, from a keystream that the operating system keyed."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from sfumato.privacy import Randomness

# Pairs of values made at a time: few calls, and all that is between stays in the cache.
_PAIRS = 1 << 18


class GaussianNoise:
    """Fresh standard normal values for every step; never the same twice, never stored.

    Box and Muller's way: a radius from 62 random bits (so that tails reach beyond 9 deviations) and
    an angle from 32, all of them from a cipher, which no one can predict from noise seen before.
    """

    def __init__(self, randomness: Randomness) -> None:
        self._stream = randomness.keystream()

    def draw(self, count: int) -> Tensor:
        pairs = -(-count // 2)
        values = torch.empty(2, pairs, dtype=torch.float32)  # whatever the default is
        for start in range(0, pairs, _PAIRS):
            drawn = self._stream.bits(12 * min(_PAIRS, pairs - start))
            _normal_pairs(torch.frombuffer(drawn, dtype=torch.int32), values, start)
        return values.flatten()[:count]


def _normal_pairs(words: Tensor, out: Tensor, start: int) -> None:
    """Three words of 32 bits to two independent normal values."""
    high, low, turn = torch.split(words, len(words) // 3)
    place = slice(start, start + len(high))
    # in (0, 1]: float keeps the leading digits of small values, and their low bits fill the rest
    uniform = high.float().abs_().add_(low.float().abs_(), alpha=2.0**-31)
    uniform = uniform.mul_(2.0**-31).clamp_(min=2.0**-64)
    radius = uniform.log_().mul_(-2).sqrt_()
    angle = turn.float().mul_(math.pi / 2**31)
    torch.mul(radius, angle.cos(), out=out[0, place])
    torch.mul(radius, angle.sin_(), out=out[1, place])


def flatten(parts: Mapping[str, Tensor]) -> Tensor:
    """One vector; without a copy where the parts already lie side by side in memory."""
    tensors = list(parts.values())
    place = tensors[0].storage_offset()
    storage = tensors[0].untyped_storage().data_ptr()
    for part in tensors:
        if (
            not part.is_contiguous()
            or part.untyped_storage().data_ptr() != storage
            or part.storage_offset() != place
        ):
            return torch.cat([each.reshape(-1) for each in tensors])
        place += part.numel()
    start = tensors[0].storage_offset()
    return tensors[0].as_strided((place - start,), (1,), start)


def unflatten(flat: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    pieces = torch.split(flat, [part.numel() for part in like.values()])
    return {name: piece.view(like[name].shape) for name, piece in zip(like, pieces)}
