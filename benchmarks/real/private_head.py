"""A private mean, then whole-batch private steps on a linear head; settings chosen on public digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.real.features import Features
from sfumato.data import ArrayRecords
from sfumato.learn import Plan, Sgd, StartingWeights, private_mean, train
from sfumato.privacy import Gaussian, Guarantee, epsilon_of

DELTA, RELATION = 1e-5, "replace"
# of the squared budget (mu^2), what the mean gets
SHARE = 0.15
_RANKS = (10, 25, 60)
STEPS, MORE_STEPS = (3, 10, 25), (3, 10, 25, 60, 150)
_GRID = ((3.0, 10.0, 30.0, 100.0, 300.0), (1.0, 0.5))
_PERSON_GRID = ((1, 3, 8), (0.001, 0.03, 0.3, 3.0, 10.0, 30.0, 100.0), (0.3, 0.1))
_PERSONS = 60
_HELD_BACK = 5  # of a public speaker's takes of a digit, every fifth
# so small that it only keeps separable classes from growing without end
_DECAY = 1e-6


@dataclass(frozen=True)
class Settings:
    """How the head learns: on how many components, in how many steps of whole batches, at which rate
    and clip norm (of a record's gradient, or a person's mean gradient)."""

    rank: int
    steps: int
    rate: float
    clip_norm: float
    centre: bool = True
    public_head: bool = True
    average: float = 0.0
    batch: float = 1.0
    bands: int = 0


def noise_of_one_step(epsilon: float) -> float:
    """The noise multiplier of a single whole-batch release at ``epsilon``."""
    return Plan.for_(epsilon=epsilon, delta=DELTA, steps=1, records=2, batch=2).noise_multiplier


def split_budget(epsilon: float) -> tuple[float, float]:
    """Epsilons of the mean and of the head, which compose to ``epsilon``: both are Gaussian."""
    whole = noise_of_one_step(epsilon)
    parts = (
        epsilon_of(Gaussian(whole / math.sqrt(part)), DELTA, RELATION)
        for part in (SHARE, 1 - SHARE)
    )
    mean, head = parts
    return mean, head


def measured(features: Features, classes: int, epsilon: float, chosen: Settings, *, person: bool) -> dict[str, Any]:  # fmt: skip
    """Accuracy on test records of a head with that promise, and the promise as the card says it."""
    features = features.on_first(chosen.rank)
    units = len(set(features.owners)) if person else len(features.y)
    each = len(features.y) / units if person else 1.0  # a public constant: records a person
    owners = features.owners if person else None
    plain: dict[str, Any] = {
        "records": units, "delta": DELTA, "relation": RELATION,
        "unit": "person" if person else "record",
    }  # fmt: skip
    first, second = split_budget(epsilon) if chosen.centre else (0.0, epsilon)
    centre, start = torch.zeros(features.train.shape[1]), StartingWeights.fresh()
    if chosen.centre:
        plan = Plan(epsilon=first, batch=units, steps=1, clip_norm=each, **plain)
        records = ArrayRecords(features.train, features.y, owners=owners)
        centre, run = private_mean(records, features.train.shape[1], plan)
        centre, start = centre / each, StartingWeights(run.trainings, known=True)
    while True:
        plan = Plan(
            epsilon=second, batch=round(units * chosen.batch), steps=chosen.steps,
            clip_norm=chosen.clip_norm * each, bands=chosen.bands, **plain,
        )  # fmt: skip
        total = start.together(plan.guarantee)
        assert isinstance(total, Guarantee)
        if total.epsilon <= epsilon * 1.001:
            break
        second *= 0.99  # sampled steps are not Gaussian, so both may compose to a little more
    model = nn.Linear(features.train.shape[1], classes, bias=False)
    with torch.no_grad():
        taught = public_head(features, classes)
        model.weight.copy_(taught if chosen.public_head else torch.zeros_like(taught))
    seen = centred(features.train, centre)
    iterates: list[Tensor] = []
    run = train(
        model, ArrayRecords(seen.numpy(), features.y, owners=owners), plan, start=start,
        optimizer=Sgd(chosen.rate / each),
        progress=lambda _: iterates.append(model.weight.detach().clone()),
    )  # fmt: skip
    if chosen.average:  # of iterates that were released already
        last = iterates[math.floor(len(iterates) * (1 - chosen.average)) :]
        model.weight.data = torch.stack(last).mean(0)
    assert isinstance(run.guarantee, Guarantee)
    assert run.guarantee.epsilon <= epsilon * 1.001
    return {
        "accuracy": accuracy(model.weight.detach(), centred(features.test, centre), features.y_test),
        "epsilon": run.guarantee.epsilon, "units": units,
    }  # fmt: skip


def without_privacy(features: Features, classes: int) -> float:
    """The same head without noise, to its end: logistic regression with hardly any decay."""
    centre = torch.from_numpy(features.train).mean(0)
    seen, y = centred(features.train, centre), torch.from_numpy(features.y)
    weight = torch.zeros(classes, seen.shape[1], requires_grad=True)
    solver = torch.optim.LBFGS([weight], max_iter=500, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        found = functional.cross_entropy(seen @ weight.T, y) + _DECAY * weight.square().sum()
        found.backward()  # type: ignore[no-untyped-call]
        return found

    solver.step(loss)  # type: ignore[no-untyped-call]
    return accuracy(weight.detach(), centred(features.test, centre), features.y_test)


def with_public_head(features: Features, classes: int) -> float:
    """What public data alone give: their head on their centre."""
    centre = torch.from_numpy(features.public).mean(0)
    return accuracy(public_head(features, classes), centred(features.test, centre), features.y_test)


def centred(x: Any, centre: Tensor) -> Tensor:
    return functional.normalize(torch.from_numpy(x) - centre, dim=1)


def accuracy(weight: Tensor, x: Tensor, y: Any) -> float:
    return float(((x @ weight.T).argmax(1) == torch.from_numpy(y)).double().mean())


def public_head(features: Features, classes: int) -> Tensor:
    """Learnt from public records that have labels; zero where none have."""
    zero = torch.zeros(classes, features.public.shape[1])
    if features.public_y is None:
        return zero
    x = torch.from_numpy(features.public)
    return _descend(zero, centred(features.public, x.mean(0)), torch.from_numpy(features.public_y),
                    steps=20, rate=30.0)  # fmt: skip


def _descend(
    weight: Tensor, x: Tensor, y: Tensor, *, steps: int, rate: float, noise: float = 0.0,
    clip_norm: float = math.inf, people: Tensor | None = None, draw: torch.Generator | None = None,
) -> Tensor:  # fmt: skip
    """Gradient descent on public records, with the clipping and noise that private ones would get."""
    lengths, told = x.norm(dim=1), functional.one_hot(y, len(weight)).to(x)
    for _ in range(steps):
        error = torch.softmax(x @ weight.T, 1) - told
        if people is None:
            factor = (clip_norm / (error.norm(dim=1) * lengths).clamp_min(1e-12)).clamp(max=1)
            gradient = (error * factor[:, None]).T @ x / len(x)
        else:
            count = int(people.max()) + 1
            own = torch.einsum("pnk,pnd->pkd", error.view(count, -1, error.shape[1]),
                               x.view(count, -1, x.shape[1])) / (len(x) / count)  # fmt: skip
            factor = (clip_norm / own.flatten(1).norm(dim=1).clamp_min(1e-12)).clamp(max=1)
            gradient = (own * factor[:, None, None]).mean(0)
        if noise:
            gradient = gradient + noise * clip_norm * torch.randn(gradient.shape, generator=draw)
        weight = weight - rate * gradient
    return weight


def choose(
    public: Features, epsilon: float, units: int, *, person: bool, warm: bool,
    steps: Sequence[int] = STEPS, takes: bool = False,
) -> Settings:  # fmt: skip
    """The settings that do best on FSDD's speakers under noise of the same size, with their neighbours.

    One speaker is the test, one teaches the starting head if there is one, the others are private;
    with ``takes`` the test is a fifth of those others' takes, as where a task tests whom it trained on.
    Noise relative to the sum is what ``units`` private units would get. Of persons, also whether to
    spend anything on their mean.
    """
    assert public.public_y is not None
    whole, y = (
        torch.from_numpy(public.public),
        torch.from_numpy(public.public_y),
    )
    names = sorted(set(public.public_owners))
    speakers = torch.tensor([names.index(name) for name in public.public_owners])
    scores: dict[Settings, list[float]] = {}
    whole_noise = noise_of_one_step(epsilon) / units
    for test, rank, centre in product(
        range(len(names)), _RANKS, (True, False) if person else (True,)
    ):
        x = functional.normalize(whole[:, :rank], dim=1)
        teacher = (test + 1) % len(names)
        known = speakers == teacher if warm else speakers < 0
        asks = _every_fifth(speakers, y) & ~known if takes else speakers == test
        own = ~known & ~asks
        start = torch.zeros(10, x.shape[1])
        if warm:
            start = _descend(start, centred(x[known].numpy(), x[known].mean(0)), y[known],
                             steps=20, rate=30.0)  # fmt: skip
        seen, told, people = x[own], y[own], None
        means = [x[own].mean(0), x[asks].mean(0)]
        if person:
            size = len(seen) // _PERSONS
            seen, told = seen[: size * _PERSONS], told[: size * _PERSONS]
            people = torch.arange(len(seen)) // size
            # so few people that the noise of their mean cannot be left out
            draw = torch.Generator().manual_seed(test)
            wrong = whole_noise / math.sqrt(SHARE) * torch.randn(rank, generator=draw)
            means = [mean + wrong if centre else torch.zeros(rank) for mean in means]
        seen = centred(seen.numpy(), means[0])
        asked = centred(x[asks].numpy(), means[1])
        noise = whole_noise / math.sqrt(1 - SHARE if centre else 1)
        for count, rate, clip_norm in product(*(_PERSON_GRID if person else (steps, *_GRID))):
            chosen = Settings(rank, count, rate, clip_norm, centre=centre)
            draw = torch.Generator().manual_seed(test)
            weight = _descend(start, seen, told, steps=count, rate=rate, clip_norm=clip_norm,
                              noise=noise * math.sqrt(count), people=people, draw=draw)  # fmt: skip
            found = accuracy(weight, asked, y[asks].numpy())
            scores.setdefault(chosen, []).append(found)
    return max(_steady(scores), key=lambda each: _steady(scores)[each])


def _every_fifth(speakers: Tensor, y: Tensor) -> Tensor:
    """Which records are held back: every fifth of each speaker's takes of each digit."""
    chosen = torch.zeros(len(y), dtype=torch.bool)
    for speaker, digit in product(set(speakers.tolist()), set(y.tolist())):
        chosen[torch.nonzero((speakers == speaker) & (y == digit)).flatten()[::_HELD_BACK]] = True
    return chosen


def _steady(scores: dict[Settings, list[float]]) -> dict[Settings, float]:
    """Of settings whose next lower and higher rates were tried as well, the mean of the three."""
    mean = {each: float(np.mean(found)) for each, found in scores.items()}
    rates = sorted({each.rate for each in mean})
    beside = {
        each: [
            mean[replace(each, rate=rate)]
            for rate in rates[rates.index(each.rate) - 1 : rates.index(each.rate) + 2]
        ]
        for each in mean
        if each.rate not in (rates[0], rates[-1])
    }
    return {each: float(np.mean(found)) for each, found in beside.items()}
