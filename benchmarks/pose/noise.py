"""What the noise of table ``pose`` would be under other accountants, deltas and batches."""

from __future__ import annotations

from typing import Any, Protocol

from benchmarks.pose.grid import DELTA, EPSILONS
from sfumato.privacy import Relation, calibrate_dpsgd


class Sized(Protocol):
    """The sizes that noise depends on."""

    @property
    def records(self) -> int: ...
    @property
    def epochs(self) -> float: ...
    @property
    def batch(self) -> int: ...


def noises(scale: Sized) -> list[dict[str, Any]]:
    """Noise multipliers of the grid, and of the same plan accounted otherwise.

    ``tenth`` is delta = 1/(10 N), beside the published one.
    """
    rows = []
    rate = scale.batch / scale.records
    steps = max(1, round(scale.epochs * scale.records / scale.batch))
    tenth = 1 / (10 * scale.records)
    for epsilon in EPSILONS:
        found = {
            name: calibrate_dpsgd(epsilon, delta, rate, steps, relation, accountant)
            for name, delta, relation, accountant in (
                ("used", DELTA, Relation.REPLACE, "pld"),
                ("tenth", tenth, Relation.REPLACE, "pld"),
                ("rdp", DELTA, Relation.REPLACE, "rdp"),
                ("published", DELTA, Relation.ADD_REMOVE, "rdp"),
            )
        }
        rows.append(
            {"epsilon": epsilon, "tenth_of_1/N": tenth, "steps": steps, "rate": rate, **found}
        )
    return rows
