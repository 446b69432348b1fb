"""Table ``accounting-speed``: calibration time beside dp_accounting's, row by row of the accounting table
(docs/soundness.md, section 6).

Both run in this process, one after the other, on the same rows at the same interval; the best of
the repeats counts. The answers must agree to 0.2 %.
"""

from __future__ import annotations

import functools
import math
import platform
import sys
import time
from collections.abc import Callable
from typing import Any

import dp_accounting
from dp_accounting.pld import PLDAccountant
from rich.table import Table

from benchmarks.harness.cells import Row
from benchmarks.harness.markdown import markdown
from sfumato.errors import SfumatoError
from sfumato.privacy import Relation, calibrate_dpsgd
from sfumato.privacy.accounting._accountant import interval_for
from sfumato.settings import Count

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


def run(*, quick: bool = False, peer_repeats: Count = 2) -> dict[str, Any]:
    """All 40 rows under add-remove and replace; ``quick`` takes five rows and one repeat."""
    rows = [
        _row(name, batch / records, math.ceil(epochs * records / batch), delta, float(target), relation,
             repeats=1 if quick else 3, peer_repeats=1 if quick else peer_repeats)
        for name, records, batch, epochs, delta, targets in SETTINGS
        for target in targets
        if not quick or (name, target) in QUICK
        for relation in _RELATIONS
    ]  # fmt: skip
    return {
        "machine": platform.processor() or platform.machine(),
        "least_speedup": min(row["peer_seconds"] / row["seconds"] for row in rows),
        "rows": rows,
    }


def _row(
    name: str, q: float, steps: int, delta: float, epsilon: float, relation: Relation,
    *, repeats: int, peer_repeats: int,
) -> Row:  # fmt: skip
    arguments = (epsilon, delta, q, steps, relation)
    ours, noise = best_of(repeats, lambda: calibrate_dpsgd(*arguments))
    theirs, reference = best_of(peer_repeats, lambda: peer(*arguments, noise))
    if abs(noise / reference - 1) > 2e-3:
        raise SfumatoError(
            f"Expected equal noise multipliers, got {reference} and {noise} for {name}."
        )
    return {
        "row": name,
        "epsilon": epsilon,
        "relation": relation.value,
        "peer_seconds": theirs,
        "seconds": ours,
        "peer_noise_multiplier": reference,
        "noise_multiplier": noise,
    }


def failed(result: dict[str, Any]) -> bool:
    """Whether a row is below the required factor of three."""
    return bool(result["least_speedup"] < 3)


HEAD = (
    "row",
    "epsilon",
    "relation",
    "dp_accounting, s",
    "ours, s",
    "times",
    "its noise",
    "our noise",
)


def _line(row: Row) -> list[str]:
    return [
        row["row"], f"{row['epsilon']:g}", row["relation"], f"{row['peer_seconds']:.3f}",
        f"{row['seconds']:.3f}", f"{row['peer_seconds'] / row['seconds']:.1f}",
        f"{row['peer_noise_multiplier']:.4f}", f"{row['noise_multiplier']:.4f}",
    ]  # fmt: skip


def tables(result: dict[str, Any]) -> dict[str, str]:
    return {"rows": markdown(HEAD, [_line(row) for row in result["rows"]])}


def terminal(result: dict[str, Any]) -> list[Any]:
    table = Table(*HEAD, box=None, pad_edge=False)
    for row in result["rows"]:
        table.add_row(*_line(row))
    slowest = f"slowest row: {result['least_speedup']:.1f} times as fast as dp_accounting"
    return [table, slowest]
