"""Features of pictures: taken a batch at a time, the same as all at once."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from sfumato.attributes import _pictures, picture_features


def test_pictures_are_streamed_a_batch_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    network = SimpleNamespace(steps=lambda: [SimpleNamespace(run=nn.AvgPool2d(8))])
    monkeypatch.setattr(_pictures, "efficientnet_lite0", lambda pretrained: network)
    alive: set[int] = set()
    most = 0
    generator = np.random.default_rng(0)
    kept = [generator.integers(0, 256, (20, 16, 3)).astype(np.uint8) for _ in range(130)]

    def pictures() -> Iterator[np.ndarray]:
        nonlocal most
        for number, each in enumerate(kept):
            shown = each.copy()
            alive.add(number)
            weakref.finalize(shown, alive.discard, number)
            most = max(most, len(alive))
            yield shown

    streamed = picture_features(pictures())
    assert streamed.shape == (130, 48)
    assert most <= 65
    assert torch.equal(torch.from_numpy(streamed), torch.from_numpy(picture_features(kept)))
