"""What table ``visual`` shows: for the terminal, as a page of Markdown, and as figures."""

from __future__ import annotations

import statistics
from typing import Any

from rich.table import Table as Grid

from sfumato.bench._figures import Curve, curves

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


def _shown(cells: list[dict[str, Any]], column: str) -> str:
    values = [100 * cell[column] for cell in cells if cell[column] is not None]
    if not values:
        return ""
    mean = f"{statistics.fmean(values):.0f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.0f}"


_TERMS = (
    "Epsilons: the unit named, relation replace, delta 1e-4, every clip released once, accountant "
    "analytic-gaussian."
)


def words(result: dict[str, Any]) -> list[Any]:
    grid = Grid("in per cent", *COLUMNS, "the paper", box=None, pad_edge=False)
    for name, cells in result["rows"].items():
        paper = " / ".join("-" if each is None else f"{each:.0f}" for each in PAPER.get(name, ()))
        grid.add_row(name, *(_shown(cells, column) for column in COLUMNS.values()), paper)
    return [grid, _TERMS, *result["notes"]]


def page(result: dict[str, Any]) -> str:
    staging = result["staging"]
    rows = result["rows"]
    lines = [
        f"Data: {staging['clips']} staged clips of {staging['actors']} people, "
        f"{len(staging['actions'])} actions, {staging['frames']} frames of "
        f"{staging['width']}x{staging['height']}; delta 1e-4. In per cent; ± is the deviation over "
        "draws of the noise. The attacker trains and tests on protected clips. The paper's columns are "
        "UCF101 (tested on raw and on protected), cMAP on PA-HMDB51 and F1 on VISPR, by MViT-B and an "
        "attacker taught on VISPR: order and direction may be compared, levels may not. "
        f"*Published* is the algorithm as printed{_true(result)}; *16 pixels* and *frame* are sound at that unit. {_TERMS} `k` is "
        "scaled with the picture.",
        "",
        "| Table 1 | action on raw | action on protected | cMAP | F1 | the paper: raw / protected / cMAP / F1 |",
        "| --- | --: | --: | --: | --: | --- |",
    ]
    for name, cells in rows.items():
        if result["parts"][name] != "table 1":
            continue
        paper = PAPER.get(name)
        beside = "not in the paper" if paper is None else " / ".join(
            "-" if each is None else f"{each:.1f}" for each in paper)  # fmt: skip
        shown = (_shown(cells, column) for column in COLUMNS.values())
        lines.append(f"| {name} | {' | '.join(shown)} | {beside} |")
    chance = rows["raw"][0]["cmap_chance"]
    lines += ["", f"Guessing: action {100 / len(staging['actions']):.0f}"
              + (f", cMAP {100 * chance:.0f}." if chance is not None else ".")]  # fmt: skip
    lines += _ablation(result, "k", PAPER_K, ("published", "16 pixels"))
    lines += _ablation(result, "b", PAPER_B, ("published",))
    seconds = result["seconds"]
    size = "x".join(map(str, seconds["size"]))
    lines += [
        "",
        f"| Table 5: seconds for {seconds['frames']} frames of {size} | ours (two cores, shared) | the paper (RTX A6000) |",
        "| --- | --: | --: |",
    ]
    lines += [
        f"| {name} | {spent:.1f} | {PAPER_SECONDS[name]:.1f} |"
        for name, spent in seconds["rows"].items()
    ]
    lines += _real(result)
    return "\n".join([*lines, "", *result["notes"]]).rstrip() + "\n"


def _true(result: dict[str, Any]) -> str:
    """The true epsilon of the published rows, from their own events."""
    found = {name: value for name, value in result["true_epsilon"].items()
             if name.startswith("Video-DPRP, published")}  # fmt: skip
    if not found:
        return ""
    said = ", ".join(f"{value:.1e} at {name.split()[-1]}" for name, value in found.items())
    return f", whose true epsilon for a frame of this size is {said}"


def _ablation(
    result: dict[str, Any], what: str, paper: dict[str, tuple[float, float]], hows: tuple[str, ...]
) -> list[str]:
    rows, table = result["rows"], {"k": 3, "b": 4}[what]
    if not any(part == f"table {table}" for part in result["parts"].values()):
        return []
    head = "".join(f" {how}: action on raw | cMAP |" for how in hows)
    lines = ["", f"| Table {table}: {what} |{head} the paper: action / cMAP |",
             "| --- |" + " --: | --: |" * len(hows) + " --- |"]  # fmt: skip
    for value, (action, cmap) in paper.items():
        line = f"| {value} |"
        for how in hows:
            usual = value in ("32x32", "0.8")
            cells = rows.get(_USUAL.format(how) if usual else f"{how}, {what} {value}", [])
            line += f" {_shown(cells, 'action_on_raw')} | {_shown(cells, 'cmap')} |"
        lines.append(f"{line} {action:.1f} / {cmap:.1f} |")
    if what == "b":
        lines += ["", "A sound release spends its whole budget on what is released: b has no place in "
                  "it, and its numbers are those of Table 1."]  # fmt: skip
    return lines


def _real(result: dict[str, Any]) -> list[str]:
    found = result["real"]
    if found is None:
        return []
    lines = [
        "",
        f"UTD-MHAD, depth video: {found['clips']} clips of {found['people']} people, "
        f"{found['actions']} actions; the private attribute is who it is.",
        "",
        "| UTD-MHAD | action on raw | action on protected | cMAP of identity | F1 |",
        "| --- | --: | --: | --: | --: |",
    ]
    for name, cell in found["rows"].items():
        shown = (_shown([cell], column) for column in COLUMNS.values())
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return lines


def figures(result: dict[str, Any]) -> dict[str, str]:
    """Action against epsilon, and cMAP against epsilon, as published and sound."""
    rows, found = result["rows"], {}
    for column, title in (("action_on_protected", "Action"), ("cmap", "cMAP of the attacker")):
        lines = []
        for how in ("published", "16 pixels", "frame"):
            names = [f"Video-DPRP, {how}, epsilon {e:g}" for e in (2.0, 5.0, 8.0)]
            if not all(name in rows for name in names):
                continue
            cells = [rows[name] for name in names]
            means = [100 * statistics.fmean(c[column] for c in each) for each in cells]
            errors = [200 * statistics.stdev([c[column] for c in each]) if len(each) > 1 else 0.0
                      for each in cells]  # fmt: skip
            lines.append(Curve(how, (2.0, 5.0, 8.0), means, errors))
        level = {"raw": 100 * rows["raw"][0][column]}
        found[column.replace("_", "-")] = curves(
            f"{title}, Video-DPRP", "epsilon", "per cent", lines, levels=level
        )
    return found
