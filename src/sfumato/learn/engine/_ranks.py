"""Several processes that take one step together (torchrun): one sample, one noise, one sum.

Rank 0 draws the sample and the noise. Every rank clips its own share of the sampled units,
shares are disjoint, sums are added up, and only then is the noise added, once. So the sum and the
Guarantee are those of a single process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.learn.engine._sampling import Indices


class TeamError(SfumatoError):
    """Processes that do not work on the same thing."""


class Team:
    """The processes of this run; a team of one when ``torch.distributed`` is not in use."""

    def __init__(self) -> None:
        together = dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank() if together else 0
        self.size = dist.get_world_size() if together else 1

    @property
    def is_rank_zero(self) -> bool:
        return self.rank == 0

    def check_alike(self, facts: bytes) -> None:
        """Stop every rank if one has other facts than the rest.

        A record under another number on each rank would be sampled twice and counted twice.
        """
        if self.size == 1:
            return
        own = torch.frombuffer(bytearray(hashlib.sha256(facts).digest()), dtype=torch.uint8)
        all_ranks = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(all_ranks, own)
        if any(not torch.equal(other, own) for other in all_ranks):
            raise TeamError(
                "Expected the same plan and the same records in the same order on every rank, got "
                "different ones: let every rank load all records, none of them shuffled or split; "
                "the work is shared out later."
            )

    def agree(self, indices: Indices | None) -> Indices:
        """Rank 0's indices, on every rank."""
        if self.size == 1:
            assert indices is not None
            return indices
        count = torch.tensor([0 if indices is None else len(indices)])
        dist.broadcast(count, 0)
        values = torch.zeros(int(count), dtype=torch.int64)
        if indices is not None:
            values = torch.from_numpy(np.asarray(indices, dtype=np.int64))
        dist.broadcast(values, 0)
        return values.numpy()

    def share(self, indices: Indices) -> Indices:
        """This rank's part; the parts are disjoint and together are everything."""
        return indices[self.rank :: self.size]

    def add_up(self, flat: Tensor) -> Tensor:
        """The sum (not the mean) over ranks."""
        if self.size > 1:
            dist.all_reduce(flat, dist.ReduceOp.SUM)
        return flat

    def follow(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite with rank 0's values."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)
