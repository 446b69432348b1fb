"""Calibration time against dp_accounting's, row by row of the accounting table (docs/soundness.md, section 6).

    python -m benchmarks.accounting.speed            all 40 rows under add-remove, the replace column too
    python -m benchmarks.accounting.speed --quick    five rows

Both run in this process, one after the other, on the same rows at the same interval; the best of
the repeats counts. The answers must agree to 0.2 %. Writes benchmarks/results/accounting-speed.json.
"""

from __future__ import annotations

import argparse
import functools
import math
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import dp_accounting
from dp_accounting.pld import PLDAccountant

from sfumato.files import write_json
from sfumato.privacy import Relation, calibrate_dpsgd
from sfumato.privacy.accounting._accountant import interval_for

RESULTS = Path("benchmarks/results/accounting-speed.json")

# (data set, records, batch, epochs, delta, target epsilons)
SETTINGS = (
    ("NTU", 40_000, 128, 150, 1e-6, (0.1, 0.25, 0.5, 0.75, 1, 5)),
    ("MPII", 22_246, 64, 25, 4e-5, (0.2, 0.4, 0.6, 0.8)),
    ("MPII-40k", 40_000, 64, 25, 4e-5, (0.2, 0.4, 0.6, 0.8)),
    ("UCF-150", 9_537, 128, 150, 1e-5, (0.25, 0.5, 1, 2, 5, 10)),
    ("UCF-300", 9_537, 128, 300, 1e-5, (0.25, 0.5, 0.75, 1, 5)),
    ("UCF-B8", 9_537, 8, 50, 1e-4, (2, 5, 8)),
    ("TSH", 10_000, 128, 150, 1e-5, (0.1, 0.25, 0.5, 0.75, 1, 5)),
    ("HMDB", 3_570, 128, 150, 1e-5, (0.5, 1, 2, 3, 5, 10)),
)
QUICK = {("NTU", 0.5), ("NTU", 5), ("MPII", 0.8), ("UCF-B8", 5), ("HMDB", 10)}

_RELATIONS = {
    Relation.ADD_REMOVE: dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    Relation.REPLACE: dp_accounting.NeighboringRelation.REPLACE_ONE,
}


def peer(
    epsilon: float, delta: float, q: float, steps: int, relation: Relation, answer: float
) -> float:
    """dp_accounting's own calibration, as its documentation shows it."""

    def event(noise: float) -> dp_accounting.DpEvent:
        step = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(noise))
        return dp_accounting.SelfComposedDpEvent(step, steps)

    return float(
        dp_accounting.calibrate_dp_mechanism(
            functools.partial(
                PLDAccountant,
                neighboring_relation=_RELATIONS[relation],
                value_discretization_interval=interval_for(epsilon),
            ),
            event,
            epsilon,
            delta,
            # in its favour: a bracket around the answer, and the tolerance that we reach
            dp_accounting.ExplicitBracketInterval(answer / 2, answer * 2),
            tol=1e-4 * answer,
        )
    )


def forget() -> None:
    """Empty every cache of the accounting, so that each repeat starts from nothing."""
    for name, module in list(sys.modules.items()):
        if name.startswith("sfumato.privacy"):
            for member in vars(module).values():
                if hasattr(member, "cache_clear"):
                    member.cache_clear()


def best_of(times: int, call: Callable[[], float]) -> tuple[float, float]:
    best, value = float("inf"), 0.0
    for _ in range(times):
        forget()
        start = time.perf_counter()
        value = call()
        best = min(best, time.perf_counter() - start)
    return best, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="five rows, one repeat")
    parser.add_argument("--peer-repeats", type=int, default=2, help="how often the peer may try")
    options = parser.parse_args()
    quick = options.quick
    rows = []
    print(
        f"{'row':10} {'eps':>5} {'relation':11} {'peer s':>8} {'ours s':>8} {'times':>6}  multipliers"
    )
    for name, records, batch, epochs, delta, targets in SETTINGS:
        q, steps = batch / records, math.ceil(epochs * records / batch)
        for target in targets:
            if quick and (name, target) not in QUICK:
                continue
            for relation in _RELATIONS:
                arguments = (float(target), delta, q, steps, relation)
                repeats = 1 if quick else 3
                ours, noise = best_of(repeats, lambda: calibrate_dpsgd(*arguments))  # noqa: B023
                theirs, reference = best_of(
                    1 if quick else options.peer_repeats,
                    lambda: peer(*arguments, noise),  # noqa: B023
                )
                rows.append(
                    {
                        "row": name,
                        "epsilon": float(target),
                        "relation": relation.value,
                        "peer_seconds": theirs,
                        "seconds": ours,
                        "peer_noise_multiplier": reference,
                        "noise_multiplier": noise,
                    }
                )
                print(
                    f"{name:10} {target:5g} {relation.value:11} {theirs:8.3f} {ours:8.3f} "
                    f"{theirs / ours:6.1f}  {reference:.4f} {noise:.4f}",
                    flush=True,
                )
                if abs(noise / reference - 1) > 2e-3:
                    raise SystemExit(f"the answers differ: {reference} and {noise}")
    worst = min(row["peer_seconds"] / row["seconds"] for row in rows)  # type: ignore[operator]
    print(f"slowest row: {worst:.1f} times as fast as dp_accounting")
    write_json(
        RESULTS,
        {
            "machine": platform.processor() or platform.machine(),
            "least_speedup": worst,
            "rows": rows,
        },
        force=True,
    )
    if worst < 3:
        raise SystemExit("below the required factor of three")


if __name__ == "__main__":
    main()
