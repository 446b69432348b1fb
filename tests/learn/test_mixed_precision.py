"""Passes in bfloat16, norms, clipping and sums in float32: close to full precision, and as bounded."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sfumato.learn import Route, Speed, SpeedError, clipped_gradient, cross_entropy, route_of
from sfumato.learn.engine import _contributions as contributions
from sfumato.learn.engine import _routes as routes
from sfumato.learn.engine._clipped import check_rows, lay_out
from sfumato.learn.engine._validate import MixedRecordsError, PrecisionError
from sfumato.models import VideoViT

MIXED = Speed(mixed_precision=True)


class Everything(nn.Module):
    """Convolutions of many and of few cells, every norm, a GRU, a table and a bare parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.norm = nn.Conv1d(3, 6, 3, padding=1), nn.GroupNorm(2, 6)
        self.narrow, self.gru = nn.Conv1d(6, 40, 3, stride=4), nn.GRU(40, 8, batch_first=True)
        self.layer, self.table = nn.LayerNorm(8), nn.Embedding(4, 8)
        self.bare, self.head = nn.Parameter(torch.randn(8)), nn.Linear(8, 3)
        self.frozen = nn.BatchNorm1d(8).eval()

    def forward(self, x: Tensor) -> Tensor:
        h = self.gru(self.narrow(self.norm(self.wide(x)).relu()).transpose(1, 2))[0]
        h = self.layer(h + self.table((x[:, 0, :1] > 0).long()))
        return self.head(self.frozen(h.mean(1) * self.bare))


def batch(records: int = 7) -> tuple[Tensor, Tensor]:
    torch.manual_seed(4)
    return torch.randn(records, 3, 24), torch.randint(3, (records,))


def flat(sums: dict[str, Tensor]) -> Tensor:
    return torch.cat([total.flatten() for total in sums.values()])


def test_every_layer_is_close_to_full_precision_and_not_equal() -> None:
    model, (x, y) = Everything(), batch()
    full, lengths = clipped_gradient(model, cross_entropy, (x, y), 0.3)
    found, norms = clipped_gradient(model, cross_entropy, (x, y), 0.3, speed=MIXED)
    assert route_of(model).route is Route.BOOK_KEEPING  # type: ignore[union-attr]
    assert all(total.dtype is torch.float32 for total in found.values())
    torch.testing.assert_close(norms, lengths, rtol=0.03, atol=0.0)
    off = float((flat(found) - flat(full)).norm() / flat(full).norm())
    assert 1e-6 < off < 0.03, "passes in bfloat16 round otherwise, and not much"


def test_norms_and_sums_see_nothing_but_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.dtype] = []
    real = contributions.norms_and_sums

    def watched(uses: Any, sizes: Any, clip_norm: float) -> Any:
        assert not torch.is_autocast_enabled("cpu")
        for use in uses.values():
            seen.extend(t.dtype for t in vars(use).values() if isinstance(t, Tensor))
        return real(uses, sizes, clip_norm)

    monkeypatch.setattr(routes, "norms_and_sums", watched)
    model = VideoViT(3, clip=(3, 4, 16, 16), tubelet=(2, 8, 8), width=12, depth=2, heads=2)
    x, y = torch.randn(4, 3, 4, 16, 16), torch.randint(3, (4,))
    clipped_gradient(model, cross_entropy, (x, y), 1.0, speed=MIXED)
    assert len(seen) > 40
    assert {kind for kind in seen if kind.is_floating_point} == {torch.float32}


def test_a_record_adds_its_own_and_nothing_else() -> None:
    """A batch of another size rounds its records alike: leaving one out leaves the others as they were."""
    model, (x, y) = Everything(), batch(9)
    whole, _ = clipped_gradient(model, cross_entropy, (x, y), 0.3, speed=MIXED)
    parts = [
        clipped_gradient(model, cross_entropy, (x[some], y[some]), 0.3, speed=MIXED)[0]
        for some in (slice(0, 1), slice(1, 9))
    ]
    assert float((flat(whole) - flat(parts[0]) - flat(parts[1])).norm()) < 1e-3 * 0.3
    assert check_rows(model, cross_entropy, lay_out((x, y), 1), 0.3, MIXED)


def test_a_batch_that_rounds_by_its_size_goes_to_the_loop_in_full_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, (x, y) = Everything(), batch()
    real = routes._in_bfloat16

    def coarse(seen: nn.Module, device: torch.device) -> Any:
        run = real(seen, device)
        return lambda *args: run(*args) * (1 + 0.05 * len(args[0]))

    monkeypatch.setattr(routes, "_in_bfloat16", coarse)
    rows = lay_out((x, y), 1)
    assert check_rows(model, cross_entropy, rows, 0.3, MIXED)
    assert route_of(model).route is Route.LOOP  # type: ignore[union-attr]
    found, _ = clipped_gradient(model, cross_entropy, (x, y), 0.3, speed=MIXED)
    full, _ = clipped_gradient(model, cross_entropy, (x, y), 0.3, speed=Speed(route=Route.LOOP))
    torch.testing.assert_close(flat(found), flat(full), rtol=0.0, atol=0.0)


def test_what_cannot_be_mixed_is_refused_with_one_sentence() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 3))

        def forward(self, x: Tensor) -> Tensor:
            return torch.einsum("bic,oc->bo", x.transpose(1, 2), self.weight)

    x, y = batch()
    with pytest.raises(SpeedError, match="route auto or book-keeping with mixed precision"):
        Speed(route=Route.LOOP, mixed_precision=True)
    with pytest.raises(MixedRecordsError, match="einsum: use route='auto', in full precision"):
        clipped_gradient(Odd(), cross_entropy, (x, y), 1.0, speed=MIXED)
    with pytest.raises(PrecisionError, match="float32 on the CPU or a CUDA device"):
        clipped_gradient(Everything().double(), cross_entropy, (x.double(), y), 1.0, speed=MIXED)
