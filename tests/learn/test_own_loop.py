"""A loop of one's own cannot show a wrong epsilon: ways to try it, each refused, counted or named."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import step_checks as checks
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from sfumato.data import RecordsError
from sfumato.learn import (
    BatchNormError,
    ChangingBufferError,
    CheckpointError,
    ModelError,
    Plan,
    PrivateStep,
    Progress,
    Sgd,
    StartingWeights,
    StartingWeightsError,
    TrainingError,
    cross_entropy,
    save_model,
    train,
)
from sfumato.privacy import (
    Guarantee,
    NoGuarantee,
    PoissonSampled,
    Randomness,
    SelfComposed,
    read_card,
)

STEPS = 4


def _plan(**changes: Any) -> Plan:
    return checks.make_plan(**{"records": 40, "batch": 20, "steps": STEPS, **changes})


def _step(model: nn.Module | None = None, **more: Any) -> PrivateStep:
    plan = more.pop("plan", None) or _plan()
    return PrivateStep(model or checks.make_model(), cross_entropy, plan, **more)


def _all(step: PrivateStep, data: Any = None) -> PrivateStep:
    for batch in step.batches(checks.separable(40) if data is None else data):
        step(batch)
    return step


def _steps_in(promise: Guarantee | NoGuarantee) -> int:
    assert isinstance(promise, Guarantee)
    assert isinstance(promise.event, SelfComposed)
    assert isinstance(promise.event.event, PoissonSampled)
    return promise.event.count


def _weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


# -- it works ----------------------------------------------------------------------------------------


def test_the_loop_is_train_step_by_step() -> None:
    """The same seed, the same model: nothing is computed otherwise than in ``train``."""
    one, other = checks.make_model(), checks.make_model()
    data, plan = checks.separable(40), _plan()
    run = train(one, data, plan, optimizer=Sgd(0.3, 0.9), randomness=Randomness(5))
    _all(_step(other, optimizer=Sgd(0.3, 0.9), randomness=Randomness(5)), data)
    assert torch.equal(_weights(one), _weights(other))
    assert isinstance(run.guarantee, Guarantee)


def test_the_hook_sees_every_step_and_nothing_private() -> None:
    seen: list[Progress] = []
    step = _all(_step(on_step=seen.append))
    assert [(each.step, each.steps) for each in seen] == [(n + 1, STEPS) for n in range(STEPS)]
    assert all(each.private_loss is None and each.scores is None for each in seen)
    assert step.steps_left == 0


def test_an_optimizer_of_the_program_finds_the_released_gradient() -> None:
    model = checks.make_model()
    step = _step(model, optimizer=None, randomness=Randomness(5))
    own = torch.optim.SGD(model.parameters(), lr=0.3)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 1e9)  # whatever was left there
    for batch in step.batches(checks.separable(40)):
        step(batch)
        own.step()
    expected = checks.make_model()
    _all(_step(expected, optimizer=Sgd(0.3), randomness=Randomness(5)))
    torch.testing.assert_close(_weights(model), _weights(expected))


def test_a_saved_model_carries_its_card_and_its_trainings(tmp_path: Any) -> None:
    step = _all(_step())
    save_model(step.run, _plan(), tmp_path / "model.safetensors")
    promise = read_card(tmp_path / "model.safetensors").promise
    assert isinstance(promise, Guarantee)
    assert isinstance(step.guarantee, Guarantee)
    assert promise.epsilon == step.guarantee.epsilon
    again = StartingWeights.of_file(tmp_path / "model.safetensors")
    assert [training.run for training in again.trainings] == [step.state_dict()["run"]]


def test_persons_of_a_torch_data_set() -> None:
    data = checks.separable(40)
    pairs = TensorDataset(torch.from_numpy(data.x), torch.from_numpy(data.y))
    step = _step(plan=_plan(unit="person", records=10, batch=5))
    for batch in step.batches(pairs, owners=np.arange(40) % 10):
        step(batch)
    assert step.steps_taken == STEPS
    assert any("one item" in said for said in step.guarantee.assumptions)


# -- ways to a wrong epsilon ----------------------------------------------------------------------------


def test_1_more_steps_than_planned_are_refused_through_any_number_of_iterators() -> None:
    data, step = checks.separable(40), _step()
    first, second = step.batches(data), step.batches(data)
    hoarded = [next(first) for _ in range(STEPS)] + [next(second) for _ in range(STEPS)]
    for batch in hoarded[:STEPS]:
        step(batch)
    with pytest.raises(TrainingError, match="at most 4 steps"):
        step(hoarded[-1])
    with pytest.raises(TrainingError, match="at most 4 steps"):
        step.batches(data)
    assert list(first) == []
    assert step.steps_taken == STEPS


def test_2_a_batch_of_ones_own_is_refused() -> None:
    data, step, other = checks.separable(40), _step(), _step()
    ticket = next(step.batches(data))
    foreign = next(other.batches(data))
    x, y = torch.from_numpy(data.x[:5]), torch.from_numpy(data.y[:5])
    for batch in ((x, y), x, None, 3, foreign, copy.copy(ticket)):
        with pytest.raises(TrainingError, match="drawn inside"):
            step(batch)  # type: ignore[arg-type]
    assert step.steps_taken == 0
    step(ticket)


def test_3_a_batch_is_good_for_one_step() -> None:
    step = _step()
    batch = next(step.batches(checks.separable(40)))
    step(batch)
    with pytest.raises(TrainingError, match="used or foreign"):
        step(batch)


def test_4_a_batch_shows_neither_its_records_nor_their_number() -> None:
    batch = next(_step().batches(checks.separable(40)))
    with pytest.raises(TrainingError, match="stays inside"):
        _, _ = batch
    assert not hasattr(batch, "__len__")
    assert set(vars(batch)) == {"step", "number"}


def test_5_stopping_early_keeps_the_epsilon_of_the_whole_plan() -> None:
    """Stopped by what the model shows: epsilon of the steps taken would not be true."""
    step, whole = _step(), _plan().guarantee
    assert isinstance(whole, Guarantee)
    for batch in step.batches(checks.separable(40)):
        step(batch)
        if step.steps_taken == 2:
            break
    assert _steps_in(step.guarantee) == STEPS
    assert isinstance(step.guarantee, Guarantee)
    assert step.guarantee.epsilon == whole.epsilon
    assert "2 of 4 steps" in str(step.guarantee)
    so_far = step.epsilon_so_far
    assert so_far is not None
    assert 0 < so_far < whole.epsilon


def test_6_a_seed_is_marked_and_stays_through_a_saved_state() -> None:
    seeded = _step(randomness=Randomness(1))
    assert isinstance(seeded.guarantee, Guarantee)
    assert not seeded.guarantee.is_private
    later = _step()
    assert isinstance(later.guarantee, Guarantee)
    assert later.guarantee.is_private
    later.load_state_dict(seeded.state_dict())
    assert isinstance(later.guarantee, Guarantee)
    assert not later.guarantee.is_private


def test_7_a_new_private_step_for_every_epoch_is_composed() -> None:
    model, data = checks.make_model(), checks.separable(40)
    one = _all(_step(model), data)
    interleaved = _step(model)
    two = _all(_step(model), data)
    for step in (one, two, interleaved):
        whole = step.guarantee
        assert isinstance(whole, Guarantee)
        assert isinstance(_plan().guarantee, Guarantee)
        assert whole.epsilon > 1.3 * _plan().guarantee.epsilon  # type: ignore[union-attr]
    assert len(two.run.trainings) == 2


def test_7b_training_the_same_object_before_is_composed_or_refused() -> None:
    model, data = checks.make_model(), checks.separable(40)
    train(model, data, _plan())
    after = _step(model).guarantee
    assert isinstance(after, Guarantee)
    assert after.epsilon > 1.3 * _plan().guarantee.epsilon  # type: ignore[union-attr]
    free = checks.make_model()
    train(free, data, _plan(epsilon=float("inf")))
    with pytest.raises(StartingWeightsError, match="without"):
        _step(free)
    declared = _step(free, start=StartingWeights(known=True, other_data=True)).guarantee
    assert any("as declared" in said for said in declared.assumptions)


def test_7c_a_second_training_of_the_same_object_is_composed(tmp_path: Path) -> None:
    model, data = checks.make_model(), checks.separable(40)
    one = train(model, data, _plan()).guarantee
    two = train(model, data, _plan(), checkpoint=tmp_path / "c.safetensors")
    assert isinstance(one, Guarantee)
    assert isinstance(two.guarantee, Guarantee)
    assert two.guarantee.epsilon > 1.3 * one.epsilon
    assert len(two.trainings) == 2
    # what is resumed elsewhere has lost the first, which its journal knows
    with pytest.raises(CheckpointError, match="starting weights"):
        train(
            checks.make_model(), data, _plan(), checkpoint=tmp_path / "c.safetensors", resume=True
        )
    free = checks.make_model()
    train(free, data, _plan(epsilon=float("inf")))
    with pytest.raises(StartingWeightsError, match="without"):
        train(free, data, _plan())


def test_7d_a_training_that_stopped_half_way_is_composed(tmp_path: Path) -> None:
    model, data = checks.make_model(), checks.separable(40)
    alone = _plan().guarantee

    def stop(shown: Progress) -> None:
        if shown.step == 2:
            raise KeyboardInterrupt

    file = tmp_path / "c.safetensors"
    with pytest.raises(KeyboardInterrupt):
        train(model, data, _plan(), checkpoint=file, checkpoint_every=1, progress=stop)
    # the same run goes on: it is no other
    again = train(model, data, _plan(), checkpoint=file, resume=True)
    assert again.guarantee.epsilon == alone.epsilon  # type: ignore[union-attr]
    cut = checks.make_model()
    with pytest.raises(KeyboardInterrupt):
        train(cut, data, _plan(), progress=stop)
    after = train(cut, data, _plan()).guarantee
    assert after.epsilon > 1.3 * alone.epsilon  # type: ignore[union-attr]


@pytest.mark.parametrize("way", ["deepcopy", "pickle", "layer"])
def test_7e_copies_and_layers_of_a_trained_model_carry_what_it_has_been_through(way: str) -> None:
    model, data = checks.make_model(), checks.separable(40)
    train(model, data, _plan())
    half = _step(model)
    half(next(half.batches(data)))
    if way == "deepcopy":
        again = copy.deepcopy(model)
    elif way == "pickle":
        again = pickle.loads(pickle.dumps(model))  # noqa: S301 - ours
    else:
        again = nn.Sequential(*model.children(), nn.Identity())
    found = train(again, data, _plan())
    assert len(found.trainings) == 3
    assert found.guarantee.epsilon > 1.6 * _plan().guarantee.epsilon  # type: ignore[union-attr]
    # and a model that was never trained carries nothing
    assert len(train(checks.make_model(), data, _plan()).trainings) == 1


def test_8_other_records_under_the_same_plan_are_refused() -> None:
    data, step = checks.separable(40), _step()
    step(next(step.batches(data)))
    with pytest.raises(TrainingError, match="others"):
        step.batches(checks.separable(40, seed=1))
    x, y = data.x, data.y
    pair = _step()
    pair(next(pair.batches((x, y))))
    pair(next(pair.batches((x, y))))
    with pytest.raises(TrainingError, match="others"):
        pair.batches((x, y.copy()))


def test_9_a_step_that_fails_half_way_counts() -> None:
    model = checks.make_model()
    calls: list[int] = []

    def loss(output: Tensor, y: Tensor) -> Tensor:
        calls.append(len(y))
        if len(calls) > 40:
            raise KeyError("the program's own mistake")
        return cross_entropy(output, y)

    step = PrivateStep(model, loss, _plan())
    with contextlib.suppress(KeyError):
        for batch in step.batches(checks.separable(40)):
            step(batch)
            calls += [0] * 40
    assert step.steps_taken == 2


def test_10_a_saved_state_keeps_its_count_and_its_plan() -> None:
    data, step = checks.separable(40), _step()
    tickets = step.batches(data)
    for _ in range(3):
        step(next(tickets))
    later = _step()
    later.load_state_dict(step.state_dict())
    assert later.steps_left == 1
    _all(later, data)
    assert later.steps_taken == STEPS
    assert any("last saved state" in said for said in later.guarantee.assumptions)
    with pytest.raises(TrainingError, match="plan"):
        _step(plan=_plan(epsilon=3.0)).load_state_dict(step.state_dict())
    for change in ({"taken": -3}, {"taken": 1.5}, {"taken": None}, {"run": ""}):
        with pytest.raises(TrainingError, match="state"):
            _step().load_state_dict({**step.state_dict(), **change})
    late = _step()
    late.load_state_dict({**step.state_dict(), "taken": STEPS})
    with pytest.raises(TrainingError, match="at most"):
        late.batches(data)


def test_11_a_plan_that_was_changed_or_subclassed_is_refused() -> None:
    class Quiet(Plan):
        noise_deviation = 0.0  # type: ignore[assignment]

    fields = {name: getattr(_plan(), name) for name in Plan.__dataclass_fields__}
    with pytest.raises(Exception, match="Plan itself"):
        _step(plan=Quiet(**fields))
    plan = Plan(**fields)
    step = _step(plan=plan)
    object.__setattr__(plan, "steps", 1000)
    _all(step)
    assert step.steps_taken == STEPS
    assert _steps_in(step.guarantee) == STEPS


def test_12_what_a_model_writes_down_stops_the_step_and_is_undone() -> None:
    class Diary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = nn.Linear(checks.SIZE, checks.CLASSES)
            self.register_buffer("seen", torch.zeros(checks.SIZE))
            self.writes = False

        def forward(self, x: Tensor) -> Tensor:
            if self.writes:
                self.seen.copy_(x[0].detach())  # type: ignore[operator]
            return self.own(x)  # type: ignore[no-any-return]

    model = Diary()
    step = _step(model)
    tickets = step.batches(checks.separable(40))
    step(next(tickets))
    model.writes = True
    with pytest.raises(ChangingBufferError):
        step(next(tickets))
    assert not bool(model.seen.any())  # type: ignore[operator]


def test_13_batch_norm_that_the_program_switches_on_is_refused() -> None:
    model = nn.Sequential(
        nn.Linear(checks.SIZE, 8), nn.BatchNorm1d(8), nn.Linear(8, checks.CLASSES)
    )
    model.eval()
    step = _step(model)
    tickets = step.batches(checks.separable(40))
    step(next(tickets))
    model.train()
    with pytest.raises(BatchNormError, match="GroupNorm"):
        step(next(tickets))


def test_14_what_the_program_does_between_steps_is_an_assumption() -> None:
    said = _step().guarantee.assumptions
    assert any("between steps" in each for each in said)
    assert any("starting weights saw none" in each for each in said)


def test_15_a_loader_of_ones_own_is_refused() -> None:
    pairs = TensorDataset(torch.zeros(40, checks.SIZE), torch.zeros(40, dtype=torch.int64))
    with pytest.raises(RecordsError, match=r"loader\.dataset"):
        _step().batches(DataLoader(pairs, batch_size=4))


def test_16_a_copy_that_would_draw_the_same_noise_is_refused() -> None:
    step = _step()
    ticket = next(step.batches(checks.separable(40)))
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TrainingError, match="one PrivateStep for a run"):
            copied(step)
    with pytest.raises(TrainingError, match="one PrivateStep for a run"):
        copy.deepcopy(ticket)


def test_17_a_fork_that_would_draw_the_same_noise_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = _step()
    ticket = next(step.batches(checks.separable(40)))
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    with pytest.raises(TrainingError, match="same noise"):
        step(ticket)
    assert step.steps_taken == 0


def test_18_coarser_numbers_that_the_program_switches_on_are_refused() -> None:
    model = checks.make_model()
    step = _step(model)
    tickets = step.batches(checks.separable(40))
    step(next(tickets))
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(ModelError, match="autocast"):
        step(next(tickets))
    model.half()
    with pytest.raises(ModelError, match="float32"):
        step(next(tickets))


def test_19_without_noise_there_is_no_guarantee() -> None:
    step = _all(_step(plan=_plan(epsilon=float("inf"))))
    assert isinstance(step.guarantee, NoGuarantee)
    assert step.epsilon_so_far is None


def test_20_layers_that_the_program_unfreezes_are_noised_too() -> None:
    model = checks.make_model()
    model[0].requires_grad_(False)  # type: ignore[index]
    step = _step(model, optimizer=None, plan=_plan(records=1000, batch=2))
    tickets = step.batches(checks.separable(1))
    step(next(tickets))
    model[0].requires_grad_(True)  # type: ignore[index]
    step(next(tickets))
    expected = _plan(records=1000, batch=2).noise_deviation / 2
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert 0.5 * expected < float(parameter.grad.std()) < 2 * expected
