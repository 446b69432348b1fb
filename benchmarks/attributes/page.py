"""What table ``pass`` shows: for the terminal, and as a page of Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table as Grid

from benchmarks.attributes.cases import BOUNDED, FIT_MINUTES, GOALS, MAIN, SECOND_LOOK, SHORT_AUDIO
from benchmarks.attributes.data import YOUNG
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

Row = dict[str, Any]
TITLES = {
    "audio": "AudioMNIST: gender hidden, digit kept",
    "motion": "SisFall: sex and identity hidden, activity kept",
    "faces": "UTKFace: gender hidden, race kept",
}
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


def words(result: Row) -> list[Any]:
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
    return [*shown_now, *map(" ".join, goal_lines(result)), *result["notes"]]


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


def page(result: Row) -> str:
    """The section of docs/results.md."""
    cases = result["cases"]
    parts = [summary(result)]
    parts += _baseline_table("motion", cases) + _baseline_table("audio", cases)
    parts += _picture_table(cases) + _more_data(cases) + _combination_table(cases)
    parts += [f"- {note}" for note in result["notes"]]
    return "\n".join(parts)


def summary(result: Row) -> str:
    """PASS alone: what was asked for, what it reached, and what NAG does not show."""
    cases = result["cases"]
    parts = [_opening(result), "", *_goal_table(result)]
    for case in MAIN:
        if case in cases and "pass" in cases[case]["rows"]:
            parts += _attack_table(case, cases[case])
    return "\n".join(parts)


def _opening(result: Row) -> str:
    seeds = max(
        (len(rows) for entry in result["cases"].values() for rows in entry["rows"].values()),
        default=0,
    )
    return (
        f"NAG in per cent: 0 is guessing, 100 the same attack on unprotected records. Mean and "
        f"standard deviation over up to {seeds} seeds; settings were fixed before on a validation "
        f"part of the training records with another seed, but for three things: {SECOND_LOOK} "
        "The exact attacker knows the whole channel, the trained one is the probing attack; "
        "numbers without a spread are of one seed. The papers' numbers are on other features (HuBERT) or "
        "other data (Motion Sense, CelebA): the pattern compares, the digits do not."
    )


def _goal_table(result: Row) -> list[str]:
    lines = [line(cells) for cells in goal_lines(result)]
    if not lines:
        return []
    fits = list(result["cases"].get("audio", {}).get("rows", {}).get("pass", {}).values())
    titles = head("task", "measure", "goal", "exact attacker", "trained attacker", "")
    time = ""
    if fits:
        minutes = spread([each["processor_seconds"] / 60 for each in fits])
        clock = spread([each["seconds"] / 60 for each in fits])
        time = (
            f"One AudioMNIST fit took {minutes} minutes of processor time, which other work on the "
            f"machine does not change, and {clock} by the clock (asked for: {FIT_MINUTES} on two cores)."
        )
    return [*titles, *lines, "", time, ""]


def _attack_table(case: str, entry: Row) -> list[str]:
    """One main task by both attackers, with what NAG does not show."""
    rows, clear = entry["rows"]["pass"], entry["clear"]["scores"]
    paper = PASS_ON.get(case)
    lines = [
        f"### {TITLES[case]}",
        "",
        *head(
            "attribute", "", "NAG exact", "NAG trained", "balanced", "AUC", "nats (bias)",
            "guessing", "unprotected", *(["the paper's NAG"] if paper else []),
        ),
    ]  # fmt: skip
    roles = {name: role for role in ("private", "useful", "hidden") for name in entry["task"][role]}
    roles |= dict.fromkeys(entry["task"].get("also", ()), "hidden, not in mNAG")
    for name, role in roles.items():
        bits = found(rows, "exact", name, "information")
        bias = found(rows, "exact", name, "information_bias")
        nats = f"{statistics.fmean(bits):.3f} ({statistics.fmean(bias):.3f})" if bits else ""
        lines.append(
            line([
                name,
                role,
                shown(rows, "exact", name),
                shown(rows, "probe", name),
                shown(rows, "exact", name, "balanced", 100),
                shown(rows, "exact", name, "auc", 100),
                nats,
                f"{100 * clear[name]['guessing']:.1f}",
                f"{100 * clear[name]['accuracy']:.1f}",
                *([paper.get(name, "")] if paper else []),
            ])
        )  # fmt: skip
    lines.append(
        line(["mNAG", "", *(shown(rows, each, "mNAG") for each in _ATTACKERS), "", "", "", "", "",
              *([paper.get("mNAG", "")] if paper else [])])
    )  # fmt: skip
    sizes = f"{entry['clear']['train']} records to train, {entry['clear']['test']} to test"
    floor = ", ".join(f"{value:.1f} ({name})" for name, value in entry["floor"].items())
    plain = ", ".join(
        f"{name} {shown(rows, 'unfinetuned', name)}" for name in entry["task"]["useful"]
    )
    lines += [
        "",
        f"{sizes}; {entry['task']['donors']} donors. Shown nothing but the useful classes, an attacker "
        f"already has NAG {floor}. Balanced accuracy and AUC in per cent, by the "
        f"exact attacker. A classifier trained on originals and never adapted: {plain}.",
    ]
    return [*lines, *_bound(entry), *_repeated(rows), ""]


def _bound(entry: Row) -> list[str]:
    """What no substitution can beat, and what mNAG would be with the finer classes."""
    if "bound" not in entry:
        return []
    bound, task = entry["bound"], entry["task"]
    best = {
        kind: f"{bound[kind]['mnag']:.1f} ("
        + ", ".join(f"{name} {value:.1f}" for name, value in bound[kind]["nags"].items())
        + ")"
        for kind in ("labels", "guesses")
    }
    lines = (
        [
            f"**The best there is:** of all channels that leave {' and '.join(task['private'])} at most "
            f"NAG {bound['most']:g}, the best one that sees the true classes reaches mNAG "
            f"{best['labels']}; one that sees what the unprotected attack takes a record for, "
            f"{best['guesses']}. Both are told {' and '.join(task['hidden'])}, which PASS is not."
        ]
        if task["hidden"]
        else []
    )
    return [*lines, *_finer(entry)]


def _finer(entry: Row) -> list[str]:
    rows, task = entry["rows"]["pass"], entry["task"]
    if not task.get("also"):
        return []
    means = []
    for attacker in _ATTACKERS:
        kept = [average(found(rows, attacker, name)) for name in (*task["useful"], *task["also"])]
        hidden = [average(found(rows, attacker, name)) for name in task["private"]]
        means.append(f"{statistics.fmean(kept) - statistics.fmean(hidden):.1f}")
    return [
        f"Age is in two groups, younger than {YOUNG} or not, as CelebA has Young, since on validation "
        "faces the goal was out of reach with four; with four groups "
        f"(age4: below 30, 45, 60 and above) in its place mNAG would be {means[0]} (exact), "
        f"{means[1]} (trained)."
    ]


def _repeated(rows: Mapping[str, Row]) -> list[str]:
    """The attacker who collects many draws of a person, from the first seed."""
    first = next(iter(rows.values()))
    lines = []
    for name, draws in first.get("repeated", {}).items():
        fresh, kept = (
            ", ".join(
                f"{100 * each['accuracy']:.0f} after {each['draws']}"
                for each in draws
                if each["remembered"] is remembered
            )
            for remembered in (False, True)
        )
        lines.append(
            f"Collecting draws about one person, {name} is named right in per cent: {fresh} fresh "
            f"draws; {kept} where each record's draw is remembered."
        )
    return lines


def _baseline_table(case: str, cases: Row) -> list[str]:
    entry = cases.get(case)
    methods = [] if entry is None else [name for name in entry["rows"] if name in BASELINES]
    if entry is None or not methods:
        return []
    private, useful = entry["task"]["private"], entry["task"]["useful"]
    lines = [
        f"### {TITLES[case]}: the methods PASS is compared with",
        "",
        "Harmless to their own adversary, broken by the probing attack (the paper's Table 1).",
        "",
        *head(
            "method",
            *(f"{name}, own adversary" for name in private),
            *(f"{name}, attacker" for name in private),
            *(f"{name}, attacker" for name in useful),
            *(f"{name}, un-finetuned" for name in useful),
            "mNAG",
            _PAPER_COLUMN[case],
        ),
    ]
    for method in (*methods, "pass"):
        rows = entry["rows"].get(method)
        if rows is None:
            continue
        cells = [shown(rows, "own", name) for name in private]
        cells += [shown(rows, "probe", name) for name in (*private, *useful)]
        cells += [shown(rows, "unfinetuned", name) for name in useful]
        title = BASELINES.get(method, "PASS")
        lines.append(line([title, *cells, shown(rows, "probe", "mNAG"), _paper(case, method)]))
    return [*lines, ""]


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


def _picture_table(cases: Row) -> list[str]:
    entry = cases.get("faces")
    methods = [] if entry is None else [name for name in entry["rows"] if name in PICTURE_METHODS]
    if entry is None or not methods:
        return []
    names = [*entry["task"]["private"], *entry["task"]["useful"], *entry["task"]["hidden"]]
    lines = [
        "### UTKFace: noise on pictures beside PASS",
        "",
        "What they promise is for pixels or pictures, not for attributes (the paper's Table 17).",
        "",
        *head("method", "settings", *names, "mNAG", "the paper on CelebA: Male; mNAG"),
    ]
    for method in (*methods, "pass"):
        rows = entry["rows"].get(method)
        if rows is None:
            continue
        settings = ", ".join(f"{k} {v}" for k, v in PICTURE_METHODS.get(method, {}).items())
        cells = [shown(rows, "probe", name) for name in (*names, "mNAG")]
        lines.append(line([method, settings, *cells, "; ".join(CELEBA_NOISE[method])]))
    return [*lines, ""]


def _more_data(cases: Row) -> list[str]:
    entry = cases.get("motion-half")
    if entry is None:
        return []
    names = [*entry["task"]["private"], *entry["task"]["useful"]]
    lines = [
        "### SisFall: an attacker with twice the protector's data",
        "",
        *head(
            "method",
            *(f"{name}, attacker" for name in names),
            "mNAG",
            "the paper's mNAG (Table 15)",
        ),
    ]
    for method, rows in entry["rows"].items():
        cells = [shown(rows, "probe", name) for name in (*names, "mNAG")]
        title = BASELINES.get(method, "PASS")
        lines.append(line([title, *cells, HALF_THE_DATA.get(method, "")]))
    return [*lines, ""]


def _combination_table(cases: Row) -> list[str]:
    chosen = {name: entry for name, entry in cases.items() if name[-1].isdigit()}
    if not chosen:
        return []
    lines = [
        "### Other combinations",
        "",
        "(S) suppressed, (U) kept; NAG by the exact attacker, one seed. AudioMNIST is shortened as in "
        f"the ablations ({SHORT_AUDIO.training['steps']} steps, {SHORT_AUDIO.donors} donors); where the "
        "speaker is to be kept, who tells the gender, lambda is 0.02, taken after the default had kept "
        "both on these test records (gender NAG above 90). The best "
        "there is: mNAG of the best channel that sees the true classes and leaves private ones a NAG "
        f"of {BOUNDED['faces']:g}.",
        "",
        *head("data", "NAG", "mNAG", "the best there is", "the paper's NAG, mNAG"),
    ]
    for name, entry in chosen.items():
        rows, task = entry["rows"]["pass"], entry["task"]
        cells = "; ".join(
            f"({'S' if each in task['private'] else 'U'}) {each} {shown(rows, 'exact', each)}"
            for each in (*task["private"], *task["useful"])
        )
        mean = shown(rows, "exact", "mNAG")
        best = f"{entry['bound']['labels']['mnag']:.1f}" if "bound" in entry else ""
        lines.append(line([task["source"], cells, mean, best, COMBINATIONS.get(name, "")]))
    return [*lines, ""]


def head(*names: str) -> list[str]:
    """The first two lines of a Markdown table."""
    return [line(names), "| --- " * len(names) + "|"]


def line(cells: Iterable[str]) -> str:
    """One line of it."""
    return f"| {' | '.join(cells)} |"
