"""Gaussian noise for a whole step at once, from keys of the operating system."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from sfumato.privacy import Randomness

# A fixed number of lanes, each with its own 128-bit key: how many threads fill them changes nothing.
_LANES = 4


class GaussianNoise:
    """Fresh standard normal values for every step; never the same twice, never stored."""

    def __init__(self, randomness: Randomness, threads: int = 2) -> None:
        self._generators = [randomness.generator() for _ in range(_LANES)]
        self._threads = min(threads, _LANES)

    def draw(self, count: int) -> Tensor:
        values = np.empty(count, dtype=np.float32)
        lanes = np.array_split(values, _LANES)

        def fill(lane: int) -> None:
            self._generators[lane].standard_normal(dtype=np.float32, out=lanes[lane])

        if self._threads == 1 or count < 1 << 16:
            for lane in range(_LANES):
                fill(lane)
        else:
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(fill, range(_LANES)))
        return torch.from_numpy(values)


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
