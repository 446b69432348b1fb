"""What people bring: torch data sets, pairs of arrays, torch optimizers and schedulers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import step_checks as checks
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR, ReduceLROnPlateau, StepLR
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from sfumato.data import RecordsError
from sfumato.learn import (
    CheckpointError,
    OptimizerError,
    Plan,
    PlanError,
    Sgd,
    TrainingError,
    as_records,
    make_job,
    parse_config,
    train,
)
from sfumato.learn.engine._step import StepEngine
from sfumato.privacy import Randomness

DATA = checks.separable(40)
X, Y = torch.from_numpy(DATA.x), torch.from_numpy(DATA.y)


def _plan(**changes: Any) -> Plan:
    return checks.make_plan(**{"records": 40, "batch": 20, "steps": 4, **changes})


def _weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def _trained(data: Any, **more: Any) -> Tensor:
    model = checks.make_model()
    train(model, data, more.pop("plan", _plan()), randomness=Randomness(5), **more)
    return _weights(model)


class Pairs(Dataset[Any]):
    classes = ("a", "b")

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> Any:
        return DATA.x[index], int(Y[index])


@pytest.mark.parametrize("data", [
    TensorDataset(X, Y), (X, Y), (DATA.x, DATA.y), [DATA.x, Y], Pairs(),
    Subset(TensorDataset(X, Y), range(40)),
], ids=["TensorDataset", "tensors", "arrays", "mixed", "own", "Subset"])  # fmt: skip
def test_the_same_records_in_any_form_train_the_same_model(data: Any) -> None:
    assert torch.equal(_trained(data), _trained(DATA))


def test_owners_are_persons_whatever_their_type() -> None:
    plan = _plan(unit="person", records=10, batch=5)
    names = [f"{index % 10}" for index in range(40)]
    expected = _trained((X, Y), plan=plan, owners=names)
    for owners in (np.arange(40) % 10, torch.arange(40) % 10, [(name,) for name in names]):
        assert torch.equal(_trained((X, Y), plan=plan, owners=owners), expected)
    assert torch.equal(_trained(TensorDataset(X, Y), plan=plan, owners=names), expected)


def test_whole_numbers_of_a_data_set_reach_an_embedding() -> None:
    words = TensorDataset(torch.randint(0, 9, (40, 5)), Y % 3)
    model = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(20, 3))
    run = train(model, words, _plan())
    assert any("one item" in said for said in run.guarantee.assumptions)


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(TensorDataset(X, Y))


class Triples(Pairs):
    def __getitem__(self, index: int) -> Any:
        return X[index], Y[index], index


@pytest.mark.parametrize(("data", "owners", "sentence"), [
    (DataLoader(TensorDataset(X, Y)), None, "Pass loader.dataset"),
    (Endless(), None, "map-style"),
    (3, None, "map-style"),
    ((X, Y, Y), None, "pair"),
    ((X, 3), None, "pair"),
    ((X, Y[:5]), None, "40 entries in y"),
    (TensorDataset(X, Y), ["a"] * 3, "40 owners"),
    (DATA, ["a"] * 40, "their own"),
    (Subset(TensorDataset(X, Y), [0, 1, 1]), None, "twice"),
    (Triples(), None, "tuple of 3"),
])  # fmt: skip
def test_what_cannot_be_used_is_one_sentence(data: Any, owners: Any, sentence: str) -> None:
    with pytest.raises(RecordsError, match=sentence) as caught:
        as_records(data, owners)[0]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [40, 30, 3])
def test_records_counted_where_persons_are_meant_are_refused(count: int) -> None:
    """600 records of 100 persons: q would be six times too small."""
    plan = _plan(unit="person", records=count, batch=2)
    with pytest.raises(TrainingError, match=r"Expected records=10, .* of 10 persons"):
        train(checks.make_model(), (X, Y), plan, owners=np.arange(40) % 10)


def test_a_constant_near_the_number_of_persons_is_a_constant() -> None:
    plan = _plan(unit="person", records=12, batch=6)
    train(checks.make_model(), (X, Y), plan, owners=np.arange(40) % 10)


# -- plans -------------------------------------------------------------------------------------------


def test_a_plan_for_a_data_set_has_the_defaults_of_a_training_file(tmp_path: Path) -> None:
    x, y = torch.zeros(600, 3), torch.zeros(600)
    told = {"out": str(tmp_path), "method": "dp-sgd", "data": {"kind": "synthetic", "clips": 600},
            "privacy": {"epsilon": 4.0}, "training": {"epochs": 3}}  # fmt: skip
    plan = Plan.for_(TensorDataset(x, y), epsilon=4.0, epochs=3)
    assert plan == make_job(parse_config(told)).plan
    persons = Plan.for_((x, y), epsilon=4.0, epochs=3, unit="person", batch=10,
                        owners=np.arange(600) % 100)  # fmt: skip
    assert (persons.records, persons.steps, persons.delta) == (100, 30, 1e-3)


@pytest.mark.parametrize(("changes", "sentence"), [
    ({"relation": "add-remove"}, "private"), ({"steps": 3}, "either"), ({"epochs": None}, "either"),
    ({"dataset": None}, "neither"), ({"batch": 64}, "at most 40"),
])  # fmt: skip
def test_a_plan_that_cannot_be_counted_is_one_sentence(
    changes: dict[str, Any], sentence: str
) -> None:
    settings = {"dataset": (X, Y), "epsilon": 2.0, "epochs": 1.0, **changes}
    with pytest.raises(PlanError, match=sentence):
        Plan.for_(**settings)


def test_under_add_remove_the_number_is_stated() -> None:
    plan = Plan.for_((X, Y), epsilon=2.0, epochs=1, relation="add-remove", records=50)
    assert plan.records == 50


# -- optimizers --------------------------------------------------------------------------------------


def test_sgd_of_torch_is_ours() -> None:
    ours = _trained(DATA, optimizer=Sgd(0.3, 0.9, 0.01))
    factory = _trained(
        DATA, optimizer=lambda p: torch.optim.SGD(p, lr=0.3, momentum=0.9, weight_decay=0.01)
    )
    torch.testing.assert_close(factory, ours)
    model = checks.make_model()
    instance = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9, weight_decay=0.01)
    train(model, DATA, _plan(), optimizer=instance, randomness=Randomness(5))
    assert torch.equal(_weights(model), factory)


def test_a_scheduler_is_stepped_once_a_step() -> None:
    rates: list[float | None] = []
    train(checks.make_model(), DATA, _plan(), progress=lambda shown: rates.append(shown.rate),
          optimizer=lambda p: torch.optim.SGD(p, lr=1.0),
          scheduler=lambda o: StepLR(o, step_size=1, gamma=0.5))  # fmt: skip
    assert rates == [1.0, 0.5, 0.25, 0.125]


def test_torch_sees_the_released_gradient_and_nothing_that_was_left_in_grad(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released: list[Tensor] = []
    real = StepEngine.take

    def take(self: StepEngine) -> Any:
        found = real(self)
        released.append(checks.flat(found).clone())
        return found

    monkeypatch.setattr(StepEngine, "take", take)
    model = checks.make_model()
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 1e9)
    before = _weights(model)
    train(model, DATA, _plan(steps=1), optimizer=lambda p: torch.optim.SGD(p, lr=1.0))
    torch.testing.assert_close(before - _weights(model), released[0], rtol=1e-4, atol=1e-6)
    assert all(p.grad is None for p in model.parameters())


def test_the_state_of_a_torch_optimizer_survives_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients are fixed here, so that a run with a stop can be compared with one without."""
    plan = _plan(steps=6)
    settings: dict[str, Any] = {
        "optimizer": lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True),
        "scheduler": lambda o: CosineAnnealingLR(o, T_max=6), "checkpoint_every": 1,
    }  # fmt: skip
    calls: list[int] = []
    stop_at: list[int] = []

    def take(self: StepEngine) -> Any:
        calls.append(1)
        if stop_at and len(calls) > stop_at[0]:
            raise KeyboardInterrupt
        fake = {n: torch.full_like(p, float(len(calls))) for n, p in self._model.named_parameters()}
        return type("Fake", (), {"gradient": fake, "noise_variance": fake, "public_loss": None})

    monkeypatch.setattr(StepEngine, "take", take)
    whole = checks.make_model()
    train(whole, DATA, plan, **settings)
    calls.clear()
    stop_at.append(3)
    path = tmp_path / "run.safetensors"
    with pytest.raises(KeyboardInterrupt):
        train(checks.make_model(), DATA, plan, checkpoint=path, **settings)
    stop_at.clear()
    calls[:] = [1] * 4  # the step that was begun is lost, and its gradient with it
    resumed = checks.make_model()
    run = train(resumed, DATA, plan, checkpoint=path, resume=True, **settings)
    assert run.lost_steps == 1
    # step by step by hand, without the lost one
    expected = checks.make_model()
    adam = settings["optimizer"](list(expected.parameters()))
    schedule = settings["scheduler"](adam)
    for value in (1, 2, 3, 5, 6):
        for parameter in expected.parameters():
            parameter.grad = torch.full_like(parameter, float(value))
        adam.step()
        schedule.step()
    torch.testing.assert_close(_weights(resumed), _weights(expected))
    with pytest.raises(OptimizerError, match="resume with the same"):
        train(checks.make_model(), DATA, plan, checkpoint=path, resume=True,
              optimizer=settings["optimizer"])  # fmt: skip
    with pytest.raises(CheckpointError):
        train(checks.make_model(), DATA, plan, checkpoint=path, **settings)


class Remembering(torch.optim.SGD):
    """Keeps an object that no checkpoint can hold."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["note"] = object()
        return super().step(closure)


def _used(model: nn.Module) -> torch.optim.Optimizer:
    made = torch.optim.Adam(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    made.step()
    return made


@pytest.mark.parametrize(("make", "sentence"), [
    (lambda model: torch.optim.Adam, "lambda parameters: Adam"),
    (lambda model: lambda p: torch.optim.LBFGS(p), "only the noised gradient"),
    (lambda model: lambda p: torch.optim.SparseAdam(p), "steps on the gradients"),
    (lambda model: lambda p: torch.optim.Adam(p[:1]), "lacks some"),
    (lambda model: torch.optim.Adam([*model.parameters(), nn.Parameter(torch.zeros(2))]), "others"),
    (_used, "has taken steps"),
    (lambda model: lambda p: Remembering(p, lr=0.1), "checkpoint could not keep"),
    (lambda model: lambda p: 3, "got int"),
    (lambda model: 3, "got int"),
])  # fmt: skip
def test_an_optimizer_that_will_not_do_is_one_sentence_before_anything_is_drawn(
    make: Any, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StepEngine, "take", lambda self: pytest.fail("noise was drawn"))
    model = checks.make_model()
    with pytest.raises(OptimizerError, match=sentence):
        train(model, DATA, _plan(), optimizer=make(model))


@pytest.mark.parametrize(("optimizer", "scheduler", "sentence"), [
    (lambda p: torch.optim.SGD(p, lr=0.1), lambda o: ReduceLROnPlateau(o), "no measure"),
    (lambda p: torch.optim.SGD(p, lr=0.1), lambda o: 3, "no measure"),
    (Sgd(), lambda o: StepLR(o, 1), "schedule=Schedule"),
])  # fmt: skip
def test_a_scheduler_that_will_not_do_is_one_sentence(
    optimizer: Any, scheduler: Any, sentence: str
) -> None:
    with pytest.raises(OptimizerError, match=sentence):
        train(checks.make_model(), DATA, _plan(), optimizer=optimizer, scheduler=scheduler)
