"""What table ``pass`` shows: for the terminal, and as Markdown tables."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table as Grid

from benchmarks.attributes.cases import CHOSEN_ON_TEST, FIT_MINUTES, GOALS, MAIN
from benchmarks.attributes.paper import (
    AUDIO,
    BASELINES,
    CELEBA_NOISE,
    COMBINATIONS,
    HALF_THE_DATA,
    MOTION_SENSE,
    PASS_ON,
)
from benchmarks.attributes.pictures import PICTURE_METHODS
from benchmarks.harness.markdown import markdown

Row = dict[str, Any]
_PAPER_COLUMN = {
    "motion": "the paper on Motion Sense: gender, ID by own adversary; by attacker; activity",
    "audio": "the paper on HuBERT features: gender; digit; mNAG",
}
_ATTACKERS = {"exact": "exact attacker", "probe": "trained attacker"}


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Mean and, from two seeds on, standard deviation over the seeds."""
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


def found(rows: Mapping[str, Row], attacker: str, name: str, what: str = "nag") -> list[float]:
    """One number of every seed that has it; ``mNAG`` is a number of all attributes."""
    if name == "mNAG":
        return [row["mnag"][attacker] for row in rows.values() if attacker in row["mnag"]]
    attacks = [row["attackers"].get(attacker, {}) for row in rows.values()]
    return [attack[name][what] for attack in attacks if name in attack]


def average(values: Sequence[float]) -> float:
    """Zero where nothing was measured."""
    return statistics.fmean(values) if values else 0.0


def shown(
    rows: Mapping[str, Row], attacker: str, name: str, what: str = "nag", scale: float = 1
) -> str:
    """The same as mean and spread; empty where no seed has it."""
    values = found(rows, attacker, name, what)
    return spread([scale * value for value in values]) if values else ""


def terminal(result: Row) -> list[Any]:
    """A grid a task: NAGs by attacker, and what was asked for."""
    shown_now: list[Any] = []
    for case, entry in result["cases"].items():
        task = entry["task"]
        names = [*task["private"], *task["useful"], *task["hidden"], *task.get("also", ())]
        grid = Grid("method", "attacker", *names, "mNAG", title=f"{case}: NAG in per cent")
        for method, rows in entry["rows"].items():
            for attacker in ("own", "exact", "probe", "unfinetuned"):
                cells = [shown(rows, attacker, name) for name in (*names, "mNAG")]
                if any(cells):
                    grid.add_row(method, attacker, *cells)
        shown_now.append(grid)
    return [*shown_now, *map(" ".join, goal_lines(result)), CHOSEN_ON_TEST, *result["notes"]]


def goal_lines(result: Row) -> list[tuple[str, ...]]:
    """Task, measure, goal, exact and trained attacker, met or not; of the three main tasks."""
    lines = []
    for case, goals in GOALS.items():
        rows = result["cases"].get(case, {}).get("rows", {}).get("pass")
        if not rows:
            continue
        for goal in goals:
            by = [found(rows, attacker, goal.measure) for attacker in _ATTACKERS]
            means = [statistics.fmean(values) for values in by if values]
            met = "met" if all(map(goal.met, means)) else "not met"
            cells = [spread(values, 2) if values else "" for values in by]
            lines.append((case, goal.measure, str(goal), *cells, met))
    return lines


def tables(result: Row) -> dict[str, str]:
    """PASS against what was asked for, attribute by attribute, and beside other methods."""
    cases = result["cases"]
    goals = goal_lines(result)
    made = {
        "goals": markdown(
            ("task", "measure", "goal", "exact attacker", "trained attacker", ""), goals
        )
        if goals
        else "",
        "seconds": _fit_minutes(cases),
    }
    for case in MAIN:
        if case in cases and "pass" in cases[case]["rows"]:
            made[case] = _attack_table(case, cases[case])
            made[f"{case}-repeated"] = _repeated(cases[case]["rows"]["pass"])
            made[f"{case}-bound"] = _bound(cases[case])
    for case in ("motion", "audio"):
        made[f"{case}-baselines"] = _baseline_table(case, cases)
    made |= {
        "pictures": _picture_table(cases),
        "more-data": _more_data(cases),
        "combinations": _combination_table(cases),
    }
    return {name: table for name, table in made.items() if table}


def _fit_minutes(cases: Row) -> str:
    fits = list(cases.get("audio", {}).get("rows", {}).get("pass", {}).values())
    if not fits:
        return ""
    processor = spread([each["processor_seconds"] / 60 for each in fits])
    clock = spread([each["seconds"] / 60 for each in fits])
    head = ("one AudioMNIST fit", "processor, minutes", "clock, minutes", "asked for, by the clock")
    return markdown(head, [["PASS", processor, clock, str(FIT_MINUTES)]])


def _attack_table(case: str, entry: Row) -> str:
    """One main task by both attackers, with what NAG does not show."""
    rows, clear = entry["rows"]["pass"], entry["clear"]["scores"]
    paper = PASS_ON.get(case, {})
    head = ("attribute", "", "NAG exact", "NAG trained", "balanced", "AUC", "nats (bias)", "guessing",
            "unprotected", "not adapted", "floor", "the paper's NAG")  # fmt: skip
    roles = {name: role for role in ("private", "useful", "hidden") for name in entry["task"][role]}
    roles |= dict.fromkeys(entry["task"].get("also", ()), "hidden, not in mNAG")
    lines = []
    for name, role in roles.items():
        bits = found(rows, "exact", name, "information")
        bias = found(rows, "exact", name, "information_bias")
        floor = entry["floor"].get(name)
        lines.append([
            name, role,
            shown(rows, "exact", name),
            shown(rows, "probe", name),
            shown(rows, "exact", name, "balanced", 100),
            shown(rows, "exact", name, "auc", 100),
            f"{statistics.fmean(bits):.3f} ({statistics.fmean(bias):.3f})" if bits else "",
            f"{100 * clear[name]['guessing']:.1f}",
            f"{100 * clear[name]['accuracy']:.1f}",
            shown(rows, "unfinetuned", name) if role == "useful" else "",
            "" if floor is None else f"{floor:.1f}",
            paper.get(name, ""),
        ])  # fmt: skip
    mean = [shown(rows, each, "mNAG") for each in _ATTACKERS]
    lines.append(["mNAG", "", *mean, *[""] * 7, paper.get("mNAG", "")])
    return markdown(head, lines, left=2)


def _bound(entry: Row) -> str:
    """What no substitution can beat that leaves private attributes a small NAG."""
    if "bound" not in entry or not entry["task"]["hidden"]:
        return ""
    bound = entry["bound"]
    names = list(bound["labels"]["nags"])
    lines = [
        [
            title,
            f"{bound[kind]['mnag']:.1f}",
            *(f"{bound[kind]['nags'][name]:.1f}" for name in names),
        ]
        for kind, title in (
            ("labels", "sees the true classes"),
            ("guesses", "sees what the unprotected attack takes a record for"),
        )
    ]
    return markdown(["the best channel there is, which", "mNAG", *names], lines)


def _repeated(rows: Mapping[str, Row]) -> str:
    """The attacker who collects many draws of a person, from the first seed."""
    lines = []
    for name, draws in next(iter(rows.values())).get("repeated", {}).items():
        counts = list(dict.fromkeys(each["draws"] for each in draws))
        for remembered, title in ((False, "fresh draws"), (True, "each record's draw remembered")):
            right = {e["draws"]: e["accuracy"] for e in draws if e["remembered"] is remembered}
            lines.append(
                [name, title, *(f"{100 * right[n]:.0f}" if n in right else "" for n in counts)]
            )
        head = ["named right, per cent", "", *(f"{n} draws" for n in counts)]
    return markdown(head, lines, left=2) if lines else ""


def _baseline_table(case: str, cases: Row) -> str:
    entry = cases.get(case)
    methods = [] if entry is None else [name for name in entry["rows"] if name in BASELINES]
    if entry is None or not methods:
        return ""
    private, useful = entry["task"]["private"], entry["task"]["useful"]
    head = [
        "method",
        *(f"{name}, own adversary" for name in private),
        *(f"{name}, attacker" for name in (*private, *useful)),
        *(f"{name}, not adapted" for name in useful),
        "mNAG",
        _PAPER_COLUMN[case],
    ]
    lines = []
    for method in (*methods, "pass"):
        rows = entry["rows"].get(method)
        if rows is None:
            continue
        cells = [shown(rows, "own", name) for name in private]
        cells += [shown(rows, "probe", name) for name in (*private, *useful)]
        cells += [shown(rows, "unfinetuned", name) for name in useful]
        title = BASELINES.get(method, "PASS")
        lines.append([title, *cells, shown(rows, "probe", "mNAG"), _paper(case, method)])
    return markdown(head, lines)


def _paper(case: str, method: str) -> str:
    if case == "audio":
        return "; ".join(
            AUDIO.get(method, {}).get(name, "") for name in ("gender", "digit", "mNAG")
        )
    published = MOTION_SENSE.get(method)
    if published is None:
        return ""
    *own, gender, identity, activity = published
    return f"{', '.join(filter(None, own)) or '-'}; {gender}, {identity}; {activity}"


def _picture_table(cases: Row) -> str:
    entry = cases.get("faces")
    methods = [] if entry is None else [name for name in entry["rows"] if name in PICTURE_METHODS]
    if entry is None or not methods:
        return ""
    names = [*entry["task"]["private"], *entry["task"]["useful"], *entry["task"]["hidden"]]
    lines = []
    for method in (*methods, "pass"):
        rows = entry["rows"].get(method)
        if rows is None:
            continue
        settings = ", ".join(f"{k} {v}" for k, v in PICTURE_METHODS.get(method, {}).items())
        cells = [shown(rows, "probe", name) for name in (*names, "mNAG")]
        lines.append([method, settings, *cells, "; ".join(CELEBA_NOISE[method])])
    return markdown(
        ["method", "settings", *names, "mNAG", "the paper on CelebA: Male; mNAG"], lines, left=2
    )


def _more_data(cases: Row) -> str:
    entry = cases.get("motion-half")
    if entry is None:
        return ""
    names = [*entry["task"]["private"], *entry["task"]["useful"]]
    lines = [
        [BASELINES.get(method, "PASS"), *(shown(rows, "probe", name) for name in (*names, "mNAG")),
         HALF_THE_DATA.get(method, "")]
        for method, rows in entry["rows"].items()
    ]  # fmt: skip
    head = [
        "method",
        *(f"{name}, attacker" for name in names),
        "mNAG",
        "the paper's mNAG (Table 15)",
    ]
    return markdown(head, lines)


def _combination_table(cases: Row) -> str:
    """(S) suppressed, (U) kept."""
    lines = []
    for name, entry in cases.items():
        if not name[-1].isdigit():
            continue
        rows, task = entry["rows"]["pass"], entry["task"]
        cells = "; ".join(
            f"({'S' if each in task['private'] else 'U'}) {each} {shown(rows, 'exact', each)}"
            for each in (*task["private"], *task["useful"])
        )
        mean = shown(rows, "exact", "mNAG")
        best = f"{entry['bound']['labels']['mnag']:.1f}" if "bound" in entry else ""
        source = f"{task['source']}, full length" if "-full-" in name else task["source"]
        paper = COMBINATIONS.get(name.replace("-full-", "-"), "")
        lines.append([source, cells, mean, best, paper])
    head = ("data", "NAG", "mNAG", "the best there is", "the paper's NAG, mNAG")
    return markdown(head, lines, left=2) if lines else ""
