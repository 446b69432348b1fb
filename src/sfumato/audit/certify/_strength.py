"""How much of a true epsilon the audits certify: measured on mechanisms whose epsilon is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.audit.certify._epsilon import delta_lower_bound, epsilon_lower_bound
from sfumato.audit.certify._one_run import one_run_lower_bound
from sfumato.audit.certify._worst_case_simulation import simulated_scores
from sfumato.privacy import (
    Bounds,
    Event,
    Gaussian,
    calibrate_gaussian,
    delta_of,
    dpsgd_event,
    epsilon_of,
)

DELTA = 1e-5


@dataclass(frozen=True)
class Strength:
    """Mean certified share of the proven value over several seeds, beside the reference's."""

    audit: str
    target: str
    trials: str
    fraction: float
    reference: float


def strengths(seeds: int = 8, seed: int = 0) -> Iterator[Strength]:
    """The table of the soundness notes' section 7, measured again (their column is ``reference``)."""
    generator = np.random.default_rng(seed)
    event: Event
    references = {2_000: (0.11, 0.20, 0.29, 0.33), 20_000: (0.33, 0.45, 0.43, 0.43),
                  200_000: (0.55, 0.67, 0.65, 0.55)}  # fmt: skip
    for trials, row in references.items():
        for epsilon, reference in zip((1, 2, 4, 8), row):
            event = Gaussian(calibrate_gaussian(epsilon, DELTA), Bounds.DIFFERENCE)
            found = [_pairs(event, "replace", trials, generator) / epsilon for _ in range(seeds)]
            yield Strength(
                "Gaussian distinguisher, 95 %",
                f"epsilon {epsilon}",
                f"{trials} a side",
                float(np.mean(found)),
                reference,
            )
    for rate, sigma, steps, reference in (
        (1.0, 5.0, 20, 0.46), (0.2, 1.2, 40, 0.46), (0.05, 0.8, 100, 0.40), (0.01, 0.7, 500, 0.34),
    ):  # fmt: skip
        event = dpsgd_event(sigma, rate, steps)
        proven = epsilon_of(event, DELTA, "add-remove")
        found = [_pairs(event, "add-remove", 20_000, generator) / proven for _ in range(seeds)]
        yield Strength(
            "white-box canary, 95 %",
            f"q {rate:g}, sigma {sigma:g}, {steps} steps",
            "20000 a side",
            float(np.mean(found)),
            reference,
        )
    for rate, sigma, steps, pair in ((1.0, 5.0, 20, (0.41, 0.50)), (0.2, 1.2, 40, (0.35, 0.36))):
        event = dpsgd_event(sigma, rate, steps)
        proven = epsilon_of(event, DELTA, "add-remove")
        for canaries, reference in zip((5_000, 20_000), pair):
            found = [_one_run(event, canaries, generator) / proven for _ in range(seeds)]
            yield Strength(
                "one run, 95 %",
                f"q {rate:g}, sigma {sigma:g}, {steps} steps",
                f"{canaries} canaries",
                float(np.mean(found)),
                reference,
            )
    event = Gaussian(calibrate_gaussian(2, DELTA), Bounds.DIFFERENCE)
    truth = delta_of(event, 0.0, "replace")
    for trials, reference in ((2_000, 0.60), (20_000, 0.89), (200_000, 0.97)):
        found = [
            delta_lower_bound(*simulated_scores(event, "replace", trials, generator)) / truth
            for _ in range(seeds)
        ]
        yield Strength(
            "delta at epsilon 0, 99.9 %", "epsilon 2", f"{trials} a side", float(np.mean(found)),
            reference,
        )  # fmt: skip


def _pairs(event: Event, relation: str, trials: int, generator: np.random.Generator) -> float:
    scores = simulated_scores(event, relation, trials, generator)
    return epsilon_lower_bound(*scores, delta=DELTA).epsilon


def _one_run(event: Event, canaries: int, generator: np.random.Generator) -> float:
    present, absent = simulated_scores(event, "add-remove", canaries, generator)
    included = generator.random(canaries) < 0.5
    scores = np.where(included, present, absent)
    return one_run_lower_bound(included, scores, delta=DELTA).epsilon
