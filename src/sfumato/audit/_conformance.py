"""Does the code that trains do what its plan says? Deterministic and statistical checks of one step.

A statistical attack misses half of the classic mistakes (noise repeated, noise on half of the
parameters, batches shuffled instead of drawn), so the parts are looked at one by one: sensitivity with
the noise off, the noise of every parameter block and step, the sampler's coins, the independence of
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

from sfumato.audit._epsilon import AuditError
from sfumato.data import ArrayRecords, Records
from sfumato.learn import AsIs, MaskedPixels, Plan, Speed, cross_entropy
from sfumato.learn._sampling import PoissonSampler
from sfumato.learn._step import PrivateStep, units_of
from sfumato.learn._streams import Streams
from sfumato.privacy import Randomness

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
    if not plan.is_private or plan.by_person:
        raise AuditError("Expected a plan with noise and a unit below person, got another.")
    source = randomness or Randomness()
    # the checks need to see each part alone: no projector, one clip, a handful of records
    plain = replace(plan, projector=None, clips=1, as_published=False)
    shared = replace(plan, projector=None, clips=1)
    found = [_sensitivity(plain, source), *_noise(plain, source), _sampler(plan, source)]
    if plan.public_view is not None:
        found.append(_two_streams(shared, source))
    if isinstance(plan.public_view, MaskedPixels):
        found.append(_public_view(plain, source))
    return found


class _Always:
    """Coins that fall as they are told."""

    def __init__(self, drawn: npt.NDArray[np.int64]) -> None:
        self._drawn = drawn

    def draw(self) -> npt.NDArray[np.int64]:
        return self._drawn


class _Silence:
    def draw(self, count: int) -> Tensor:
        return torch.zeros(count)


def _step(plan: Plan, records: Records, source: Randomness, *, silent: bool = False) -> PrivateStep:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(_SIZE, _HIDDEN), nn.Tanh(), nn.Linear(_HIDDEN, _CLASSES))
    step = PrivateStep(
        model, cross_entropy, plan, Streams(model, records, plan, AsIs()),
        units_of(plan, records, None), len(records),
        randomness=source, speed=Speed(noise_threads=1),
    )  # fmt: skip
    if silent:
        step._noise = _Silence()  # type: ignore[assignment]
    return step


def _wild(count: int, generator: np.random.Generator) -> ArrayRecords:
    """Records whose gradients are large and opposed; everything in them is private."""
    base = generator.standard_normal(_SIZE)
    scale = 10.0 ** generator.uniform(-1, 3, (count, 1)) * generator.choice([-1, 1], (count, 1))
    x = scale * (base + 0.3 * generator.standard_normal((count, _SIZE)))
    y = generator.integers(_CLASSES, size=count)
    return ArrayRecords(x.astype(np.float32), y, mask=np.zeros(x.shape, dtype=bool))


def _flat(step: PrivateStep) -> Tensor:
    return torch.cat([part.flatten() for part in step.take().gradient.values()]).double()


def _sensitivity(plan: Plan, source: Randomness) -> Finding:
    """With the noise off and everybody drawn, one record moves the sum by at most C."""
    everyone = replace(plan, records=8, batch=8)
    generator = source.generator()
    most = 0.0
    for _ in range(6):
        data = _wild(8, generator)
        rest = ArrayRecords(data.x[1:], data.y[1:], mask=data.mask[1:])  # type: ignore[index]
        private_only = _private_part(everyone)
        full, without = (
            _flat(_step(private_only, records, source, silent=True)) for records in (data, rest)
        )
        most = max(most, float((full - without).norm()) * everyone.divisor / plan.clip_norm)
    detail = f"one record moved the sum by {most:.4g} C; allowed is 1 C"
    return Finding("sensitivity with the noise off", 0 < most <= 1 + 1e-3, detail)


def _private_part(plan: Plan) -> Plan:
    """The same private stream without its public companion."""
    if plan.public_view is None:
        return plan
    return replace(plan, public_view=None, unit="record")  # type: ignore[arg-type]


def _noise(plan: Plan, source: Randomness, steps: int = 8) -> Iterator[Finding]:
    count = 12
    everyone = replace(_private_part(plan), records=count, batch=count)
    data = _wild(count, source.generator())
    for title, drawn in (("", np.arange(count)), (" on empty batches", np.arange(0))):
        step = _step(everyone, data, source)
        quiet = _step(everyone, data, source, silent=True)
        step._private = quiet._private = _Always(drawn)  # type: ignore[assignment]
        blocks: dict[str, list[npt.NDArray[np.float64]]] = {}
        for _ in range(steps):
            noisy, clean = step.take().gradient, quiet.take().gradient
            for name, part in noisy.items():
                values = (part.double() - clean[name].double()).numpy().ravel()
                blocks.setdefault(name, []).append(values * everyone.divisor)
        deviation = everyone.noise_multiplier * everyone.clip_norm
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


def _sampler(plan: Plan, source: Randomness) -> Finding:
    """Batch sizes and participations have the mean and the variance of independent coins."""
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
        # the fourth moment of a rare coin widens the band
        band = 6 * np.sqrt((2 + 1 / variance) / len(sums))
        fine = fine and abs(spread - 1) < float(band)
    return Finding("sampler", fine, f"sizes and participations of {steps} draws at rate {rate:.4g}")


def _two_streams(plan: Plan, source: Randomness) -> Finding:
    """Who is in the private batch says nothing about the public one, in the step as it runs."""
    count, steps = 40, 300
    small = replace(plan, records=count, batch=8, steps=1)
    step = _step(small, _wild(count, source.generator()), source)
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


def _public_view(plan: Plan, source: Randomness) -> Finding:
    """Private values may change as they like: the public gradient stays bit-identical."""
    generator = source.generator()
    data = _wild(1, generator)
    mask = np.zeros(data.x.shape, dtype=bool)
    mask[:, : _SIZE // 2] = True
    other = np.where(mask, data.x, generator.standard_normal(data.x.shape).astype(np.float32))
    small = replace(plan, records=1, batch=1)
    found = [
        _step(small, ArrayRecords(x, data.y, mask=mask), source)._public_mean(np.arange(1))
        for x in (data.x, other)
    ]
    same = torch.equal(*found) and bool(found[0].any())
    return Finding("non-interference of the public view", same, "public gradients bit for bit")
