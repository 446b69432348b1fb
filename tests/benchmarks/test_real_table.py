"""Table ``real``: who is held back where settings are chosen on public speakers."""

from __future__ import annotations

import torch

from benchmarks.real.private_head import _every_fifth


def test_a_fifth_of_every_speakers_takes_of_every_digit_is_held_back() -> None:
    draw = torch.Generator().manual_seed(0)
    speakers = torch.arange(4).repeat_interleave(100)
    digits = torch.arange(10).repeat(40)
    order = torch.randperm(400, generator=draw)
    held = _every_fifth(speakers[order], digits[order])
    for speaker in range(4):
        for digit in range(10):
            own = (speakers[order] == speaker) & (digits[order] == digit)
            assert int(own.sum()) == 10
            assert int((held & own).sum()) == 2
