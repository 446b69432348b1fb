"""Does the code that trains do what its plan says? Deterministic and statistical checks of one step.

A statistical attack misses half of the classic mistakes (noise repeated, noise on half of the
parameters, batches shuffled instead of drawn), so the parts are looked at one by one: sensitivity with
the noise off, the noise of every parameter block and step, the sampler, the independence of
the two streams, the public view.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import stats
from torch import Tensor, nn

from sfumato.audit.certify._epsilon import AuditError
from sfumato.data import ArrayRecords, Record, Records, Subset
from sfumato.learn import (
    AsIs,
    Plan,
    PublicView,
    Speed,
    Subspace,
    cross_entropy,
)
from sfumato.learn.engine import PoissonSampler, StepEngine, Streams, records_by_owner, units_of
from sfumato.learn.views import Canaries
from sfumato.privacy import Randomness, Unit

# A sound mechanism raises an alarm in one audit out of a million.
ALARM = 1e-6
_SIZE, _CLASSES, _HIDDEN = 24, 10, 32


@dataclass(frozen=True)
class Finding:
    """One check: what was looked at, whether it conforms, and the number behind it."""

    check: str
    conforms: bool
    detail: str

    def to_json(self) -> dict[str, Any]:
        return {"check": self.check, "conforms": self.conforms, "detail": self.detail}


def check_training(plan: Plan, *, randomness: Randomness | None = None) -> list[Finding]:
    """All checks that apply to a plan, on a small model and made-up records (no private data)."""
    if not plan.is_private:
        raise AuditError("Expected a plan with noise, got one without: there is nothing to check.")
    if plan.bands:
        raise AuditError(
            "Expected a plan with sampling, got banded noise: no check of it is written."
        )
    source = randomness or Randomness()
    # most checks need to see each part alone: no projector, one clip, single records
    unit = Unit.record() if plan.by_person else plan.unit
    plain = replace(plan, projector=None, clips=1, as_published=False, unit=unit)
    shared = replace(plan, projector=None, clips=1, unit=unit)
    own = replace(plan, projector=None, as_published=False)
    found = [_sensitivity(own, source), *_noise(plain, source), _sampler(plan, source)]
    if plan.projector is not None:
        found.append(_projection(plain, source))
    if plan.public_view is not None:
        found.append(_two_streams(shared, source))
        neighbours = plan.public_view.canary(_SIZE // 2)
        if neighbours is not None:
            found.append(_public_view(plain, plan.public_view, neighbours, source))
    return found


class _FixedSampler:
    """A sampler that draws what it is given."""

    def __init__(self, drawn: npt.NDArray[np.int64]) -> None:
        self._drawn = drawn

    def draw(self) -> npt.NDArray[np.int64]:
        return self._drawn


class _ZeroNoise:
    def draw(self, count: int) -> Tensor:
        return torch.zeros(count)


def _step(plan: Plan, records: Records, source: Randomness, *, silent: bool = False) -> StepEngine:
    torch.manual_seed(0)
    size = records[0].x.shape[-1]
    model = nn.Sequential(nn.Linear(size, _HIDDEN), nn.Tanh(), nn.Linear(_HIDDEN, _CLASSES))
    owners = records_by_owner(records, most=plan.unit.max_records) if plan.by_person else None
    step = StepEngine(
        model, cross_entropy, plan, Streams(model, records, plan, AsIs()),
        units_of(plan, records, owners), len(records),
        randomness=source, speed=Speed(),
    )  # fmt: skip
    if silent:
        step._noise = _ZeroNoise()  # type: ignore[assignment]
    return step


def _hard_records(
    count: int, generator: np.random.Generator, *, clips: int = 1, persons: bool = False
) -> ArrayRecords:
    """Records whose gradients are large and opposed; everything in them is private.

    With ``persons`` each owns three records in a row that pull the same way.
    """
    shape = (count, _SIZE) if clips == 1 else (count, clips, _SIZE)
    one = (count, *(1,) * (len(shape) - 1))
    base = generator.standard_normal(_SIZE)
    scale = 10.0 ** generator.uniform(-1, 3, one) * generator.choice([-1, 1], one)
    owner = np.arange(count) // 3 if persons else np.arange(count)
    x = scale[owner] * (base + 0.3 * generator.standard_normal(shape))
    y = generator.integers(_CLASSES, size=count)[owner]
    names = [f"person {number}" for number in owner]
    return ArrayRecords(x.astype(np.float32), y, mask=np.zeros(shape, dtype=bool), owners=names)


def _released_gradient(step: StepEngine) -> Tensor:
    return torch.cat([part.flatten() for part in step.take().gradient.values()]).double()


def _sensitivity(plan: Plan, source: Randomness) -> Finding:
    """With the noise off and everybody drawn, one unit moves the sum by at most C.

    A unit is a record with all its clips, or a person with three records.
    """
    everyone = _private_part(replace(plan, records=8, batch=8))
    generator = source.generator()
    each, most = (3 if plan.by_person else 1), 0.0
    for _ in range(6):
        data = _hard_records(8 * each, generator, clips=plan.clips, persons=plan.by_person)
        rest = Subset(data, range(each, len(data)))
        full, without = (
            _released_gradient(_step(everyone, records, source, silent=True))
            for records in (data, rest)
        )
        most = max(most, float((full - without).norm()) * everyone.divisor / plan.clip_norm)
    unit = "person" if plan.by_person else "record"
    detail = f"one {unit} moved the sum by {most:.4g} C; allowed is 1 C"
    return Finding("sensitivity with the noise off", 0 < most <= 1 + 1e-3, detail)


def _private_part(plan: Plan) -> Plan:
    """The same plan without its public stream."""
    if plan.public_view is None:
        return plan
    return replace(plan, public_view=None, unit="record")  # type: ignore[arg-type]


def _noise(plan: Plan, source: Randomness, steps: int = 8) -> Iterator[Finding]:
    count = 12
    everyone = replace(_private_part(plan), records=count, batch=count)
    data = _hard_records(count, source.generator())
    for title, drawn in (("", np.arange(count)), (" on empty batches", np.arange(0))):
        step = _step(everyone, data, source)
        quiet = _step(everyone, data, source, silent=True)
        step._private = quiet._private = _FixedSampler(drawn)  # type: ignore[assignment]
        blocks: dict[str, list[npt.NDArray[np.float64]]] = {}
        for _ in range(steps):
            noisy, clean = step.take().gradient, quiet.take().gradient
            for name, part in noisy.items():
                values = (part.double() - clean[name].double()).numpy().ravel()
                blocks.setdefault(name, []).append(values * everyone.divisor)
        deviation = everyone.noise_multiplier * everyone.contribution_bound
        failed = [name for name, values in blocks.items() if not _normal(values, deviation)]
        detail = f"variance and independence in {len(blocks)} parameter blocks over {steps} steps"
        if failed:
            detail += f"; wrong in {', '.join(failed)}"
        yield Finding(f"noise of every block and step{title}", not failed, detail)


def _normal(values: list[npt.NDArray[np.float64]], deviation: float) -> bool:
    block = np.stack(values) / deviation
    energy, tail = float((block**2).sum()), stats.chi2(block.size)
    repeats = float((block[1:] * block[:-1]).mean())
    return bool(
        2 * min(tail.cdf(energy), tail.sf(energy)) > ALARM
        and abs(repeats) < 6 / np.sqrt(block[1:].size)
    )


def _projection(plan: Plan, source: Randomness, rank: int = 6, steps: int = 40) -> Finding:
    """What is released lies in the public subspace, with the planned noise along every direction.

    The subspace is found twice, beside different private records, and must be the same bits.
    """
    public = _hard_records(2 * rank, np.random.default_rng(0))
    projected = replace(
        _private_part(plan), records=12, batch=12, projector=Subspace(public, rank, steps)
    )
    bases, values = [], []
    for _ in range(2):
        data = _hard_records(12, source.generator())
        noisy, quiet = (_step(projected, data, source, silent=silent) for silent in (False, True))
        for step in (noisy, quiet):
            step._private = _FixedSampler(np.arange(12))  # type: ignore[assignment]
        drawn = torch.stack(
            [_released_gradient(noisy) - _released_gradient(quiet) for _ in range(steps)]
        )
        assert noisy._projector is not None
        bases.append(noisy._projector.basis.double())
        values.append((drawn * projected.divisor, bases[-1]))
    inside = max(float((v - v @ b @ b.T).norm() / v.norm()) for v, b in values)
    along = [(v @ b).numpy() for v, b in values]
    deviation = projected.noise_multiplier * projected.contribution_bound
    fine = torch.equal(*bases) and inside < 1e-3 and all(_normal(list(v), deviation) for v in along)
    detail = f"{bases[0].shape[1]} directions over {steps} steps, outside them {inside:.1e}"
    return Finding("noise in the public subspace, which ignores private records", fine, detail)


def _sampler(plan: Plan, source: Randomness) -> Finding:
    """Batch sizes and participations have the mean and the variance of Poisson sampling."""
    rate, count, steps = plan.sampling_rate, 200, 2000
    if rate == 1:
        drawn = PoissonSampler(1.0, count, source).draw()
        return Finding("sampler", len(drawn) == count, f"{len(drawn)} of {count} drawn at rate 1")
    sampler = PoissonSampler(rate, count, source)
    taken = np.zeros((steps, count))
    for row in taken:
        row[sampler.draw()] = 1
    fine = True
    for sums, length in ((taken.sum(1), count), (taken.sum(0), steps)):
        mean, variance = length * rate, length * rate * (1 - rate)
        fine = fine and bool(abs(sums.mean() - mean) < 6 * np.sqrt(variance / len(sums)))
        spread = float(((sums - mean) ** 2).sum() / variance) / len(sums)
        # the fourth moment of a rare event widens the band
        band = 6 * np.sqrt((2 + 1 / variance) / len(sums))
        fine = fine and abs(spread - 1) < float(band)
    return Finding("sampler", fine, f"sizes and participations of {steps} draws at rate {rate:.4g}")


def _two_streams(plan: Plan, source: Randomness) -> Finding:
    """Who is in the private batch says nothing about the public one, in the step as it runs."""
    count, steps = 40, 300
    small = replace(plan, records=count, batch=8, steps=1)
    step = _step(small, _hard_records(count, source.generator()), source)
    streams = step._streams
    seen = np.zeros((2, steps, count))
    number = 0

    def watched(side: int, real: Any) -> Any:
        def look(indices: Any) -> Any:
            chosen = [int(index) for index in indices]
            seen[side, number, chosen] = 1
            return real(chosen)

        return look

    streams.private = watched(0, streams.private)  # type: ignore[method-assign]
    streams.public = watched(1, streams.public)  # type: ignore[method-assign]
    for number in range(steps):  # noqa: B007 - read by the watchers
        step.take()
    centred = seen - seen.mean((1, 2), keepdims=True)
    correlation = float((centred[0] * centred[1]).mean() / (centred[0].std() * centred[1].std()))
    fine = abs(correlation) < 6 / float(np.sqrt(steps * count))
    return Finding("independence of the two streams", fine, f"correlation {correlation:.4f}")


def _public_view(plan: Plan, view: PublicView, neighbours: Canaries, source: Randomness) -> Finding:
    """Private values may change as they like: the public gradient stays bit-identical."""
    check, generator, found = "non-interference of the public view", source.generator(), []
    small = replace(plan, records=1, batch=1)
    pair = _same_view(view, neighbours, generator)
    if pair is None:
        detail = "its canaries change what it shows, in every one of 100 pairs"
        return Finding(check, False, detail)
    for record in pair:
        mask = None if record.mask is None else record.mask[None]
        data = ArrayRecords(record.x[None], np.zeros(1, dtype=np.int64), mask=mask)
        step = _step(small, data, source, silent=True)
        step._private = _FixedSampler(np.arange(0))  # type: ignore[assignment]
        found.append(_released_gradient(step))
    same = torch.equal(*found) and bool(found[0].any())
    return Finding(check, same, "public gradients bit for bit")


def _same_view(
    view: PublicView, neighbours: Canaries, generator: np.random.Generator
) -> tuple[Record, Record] | None:
    """Two records with the same public view, different where it does not see; None if it always does.

    Drawn again where a value lies so near to a rounding border that the change crosses it.
    """
    mask = None if neighbours.mask is None else neighbours.mask[0]
    for _ in range(100):
        first = generator.uniform(0, 255, neighbours.private.shape[1:]).astype(np.float32)
        change = 20 * generator.standard_normal(len(neighbours.private)) @ neighbours.private
        pair = [Record(x.astype(np.float32), 0, mask) for x in (first, first + change)]
        shown = [view.public_input(each, AsIs(), nn.Identity(), 1) for each in pair]
        if torch.equal(*shown) and not np.array_equal(pair[0].x, pair[1].x):
            return pair[0], pair[1]
    return None
