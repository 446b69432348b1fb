"""The engine's sum equals a slow loop over single records, whatever the layer and the route."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sfumato.learn import Route, Speed, clipped_gradient, route_of
from sfumato.models import VideoViT

pytestmark = pytest.mark.usefixtures("double_precision")

BATCH = 5


def oracle(
    model: nn.Module, loss: Any, x: Any, y: Tensor, clip_norm: float, clips: int = 1
) -> tuple[dict[str, Tensor], Tensor]:
    """Autograd on one record at a time, written without any of the engine."""
    named = {n: p for n, p in model.named_parameters() if p.requires_grad}
    total = {n: torch.zeros_like(p) for n, p in named.items()}
    norms = []
    for i in range(len(y)):
        one = x[i] if clips > 1 else x[i : i + 1]
        label = y[i : i + 1].expand(clips) if clips > 1 else y[i : i + 1]
        value = loss(model(one), label).mean()
        grads = torch.autograd.grad(value, list(named.values()), allow_unused=True)
        flat = [torch.zeros_like(p) if g is None else g for g, p in zip(grads, named.values())]
        norm = torch.cat([g.flatten() for g in flat]).norm()
        norms.append(norm)
        for (name, _), g in zip(named.items(), flat):
            total[name] += g * min(1.0, clip_norm / float(norm)) if norm > 0 else 0.0
    return total, torch.stack(norms)


def agree(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    assert found[0].keys() == expected[0].keys()
    torch.testing.assert_close(found[1], expected[1], rtol=tolerance, atol=tolerance)
    for name in expected[0]:
        torch.testing.assert_close(found[0][name], expected[0][name], rtol=1e-9, atol=tolerance)


class Flat(nn.Module):
    """``body`` then the mean over all remaining axes but channels, then a frozen read-out."""

    def __init__(self, body: nn.Module, channels_last: bool = False) -> None:
        super().__init__()
        self.body, self.channels_last = body, channels_last

    def forward(self, x: Tensor) -> Tensor:
        out = self.body(x)
        if self.channels_last:
            return out.reshape(len(out), -1, out.shape[-1]).square().mean(1)
        return out.reshape(*out.shape[:2], -1).square().mean(2)


class Tokens(nn.Module):
    """Bare parameters: a class token, positions, and a layer scale."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 6))
        self.position = nn.Parameter(torch.randn(1, 5, 6))
        self.scale = nn.Parameter(torch.randn(6))
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head((x * self.scale).tanh().mean(1))


class Windows(nn.Module):
    """Rows of one record side by side on the first axis, as in windowed attention."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.bias = nn.Linear(6, 6), nn.Parameter(torch.randn(1, 2, 6))
        self.norm, self.head = nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, 2, 6)
        rows = self.norm(self.inner(rows) + self.bias).tanh()
        return self.head(rows.reshape(len(x), -1, 6).mean(1))


class Shared(nn.Module):
    """One layer used twice, one weight under two names, one parameter unused."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.unused = nn.Linear(3, 3)
        self.norm, self.head = nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x).tanh())
        x = self.norm(self.first(x).tanh() + self.second(x))
        return self.head(x.mean(1))


class TiedWords(nn.Module):
    """Embedding and output layer share their table."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(7, 6, padding_idx=0)
        self.out = nn.Linear(6, 7)
        self.out.weight = self.words.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.words(x).mean(1).tanh())


class TimeFirst(nn.Module):
    """Records on the second axis inside: the book must notice and step aside."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x.transpose(0, 1)).tanh().mean(0))


class Recurrent(nn.Module):
    def __init__(self, inner: nn.LSTM | nn.GRU) -> None:
        super().__init__()
        self.inner, self.head = inner, nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x)[0][:, -1])


class BothWays(nn.Module):
    """Two layers in both directions, time first, started from the records; the last states count too."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.GRU(6, 4, num_layers=2, bidirectional=True, bias=False)
        self.start, self.head = nn.Linear(6, 4), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        start = self.start(x[:, 0]).expand(4, -1, -1)
        out, last = self.inner(x.transpose(0, 1), start.contiguous())
        return self.head(out.square().mean(0)) + last.sum((0, 2))[:, None]


def _frozen_batch_norm() -> nn.Module:
    body = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 3, 1))
    body[1].running_mean.normal_()
    body[1].running_var.uniform_(0.5, 2)
    body[1].weight.data.normal_()
    body[1].eval()
    return Flat(body)


def _half_frozen() -> nn.Module:
    body = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    body[0].weight.requires_grad_(False)
    body[1].bias.requires_grad_(False)
    return Flat(body, channels_last=True)


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], Route]] = {
    "linear": (lambda: nn.Linear(6, 3), (6,), Route.BOOK_KEEPING),
    "linear over tokens": (
        lambda: Flat(nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 3)), True),
        (4, 6),
        Route.BOOK_KEEPING,
    ),
    "linear over many tokens": (lambda: Flat(nn.Linear(6, 3), True), (70, 6), Route.BOOK_KEEPING),
    "linear without bias": (lambda: nn.Linear(6, 3, bias=False), (6,), Route.BOOK_KEEPING),
    "conv1d": (lambda: Flat(nn.Conv1d(2, 3, 3, padding=1)), (2, 9), Route.BOOK_KEEPING),
    "conv2d": (
        lambda: Flat(nn.Sequential(nn.Conv2d(2, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 3, 1))),
        (2, 8, 8),
        Route.BOOK_KEEPING,
    ),
    "grouped dilated conv2d": (
        lambda: Flat(nn.Conv2d(4, 6, 3, dilation=2, groups=2, padding="same")),
        (4, 7, 7),
        Route.BOOK_KEEPING,
    ),
    "conv1d of few cells": (
        lambda: Flat(nn.Conv1d(5, 9, 3, stride=2, dilation=2, padding=3)),
        (5, 7),
        Route.BOOK_KEEPING,
    ),
    "conv2d of few cells": (
        lambda: Flat(nn.Conv2d(5, 16, (3, 2), (1, 2), (1, 0), bias=False)),
        (5, 3, 4),
        Route.BOOK_KEEPING,
    ),
    "conv3d of few cells": (
        lambda: Flat(nn.Conv3d(4, 9, 3, padding=1)),
        (4, 2, 2, 2),
        Route.BOOK_KEEPING,
    ),
    "linear over tokens that halve": (
        lambda: Flat(nn.Sequential(nn.Linear(300, 160, bias=False), nn.Tanh(), nn.Linear(160, 3))),
        (96, 300),
        Route.BOOK_KEEPING,
    ),
    "pointwise conv2d of few cells": (
        lambda: Flat(nn.Sequential(nn.Conv2d(12, 20, 1), nn.ReLU(), nn.Conv2d(20, 3, 1))),
        (12, 2, 2),
        Route.BOOK_KEEPING,
    ),
    "pointwise conv2d that skips cells": (
        lambda: Flat(nn.Sequential(nn.Conv2d(12, 20, 1, 2), nn.ReLU(), nn.Conv2d(20, 3, 1))),
        (12, 3, 3),
        Route.BOOK_KEEPING,
    ),
    "wide depthwise conv2d": (
        lambda: Flat(
            nn.Sequential(
                nn.Conv2d(3, 3, (5, 3), (2, 1), (2, 4), (1, 3), groups=3),
                nn.ReLU(),
                nn.Conv2d(3, 3, 4, groups=3, bias=False),
            )
        ),
        (3, 9, 8),
        Route.BOOK_KEEPING,
    ),
    "depthwise conv3d": (
        lambda: Flat(nn.Sequential(nn.Conv3d(3, 3, 3, 1, 1, groups=3), nn.Conv3d(3, 3, 2, 2))),
        (3, 4, 6, 6),
        Route.BOOK_KEEPING,
    ),
    "layer norm": (
        lambda: Flat(nn.Sequential(nn.Linear(6, 3), nn.LayerNorm((4, 3))), True),
        (4, 6),
        Route.BOOK_KEEPING,
    ),
    "group norm": (
        lambda: Flat(nn.Sequential(nn.Conv2d(2, 6, 3), nn.GroupNorm(3, 6), nn.Conv2d(6, 3, 1))),
        (2, 6, 6),
        Route.BOOK_KEEPING,
    ),
    "frozen batch norm": (_frozen_batch_norm, (2, 6, 6), Route.BOOK_KEEPING),
    "bare parameters": (Tokens, (4, 6), Route.BOOK_KEEPING),
    "windows": (Windows, (4, 6), Route.BOOK_KEEPING),
    "shared and unused": (Shared, (4, 6), Route.BOOK_KEEPING),
    "partly frozen": (_half_frozen, (4, 6), Route.BOOK_KEEPING),
    "records on another axis": (TimeFirst, (4, 6), Route.FUNC),
    "multi-head attention": (
        lambda: Flat(nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True), True),
        (4, 6),
        Route.FUNC,
    ),
    "gru": (lambda: Recurrent(nn.GRU(6, 4, batch_first=True)), (5, 6), Route.BOOK_KEEPING),
    "gru of two layers, both ways": (BothWays, (5, 6), Route.BOOK_KEEPING),
    "lstm": (lambda: Recurrent(nn.LSTM(6, 4, batch_first=True)), (5, 6), Route.LOOP),
    "video transformer": (
        lambda: VideoViT(3, clip=(3, 4, 16, 16), tubelet=(2, 8, 8), width=12, depth=2, heads=2),
        (3, 4, 16, 16),
        Route.BOOK_KEEPING,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_sum_and_norms_equal_a_loop_over_records(case: str, loss: Any) -> None:
    torch.manual_seed(1)
    make, shape, route = CASES[case]
    model, x, y = make(), torch.randn(BATCH, *shape), torch.randint(3, (BATCH,))
    names = [name for name, _ in model.named_parameters()]
    clip_norm = float(oracle(model, loss, x, y, 1.0)[1].median())  # some are clipped, some are not
    expected = oracle(model, loss, x, y, clip_norm)
    agree(clipped_gradient(model, loss, (x, y), clip_norm), expected)
    choice = route_of(model)
    assert choice is not None
    assert choice.route is route, choice.reason
    assert [name for name, _ in model.named_parameters()] == names
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize(
    "case",
    ["pointwise conv2d of few cells", "conv2d of few cells", "wide depthwise conv2d"],
)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_convolutions_of_several_clips_equal_the_loop(case: str, layout: Any, loss: Any) -> None:
    torch.manual_seed(5)
    make, shape, route = CASES[case]
    model = make().to(memory_format=layout)
    x, y = torch.randn(BATCH, 2, *shape), torch.randint(3, (BATCH,))
    agree(
        clipped_gradient(model, loss, (x, y), 0.1, clips=2),
        oracle(model, loss, x, y, 0.1, clips=2),
    )
    assert route_of(model).route is route  # type: ignore[union-attr]


@pytest.mark.parametrize("make", [lambda: nn.Embedding(7, 3), TiedWords])
def test_embeddings_equal_the_loop(make: Callable[[], nn.Module], loss: Any) -> None:
    torch.manual_seed(2)
    inner = make()
    model = nn.Sequential(inner, nn.Flatten(), nn.Linear(12, 3)) if isinstance(
        inner, nn.Embedding) else inner  # fmt: skip
    x, y = torch.tensor([[1, 2, 2, 0], [3, 3, 3, 3], [0, 0, 1, 6]]), torch.tensor([0, 1, 2])
    agree(clipped_gradient(model, loss, (x, y), 0.2), oracle(model, loss, x, y, 0.2))
    assert route_of(model).route is Route.BOOK_KEEPING  # type: ignore[union-attr]


@pytest.mark.parametrize("route", [Route.AUTO, Route.FUNC, Route.LOOP])
def test_clips_are_averaged_before_clipping(route: Route, loss: Any) -> None:
    torch.manual_seed(3)
    model, x, y = Tokens(), torch.randn(BATCH, 3, 4, 6), torch.randint(3, (BATCH,))
    expected = oracle(model, loss, x, y, 0.2, clips=3)
    speed = Speed(route=route)
    agree(clipped_gradient(model, loss, (x, y), 0.2, clips=3, speed=speed), expected)
    per_clip = y[:, None].expand(-1, 3)
    agree(clipped_gradient(model, loss, (x, per_clip), 0.2, clips=3, speed=speed), expected)


@pytest.mark.parametrize(
    "speed",
    [
        Speed(micro_batch=1),
        Speed(micro_batch=2),
        Speed(memory=1),
        Speed(route=Route.FUNC),
        Speed(route=Route.LOOP),
        Speed(route=Route.FUNC, micro_batch=3),
    ],
)
def test_no_speed_setting_changes_the_result(speed: Speed, loss: Any) -> None:
    torch.manual_seed(4)
    model = VideoViT(3, clip=(3, 4, 16, 16), tubelet=(2, 8, 8), width=12, depth=2, heads=2)
    x, y = torch.randn(BATCH, 3, 4, 16, 16), torch.randint(3, (BATCH,))
    base = clipped_gradient(model, loss, (x, y), 0.5)
    agree(clipped_gradient(model, loss, (x, y), 0.5, speed=speed), base)


def test_dropped_tokens_equal_the_loop(loss: Any) -> None:
    torch.manual_seed(5)
    model = VideoViT(3, clip=(3, 4, 16, 16), tubelet=(2, 8, 8), width=12, depth=2, heads=2)
    x, y = torch.randn(BATCH, 3, 4, 16, 16), torch.randint(3, (BATCH,))
    keep = torch.rand(BATCH, model.tokens) < 0.5
    keep[0] = False
    sums, norms = clipped_gradient(model, loss, ((x, keep), y), 0.3)
    singles = [clipped_gradient(model, loss, ((x[i : i + 1], keep[i : i + 1]), y[i : i + 1]), 0.3,
                                speed=Speed(route="loop")) for i in range(BATCH)]  # fmt: skip
    torch.testing.assert_close(norms, torch.cat([n for _, n in singles]))
    for name in sums:
        total = sum(each[name] for each, _ in singles)
        torch.testing.assert_close(sums[name], total)


def test_rows_that_cancel_do_not_understate_a_norm(loss: Any) -> None:
    """Two huge rows that nearly cancel: the Gram form alone loses all digits here."""
    torch.set_default_dtype(
        torch.float32
    )  # the question is what float32 loses; the oracle has more
    torch.manual_seed(6)
    layer = nn.Linear(40, 30, bias=False)
    a, small = torch.randn(1, 1, 40) * 3e4, torch.randn(1, 1, 40)
    x = torch.cat([a, -a + small, torch.zeros(1, 2, 40)], 1).repeat(2, 1, 1)

    def linear_loss(output: Tensor, y: Tensor) -> Tensor:
        return output.sum((1, 2))

    model = nn.Sequential(layer)
    y = torch.zeros(2, dtype=torch.long)
    expected = oracle(model.double(), linear_loss, x.double(), y, 1.0)
    _, norms = clipped_gradient(model.float(), linear_loss, (x, y), 1.0)
    assert route_of(model).route is Route.BOOK_KEEPING  # type: ignore[union-attr]
    torch.testing.assert_close(norms.double(), expected[1], rtol=2e-3, atol=0)


def test_empty_batch_gives_zeros(loss: Any) -> None:
    model = nn.Linear(6, 3)
    sums, norms = clipped_gradient(
        model, loss, (torch.zeros(0, 6), torch.zeros(0, dtype=torch.long)), 1.0
    )
    assert norms.shape == (0,)
    assert all(not bool(total.any()) for total in sums.values())
    assert sums.keys() == {"weight", "bias"}


@pytest.mark.parametrize("route", list(Route)[:3])
def test_a_record_with_an_infinite_gradient_contributes_nothing(route: Route, loss: Any) -> None:
    torch.manual_seed(7)
    model, x, y = nn.Linear(6, 3), torch.randn(4, 6), torch.randint(3, (4,))
    spoiled = x.clone()
    spoiled[1] = float("nan")
    speed = Speed(route=route)
    sums, norms = clipped_gradient(model, loss, (spoiled, y), 0.5, speed=speed)
    rest = [0, 2, 3]
    expected = oracle(model, loss, x[rest], y[rest], 0.5)
    agree((sums, norms[rest]), expected)
    assert norms[1] == float("inf")


def test_dropout_is_drawn_for_each_record_and_stays_on(loss: Any) -> None:
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(6, 50), nn.Dropout(0.5), nn.Linear(50, 3)).train()
    x, y = torch.randn(1, 6).expand(4, -1), torch.zeros(4, dtype=torch.long)
    _, norms = clipped_gradient(model, loss, (x, y), 1.0)
    assert model.training
    assert len(set(norms.tolist())) == 4


def test_the_model_is_left_as_it_was(loss: Any) -> None:
    torch.manual_seed(9)
    model, x, y = Shared(), torch.randn(4, 4, 6), torch.randint(3, (4,))
    before = copy.deepcopy(model.state_dict())
    clipped_gradient(model, loss, (x, y), 1.0)
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert "forward" not in vars(model)
    F.linear(x, model.first.weight)  # nothing is intercepted any more
