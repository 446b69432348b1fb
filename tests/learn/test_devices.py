"""Nothing is left behind on another device: training, caches, noise, checkpoints, two ranks, predict.

There is no GPU here. Everything runs under ``device_check.FakeCuda``, which follows every tensor and
refuses what a GPU would refuse; the numbers must be those of a run without it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from device_check import CUDA, FakeCuda, WrongDeviceError
from sfumato.data import ArrayRecords
from sfumato.errors import SfumatoError
from sfumato.learn import Adam, Plan, Speed, cross_entropy, save_model, train
from sfumato.learn._pose import SkeletonFinder
from sfumato.learn.engine._clipped import lay_out
from sfumato.learn.engine._independence import _observe
from sfumato.learn.engine._random_state import random_state, set_random_state
from sfumato.models import choose_device, decode, device_of
from sfumato.privacy import Randomness, read_card


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))


class Split(nn.Module):
    """A frozen beginning, so that the trunk is cached."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 3)
        self.first.requires_grad_(False)

    def steps(self) -> list[Any]:
        from sfumato.models import Step

        return [
            Step("first", lambda x: self.first(x), (self.first,)),
            Step("last", lambda x: self.last(x.flatten(1)), (self.last,)),
        ]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).flatten(1))  # type: ignore[no-any-return]


def records() -> ArrayRecords:
    draw = np.random.default_rng(0)
    return ArrayRecords(draw.normal(size=(24, 3, 8, 8)).astype(np.float32), draw.integers(0, 3, 24))


def plan(steps: int = 3, **more: Any) -> Plan:
    settings: dict[str, Any] = {
        "epsilon": 4.0, "delta": 1e-4, "records": 24, "batch": 8, "steps": steps, "clip_norm": 1.0,
        "relation": "replace", "unit": "record",
    }  # fmt: skip
    return Plan(**settings | more)


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.cpu().clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("route", ["book-keeping", "func", "loop"])
def test_a_private_step_leaves_no_tensor_behind(route: str) -> None:
    speed = Speed(route=route)  # type: ignore[arg-type]
    here, there = network(), network()
    train(here, records(), plan(), speed=speed, randomness=Randomness(5))
    with FakeCuda() as fake:
        there.to(CUDA)
        train(there, records(), plan(), speed=speed, randomness=Randomness(5), held_out=None)
        assert device_of(there) == CUDA
        found = weights(there)
    assert fake.operations["cuda"] > 100
    for name, tensor in weights(here).items():
        torch.testing.assert_close(found[name], tensor)


def test_caches_and_checkpoints_cross_over_and_back(tmp_path: Path) -> None:
    here, there = Split(), Split()
    train(here, records(), plan(4), optimizer=Adam(), randomness=Randomness(5))
    with FakeCuda():
        there.to(CUDA)
        kept = tmp_path / "run.safetensors"

        def stop(shown: Any) -> None:
            if shown.step == 2:
                raise KeyboardInterrupt

        settings: dict[str, Any] = {"optimizer": Adam(), "checkpoint": kept, "checkpoint_every": 1}
        with pytest.raises(KeyboardInterrupt):
            train(there, records(), plan(4), progress=stop, **settings)
        run = train(there, records(), plan(4), resume=True, held_out=None, **settings)
        card = save_model(run, plan(4), tmp_path / "model.safetensors")
        assert device_of(there) == CUDA
    assert read_card(card).device == "cuda:0"


def test_persons_and_held_out_records_are_on_the_device_too() -> None:
    draw = np.random.default_rng(1)
    owned = ArrayRecords(
        draw.normal(size=(24, 3, 8, 8)).astype(np.float32), draw.integers(0, 3, 24),
        owners=[f"p{number // 3 if number < 18 else 18 + number // 2}" for number in range(24)],
    )  # fmt: skip
    persons = len({owner for each in range(24) for owner in owned[each].owners})
    other = ArrayRecords(
        draw.normal(size=(6, 3, 8, 8)).astype(np.float32), draw.integers(0, 3, 6),
        owners=[f"q{number}" for number in range(6)],
    )  # fmt: skip
    with FakeCuda():
        model = network().to(CUDA)
        run = train(model, owned, plan(2, records=persons, batch=4, unit="person"), held_out=other)
    assert run.history[-1]["held_out_loss"] > 0


def test_a_pose_model_looks_on_its_device() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(3 * 32 * 24, 14 * (48 + 64)), nn.Unflatten(1, (14, 112))
    )
    finder = SkeletonFinder(
        net, (32, 24), tuple("abcdefghijklmn"), lambda output: decode(output, x_bins=48, split=2.0)
    )
    picture = np.random.default_rng(0).integers(0, 256, (40, 40, 3)).astype(np.uint8)
    here = finder.find(picture, [(0, 0, 40, 40)])
    with FakeCuda():
        net.to(CUDA)
        assert finder.device == "cuda:0"
        there = finder.find(picture, [(0, 0, 40, 40)])
    np.testing.assert_allclose(there, here)


def test_the_check_notices_what_is_left_behind() -> None:
    with FakeCuda():
        there = torch.zeros(3, device="cuda")
        assert (there.device, torch.zeros(3).device.type) == (CUDA, "cpu")
        for mistake in (
            lambda: there + torch.ones(3),
            lambda: nn.Linear(3, 2)(there),
            lambda: there.numpy(),
            lambda: torch.cat([there, torch.ones(3)]),
        ):
            with pytest.raises(WrongDeviceError):
                mistake()
        weight = torch.ones(3, device="cuda", requires_grad=True)
        (weight * there).sum().backward()
        assert weight.grad is not None
        assert weight.grad.device == CUDA


def test_a_device_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_device("cpu") == torch.device("cpu")
    for name in ("gpu", "cuda:x", "cpu:1", "", "mps:0", "cuda:-1"):
        with pytest.raises(SfumatoError, match="auto, cpu, cuda, cuda:N, mps"):
            choose_device(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    for name in ("cuda", "cuda:1", "mps"):
        with pytest.raises(SfumatoError, match="torch sees none"):
            choose_device(name)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda", 0)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_device("cuda") == torch.device("cuda", 1)
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(SfumatoError, match="below 2"):
        choose_device("cuda")


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(nn.functional.dropout(x, 0.5))  # type: ignore[no-any-return]


def test_random_numbers_of_the_device_are_watched() -> None:
    """A layer that draws there is told from one that does not, and its draws can be repeated."""
    x, y = torch.randn(6, 4), torch.randint(3, (6,))
    with FakeCuda():
        for model, draws in ((Dropping().to(CUDA), True), (nn.Linear(4, 3).to(CUDA), False)):
            rows = lay_out((x.to(CUDA), y.to(CUDA)), 1)
            cpu, there = torch.get_rng_state(), random_state(CUDA)
            seen = [_observe(model, cross_entropy, rows, 7) for _ in range(2)]
            assert [each.random for each in seen] == [draws, draws]
            assert torch.equal(seen[0].losses.cpu(), seen[1].losses.cpu()), "the same seed"
            # outside, nothing was drawn: neither here nor there
            assert torch.equal(random_state(CUDA), there)
            assert torch.equal(torch.get_rng_state(), cpu)


def test_a_draw_on_the_device_is_no_draw_on_the_cpu() -> None:
    with FakeCuda():
        cpu, there = torch.get_rng_state(), random_state(CUDA)
        torch.rand(3, device=CUDA)
        assert torch.equal(torch.get_rng_state(), cpu)
        assert not torch.equal(random_state(CUDA), there)
        set_random_state(CUDA, there)
        assert torch.equal(random_state(CUDA), there)
