"""Every combination of switches trains, keeps its promise, and shows only public things."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import step_checks as checks
import torch
from torch import nn

from sfumato.data import ArrayRecords, Record, Subset, VideoItem, VideoRecords
from sfumato.files import OutputExistsError
from sfumato.learn import (
    Adam,
    FeatureMapError,
    LowFrequency,
    MaskedPixels,
    Plan,
    ProjectorError,
    Schedule,
    Sgd,
    Speed,
    Subspace,
    TrainingError,
    plan_for,
    save_model,
    train,
)
from sfumato.learn import _plan as plan_module
from sfumato.learn import _trainer as trainer_module
from sfumato.learn import cross_entropy as cross
from sfumato.learn._projector import Projector, refuse_overlap
from sfumato.learn._scores import score
from sfumato.learn.engine._sampling import records_by_owner
from sfumato.learn.engine._step import StepEngine, record_gradients
from sfumato.learn.engine._streams import Streams
from sfumato.privacy import Guarantee, NoGuarantee, Randomness, check_outputs, read_card

SIZE, CLASSES = checks.SIZE, checks.CLASSES


def _data(count: int = 60, clips: int = 1, seed: int = 0) -> ArrayRecords:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(CLASSES, SIZE)) * 2
    y = rng.integers(CLASSES, size=count)
    shape = (count, clips, SIZE) if clips > 1 else (count, SIZE)
    x = (centres[y][:, None] if clips > 1 else centres[y]) + 0.5 * rng.normal(size=shape)
    mask = np.zeros(shape, dtype=bool)
    mask[..., : SIZE // 2] = True
    owners = [f"person {i % 20}" for i in range(count)]
    return ArrayRecords(x.astype(np.float32), y, mask=mask, owners=owners)


PUBLIC_SET = {clips: _data(12, clips, seed=50) for clips in (1, 2)}


def _plan(**changes: Any) -> Plan:
    settings: dict[str, Any] = {
        "epsilon": 8.0, "delta": 1e-3, "records": 60, "batch": 30, "steps": 3, "clip_norm": 1.0,
        "relation": "replace", "unit": "record",
    }  # fmt: skip
    return Plan(**{**settings, **changes})


VIEWS = {
    None: "record",
    MaskedPixels(): "masked-tokens",
    LowFrequency(1, 0.5): "features(low-frequency size=1 step=0.5)",
}


@pytest.mark.parametrize(
    ("view", "clips", "projected"), list(itertools.product(VIEWS, (1, 2), (False, True)))
)
def test_any_combination_of_switches_trains(view: Any, clips: int, projected: bool) -> None:
    plan = _plan(
        public_view=view, unit=VIEWS[view], clips=clips,
        projector=Subspace(PUBLIC_SET[clips], rank=5, refresh=2) if projected else None,
    )  # fmt: skip
    model = checks.make_model()
    before = [p.clone() for p in model.parameters()]
    run = train(model, _data(clips=clips), plan, evaluate_every=3)
    assert isinstance(run.guarantee, Guarantee)
    assert run.guarantee.epsilon <= 8.0
    assert str(run.guarantee.unit) == VIEWS[view]
    assert run.guarantee.is_private
    moved = torch.cat([(p - q).flatten() for p, q in zip(model.parameters(), before)])
    assert bool(moved.isfinite().all())
    assert bool(moved.any())
    if projected and view is None:
        # three steps in subspaces of at most 5 directions, found twice
        assert int(torch.linalg.matrix_rank(moved[:, None])) == 1


def test_training_learns_and_shows_held_out_accuracy_only() -> None:
    shown: list[Any] = []
    plan = _plan(epsilon=30.0, records=300, batch=300, steps=20)
    run = train(
        checks.make_model(), _data(300), plan, held_out=_data(100, seed=9), evaluate_every=10,
        optimizer=Sgd(4.0, momentum=0.5), progress=shown.append,
    )  # fmt: skip
    assert run.history[-1]["held_out_accuracy"] > 0.5
    assert run.history[-1]["epsilon"] == pytest.approx(run.guarantee.epsilon, rel=1e-3)  # type: ignore[union-attr]
    shown_to_all = {"step", "epsilon", "held_out_accuracy", "held_out_mean_class_accuracy",
                    "held_out_per_class", "held_out_loss"}  # fmt: skip
    assert [set(row) for row in run.history] == [shown_to_all] * 2
    assert [each.step for each in shown] == list(range(1, 21))
    assert any("held-out" in each for each in run.guarantee.not_covered)


def test_nothing_shown_depends_on_private_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the private sum held still, all that is shown is equal for any private data (mutant 36)."""

    def still(self: Any, drawn: Any) -> Any:
        return {n: torch.zeros_like(p) for n, p in self._model.named_parameters()}

    monkeypatch.setattr(StepEngine, "_clipped", still)

    def shown(seed: int) -> list[Any]:
        seen: list[Any] = []
        run = train(
            checks.make_model(), _data(seed=seed), _plan(), held_out=_data(30, seed=9),
            evaluate_every=1, progress=seen.append, randomness=Randomness(1),
        )  # fmt: skip
        return [seen, run.history, run.guarantee.to_json()]

    assert shown(0) == shown(1)

    real = trainer_module._look

    def leaky(model: Any, plan: Any, spent: int, streams: Any, *others: Any) -> Any:
        found = real(model, plan, spent, streams, *others)
        rows = streams.private(range(10))
        value = float(model(rows.x).detach().sum())
        return trainer_module.Progress(found.step, found.steps, value, found.scores)

    monkeypatch.setattr(trainer_module, "_look", leaky)
    assert shown(0) != shown(1)


def test_owners_are_read_from_the_list_and_no_video_is_decoded(tmp_path: Any) -> None:
    """The files are not even there: opening one would fail."""
    items = [VideoItem(tmp_path / f"{i}.avi", 0, (f"p{i % 3}",)) for i in range(7)]
    videos = VideoRecords(items, ["a"])
    assert records_by_owner(videos, most=2) == [(0, 3), (1, 4), (2, 5)]
    assert records_by_owner(Subset(videos, [6, 1, 0]), most=None) == [(0, 2), (1,)]
    with pytest.raises(Exception, match=r"."):
        videos[0]


def test_scores_count_every_class_alike() -> None:
    data = ArrayRecords(
        np.eye(3, dtype=np.float32)[[0, 0, 0, 0, 1]], [0, 0, 0, 0, 2], classes="abc"
    )
    plan = plan_for("sgd", records=5, batch=5, steps=1)
    found = score(nn.Identity(), data, Streams(nn.Identity(), data, plan, checks.AsIs()), cross)
    assert found.accuracy == pytest.approx(0.8)
    assert found.per_class == {"a": 1.0, "c": 0.0}
    assert found.mean_class_accuracy == pytest.approx(0.5)
    logits, labels = torch.from_numpy(data.x), torch.from_numpy(data.y)
    assert found.loss == pytest.approx(float(nn.functional.cross_entropy(logits, labels)))


def test_the_operator_stream_is_off_by_default_and_named_when_on() -> None:
    log: list[dict[str, Any]] = []
    run = train(checks.make_model(), _data(), _plan(), evaluate_every=3, operator=log.append)
    assert len(log) == 3
    assert any("operator" in each for each in run.guarantee.not_covered)
    quiet = train(checks.make_model(), _data(), _plan(), evaluate_every=3)
    assert not any("operator" in each for each in quiet.guarantee.not_covered)


def test_a_seed_marks_the_run_as_not_private() -> None:
    def run() -> Any:
        return train(checks.make_model(), _data(), _plan(), randomness=Randomness(3))

    first, second = run(), run()
    assert not first.guarantee.is_private
    assert "NOT PRIVATE" in str(first.guarantee)
    for p, q in zip(first.model.parameters(), second.model.parameters()):
        assert torch.equal(p, q)


def test_runs_without_a_seed_never_repeat_their_noise() -> None:
    runs = [train(checks.make_model(), _data(), _plan()) for _ in range(2)]
    first, second = ([p.detach() for p in run.model.parameters()] for run in runs)
    assert not any(torch.equal(p, q) for p, q in zip(first, second))


@pytest.mark.parametrize("speed", [Speed(micro_batch=1), Speed(route="func"), Speed(memory=1)])
def test_no_speed_setting_changes_a_run(speed: Speed) -> None:
    def run(chosen: Speed) -> nn.Module:
        return train(
            checks.make_model(), _data(), _plan(), speed=chosen, randomness=Randomness(3)
        ).model

    for p, q in zip(run(Speed()).parameters(), run(speed).parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


def test_plain_sgd_equals_autograd() -> None:
    """No clipping, no noise, everyone sampled: the ordinary full-batch gradient."""
    data = _data()
    model, other = checks.make_model(), checks.make_model()
    plan = plan_for("sgd", records=60, batch=60, steps=2)
    run = train(model, data, plan, optimizer=Sgd(0.1))
    assert isinstance(run.guarantee, NoGuarantee)
    for _ in range(2):
        value = nn.functional.cross_entropy(other(torch.from_numpy(data.x)), torch.tensor(data.y))
        grads = torch.autograd.grad(value, list(other.parameters()))
        with torch.no_grad():
            for p, g in zip(other.parameters(), grads):
                p -= 0.1 * g
    for p, q in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)


def test_public_only_never_opens_the_private_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, indices: Any) -> Any:
        raise AssertionError("the private stream was read")

    monkeypatch.setattr(Streams, "private", refuse)
    plan = plan_for("public-only", records=60, batch=30, steps=3, relation="replace",
                    public_view=MaskedPixels())  # fmt: skip
    run = train(checks.make_model(), _data(), plan)
    assert run.guarantee.epsilon == 0  # type: ignore[union-attr]


def test_an_accountant_that_contradicts_the_calibration_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A card once said epsilon 0 where 2000 was asked for, because a loss had overflowed."""
    monkeypatch.setattr(plan_module, "calibrate_dpsgd", lambda *_: 1e6)
    with pytest.raises(TrainingError, match="calibrated"):
        train(checks.make_model(), _data(), _plan())


# -- projector -------------------------------------------------------------------------------------


def test_the_projector_is_the_top_left_singular_subspace() -> None:
    gradients = torch.randn(12, 200, generator=torch.Generator().manual_seed(0))
    gradients[:, :5] *= 10
    projector = Projector(gradients, 4)
    left = torch.linalg.svd(gradients.double().t(), full_matrices=False).U[:, :4]
    g = torch.randn(200, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        projector(g).double(), left @ (left.t() @ g.double()), rtol=1e-3, atol=1e-4
    )
    torch.testing.assert_close(projector(projector(g)), projector(g), rtol=1e-3, atol=1e-4)
    assert float(projector.energy().sum()) == pytest.approx(4, rel=1e-4)


def test_dependent_public_gradients_give_a_smaller_subspace() -> None:
    row = torch.randn(1, 50, generator=torch.Generator().manual_seed(0))
    assert Projector(row.repeat(6, 1), 4).basis.shape == (50, 1)


def test_a_public_set_that_holds_a_private_record_is_refused() -> None:
    data = _data()
    shared = checks.Listed([Record(data[5].x.copy(), 3), *(PUBLIC_SET[1][i] for i in range(5))])
    with pytest.raises(ProjectorError, match="in both"):
        train(checks.make_model(), data, _plan(projector=Subspace(shared, rank=3)))
    with pytest.raises(ProjectorError, match="at most 12"):
        Subspace(PUBLIC_SET[1], rank=13)


def _flipped(x: Any) -> Any:
    """One bit of one value."""
    changed = x.copy()
    changed.reshape(-1).view(np.uint8)[5] ^= 0x40
    return changed


@pytest.mark.parametrize("change", [
    lambda x: x.astype(np.float64), lambda x: x.astype(np.float16), lambda x: x / 255,
    lambda x: 3 * x - 1, _flipped, lambda x: _flipped(x.astype(np.float64)),
])  # fmt: skip
def test_a_private_record_in_another_type_is_still_private(change: Any) -> None:
    data = _data()
    public = [PUBLIC_SET[1][i] for i in range(5)]
    refuse_overlap(checks.Listed(public), data, by_person=False)
    shared = checks.Listed([*public, Record(change(data[5].x), 3)])
    with pytest.raises(ProjectorError, match="in both"):
        refuse_overlap(shared, data, by_person=False)


@pytest.mark.parametrize(
    "change", [lambda v: v.astype(np.float32) / 255, lambda v: v.astype(np.int64), _flipped]
)
def test_videos_are_told_apart_and_found_again(change: Any) -> None:
    """Clips of one room, mostly background: different people are different clips."""
    rng = np.random.default_rng(3)
    room = rng.integers(256, size=(1, 24, 24, 3))

    def clip(seed: int) -> Any:
        video = np.repeat(room, 6, 0)
        person = np.random.default_rng(seed)
        for frame in video:
            top, left = person.integers(0, 18, 2)
            frame[top : top + 6, left : left + 3] = person.integers(256, size=(6, 3, 3))
        return video.astype(np.uint8)

    def dark(seed: int) -> Any:
        return np.where(np.arange(24)[:, None, None] == seed, clip(seed), 0).astype(np.uint8)

    for make in (clip, dark):
        private = checks.Listed([Record(make(seed), 0) for seed in range(8)])
        public = [Record(make(seed), 0) for seed in range(8, 14)]
        refuse_overlap(checks.Listed(public), private, by_person=False)
        shared = checks.Listed([*public, Record(change(make(4)), 0)])
        with pytest.raises(ProjectorError, match="in both"):
            refuse_overlap(shared, private, by_person=False)


def test_with_unit_person_the_public_set_is_of_other_people() -> None:
    plan = _plan(unit="person", records=20, batch=10, projector=Subspace(PUBLIC_SET[1], rank=3))
    with pytest.raises(ProjectorError, match="other people"):
        train(checks.make_model(), _data(), plan)
    others = checks.Listed([
        Record(r.x, r.y, owners=("somebody else",)) for r in (PUBLIC_SET[1][i] for i in range(5))
    ])  # fmt: skip
    refuse_overlap(others, _data(), by_person=True)


def _basis(private: ArrayRecords) -> torch.Tensor:
    plan = _plan(projector=Subspace(PUBLIC_SET[1], rank=5))
    step = checks.make_step(plan, private)
    step.take()
    assert step._projector is not None
    return step._projector.basis


def test_the_basis_ignores_private_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit-equal under a change of private data; a basis from the private batch is noticed (35)."""
    assert torch.equal(_basis(_data(seed=0)), _basis(_data(seed=1)))
    monkeypatch.setattr(Streams, "clear", lambda self, records: self.private(range(12)))
    assert not torch.equal(_basis(_data(seed=0)), _basis(_data(seed=1)))


def test_projection_acts_on_the_private_part_only() -> None:
    plan = _plan(
        public_view=MaskedPixels(), unit="masked-tokens", projector=Subspace(PUBLIC_SET[1], rank=5)
    )
    step = checks.make_step(plan, _data())
    released = checks.flat(step.take())
    projector = step._projector
    assert projector is not None
    assert float((released - projector(released)).norm()) > 1e-3


def test_record_gradients_are_unclipped() -> None:
    plan, data = _plan(), _data(4)
    model = checks.make_model()
    rows = checks.Streams(model, data, plan, checks.AsIs()).clear(data)
    assert rows is not None
    found = record_gradients(model, checks.cross_entropy, rows)
    value = nn.functional.cross_entropy(model(torch.from_numpy(data.x)), torch.tensor(data.y))
    grads = torch.autograd.grad(value, list(model.parameters()))
    torch.testing.assert_close(
        found.mean(0), torch.cat([g.flatten() for g in grads]), rtol=1e-4, atol=1e-6
    )


# -- optimizers and refusals -------------------------------------------------------------------------


def test_adam_takes_the_noise_out_of_its_second_moment() -> None:
    """A coordinate with signal moves at Adam's usual pace even under loud noise."""
    torch.manual_seed(0)
    deviation, signal = 1.0, 0.5
    variance = {"w": torch.tensor(deviation**2).expand(400)}
    paces = {}
    for name, noise in (("corrected", variance), ("plain", {"w": torch.zeros(400)})):
        adam, w, state = Adam(0.01), torch.zeros(400), {}
        generator = torch.Generator().manual_seed(1)
        for _ in range(300):
            g = signal + deviation * torch.randn(400, generator=generator)
            adam.update({"w": w}, {"w": g}, state, 0.01, noise)
        paces[name] = float(-w.mean()) / (300 * 0.01)
    assert paces["plain"] < 0.6
    assert 0.8 < paces["corrected"] < 1.3


def test_adam_without_noise_is_torch_adam() -> None:
    w, other = torch.ones(5), torch.ones(5, requires_grad=True)
    reference, state = torch.optim.Adam([other], lr=0.1), {}
    for step in range(4):
        g = torch.arange(5.0) - step
        Adam(0.1).update({"w": w}, {"w": g}, state, 0.1, {"w": torch.zeros(5)})
        other.grad = g.clone()
        reference.step()
    torch.testing.assert_close(w, other.detach(), rtol=1e-5, atol=1e-6)


def test_momentum_is_torch_sgd() -> None:
    w, other = torch.ones(5), torch.ones(5, requires_grad=True)
    reference = torch.optim.SGD([other], lr=0.1, momentum=0.9, weight_decay=0.01)
    state: dict[str, torch.Tensor] = {}
    for step in range(4):
        g = torch.arange(5.0) - step
        Sgd(0.1, 0.9, 0.01).update({"w": w}, {"w": g}, state, 0.1, {})
        other.grad = g.clone()
        reference.step()
    torch.testing.assert_close(w, other.detach())


def test_warm_up_then_cosine() -> None:
    schedule = Schedule(10, "cosine")
    factors = [schedule.factor(step, 110) for step in range(110)]
    assert factors[0] == pytest.approx(0.1)
    assert factors[9] == factors[10] == 1.0
    assert factors[60] == pytest.approx(0.5)
    assert all(a >= b for a, b in itertools.pairwise(factors[10:]))
    assert factors[-1] < 0.001


def test_a_view_that_loses_nothing_is_refused() -> None:
    psi = LowFrequency(64, 1.0)
    plan = _plan(public_view=psi, unit=f"features({psi.name})")
    with pytest.raises(FeatureMapError, match="loses something"):
        train(checks.make_model(), _data(), plan)


def test_nothing_to_train_on_is_refused() -> None:
    with pytest.raises(TrainingError, match="at least one record"):
        train(checks.make_model(), checks.Listed([]), _plan())


def test_a_model_is_never_saved_without_its_card(tmp_path: Path, monkeypatch: Any) -> None:
    plan = _plan()
    run = train(checks.make_model(), _data(), plan)
    target = tmp_path / "model.safetensors"
    save_model(run, plan, target, settings={"trainable": "everything"})
    card = read_card(target)
    check_outputs(card, tmp_path)
    assert card.promise == run.guarantee
    assert card.settings["noise_multiplier"] == plan.noise_multiplier
    assert card.settings["trainable"] == "everything"
    with pytest.raises(OutputExistsError):
        save_model(run, plan, target)

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no space left")

    monkeypatch.setattr(type(card), "write", fail)
    with pytest.raises(RuntimeError):
        save_model(run, plan, tmp_path / "other.safetensors")
    assert not (tmp_path / "other.safetensors").exists()
