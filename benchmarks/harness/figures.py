"""Figures of the tables as small SVG files that stand alone, each with its data inside.

The bytes of a figure change with the platform (layout and ids of clip paths follow the last bits of
floating point), the data it was drawn from do not: they are what tells whether a figure is current.
"""

from __future__ import annotations

import io
import json
import math
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "sfumato",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "legend.fontsize": 8,
}
# Okabe and Ito: told apart by people who do not see all colours
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")
_MARKS = "os^DvPX*"
_DATA = "{http://purl.org/dc/elements/1.1/}description"  # where matplotlib puts a description


@dataclass(frozen=True)
class Curve:
    """One line: points, and half the width of each one's 95 % interval where it is known."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] | None = None
    x_error: Sequence[float] | None = None


def curves(
    title: str,
    x: str,
    y: str,
    lines: Sequence[Curve],
    *,
    levels: Mapping[str, float] | None = None,
    logarithmic: bool = False,
) -> str:
    """Lines with error bars over ``x``; ``levels`` are drawn across (a baseline, guessing)."""

    def draw(axes: Axes) -> None:
        for number, line in enumerate(lines):
            # after eight lines, colours meet other marks
            mark = _MARKS[(number + number // len(_COLOURS)) % len(_MARKS)]
            axes.errorbar(line.x, line.y, yerr=line.error, xerr=line.x_error, label=line.name,
                          capsize=2, linewidth=1.4, markersize=4, marker=mark,
                          color=_COLOURS[number % len(_COLOURS)])  # fmt: skip
        for number, (name, level) in enumerate((levels or {}).items()):
            dashes = ("--", ":", "-.")[number % 3]
            axes.axhline(level, label=name, color="#555555", linewidth=1, linestyle=dashes)
        if logarithmic:
            axes.set_xscale("log")
            ticks = sorted({value for line in lines for value in line.x})
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
        axes.set(title=title, xlabel=x, ylabel=y)

    data = {"title": title, "x": x, "y": y, "lines": [asdict(line) for line in lines],
            "levels": dict(levels or {}), "logarithmic": logarithmic}  # fmt: skip
    return _drawn((5.2, 3.2), draw, data)


def bars(
    title: str,
    y: str,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *,
    errors: Mapping[str, Sequence[float]] | None = None,
    logarithmic: bool = False,
) -> str:
    """Groups of bars side by side, one colour for each of ``series``."""
    width, many = 0.8 / len(series), len(groups) > 4

    def draw(axes: Axes) -> None:
        for number, (name, values) in enumerate(series.items()):
            shift = (number - (len(series) - 1) / 2) * width
            axes.bar([place + shift for place in range(len(groups))], values, width, label=name,
                     color=_COLOURS[number % len(_COLOURS)], yerr=(errors or {}).get(name),
                     error_kw={"capsize": 2, "linewidth": 1})  # fmt: skip
        turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if many else {}
        axes.set_xticks(range(len(groups)), groups, **turned)
        axes.grid(axis="x", visible=False)
        axes.set(title=title, ylabel=y)
        if logarithmic:
            axes.set_yscale("log")
        elif min(map(min, series.values())) >= 0:
            axes.set_ylim(bottom=0)  # an interval may reach below what a bar can

    data = {"title": title, "y": y, "groups": groups, "series": dict(series),
            "errors": dict(errors or {}), "logarithmic": logarithmic}  # fmt: skip
    return _drawn((max(5.2, 0.5 * len(groups) + 1.5), 3.2), draw, data)


def matrix(
    title: str, x: str, y: str, names: Sequence[str], values: Sequence[Sequence[float]]
) -> str:
    """Shares from 0 (white) to 1: row to column; with few classes the shares stand in the cells."""
    few = len(names) <= 12

    def draw(axes: Axes) -> None:
        axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="equal")
        axes.grid(visible=False)
        axes.set(title=title, xlabel=x, ylabel=y)
        if not few:
            axes.set(xticks=[], yticks=[])
            return
        axes.set_xticks(range(len(names)), names)
        axes.set_yticks(range(len(names)), names)
        for row, shares in enumerate(values):
            for column, share in enumerate(shares):
                axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=7,
                          color="white" if share > 0.5 else "#333333")  # fmt: skip

    side = 0.34 * len(names) + 1.4 if few else 4.0
    data = {"title": title, "x": x, "y": y, "names": names, "values": values}
    return _drawn((max(2.4, side), max(2.2, side)), draw, data, legend=False)


def drawn_from(svg: str) -> Any:
    """The data that a figure of this module was drawn from; None when it carries none."""
    try:
        found = ET.fromstring(svg).iter(_DATA)
    except ET.ParseError:
        return None
    return next((json.loads(each.text or "null") for each in found), None)


def same_data(one: Any, two: Any) -> bool:
    """Whether two figures show the same: equal names, and numbers equal but for rounding."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same_data(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same_data, one, two))
    if isinstance(one, float | int) and isinstance(two, float | int):
        return math.isclose(one, two, rel_tol=1e-9) or (math.isnan(one) and math.isnan(two))
    return bool(one == two)


def _drawn(
    size: tuple[float, float],
    draw: Callable[[Axes], None],
    data: Mapping[str, Any],
    *,
    legend: bool = True,
) -> str:
    written = io.StringIO()
    with mpl.rc_context(_SETTINGS):
        canvas = Figure(figsize=size, layout="constrained")
        axes = canvas.add_subplot()
        draw(axes)
        if legend:
            canvas.legend(loc="outside lower center", ncols=3)  # never over a curve or a bar
        about = {"Date": None, "Creator": None, "Description": json.dumps(data)}
        canvas.savefig(written, format="svg", metadata=about)
    # matplotlib leaves spaces at line ends
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"
