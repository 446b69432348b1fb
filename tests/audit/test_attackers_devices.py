"""Attackers on a device that is not there: nothing is left behind, and the numbers are those of the CPU.

Under ``device_check.FakeCuda`` as in ``tests/learn/test_devices.py``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from device_check import CUDA, FakeCuda
from sfumato import devices
from sfumato.attributes import AttributeTable
from sfumato.audit.attack import _membership_run, _views
from sfumato.audit.attack._attacker import Attacker, Effort
from sfumato.audit.attack._learned_inverse import learned
from sfumato.audit.attack._membership_run import confidences
from sfumato.audit.attack._probe import ProbeSettings, score_probe, train_probe
from sfumato.audit.attack._speakers import trained_scores
from sfumato.audit.attack._views import views_of
from sfumato.audit.measure import write_measures
from sfumato.audit.measure._measure import Result
from sfumato.data import ArrayRecords
from sfumato.devices import used_words, using
from sfumato.learn import AsIs
from sfumato.models import SpeakerEncoder, Step


@contextmanager
def a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """``using("cuda")`` on a machine that has none."""
    with monkeypatch.context() as there, FakeCuda() as fake:
        there.setattr(torch.cuda, "is_available", lambda: True)
        there.setattr(torch.cuda, "device_count", lambda: 1)
        # a GPU draws other numbers from the same seed; here both must draw the same to be compared
        there.setattr(nn.Dropout, "forward", lambda self, x: x)
        with using("cuda") as used:
            yield used
        assert fake.operations["cuda"] > 5


def both(
    monkeypatch: pytest.MonkeyPatch, attack: Callable[[], Any]
) -> tuple[Any, Any, dict[str, str]]:
    """What an attack gives here and there, and what ran where."""
    monkeypatch.setattr(nn.Dropout, "forward", lambda self, x: x)
    here = attack()
    with a_gpu(monkeypatch) as used:
        there = attack()
    return here, there, used


def table() -> AttributeTable:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(80, 6)).astype(np.float32)
    return AttributeTable(
        x=torch.from_numpy(x), labels={"age": torch.from_numpy((x[:, 0] > 0).astype(np.int64))},
        classes={"age": ("old", "young")}, owners=((),) * 80,
    )  # fmt: skip


def test_the_probing_network_runs_where_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ProbeSettings(width=16, epochs=2, batch=32, components=4)

    def attack() -> float:
        network, _ = train_probe(None, table(), settings)
        return score_probe(network, None, table(), table())["age"].accuracy

    here, there, used = both(monkeypatch, attack)
    assert there == pytest.approx(here)
    assert used == {"probing network": "cuda:0"}


def test_an_attacker_with_a_network_gives_its_answers_back(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(1)
    codes = draw.integers(0, 2, 60)
    views = {"a": draw.normal(size=(60, 5)) + (codes[:, None] * draw.normal(size=5)) ** 3}
    network = ProbeSettings(width=16, epochs=6, batch=16, components=4)
    effort = Effort(network_from=10, network=network)
    monkeypatch.setattr(
        "sfumato.audit.attack._attacker._balanced_accuracy", lambda scores, codes: next(marks)
    )

    def attack() -> Any:
        nonlocal marks
        marks = iter([0.0] * 5 + [1.0])  # the network, which comes last, is kept whatever it got
        return Attacker(2, effort).fit(views, codes).predict(views)

    marks: Iterator[float] = iter(())
    here, there, used = both(monkeypatch, attack)
    np.testing.assert_allclose(there, here, atol=1e-5)
    assert "probing network" in used


def test_a_learned_inverse_is_trained_and_asked_there(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    clear = draw.integers(0, 256, (2, 48, 48, 3)).astype(np.uint8)
    mask = np.ones((48, 48), bool)
    pairs = [(each, each // 2, mask) for each in clear]

    def attack() -> Any:
        undo = learned(pairs, at_places=False, steps=2)
        return undo(clear // 2, np.stack([mask, mask])).astype(float)

    here, there, used = both(monkeypatch, attack)
    np.testing.assert_allclose(there, here, atol=1)
    assert used == {"network that learns to undo": "cuda:0"}


def test_voices_are_learned_and_heard_there(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    known, ids = draw.normal(size=(12, 4)), np.arange(12) % 3
    here, there, used = both(monkeypatch, lambda: trained_scores(known, ids, known, steps=3))
    np.testing.assert_allclose(there, here, atol=1e-4)
    assert used == {"networks that learn voices": "cuda:0"}
    torch.manual_seed(0)
    encoder = SpeakerEncoder().eval()
    sound = 0.01 * draw.normal(size=30_000)
    plain = encoder.embed(sound)
    with FakeCuda():
        np.testing.assert_allclose(encoder.to(CUDA).embed(sound), plain, atol=1e-5)


class _Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Conv2d(3, 4, 3, stride=8)

    def steps(self) -> list[Step]:
        return [Step("_blocks.4", lambda x: self.layer(x), (self.layer,))]


def test_the_network_of_the_views_looks_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_views, "efficientnet_lite0", lambda *given, **more: _Tiny())
    clip = np.random.default_rng(0).integers(0, 256, (2, 40, 40, 3)).astype(np.uint8)
    here, there, used = both(monkeypatch, lambda: views_of([clip])["network"])
    np.testing.assert_allclose(there, here, atol=1e-5)
    assert used == {"network that looks at pictures": "cuda:0"}


def test_confidences_of_a_model_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    records = ArrayRecords(draw.normal(size=(5, 4)).astype(np.float32), draw.integers(0, 3, 5))
    monkeypatch.setattr(_membership_run, "preparation", lambda config: AsIs())
    plan: Any = type("Plan", (), {"clips": 1, "public_view": None})()
    model = nn.Linear(4, 3)
    here = confidences(model, records, plan, None)  # type: ignore[arg-type]
    with FakeCuda():
        there = confidences(model.to(CUDA), records, plan, None)  # type: ignore[arg-type]
    np.testing.assert_allclose(there, here, atol=1e-6)


def test_what_ran_where_stands_beside_the_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = Result("an attack", "privacy", False, (0.0, 1.0), value=0.5)
    with a_gpu(monkeypatch) as used:
        there = devices.device_for("probing network")
        for _ in range(6):
            assert (torch.ones(1, device=there) + 1).device == CUDA
        written = write_measures(tmp_path / "one", [result])
    settings = json.loads(written.read_text(encoding="utf-8"))["settings"]
    assert settings == {"device of the probing network": "cuda:0"}
    assert used_words(used) == "cuda:0 (probing network); cpu (the rest)"
    plain = json.loads(write_measures(tmp_path / "two", [result]).read_text(encoding="utf-8"))
    assert plain["settings"] == {}
