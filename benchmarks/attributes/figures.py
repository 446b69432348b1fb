"""The figures of table ``pass``."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.attributes.cases import MAIN
from benchmarks.attributes.page import average, found
from benchmarks.attributes.paper import BASELINES
from benchmarks.harness.figures import bars, matrix


def figures(result: dict[str, Any]) -> dict[str, str]:
    """Confusion matrices of the substitution, and own adversary beside attacker."""
    drawn = {}
    for case in MAIN:
        entry = result["cases"].get(case)
        if entry is None or "pass" not in entry["rows"]:
            continue
        first = next(iter(entry["rows"]["pass"].values()))
        for name, values in first["confusion"].items():
            classes = [str(number) for number in range(len(values))]
            drawn[f"{case}-{name}"] = matrix(
                f"{name}: replaced by", "class of the donor", "class of the record", classes, values
            )
    motion = result["cases"].get("motion", {}).get("rows", {})
    methods = [name for name in motion if name in BASELINES]
    rows = [*(motion[each] for each in methods), motion.get("pass", {})]
    titles = [*(BASELINES[each] for each in methods), "PASS"]
    for name in MAIN["motion"].private if methods else ():
        seen = {
            title: [found(each, attacker, name) for each in rows]
            for title, attacker in (("own adversary", "own"), ("probing attack", "probe"))
        }
        heights, errors = (
            {title: [part(values) for values in each] for title, each in seen.items()}
            for part in (average, _deviation)
        )
        drawn[f"baselines-{name}"] = bars(
            f"SisFall, {name}", "NAG in per cent", titles, heights, errors=errors
        )
    return drawn


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0
