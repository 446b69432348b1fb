"""Table ``pass-ablation``: one setting of PASS changed at a time on AudioMNIST (Tables 9 to 12).

    python -m benchmarks pass-ablation data=DATA --out benchmarks/results/pass-ablation.json

Beside the paper's four ablations stand what this implementation changed: the entropy over a bank
instead of one batch, and where the donors start. Fits are shorter than in table ``pass`` and their
donors fewer, so rows compare with each other and not with that table; the exact attacker alone
attacks. Rows are kept: ``minutes=`` begins no new one after that many minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rich.table import Table as Grid

from benchmarks.attributes.cases import SHORT_AUDIO, Case
from benchmarks.attributes.data import find_folders
from benchmarks.attributes.page import found, shown
from benchmarks.attributes.run import TableRun, Wanted
from benchmarks.harness.figures import Curve, curves
from benchmarks.harness.markdown import markdown
from sfumato.settings import Amount, Count

Row = dict[str, Any]
BASE = SHORT_AUDIO


def _set(**settings: Any) -> Case:
    return replace(BASE, settings={**BASE.settings, **settings})


def _train(**training: Any) -> Case:
    return replace(BASE, training={**BASE.training, **training})


def _mix(attribute: str, name: str, share: float) -> Case:
    return replace(BASE, donor_mix=(attribute, {name: share}))


# label -> case, and what the paper reports as mNAG with it. Classes are numbered: 0 female, 1 male.
GROUPS: Mapping[str, Mapping[str, tuple[Case, str]]] = {
    "mu (Table 10)": {
        "0": (_set(mu=0.0), "24.3 ± 0.1"),
        "0.02": (_set(mu=0.02), "30.0 ± 0.2"),
        "0.05": (_set(mu=0.05), "38.8 ± 0.3"),
        "0.1": (_set(mu=0.1), "50.8 ± 0.6"),
        "0.2": (BASE, "55.0 ± 0.7"),
        "0.5": (_set(mu=0.5), "52.4 ± 0.6"),
    },
    "lambda (Table 9)": {
        "0.1": (_set(lambda_=0.1), "51.8 ± 0.7"),
        "0.2": (_set(lambda_=0.2), "53.0 ± 0.4"),
        "0.5": (_set(lambda_=0.5), "55.4 ± 0.6"),
        "1": (BASE, "55.0 ± 0.7"),
        "2": (_set(lambda_=2.0), "56.4 ± 0.4"),
        "5": (_set(lambda_=5.0), "55.4 ± 0.5"),
    },
    "donors (Table 11)": {
        "512": (replace(BASE, donors=512), ""),
        "1024": (replace(BASE, donors=1024), "51.1 ± 0.2"),
        "2048": (BASE, "54.1 ± 0.7"),
        "4096": (replace(BASE, donors=4096), "55.0 ± 0.7"),
    },
    "what the donors are (Table 12)": {
        "90 % male": (_mix("gender", "1", 0.9), "56.1 ± 0.2"),
        "as the records (80 % male)": (BASE, "55.0 ± 0.7"),
        "50 % male": (_mix("gender", "1", 0.5), "55.4 ± 0.1"),
        "20 % male": (_mix("gender", "1", 0.2), "55.6 ± 1.2"),
        "30 % digit 0": (_mix("digit", "0", 0.3), "55.1 ± 0.1"),
        "50 % digit 0": (_mix("digit", "0", 0.5), "52.9 ± 0.1"),
    },
    "what sfumato changed": {
        "as it is": (BASE, ""),
        "entropy over one batch (published)": (_train(bank_rate=1.0), ""),
        "donors start at their own embedding": (_train(donor_start="encoder"), ""),
        "donors start at random (published)": (_train(donor_start="random"), ""),
    },
}


def run(
    *,
    data: str | None = None,
    quick: bool = False,
    keep: str | None = None,
    seeds: Count = 1,
    minutes: Amount | None = None,
) -> Row:
    """Measure what is not measured yet; ``data`` is the root of the real recordings."""
    folders = {name: path for name, path in find_folders(data).items() if name == "audio"}
    table = TableRun(folders, quick=quick, keep=keep, minutes=minutes)
    for seed in range(seeds):
        for group, cases in GROUPS.items():
            for label, (case, _) in cases.items():
                wanted = Wanted(f"{group}: {label}", "pass", seed)
                table.take(case, wanted, trained_attacker=False)
    result = table.result()
    notes = [note for note in result["notes"] if "audio" in note or "rows" in note]
    return {"cases": result["cases"], "notes": notes, "quick": quick}


def terminal(result: Row) -> list[Any]:
    """One grid for each setting."""
    grids: list[Any] = []
    for group, rows in _groups(result).items():
        grid = Grid(group, *BASE.attributes, "mNAG", title="NAG in per cent, exact attacker")
        for label, seeds in rows.items():
            grid.add_row(
                label, *(shown(seeds, "exact", name) for name in (*BASE.attributes, "mNAG"))
            )
        grids.append(grid)
    return [*grids, *result["notes"]]


def tables(result: Row) -> dict[str, str]:
    """A table a setting; the paper's mNAG beside ours, for the shape of the curve."""
    made = {}
    for group, rows in _groups(result).items():
        lines = [
            [label, *(shown(seeds, "exact", name) for name in (*BASE.attributes, "mNAG")),
             GROUPS[group][label][1]]
            for label, seeds in rows.items()
        ]  # fmt: skip
        made[group] = markdown((group, *BASE.attributes, "mNAG", "the paper's mNAG"), lines)
    return made


def figures(result: Row) -> dict[str, str]:
    """NAG of hidden and useful attributes over mu, the setting that trades them."""
    rows = _groups(result).get("mu (Table 10)", {})
    if len(rows) < 2:
        return {}
    lines = [
        Curve(name, [float(label) for label in rows], [_first(rows[label], name) for label in rows])
        for name in BASE.attributes
    ]
    return {"mu": curves("AudioMNIST, PASS", "mu", "NAG in per cent", lines)}


def _groups(result: Row) -> dict[str, dict[str, Row]]:
    """Group -> label -> rows by seed, in the order of ``GROUPS``."""
    measured = {name: entry["rows"]["pass"] for name, entry in result["cases"].items()}
    listed = {
        group: {
            label: measured[f"{group}: {label}"]
            for label in cases
            if f"{group}: {label}" in measured
        }
        for group, cases in GROUPS.items()
    }
    # one row alone compares with nothing
    return {group: rows for group, rows in listed.items() if len(rows) > 1}


def _first(rows: Row, name: str) -> float:
    return found(rows, "exact", name)[0]
