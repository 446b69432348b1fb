"""A person's records are one contribution: the same numbers as a loop over persons, in few passes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import step_checks as checks
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sfumato.learn import BatchNormError, ModelError, Speed, cross_entropy
from sfumato.learn.engine import _persons as persons_module
from sfumato.learn.engine._persons import clipped_persons
from sfumato.learn.engine._probe import route_of
from sfumato.learn.engine._routes import Rows
from sfumato.learn.engine._speed import Route
from sfumato.learn.engine._validate import MixedRecordsError


class Tokens(nn.Module):
    """Embedding, bare parameters, layer norm, linear layers over several rows."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 6, padding_idx=0)
        self.token = nn.Parameter(torch.randn(1, 1, 6))
        self.norm, self.wide = nn.LayerNorm(6), nn.Linear(6, 40)
        self.head = nn.Linear(40, 4)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.table(x) + self.token
        return self.head(torch.tanh(self.wide(self.norm(seen))).mean(1))


class Odd(nn.Module):
    """A parameter that book-keeping does not know: vmap of grad."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6) / 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("bi,oi->bo", x, self.weight)


class Branching(Odd):
    """It looks at values, which vmap cannot trace: one record at a time."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x if float(x.sum()) < 1e9 else -x)


def _convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.Tanh(), nn.Conv2d(6, 40, 1),
        nn.Tanh(), nn.Conv2d(40, 40, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(40, 4),
    )  # fmt: skip


MODELS: dict[str, tuple[Any, Any, Route]] = {
    "linear": (lambda: nn.Sequential(nn.Linear(6, 50), nn.Tanh(), nn.Linear(50, 4)),
               lambda n: torch.randn(n, 6), Route.BOOK_KEEPING),
    "tokens": (Tokens, lambda n: torch.randint(0, 9, (n, 5)), Route.BOOK_KEEPING),
    "convolutions": (_convolutions, lambda n: torch.randn(n, 2, 3, 3), Route.BOOK_KEEPING),
    "vmap": (Odd, lambda n: torch.randn(n, 6), Route.FUNC),
    "loop": (Branching, lambda n: torch.randn(n, 6), Route.LOOP),
}  # fmt: skip
SIZES = {"even": (3, 3, 3, 3), "uneven": (1, 2, 2, 3, 5, 9), "one each": (1, 1, 1)}


def _persons(sizes: tuple[int, ...], values: Any, clips: int = 1) -> list[Rows]:
    made = []
    for size in sizes:
        weights = torch.full((size, clips), 1.0 / clips)
        labels = torch.randint(0, 4, (size,)).repeat_interleave(clips)
        made.append(Rows(values(size * clips), labels, weights))
    return made


def _oracle(model: nn.Module, persons: list[Rows], clip_norm: float) -> tuple[Tensor, Tensor]:
    """Person by person, plain autograd, in double precision."""
    exact = copy.deepcopy(model).double()
    total, norms = torch.zeros(sum(p.numel() for p in exact.parameters())).double(), []
    for rows in persons:
        x = rows.x.double() if rows.x.is_floating_point() else rows.x
        value = F.cross_entropy(exact(x), rows.y)
        found = torch.autograd.grad(value, list(exact.parameters()))
        flat = torch.cat([part.reshape(-1) for part in found])
        norms.append(flat.norm())
        total += flat * min(1.0, clip_norm / float(flat.norm()))
    return total, torch.stack(norms)


@pytest.mark.parametrize("clip_norm", [0.05, 1e3])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", MODELS)
def test_persons_in_one_pass_are_a_loop_over_persons(
    kind: str, sizes: str, clip_norm: float
) -> None:
    torch.manual_seed(3)
    make, values, route = MODELS[kind]
    model, persons = make(), _persons(SIZES[sizes], values)
    found, norms = clipped_persons(model, cross_entropy, persons, clip_norm, Speed())
    chosen = route_of(model)
    assert chosen is not None
    assert chosen.route is route
    expected, lengths = _oracle(model, persons, clip_norm)
    flat = torch.cat([part.reshape(-1) for part in found.values()]).double()
    # the norm of a record may be charged with the rounding of its short form
    torch.testing.assert_close(flat, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))
    torch.testing.assert_close(norms.double(), lengths, rtol=1e-4, atol=1e-7)


def test_clips_of_a_person_are_averaged_too() -> None:
    torch.manual_seed(4)
    make, values, _ = MODELS["linear"]
    model, persons = make(), _persons((2, 3, 4), values, clips=3)
    found, _ = clipped_persons(model, cross_entropy, persons, 0.1, Speed())
    expected, _ = _oracle(model, persons, 0.1)
    flat = torch.cat([part.reshape(-1) for part in found.values()]).double()
    torch.testing.assert_close(flat, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("kind", "sizes", "passes"), [
    ("linear", (4,) * 10, 1), ("vmap", (4,) * 10, 1), ("linear", (2, 3, 4, 4), 1),
    ("linear", (1, 2, 20, 40), 2),
])  # fmt: skip
def test_a_batch_of_persons_is_one_pass(kind: str, sizes: tuple[int, ...], passes: int) -> None:
    make, values, _ = MODELS[kind]
    model, persons = make(), _persons(sizes, values)
    clipped_persons(model, cross_entropy, persons, 1.0, Speed())  # the model is looked at once
    counted: list[int] = []
    model.register_forward_pre_hook(lambda module, args: counted.append(1))
    clipped_persons(model, cross_entropy, persons, 1.0, Speed())
    assert len(counted) == passes


def test_a_person_who_does_not_fit_into_memory_is_taken_alone_and_in_pieces() -> None:
    torch.manual_seed(5)
    make, values, _ = MODELS["linear"]
    model, persons = make(), _persons((2, 2, 7), values)
    few, norms = clipped_persons(model, cross_entropy, persons, 0.1, Speed(micro_batch=4))
    whole, lengths = clipped_persons(model, cross_entropy, persons, 0.1, Speed())
    for name, total in whole.items():
        torch.testing.assert_close(few[name], total, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(norms, lengths, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("sizes", [(3, 3, 3), (2, 3, 4)])
def test_one_bad_record_leaves_out_its_person_and_nobody_else(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(6)
    make, values, _ = MODELS["linear"]
    model, persons = make(), _persons(sizes, values)
    persons[1].x[0, 0] = float("nan")
    found, norms = clipped_persons(model, cross_entropy, persons, 0.1, Speed())
    expected, _ = clipped_persons(model, cross_entropy, [persons[0], persons[2]], 0.1, Speed())
    for name, total in expected.items():
        torch.testing.assert_close(found[name], total, rtol=1e-3, atol=1e-6)
    assert sorted(norms.isinf().tolist()) == [False, False, True]


def test_persons_that_share_a_pass_are_looked_at_as_records_are() -> None:
    """A layer that mixes records only in batches of more than ten would mix persons now."""

    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = nn.Linear(checks.SIZE, checks.CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.own(x)
            return out - out.mean(0) if len(x) > 10 else out

    plan = checks.make_plan(unit="person", clip_norm=0.5)
    data = checks.wild_records(30, owners=10)
    step = checks.make_step(plan, data, model=Late())
    with pytest.raises(MixedRecordsError):
        step.take()


def test_the_order_in_which_persons_are_summed_is_theirs_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sorted by their numbers of records, so that those alike share passes."""
    seen: list[list[int]] = []
    real = persons_module._in_one_pass

    def spy(model: Any, loss: Any, some: Any, *more: Any) -> Any:
        seen.append([rows.records for rows in some])
        return real(model, loss, some, *more)

    monkeypatch.setattr(persons_module, "_in_one_pass", spy)
    plan = checks.make_plan(unit="person", records=6, batch=6)
    data = checks.wild_records(21)
    names = np.repeat(np.arange(6), [1, 6, 1, 6, 1, 6])
    data.items = [type(r)(r.x, r.y, owners=(str(n),)) for r, n in zip(data.items, names)]
    checks.make_step(plan, data).take()
    assert seen == [[1, 1, 1], [6, 6, 6]]


def test_persons_are_clipped_in_full_precision_and_without_batch_statistics() -> None:
    make, values, _ = MODELS["linear"]
    persons = _persons((2, 2), values)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(ModelError, match="autocast"):
        clipped_persons(make(), cross_entropy, persons, 1.0, Speed())
    mixing = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))
    with pytest.raises(BatchNormError):
        clipped_persons(mixing, cross_entropy, persons, 1.0, Speed())
