"""No record moves the sum by more than the clip norm, however its values and the model are chosen.

A hostile search: records and models made to cancel, to overflow and to underflow, on every route.
What a record adds is measured by leaving it out, and against exact sums in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sfumato.learn import Route, Speed, clipped_gradient, route_of
from sfumato.learn.engine import _contributions as contributions

FRAMES, WIDTH = 12, 40
# What rounding may add, by the engine's own bound; the search finds far less.
TINY = 2.0**-8


class Differences(nn.Module):
    """A weighted sum of differences between frames: a static record has no gradient at all."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        h = self.layer(x).reshape(len(x), FRAMES, -1)
        weights = torch.linspace(0.3, 1.7, FRAMES - 1)[:, None].to(h.dtype)
        return ((h[:, 1:] - h[:, :-1]) * weights).sum(1)


class ThereAndBack(nn.Module):
    """One layer used twice, with opposite signs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.linspace(0.3, 1.7, FRAMES)[:, None].to(x.dtype)
        return ((self.layer(x) - self.layer(x.flip(1))) * weights).sum(1)


class Words(nn.Module):
    """A table that is read everywhere and nearly cancels; the record's values scale its words."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(3, 8)

    def forward(self, x: Tensor) -> Tensor:
        index = (x[:, :, 0].abs() > 1).long()
        h = self.table(index) * x[:, :, :1]
        return (h[:, 1:] - h[:, :-1]).sum(1)


class Token(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token, self.norm = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x * self.token)
        return (h[:, 1:] * x[:, :-1] - h[:, :-1] * x[:, 1:]).sum(1)


class Cells(nn.Module):
    """A convolution, frames as cells of a picture."""

    def __init__(self, kernel: int, wide: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(WIDTH, wide, kernel, padding=kernel // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv(x.transpose(1, 2))
        return (h[:, :, 1:] - h[:, :, :-1]).sum(2)


class Gates(nn.Module):
    """A GRU over the frames, there and back."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.GRU(WIDTH, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return (self.inner(x)[0] - self.inner(x.flip(1))[0]).sum(1)


class Single(nn.Module):
    """One row a record: the tiniest values beside the largest gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FRAMES * WIDTH, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(1))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "frame differences, factors kept": lambda: Differences(nn.Linear(WIDTH, 64, bias=False)),
    "frame differences, matrix formed": lambda: Differences(nn.Linear(WIDTH, 4)),
    "one layer twice": ThereAndBack,
    "table of words": Words,
    "token and norm": Token,
    "convolution": lambda: Cells(3, 6),
    "pointwise convolution": lambda: Cells(1, 64),
    "convolution of few cells": lambda: Cells(3, 24),
    "gru": Gates,
    "single row": Single,
}
ROUTES = (Route.BOOK_KEEPING, Route.FUNC, Route.LOOP)


def linear_loss(output: Tensor, y: Tensor) -> Tensor:
    """The label scales a record's gradient."""
    return output.sum(1) * y


@dataclass(frozen=True)
class Attempt:
    """Exponents of what stays, of what moves and of the loss; and whether frames alternate."""

    still: float
    moving: float
    loss: float
    alternating: bool
    seed: int

    @staticmethod
    def random(rng: np.random.Generator) -> Attempt:
        still, moving = rng.uniform(-25, 25, 2)
        return Attempt(still, min(still, moving), rng.uniform(-20, 20), rng.random() < 0.3,
                       int(rng.integers(1 << 30)))  # fmt: skip

    def near(self, rng: np.random.Generator) -> Attempt:
        still, moving, loss = np.array([self.still, self.moving, self.loss]) + rng.normal(size=3)
        return replace(self, still=still, moving=min(still, moving), loss=loss)

    def record(self) -> tuple[Tensor, Tensor]:
        rng = np.random.default_rng(self.seed)
        signs = (-1.0 if self.alternating else 1.0) ** np.arange(FRAMES)[:, None]
        values = rng.normal(size=WIDTH) * 10.0**self.still * signs
        moves = rng.random((FRAMES, 1)) < 0.3
        values = values + moves * rng.normal(size=(FRAMES, WIDTH)) * 10.0**self.moving
        x = values.clip(-3e38, 3e38).astype(np.float32)
        return torch.from_numpy(x)[None], torch.tensor([10.0**self.loss], dtype=torch.float32)


def worst_of(evaluate: Callable[[Attempt], float], seed: int, tries: int) -> float:
    """Random attempts, and as many near the worst one so far."""
    rng = np.random.default_rng(seed)
    worst, start = 0.0, None
    for number in range(tries):
        attempt = Attempt.random(rng) if start is None or number % 2 else start.near(rng)
        found = evaluate(attempt)
        assert math.isfinite(found), f"a value that is not finite reached the sum: {attempt}"
        if found > worst:
            worst, start = found, attempt
    return worst


MIXED = Speed(mixed_precision=True)


@pytest.mark.parametrize(
    ("speed", "clip_norm"),
    [
        *((Speed(route=route), 1e-9) for route in ROUTES),
        (Speed(route=Route.BOOK_KEEPING), 1.0),
        (MIXED, 1e-9),
        (MIXED, 1.0),
    ],
    ids=lambda value: "mixed" if value == MIXED else getattr(value, "route", value),
)
@pytest.mark.parametrize("name", MODELS)
def test_no_record_adds_more_than_the_clip_norm(name: str, speed: Speed, clip_norm: float) -> None:
    torch.manual_seed(0)
    model, route = MODELS[name](), speed.route
    others, labels = torch.randn(3, FRAMES, WIDTH), torch.tensor([1.0, -1.0, 0.1])
    rest, _ = clipped_gradient(model, linear_loss, (others, labels), clip_norm, speed=speed)
    choice = route_of(model)
    assert choice is not None
    # vmap cannot trace a GRU
    assert choice.route is (Route.LOOP if (name, route) == ("gru", Route.FUNC) else route)

    def moved(attempt: Attempt) -> float:
        x, y = attempt.record()
        batch = torch.cat([x, others]), torch.cat([y, labels])
        full, _ = clipped_gradient(model, linear_loss, batch, clip_norm, speed=speed)
        squares = [(full[n].double() - rest[n].double()).square().sum() for n in full]
        return float(torch.stack(squares).sum().sqrt()) / clip_norm

    worst = worst_of(moved, seed=1, tries=60)
    assert worst <= 1 + TINY
    assert worst > 0.9, "the search must reach the bound for it to mean something"


def exact(use: contributions.Product | contributions.Lookup, clip_norm: float) -> Tensor:
    """Clipped gradients of single records in double precision, without any of the engine's sums."""
    g = use.g.double()
    if isinstance(use, contributions.Lookup):
        a = torch.nn.functional.one_hot(use.index, use.entries).double()
        whole = torch.einsum("bte,btd->bed", a, g)
    else:
        whole = torch.einsum("bto,bti->boi", g, use.a.double())
    norms = whole.flatten(1).norm(dim=1)
    return whole * torch.clamp(clip_norm / norms, max=1.0).nan_to_num(1.0)[:, None, None]


def cancelling(rng: np.random.Generator, rows: int, wide: int, tall: int) -> tuple[Tensor, Tensor]:
    """Rows that agree but for a little, and output gradients that nearly add up to nothing."""
    a = rng.normal(size=(1, 1, wide)) + 10.0 ** rng.uniform(-9, 0) * rng.normal(
        size=(1, rows, wide)
    )
    g = np.repeat(rng.normal(size=(1, 1, tall)), rows, 1) * rng.choice([-1.0, 1.0], (1, rows, 1))
    g = g - (1 - 10.0 ** rng.uniform(-9, 0)) * g.mean(1, keepdims=True)
    a, g = a * 10.0 ** rng.uniform(-12, 12), g * 10.0 ** rng.uniform(-12, 6)
    return torch.from_numpy(a.astype(np.float32)), torch.from_numpy(g.astype(np.float32))


@pytest.mark.parametrize(
    ("rows", "wide", "tall"), [(2, 40, 30), (9, 24, 64), (31, 200, 70), (64, 200, 190), (1, 9, 7)]
)
@pytest.mark.parametrize("clip_norm", [1e-6, 1.0])
def test_what_is_added_is_the_clipped_gradient(
    rows: int, wide: int, tall: int, clip_norm: float
) -> None:
    rng = np.random.default_rng(rows)
    formed = 0
    for _ in range(150):
        use = contributions.matrix_gradient(*cancelling(rng, rows, wide, tall))
        assert isinstance(use, contributions.Product), "the case is about factors that are kept"
        _, flat = contributions.norms_and_sums({"w": use}, {"w": wide * tall}, clip_norm)
        off = float((flat.view(tall, wide).double() - exact(use, clip_norm)[0]).norm())
        assert off <= TINY * clip_norm
        formed += bool(use.slack > contributions._TIGHT * max(use.squared_norms(), clip_norm**2))
    assert rows == 1 or 10 < formed < 140, "both ways of summing must have been seen"


def test_the_bound_on_rounding_holds() -> None:
    """Squared norms by Gram matrices are off by less than what is charged for them."""
    rng, bounded = np.random.default_rng(3), 0
    for rows, wide, tall in [
        (2, 64, 300),
        (30, 700, 65),
        (64, 300, 90),
        (192, 70, 70),
        (8, 1500, 1500),
    ]:
        for _ in range(10):
            a, g = cancelling(rng, rows, wide, tall)
            large = torch.ones(1, rows, wide) * 0.5  # half a unit in the last place of the first
            large[:, :, 0] = 4096.0
            for left in (a, large):
                use = contributions.Product(left, g)
                whole = torch.bmm(g.double().transpose(1, 2), left.double())
                off = use.squared_norms().double() - whole.square().sum()
                # infinite: too large for the short form, which is then not used
                assert math.isinf(use.slack) or float(off.abs()) <= float(use.slack) + 1e-30
                bounded += math.isfinite(use.slack)
    assert bounded > 50


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_values_whose_squares_vanish_still_count(rows: int) -> None:
    """Tiny activations beside huge output gradients: their product is neither."""
    for a, g in ((2e-23, 1e18), (1e18, 2e-23), (1e-30, 1e30)):
        use = contributions.Product(torch.full((1, rows, 4000), a), torch.full((1, rows, 30), g))
        norms, flat = contributions.norms_and_sums({"w": use}, {"w": 120_000}, 1e-6)
        true = rows * a * g * 120_000**0.5
        assert float(flat.double().norm()) <= 1e-6 * (1 + TINY)
        assert float(norms[0]) == pytest.approx(true, rel=1e-3)


@pytest.mark.parametrize("clip_norm", [1e-6, 1.0])
def test_what_a_table_adds_is_the_clipped_gradient(clip_norm: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(150):
        _, g = cancelling(rng, 40, 3, 16)
        use = contributions.Lookup(torch.from_numpy(rng.integers(2, size=(1, 40))), g, 5)
        _, flat = contributions.norms_and_sums({"w": use}, {"w": 80}, clip_norm)
        off = float((flat.view(5, 16).double() - exact(use, clip_norm)[0]).norm())
        assert off <= TINY * clip_norm


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_coarser_products_are_charged_for(precision: str) -> None:
    """A setting that lets products round to bfloat16 leaves nothing but formed gradients."""
    a, g = torch.randn(1, 4, 40), torch.randn(1, 4, 30)
    before = torch.get_float32_matmul_precision()
    fine = contributions.Product(a, g).slack
    try:
        torch.set_float32_matmul_precision(precision)
        assert bool(contributions.Product(a, g).slack > 1e4 * fine)
    finally:
        torch.set_float32_matmul_precision(before)


class Overflowing(nn.Module):
    """Fine on ordinary records; a value of 1e30 overflows when dropout keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(self.drop(x)) ** 3)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("records", ["rows", "clips"])
def test_records_that_overflow_add_nothing_whatever_dropout_draws(
    route: Route, records: str, loss: Callable[[Tensor, Tensor], Tensor]
) -> None:
    """Two bad records are as harmless as one: what is bad is left out of the pass that found it."""
    torch.manual_seed(0)
    model, speed, clips = Overflowing().train(), Speed(route=route), 2 if records == "clips" else 1
    x, y = torch.randn(6, 6), torch.randint(3, (6,))
    x[[1, 4], 0] = 1e30
    if clips == 2:
        x = torch.stack([torch.randn(6, 6), x], 1)
    bad = 0
    for _ in range(20):
        sums, norms = clipped_gradient(model, loss, (x, y), 0.5, clips=clips, speed=speed)
        bad += int(torch.isinf(norms).sum())
        assert not bool(torch.isnan(norms).any())
        assert all(bool(total.isfinite().all()) for total in sums.values())
        length = torch.stack([total.norm() for total in sums.values()]).norm()
        assert float(length) <= 0.5 * 6 * (1 + TINY)
    assert 0 < bad < 40, "dropout must decide which record overflows"


@pytest.mark.parametrize("speed", [*(Speed(route=route) for route in ROUTES), MIXED])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e25])
def test_bad_records_leave_the_sum_of_the_others_alone(speed: Speed, value: float) -> None:
    """Every kind of layer, every kind of bad value: the sum is that of the good records."""
    for make in MODELS.values():
        torch.manual_seed(1)
        model = make()
        x, y = torch.randn(5, FRAMES, WIDTH), torch.tensor([1.0, -1.0, 2.0, 0.5, 1.0])
        good = [0, 2, 3]
        expected, lengths = clipped_gradient(
            model, linear_loss, (x[good], y[good]), 0.3, speed=speed
        )
        x[1, 3], y[4] = value, value
        sums, norms = clipped_gradient(model, linear_loss, (x, y), 0.3, speed=speed)
        torch.testing.assert_close(norms[good], lengths, rtol=1e-4, atol=1e-6)
        if not math.isfinite(value):
            assert norms[[1, 4]].tolist() == [math.inf, math.inf]
            for name, total in sums.items():
                torch.testing.assert_close(total, expected[name], rtol=1e-4, atol=1e-6)
        assert all(bool(total.isfinite().all()) for total in sums.values())
