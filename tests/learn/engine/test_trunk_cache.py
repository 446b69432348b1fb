"""The trunk cache changes the time a step takes, not the step; and it leaves nothing behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import step_checks as checks
import torch

from sfumato.data import ArrayRecords
from sfumato.learn import AsIs, MaskedPixels, Plan, Sgd, Speed, VideoClips, train
from sfumato.learn.engine import _trunk as trunk_module
from sfumato.learn.engine._trunk import open_trunk
from sfumato.models import VideoViT
from sfumato.privacy import Randomness

PREPARE = VideoClips(frames=4, height=16, width=16)


def _video(count: int = 8, seed: int = 0) -> ArrayRecords:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (count, 6, 20, 20, 3)).astype(np.uint8)
    mask = np.zeros((count, 6, 20, 20), dtype=bool)
    mask[:, :, :12] = True
    return ArrayRecords(x, rng.integers(3, size=count), mask=mask)


def _model() -> VideoViT:
    """Only the last block and the head train."""
    torch.manual_seed(0)
    model = VideoViT(3, clip=(3, 4, 16, 16), tubelet=(2, 4, 4), width=12, depth=3, heads=2)
    model.requires_grad_(False)
    model.blocks[2].requires_grad_(True)
    model.norm.requires_grad_(True)
    model.head.requires_grad_(True)
    return model


def _plan(**changes: Any) -> Plan:
    settings: dict[str, Any] = {
        "epsilon": 8.0, "delta": 1e-3, "records": 8, "batch": 6, "steps": 4, "clip_norm": 1.0,
        "relation": "replace", "unit": "record",
    }  # fmt: skip
    return Plan(**{**settings, **changes})


def _train(plan: Plan, speed: Speed, data: ArrayRecords | None = None) -> Any:
    return train(
        _model(), data or _video(), plan, speed=speed, prepare=PREPARE, optimizer=Sgd(0.5),
        evaluate_every=100, randomness=Randomness(2),
    )  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"clips": 2},
        {"public_view": MaskedPixels("rest"), "unit": "masked-tokens"},
        {"public_view": MaskedPixels("whole", drop=False), "unit": "masked-tokens", "clips": 2},
        {"public_view": MaskedPixels("rest"), "unit": "masked-tokens", "clips": 2},
    ],
)
def test_a_cached_run_equals_one_without_cache(changes: dict[str, Any]) -> None:
    plan = _plan(**changes)
    cached, plain = _train(plan, Speed()), _train(plan, Speed(trunk_cache=False))
    for (name, p), q in zip(cached.model.named_parameters(), plain.model.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5, msg=name)


def test_the_trunk_runs_once_per_record_and_view(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    real = trunk_module.TrunkCache.features

    def counted(self: Any, seen: Any) -> Any:
        runs.append(1)
        return real(self, seen)

    monkeypatch.setattr(trunk_module.TrunkCache, "features", counted)
    plan = _plan(batch=8, public_view=MaskedPixels(), unit="masked-tokens")
    _train(plan, Speed())
    assert len(runs) == 2 * 8, "everybody is sampled in each of 4 steps, in two views"
    runs.clear()
    _train(plan, Speed(cache_bytes=1000))
    assert len(runs) == 4 * 2 * 8, "above its size limit nothing is kept"


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    real = trunk_module._Shelf.write

    def watched(self: Any, *args: Any) -> None:
        real(self, *args)
        seen.append(os.listdir(tmp_path))

    monkeypatch.setattr(trunk_module._Shelf, "write", watched)
    _train(_plan(), Speed(cache_folder=tmp_path))
    assert seen
    assert not any(seen), "the file is unlinked while in use, so even SIGKILL leaves nothing"
    assert not os.listdir(tmp_path)


def test_a_kept_cache_is_private_named_and_reused(tmp_path: Path) -> None:
    speed = Speed(cache_folder=tmp_path, keep_cache=True)
    first = _train(_plan(batch=8), speed)
    files = list(tmp_path.iterdir())
    assert len(files) == 1
    assert all(os.stat(file).st_mode & 0o777 == 0o600 for file in files)
    assert any("kept on disk" in each for each in first.guarantee.not_covered)
    model, data = _model(), _video()
    with open_trunk(model, data, _plan(), PREPARE, speed) as cache:
        assert cache is not None
        streams = checks.Streams(model, data, _plan(), PREPARE, cache)
        streams.private(range(8))
        assert cache.computed == 1, "the first record opens the shelf, the others are found on it"


def test_the_cache_is_keyed_by_content(tmp_path: Path) -> None:
    """The same places with other pixels must not answer with old features."""
    speed = Speed(cache_folder=tmp_path, keep_cache=True)
    _train(_plan(), speed)
    fresh = _train(_plan(), speed, _video(seed=5))
    plain = _train(_plan(), Speed(trunk_cache=False), _video(seed=5))
    for p, q in zip(fresh.model.parameters(), plain.model.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


def test_no_cache_where_everything_trains_or_nothing_can_be_cut() -> None:
    data, plan = _video(), _plan()
    whole = _model().requires_grad_(True)
    with open_trunk(whole, data, plan, PREPARE, Speed()) as cache:
        assert cache is None
    with open_trunk(checks.make_model(), data, plan, AsIs(), Speed()) as cache:
        assert cache is None
