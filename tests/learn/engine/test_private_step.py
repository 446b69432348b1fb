"""The private step keeps its promises, and seeded mistakes are caught (SOUNDNESS section 8)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import step_checks as checks
import torch
from scipy.stats import kstest, norm, pearsonr

from sfumato.data import ArrayRecords, Record
from sfumato.learn import MaskedPixels, Plan, Route, Speed, blanked
from sfumato.learn.engine import _clipped as clipped_module
from sfumato.learn.engine import _contributions as contributions_module
from sfumato.learn.engine import _noise as noise_module
from sfumato.learn.engine import _routes as routes_module
from sfumato.learn.engine import _sampling as sampling_module
from sfumato.learn.engine import _step as step_module
from sfumato.learn.engine._routes import Rows
from sfumato.privacy import Unit
from sfumato.privacy import _randomness as randomness_module


@pytest.mark.parametrize("clip_norm", [0.2, 5.0])
def test_neighbours_move_the_sum_by_at_most_the_clip_norm(clip_norm: float) -> None:
    checks.check_sensitivity(clip_norm)


def test_several_clips_move_the_sum_no_further() -> None:
    checks.check_sensitivity(0.5, clips=4)


def test_a_whole_person_moves_the_sum_no_further() -> None:
    plan = checks.make_plan(unit="person", clip_norm=0.5)
    checks.check_sensitivity(plan=plan, owners=10)


@pytest.mark.parametrize("clip_norm", [0.2, 5.0])
@pytest.mark.parametrize("empty", [True, False])
def test_every_block_gets_the_planned_noise(clip_norm: float, empty: bool) -> None:
    checks.check_noise(clip_norm, empty=empty)


def test_batches_are_drawn_by_independent_coins() -> None:
    checks.check_sampler()


def test_the_public_stream_tosses_its_own_coins() -> None:
    checks.check_independent_streams()


def test_a_blanked_record_contributes_exactly_zero() -> None:
    """Zero-out (R2): with record 0 blanked, the sum equals that without it, bit for bit."""
    plan = checks.make_plan(relation="zero-out")
    data = checks.wild_records(plan.records)
    blank = checks.Listed([blanked(data[0]), *data.items[1:]])
    with checks.silent():
        kept = checks.flat(checks.make_step(plan, blank).take())
        gone = checks.flat(checks.make_step(plan, checks.Listed(data.items[1:])).take())
        alone = checks.flat(checks.make_step(plan, checks.Listed([blanked(data[0])])).take())
    assert torch.equal(kept, gone)
    assert not bool(alone.any())
    black = checks.Listed([type(data[0])(np.zeros_like(data[0].x), data[0].y)])
    with checks.silent():
        assert bool(checks.flat(checks.make_step(plan, black).take()).any()), "black is not blank"


def test_the_divisor_and_the_rate_come_from_the_plan_not_from_the_data() -> None:
    plan = checks.make_plan(records=10, batch=10)
    assert plan.sampling_rate == 1.0
    data = checks.wild_records(10)
    with checks.silent():
        ten = checks.flat(checks.make_step(plan, data).take())
        five = checks.flat(checks.make_step(plan, checks.Listed(data.items[:5])).take())
        rest = checks.flat(checks.make_step(plan, checks.Listed(data.items[5:])).take())
    torch.testing.assert_close(five + rest, ten, rtol=1e-4, atol=1e-6)


def test_noise_is_standard_normal_far_into_its_tails() -> None:
    drawn = noise_module.GaussianNoise(checks.Randomness(1)).draw(2_000_001).numpy()
    assert drawn.shape == (2_000_001,)
    assert kstest(drawn, "norm").pvalue > 1e-3
    assert abs(pearsonr(drawn[:1_000_000], drawn[-1_000_000:]).statistic) < 4e-3
    for edge in (3.0, 4.0):
        expected = 2 * norm.sf(edge) * len(drawn)
        assert abs((abs(drawn) > edge).sum() - expected) < 5 * expected**0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_noise_has_the_same_digits_whatever_the_default_type(dtype: torch.dtype) -> None:
    """Half precision leaves gaps between values of noise that show what is underneath."""
    expected = noise_module.GaussianNoise(checks.Randomness(1)).draw(101)
    usual = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        drawn = noise_module.GaussianNoise(checks.Randomness(1)).draw(101)
    finally:
        torch.set_default_dtype(usual)
    assert drawn.dtype is torch.float32
    assert torch.equal(drawn, expected)


def test_noise_is_measured_against_what_rounding_lets_a_record_add() -> None:
    plan = checks.make_plan(clip_norm=0.5)
    assert plan.noise_deviation == plan.noise_multiplier * 0.5 * (1 + 2**-8)


def test_noise_never_repeats_within_a_step() -> None:
    """However large the model: no lag at which the noise of a step resembles itself."""
    count = 5 << 19  # several times what is made at a time
    drawn = noise_module.GaussianNoise(checks.Randomness(2)).draw(count).double().numpy()
    spectrum = np.fft.rfft(drawn, 2 * count)
    lags = np.fft.irfft(np.abs(spectrum) ** 2)[1 : count - 1000]
    terms = count - np.arange(1, len(lags) + 1)
    # a sum of products of independent values; one lag in all of these reaches 8 by chance 1e-9
    assert float(np.abs(lags / np.sqrt(terms)).max()) < 8


def _independent_bits(keys: list[bytes]) -> int:
    """Rank of the keys as rows of bits: a bit that is fixed, or follows from others, lowers it."""
    rows: list[int] = []
    for key in keys:
        number = int.from_bytes(key, "little")
        for row in rows:
            number = min(number, number ^ row)
        if number:
            rows.append(number)
    return len(rows)


@pytest.mark.parametrize("make", [
    lambda source: sampling_module.PoissonSampler(0.5, 10, source),
    lambda source: sampling_module.PublicSampler(5, 10, source),
])  # fmt: skip
def test_coins_have_keys_of_128_bits_from_the_operating_system(make: Any) -> None:
    """R15. Two of 2000 keys would be equal for sure if 16 bits made them."""
    keys = [make(checks.Randomness())._generator.bit_generator.state["state"]["key"].tobytes()
            for _ in range(2000)]  # fmt: skip
    assert len(set(keys)) == 2000
    assert _independent_bits(keys[:200]) == 128


def test_noise_has_keys_of_256_bits_from_the_operating_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys: list[bytes] = []
    real = randomness_module.algorithms.AES

    class Spy:
        @staticmethod
        def AES(key: bytes) -> Any:
            keys.append(bytes(key))
            return real(key)

    monkeypatch.setattr(randomness_module, "algorithms", Spy)
    for _ in range(2000):
        noise_module.GaussianNoise(checks.Randomness())
    assert len(set(keys)) == 2000
    assert _independent_bits(keys[:330]) == 256


@pytest.mark.parametrize("route", [Route.LOOP, Route.AUTO])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_person_who_is_not_a_number_adds_nothing(value: float, route: Route) -> None:
    """Unit person: one bad record of a person leaves out that person, and nobody else."""
    plan = checks.make_plan(unit="person", clip_norm=0.5, records=4, batch=4)
    data = checks.wild_records(12, owners=4)
    bad = data[0].owners
    spoiled = checks.Listed(data.items)
    x = data[4].x.copy()
    x[:] = value
    spoiled.items[4] = Record(x, data[4].y, owners=data[4].owners)
    assert spoiled[4].owners == bad
    rest = checks.Listed([record for record in data.items if record.owners != bad])
    seen: list[dict[str, Any]] = []
    with checks.silent():
        step = checks.make_step(plan, spoiled, speed=Speed(route=route))
        step._operator = seen.append
        found = checks.flat(step.take())
        expected = checks.flat(checks.make_step(plan, rest, speed=Speed(route=route)).take())
    assert bool(found.isfinite().all())
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
    assert seen[0]["sampled"] == 4


def test_the_largest_noise_is_not_cut_where_a_float_uniform_would_cut_it() -> None:
    """The rarest words give the longest radius: 24 bits alone would end at 5.8 deviations."""
    words = torch.tensor([0, 1, 0], dtype=torch.int32)
    pair = torch.empty(2, 1)
    noise_module._normal_pairs(words, pair, 0)
    assert float(pair.norm()) > 9.0


def test_a_noise_source_goes_on_where_it_stopped_and_no_two_agree() -> None:
    source = checks.Randomness(1)
    first, second = noise_module.GaussianNoise(source), noise_module.GaussianNoise(source)
    again = noise_module.GaussianNoise(checks.Randomness(1))
    drawn = first.draw(1000)
    assert torch.equal(drawn, again.draw(1000))
    assert not torch.isclose(drawn, first.draw(1000)).any()
    assert not torch.isclose(drawn, second.draw(1000)).any()


# -- seeded mistakes: every one must be caught by at least one check ------------------------------


def _clip_batch(model: Any, loss: Any, rows: Rows, clip_norm: float, speed: Speed) -> Any:
    sums, norms = clipped_module.clipped_rows(model, loss, rows, math.inf, speed)
    size = torch.stack([part.norm() for part in sums.values()]).norm() / rows.records
    factor = min(1.0, clip_norm / float(size))
    return {name: part * factor for name, part in sums.items()}, norms


def _per_record(model: Any, loss: Any, rows: Rows) -> list[dict[str, torch.Tensor]]:
    return [
        clipped_module.clipped_rows(model, loss, rows.some(i, i + 1), math.inf, Speed())[0]
        for i in range(rows.records)
    ]


def _clip_values(model: Any, loss: Any, rows: Rows, clip_norm: float, speed: Speed) -> Any:
    grads = _per_record(model, loss, rows)
    clamped = {n: sum(g[n].clamp(-clip_norm, clip_norm) for g in grads) for n in grads[0]}
    return clamped, torch.zeros(rows.records)


def _clip_layers(model: Any, loss: Any, rows: Rows, clip_norm: float, speed: Speed) -> Any:
    grads = _per_record(model, loss, rows)
    scaled = {
        n: sum(g[n] * min(1.0, clip_norm / (float(g[n].norm()) + 1e-12)) for g in grads)
        for n in grads[0]
    }
    return scaled, torch.zeros(rows.records)


def _clip_clips(model: Any, loss: Any, rows: Rows, clip_norm: float, speed: Speed) -> Any:
    apart = Rows(rows.x, rows.y, torch.ones(rows.records * rows.clips, 1))
    return clipped_module.clipped_rows(model, loss, apart, clip_norm, speed)


class _Shuffled(sampling_module.PoissonSampler):
    def draw(self) -> Any:
        size = round(self.rate * self.count)
        if not getattr(self, "_left", None):
            order = self._generator.permutation(self.count)
            self._left = [order[i : i + size] for i in range(0, self.count, size)]
        return self._left.pop()


class _FixedSize(sampling_module.PoissonSampler):
    def draw(self) -> Any:
        return self._generator.choice(self.count, round(self.rate * self.count), replace=False)


class _FourTimes(sampling_module.PoissonSampler):
    def draw(self) -> Any:
        return np.flatnonzero(self._generator.random(self.count) < 4 * self.rate)


_real_draw = noise_module.GaussianNoise.draw


def _same_noise(self: Any, count: int) -> torch.Tensor:
    if not hasattr(self, "_once"):
        self._once = _real_draw(self, count)
    return self._once


def _half_noise(self: Any, count: int) -> torch.Tensor:
    values = _real_draw(self, count)
    values[count // 2 :] = 0
    return values


def _skip_empty(take: Callable[..., Any]) -> Callable[..., Any]:
    def mutant(self: Any) -> Any:
        drawn = self._draw()
        self._draw = lambda: drawn
        released = take(self)
        del self._draw
        if len(drawn) == 0:
            released = step_module.Released(
                {n: torch.zeros_like(p) for n, p in released.gradient.items()}, {}
            )
        return released

    return mutant


def _realised_size(take: Callable[..., Any]) -> Callable[..., Any]:
    def mutant(self: Any) -> Any:
        drawn = self._draw()
        self._draw = lambda: drawn
        released = take(self)
        del self._draw
        factor = self._plan.divisor / max(1, len(drawn))
        return step_module.Released({n: p * factor for n, p in released.gradient.items()}, {})

    return mutant


def _deviation(formula: Callable[[Plan], float]) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(Plan, "noise_deviation", property(formula))


def _draw(function: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(noise_module.GaussianNoise, "draw", function)


def _clipper(function: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(step_module, "clipped_rows", function)


def _factors(function: Any) -> Callable[[pytest.MonkeyPatch], None]:
    def apply(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(contributions_module, "clip_factors", function)
        patch.setattr(routes_module, "clip_factors", function)

    return apply


def _taker(wrap: Any) -> Callable[[pytest.MonkeyPatch], None]:
    real = step_module.StepEngine.take
    return lambda patch: patch.setattr(step_module.StepEngine, "take", wrap(real))


SENSITIVITY = (
    lambda: checks.check_sensitivity(0.5),
    lambda: checks.check_sensitivity(0.5, clips=4),
)
NOISE = (
    lambda: checks.check_noise(5.0, empty=False, steps=4),
    lambda: checks.check_noise(5.0, empty=True, steps=4),
)

MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], tuple[Callable[[], None], ...]]] = {
    "1 no noise": (_draw(lambda self, count: torch.zeros(count)), NOISE),
    "2 sigma instead of sigma C": (_deviation(lambda plan: plan.noise_multiplier), NOISE),
    "3 variance for deviation": (
        _deviation(lambda plan: (plan.noise_multiplier * plan.clip_norm) ** 2), NOISE),
    "4 divided by B twice": (
        _deviation(lambda plan: plan.noise_multiplier * plan.clip_norm / plan.batch), NOISE[:1]),
    "5 noise after the mean": (
        _deviation(lambda plan: plan.noise_multiplier * plan.clip_norm * plan.batch), NOISE[:1]),
    "6 same noise every step": (_draw(_same_noise), NOISE),
    "7 noise on half of the parameters": (_draw(_half_noise), NOISE),
    "8 no clipping": (_factors(lambda norms, c: torch.ones_like(norms)), SENSITIVITY),
    "9 clip the batch mean": (_clipper(_clip_batch), SENSITIVITY),
    "10 clip by value": (_clipper(_clip_values), SENSITIVITY),
    "11 clip each layer at C": (_clipper(_clip_layers), SENSITIVITY),
    "12 inverted factor": (_factors(lambda norms, c: (norms / c).clamp(max=1)), SENSITIVITY),
    "13 clips clipped separately": (_clipper(_clip_clips), SENSITIVITY[1:]),
    "14 realised batch size": (_taker(_realised_size), NOISE[:1]),
    "15 skip empty batches": (_taker(_skip_empty), NOISE[1:]),
    "16 shuffled batches": (lambda p: None, (lambda: checks.check_sampler(_Shuffled),)),
    "17 fixed-size batches": (lambda p: None, (lambda: checks.check_sampler(_FixedSize),)),
    "18 four times the rate": (lambda p: None, (lambda: checks.check_sampler(_FourTimes),)),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_seeded_mistakes_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apply, guards = MUTANTS[name]
    apply(monkeypatch)
    caught = 0
    for guard in guards:
        try:
            guard()
        except AssertionError:
            caught += 1
    assert caught, f"nobody noticed: {name}"


def test_a_shared_batch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant 19: the published MaskDP, one draw for both streams."""
    last: list[Any] = []
    real = sampling_module.PoissonSampler.draw

    def remember(self: Any) -> Any:
        last.append(real(self))
        return last[-1]

    monkeypatch.setattr(sampling_module.PoissonSampler, "draw", remember)
    monkeypatch.setattr(checks.PublicSampler, "draw", lambda self: last[-1])
    with pytest.raises(AssertionError):
        checks.check_independent_streams()


def test_only_as_published_shares_the_batch() -> None:
    x = np.random.default_rng(0).normal(size=(30, checks.SIZE)).astype(np.float32)
    mask = np.zeros((30, checks.SIZE), dtype=bool)
    mask[:, :10] = True
    data = ArrayRecords(x, np.arange(30) % checks.CLASSES, mask=mask)
    for published in (False, True):
        plan = checks.make_plan(
            records=30, batch=15, relation="zero-out", unit=Unit.masked_tokens(),
            public_view=MaskedPixels(), as_published=published,
        )  # fmt: skip
        step = checks.make_step(plan, data)
        seen: dict[str, list[int]] = {}
        streams = step._streams
        for view in ("private", "public"):
            real = getattr(streams, view)

            def watched(indices: Any, view: str = view, real: Any = real, seen: Any = seen) -> Any:
                seen[view] = list(map(int, indices))
                return real(indices)

            setattr(streams, view, watched)
        step.take()
        assert seen["private"]
        assert (seen["private"] == seen["public"]) is published
