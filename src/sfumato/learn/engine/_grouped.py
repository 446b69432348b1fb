"""Consecutive records that belong together: the gradient of a person is the sum over their records.

Summed before any norm is taken, so that the tensor that is clipped is a person's whole gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Grouped:
    """``sizes``: how many consecutive records each group has."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        counts = torch.tensor(self.sizes)
        self._group = torch.arange(len(counts)).repeat_interleave(counts)
        starts = (counts.cumsum(0) - counts).repeat_interleave(counts)
        self._place = torch.arange(len(self._group)) - starts
        self._even = len(set(self.sizes)) == 1

    def __len__(self) -> int:
        return len(self.sizes)

    def add_up(self, each: Tensor) -> Tensor:
        """(records, ...) to (groups, ...); what is not finite stays in its own group."""
        if self._even:
            return each.reshape(len(self), self.sizes[0], *each.shape[1:]).sum(1)
        return each.new_zeros(len(self), *each.shape[1:]).index_add_(
            0, self._group.to(each.device), each
        )

    def side_by_side(self, each: Tensor) -> Tensor:
        """(records, rows, width) to (groups, rows of all its records, width), zeros where fewer."""
        if self._even:
            return each.reshape(len(self), -1, each.shape[2])
        whole = each.new_zeros(len(self), max(self.sizes), *each.shape[1:])
        whole[self._group, self._place] = each
        return whole.flatten(1, 2)
