"""What table ``visual`` shows: for the terminal, as Markdown tables, and as figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table as Grid

from benchmarks.harness.figures import Curve, curves
from benchmarks.harness.markdown import markdown, mean_and_error
from benchmarks.visual.ways import BUDGETS, EPSILONS, GRIDS, USUAL_K, ways
from sfumato.privacy import format_epsilon

# Video-DPRP paper, Table 1: UCF101 tested on raw and on protected; PA-HMDB51 cMAP; VISPR F1.
PAPER = {
    "raw": (85.77, 85.77, 70.13, 69.10),
    "face blurring": (51.07, 40.01, 42.13, 52.34),
    "ISR, a tenth": (49.65, 45.14, 58.26, 49.14),
    "ISR, a twentieth": (18.34, 24.94, 40.01, 45.00),
    "appearance free": (30.02, 14.22, None, None),
    "selective privacy": (58.97, 45.10, None, None),
    "Video-DPRP, published, epsilon 2": (55.16, 38.76, 39.42, 40.03),
    "Video-DPRP, published, epsilon 5": (58.58, 45.20, 48.75, 53.77),
    "Video-DPRP, published, epsilon 8": (61.69, 50.00, 53.00, 55.12),
}
# Rows of the same table that cannot be run here, and why.
_GAN, _ADVERSARIAL = "not run: no weights", "not run: on tensors in table `pass`"
PAPER_ONLY = {
    "V-SAM": (_GAN, (17.32, 10.02, 40.39, 39.97)),
    "Face Anonymizer": (_GAN, (32.05, 21.62, 41.18, 51.43)),
    "DeepPrivacy": (_GAN, (16.72, 14.95, 39.76, 41.27)),
    "SPAct": (_ADVERSARIAL, (60.82, None, 60.55, 47.61)),
    "ALF": (_ADVERSARIAL, (56.27, None, 40.29, 43.08)),
}
# Tables 3 and 4: top-1 on PA-HMDB51 and cMAP. Table 5: seconds a video of UCF101.
PAPER_K = {"20x20": (24.60, 32.46), "24x32": (28.03, 40.17), "32x32": (51.07, 53.00),
           "50x50": (67.18, 56.96), "64x80": (70.10, 60.18)}  # fmt: skip
PAPER_B = {"0.2": (37.80, 29.02), "0.4": (40.26, 36.73), "0.5": (43.80, 44.27),
           "0.6": (46.39, 50.01), "0.8": (51.07, 53.00)}  # fmt: skip
PAPER_SECONDS = {"ISR (32x24)": 19.24, "appearance free": 23.74, "face blurring": 26.08,
                 "Video-DPRP, sound": 20.32}  # fmt: skip
COLUMNS = {"action on raw": "action_on_raw", "action on protected": "action_on_protected",
           "cMAP": "cmap", "F1": "f1"}  # fmt: skip
_USUAL = "Video-DPRP, {}, epsilon 8"
_HOWS = ("published", "16 pixels", "frame")
_TERMS = (
    "Epsilons: relation replace, every clip released once, accountant analytic-gaussian for Gaussian "
    "noise; delta 1e-4 unless it is named."
)


def in_order(rows: dict[str, Any]) -> list[str]:
    """The rows that were measured, as the table has them; a file of numbers has another order."""
    return [name for name in ("raw", *(way.name for way in ways(64, 64, 8))) if name in rows]


def _shown(cells: Sequence[dict[str, Any]], column: str) -> str:
    known = [cell for cell in cells if cell.get(column) is not None]
    if not known:
        return ""
    mean, error = mean_and_error(known, column)
    return f"{100 * mean:.0f}" + (f" ± {100 * error:.0f}" if len(known) > 1 else "")


def _paper(values: Sequence[float | None] | None) -> str:
    if values is None:
        return "not in the paper"
    return " / ".join("-" if each is None else f"{each:.1f}" for each in values)


def _proved(promise: dict[str, Any] | None) -> str:
    if promise is None:
        return "nothing"
    delta = "" if promise["delta"] in (0, 1e-4) else f", delta {promise['delta']:.2g}"
    return f"{format_epsilon(promise['epsilon'])} for {promise['unit']}{delta}"


def terminal(result: dict[str, Any]) -> list[Any]:
    grid = Grid("in per cent", *COLUMNS, "the paper", box=None, pad_edge=False)
    for name in in_order(result["rows"]):
        shown = (_shown(result["rows"][name], column) for column in COLUMNS.values())
        grid.add_row(name, *shown, _paper(PAPER[name]) if name in PAPER else "")
    return [grid, _TERMS, *result["notes"]]


def tables(result: dict[str, Any]) -> dict[str, str]:
    """Tables 1, 3, 4 and 5 of the paper, and UTD-MHAD where it was measured."""
    rows = result["rows"]
    measured: list[Sequence[str]] = [
        (name, "" if name == "raw" else _proved(result["promises"][name]),
         *(_shown(rows[name], column) for column in COLUMNS.values()), _paper(PAPER.get(name)))
        for name in in_order(rows) if result["parts"][name] == "table 1"
    ]  # fmt: skip
    measured.append(
        (
            "*guessing*",
            "",
            *(_guessing(rows["raw"], result["staging"], c) for c in COLUMNS.values()),
            "",
        )
    )
    not_run = [
        (name, why, "", "", "", "", _paper(values)) for name, (why, values) in PAPER_ONLY.items()
    ]
    head = ("Table 1", "true epsilon", *COLUMNS, "the paper: raw / protected / cMAP / F1")
    made = {
        "table-1": markdown(head, [*measured, *not_run], left=2),
        "seconds": _seconds(result["seconds"]),
    }
    return (
        made
        | _ablations(result)
        | ({} if result["real"] is None else {"utd-mhad": _real(result["real"])})
    )


def _guessing(raw: Sequence[dict[str, Any]], data: dict[str, Any], column: str) -> str:
    if column.startswith("action"):
        actions = data["actions"]
        return f"{100 / (actions if isinstance(actions, int) else len(actions)):.0f}"
    chance = raw[0].get("cmap_chance") if column == "cmap" else None
    return "" if chance is None else f"{100 * chance:.0f}"


def _variant(what: str, how: str, value: str) -> str:
    """The row that has ``value`` for k or b; published rows have k 32x32 and b 0.8 in Table 1."""
    usual = value == USUAL_K or (value, how) == ("0.8", "published")
    return _USUAL.format(how) if usual else f"{how}, {what} {value}"


def _ablations(result: dict[str, Any]) -> dict[str, str]:
    made = {}
    for number, what, paper in ((3, "k", PAPER_K), (4, "b", PAPER_B)):
        if not any(part == f"table {number}" for part in result["parts"].values()):
            continue
        body = []
        for value, published in paper.items():
            line = [value]
            for how in _HOWS[:2]:
                name = _variant(what, how, value)
                cells = result["rows"].get(name, [])
                proved = _proved(result["promises"][name]) if cells else ""
                line += [proved, _shown(cells, "action_on_raw"),
                         _shown(cells, "action_on_protected"), _shown(cells, "cmap")]  # fmt: skip
            body.append([*line, _paper(published)])
        head = [f"{how}: {each}" if each == "true epsilon" else each for how in ("published", "sound")
                for each in ("true epsilon", "action on raw", "on protected", "cMAP")]  # fmt: skip
        head = [f"Table {number}: {what}", *head, "the paper: action / cMAP"]
        made[f"table-{number}"] = markdown(head, body)
    return made


def _seconds(seconds: dict[str, Any]) -> str:
    size = "x".join(map(str, seconds["size"]))
    body = []
    for name, paper in PAPER_SECONDS.items():
        mean, error = mean_and_error([{"s": each} for each in seconds["rows"][name]], "s")
        spread = f" ± {error:.1f}" if len(seconds["rows"][name]) > 1 else ""
        body.append((name, f"{mean:.1f}{spread}", f"{paper:.1f}"))
    head = f"Table 5: seconds for {seconds['frames']} frames of {size}"
    return markdown(
        (head, "ours (two cores, no GPU)", "the paper (RTX A6000, a video of UCF101)"), body
    )


def _real(found: dict[str, Any]) -> str:
    lines = [
        (name, "" if name == "raw" else _proved(found["promises"][name]),
         *(_shown(found["rows"][name], column) for column in COLUMNS.values()))
        for name in in_order(found["rows"])
    ]  # fmt: skip
    lines.append(
        ("*guessing*", "", *(_guessing(found["rows"]["raw"], found, c) for c in COLUMNS.values()))
    )
    head = (
        "UTD-MHAD",
        "true epsilon",
        "action on raw",
        "action on protected",
        "cMAP of identity",
        "F1",
    )
    return markdown(head, lines, left=2)


def figures(result: dict[str, Any]) -> dict[str, str]:
    """Action against cMAP for all of Table 1, both over epsilon, and both over k and b."""
    rows, found = result["rows"], {}
    found["trade-off"] = _trade_off(result)
    for column, title in (("action_on_protected", "Action"), ("cmap", "cMAP of the attacker")):
        named = {how: [f"Video-DPRP, {how}, epsilon {e:g}" for e in EPSILONS] for how in _HOWS}
        lines = [_line(how, EPSILONS, [rows[name] for name in names], column)
                 for how, names in named.items() if all(name in rows for name in names)]  # fmt: skip
        level = {"raw": 100 * mean_and_error(rows["raw"], column)[0]}
        if lines:
            found[column.replace("_", "-")] = curves(
                f"{title}, Video-DPRP", "epsilon", "per cent", lines, levels=level
            )
    grids: dict[str, tuple[Sequence[str], Sequence[float]]] = {
        "k": (tuple(GRIDS), [3.0 * each for each in GRIDS.values()]),
        "b": ([f"{b:g}" for b in BUDGETS], BUDGETS),
    }
    for what, (values, places) in grids.items():
        named = {how: [_variant(what, how, value) for value in values] for how in _HOWS[:2]}
        lines = [_line(f"{how}: {said}", places, [rows[name] for name in names], column)
                 for how, names in named.items() if all(name in rows for name in names)
                 for said, column in (("action on raw", "action_on_raw"), ("cMAP", "cmap"))]  # fmt: skip
        if lines:
            title = f"Video-DPRP at epsilon 8 over {what}"
            found[what] = curves(title, what, "per cent", lines, logarithmic=what == "k")
    return found


def _line(name: str, x: Sequence[float], cells: list[Any], column: str) -> Curve:
    points = [mean_and_error(each, column) for each in cells]
    return Curve(name, x, [100 * mean for mean, _ in points], [100 * error for _, error in points])


def _trade_off(result: dict[str, Any]) -> str:
    """Obfuscations are points; Video-DPRP is a line from epsilon 2 to 8."""
    rows = result["rows"]
    shown = {how: [name for name in in_order(rows) if name.startswith(f"Video-DPRP, {how},")]
             for how in _HOWS}  # fmt: skip
    grouped = {f"Video-DPRP, {how}": names for how, names in shown.items() if names}
    grouped |= {name: [name] for name in in_order(rows)
                if result["parts"][name] == "table 1" and "epsilon" not in name}  # fmt: skip
    lines = []
    for label, names in grouped.items():
        across = _line(label, [0.0] * len(names), [rows[name] for name in names], "cmap")
        up = _line(label, across.y, [rows[name] for name in names], "action_on_protected")
        lines.append(Curve(label, across.y, up.y, up.error, across.error))
    return curves("What is useful against what is private", "cMAP of the attacker, per cent",
                  "action on protected, per cent", lines)  # fmt: skip
