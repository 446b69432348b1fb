"""The figures of a report. Each takes data with declared direction and bounds; none knows a measure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullLocator

from sfumato.privacy import Guarantee, format_rate
from sfumato.privacy.measures import Measured
from sfumato.report._learning import Learned
from sfumato.report._svg import (
    INK,
    MUTED,
    PAPER,
    PRIVACY,
    SERIES,
    UTILITY,
    bare,
    drawing,
    wrapped,
)

_WIDTH = 7.6
_MARKS = ("o", "s", "^", "D", "v", "P")
SIGNS = ("●", "■", "▲", "◆", "▼", "✚")
_COLOURS = {"privacy": PRIVACY, "utility": UTILITY}
_WAYS = {True: "higher is better", False: "lower is better"}


@dataclass(frozen=True)
class Legend:
    """One line of a legend: the CSS variable of its colour, its sign, its words."""

    colour: str
    sign: str
    words: str


@dataclass(frozen=True)
class Figure:
    """A drawing with its caption and legend."""

    key: str
    title: str
    caption: str
    svg: Markup
    legend: tuple[Legend, ...] = ()

    @classmethod
    def drawn(
        cls,
        draw: Callable[[Canvas], None],
        key: str,
        title: str,
        caption: str,
        *,
        size: tuple[float, float],
        about: str,
        heading: str | None = None,
        legend: tuple[Legend, ...] = (),
    ) -> Figure:
        """``about`` and ``heading`` (else ``title``) are read aloud in the place of the drawing."""
        svg = drawing(draw, size=size, key=key, title=heading or title, about=about)
        return cls(key, title, caption, svg, legend)


def allowed_hits(promises: Sequence[tuple[str, Guarantee]]) -> Figure | None:
    """What each promise that stands still allows the best attacker, at two rates of false alarms."""
    if not promises:
        return None
    rates = (0.001, 0.01)
    rows = [(name, [each.attacker_power(rate) for rate in rates]) for name, each in promises]

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        for place, (_, hits) in enumerate(rows):
            for rate, hit, shift, colour in zip(rates, hits, (-0.19, 0.19), SERIES, strict=False):
                at = place + shift
                axes.barh(at, hit, height=0.32, color=colour)
                axes.text(max(hit, rate) + 0.01, at, format_rate(hit), va="center", fontsize=9)
                axes.plot([rate, rate], [at - 0.16, at + 0.16], color=INK, lw=2)
        _name_rows(axes, [name for name, _ in rows])
        axes.set_xlim(0, 1.1)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:g} %"))
        axes.set_xlabel("how often the best possible attacker may be right, at most")

    return Figure.drawn(
        draw,
        "allowed",
        "What the promise allows at most",
        "Upper limits that follow from each promise, whatever the attacker knows or computes: how "
        "often someone who tries to tell whether the unit was in the data (or was exchanged) is "
        "right, when wrong accusations happen at the given rate. The tick is pure guessing. "
        "Only for the unit that the promise names.",
        size=(_WIDTH, 0.9 + 0.75 * len(rows)),
        about="; ".join(
            f"{name}: {format_rate(hits[0])} at 0.1 % false alarms, {format_rate(hits[1])} at 1 %"
            for name, hits in rows
        ),
        legend=(
            Legend("--series-1", "■", "at 0.1 % false alarms"),
            Legend("--series-2", "■", "at 1 % false alarms"),
        ),
    )


def overview(group: str, measures: Sequence[Measured]) -> Figure | None:
    """Every value of a group between its own bounds, with interval, guessing and the unprotected."""
    shown = [m for m in measures if m.group == group and m.value is not None and _finite(m)]
    if not shown:
        return None

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        for place, one in enumerate(shown):
            _dot(axes, place, one, _COLOURS[group])
        _name_rows(axes, [_row_name(one) for one in shown])
        axes.set_xlim(-0.03, 1.16)
        axes.set_xticks([0, 1], ["worst possible", "best possible"])
        first, last = axes.get_xticklabels()
        first.set_horizontalalignment("left")
        last.set_horizontalalignment("right")

    what = "attack" if group == "privacy" else "use"
    title = "What the attacks got" if group == "privacy" else "What is still useful"
    better = "the better for the people shown" if group == "privacy" else "the more useful"
    legend = [Legend(f"--{group}", "●", "this release")]
    if any(m.chance is not None for m in shown):
        legend.append(Legend("--ink", "|", "guessing"))
    if any(m.unprotected is not None for m in shown):
        legend.append(Legend("--muted", "○", "without protection"))
    return Figure.drawn(
        draw,
        f"overview-{group}",
        title,
        f"Each row is one {what}, placed between the least and the most its measure can be, so that "
        f"further right is {better}, whichever way its numbers run. Bars are the stated intervals.",
        size=(_WIDTH, 0.7 + 0.46 * len(shown)),
        about="; ".join(f"{one.title}: {one.value:.3g}" for one in shown),
        legend=tuple(legend),
    )


def curves(measures: Sequence[Measured]) -> Figure | None:
    """Every measure over epsilon: privacy in one panel, utility in the other."""
    series: dict[tuple[str, str], list[Measured]] = {}
    for one in measures:
        if one.value is not None and one.epsilon is not None:
            series.setdefault((one.group, one.title), []).append(one)
    lines = [
        (key, sorted(points, key=_epsilon)) for key, points in series.items() if len(points) > 1
    ]
    if not lines:
        return None
    # one panel for measures that share a group and bounds: only those share an axis
    panels = sorted({(group, points[0].bounds or ()) for (group, _), points in lines})
    ticks = sorted({_epsilon(p) for _, points in lines for p in points})

    def draw(canvas: Canvas) -> None:
        grid = canvas.subplots(math.ceil(len(panels) / 2), min(2, len(panels)), squeeze=False)
        for spare in grid.flat[len(panels) :]:
            spare.set_visible(False)
        for axes, (group, bounds) in zip(grid.flat, panels, strict=False):
            for number, ((side, _), points) in enumerate(lines):
                if (side, points[0].bounds) == (group, bounds):
                    _curve(axes, number, points)
            if all(map(math.isfinite, bounds)):
                axes.set_ylim(*bounds)
            axes.set_xscale("log")
            axes.set_xticks(_spread(ticks), [f"{tick:g}" for tick in _spread(ticks)])
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xlabel("epsilon")
            axes.set_title({"privacy": "Attacks", "utility": "Usefulness"}[group])

    return Figure.drawn(
        draw,
        "curves",
        "Every measure against the epsilon it was taken at",
        "Smaller epsilon is more noise and more protection. The epsilons are those stated with the "
        "measurements; what is proven about a release is on its card. Bands are the stated "
        "intervals, dashed lines are guessing.",
        size=(_WIDTH, 3.3 * math.ceil(len(panels) / 2)),
        about="; ".join(
            f"{name}: " + ", ".join(f"{p.value:.3g} at epsilon {p.epsilon:g}" for p in points)
            for (_, name), points in lines
        ),
        legend=tuple(
            Legend(
                f"--series-{number % len(SERIES) + 1}",
                SIGNS[number % len(SIGNS)],
                f"{name} ({_WAYS[bool(points[0].higher_is_better)]})",
            )
            for number, ((_, name), points) in enumerate(lines)
        ),
    )


def learning_curve(number: int, learned: Learned) -> Figure | None:
    """Held-out scores over the steps, and what had been spent by then."""
    spent = [epsilon for epsilon in learned.epsilon if epsilon is not None]
    panels = [name for name, given in (("score", learned.scores), ("spent", spent)) if given]
    if not panels:
        return None

    def draw(canvas: Canvas) -> None:
        for axes, name in zip(canvas.subplots(1, len(panels), squeeze=False).flat, panels):
            axes.set_xlabel("step")
            if name == "spent":
                _line(axes, learned.steps, learned.epsilon, PRIVACY, "o")
                axes.set_title("epsilon spent")
                axes.set_ylim(bottom=0)
                continue
            for place, values in enumerate(learned.scores.values()):
                _line(axes, learned.steps, values, SERIES[place], _MARKS[place])
            axes.set_title(f"held-out {learned.measure}")
            axes.set_ylim(0, 1.02)

    ends = [f"{name} {values[-1]:.3g}" for name, values in learned.scores.items() if values[-1]]
    return Figure.drawn(
        draw,
        f"learning-{number}",
        f"How {learned.name} learned",
        "As the training stated it in history.json, which no card covers. What is proven "
        "about the model stands on its card.",
        size=(_WIDTH, 2.9),
        about="; ".join(ends) or "epsilon alone",
        legend=tuple(
            Legend(f"--series-{place + 1}", SIGNS[place], name)
            for place, name in enumerate(learned.scores)
        ),
    )


def _line(
    axes: Axes, steps: Sequence[int], values: Sequence[float | None], colour: str, mark: str
) -> None:
    points = [(step, value) for step, value in zip(steps, values) if value is not None]
    axes.plot(*zip(*points), color=colour, marker=mark, ms=5, lw=2)


def class_bars(number: int, one: Measured) -> Figure:
    """One bar a class, in the file's order."""
    assert one.per_class is not None
    assert one.bounds is not None
    classes = one.per_class
    least, most = _span(one)

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        for place, value in enumerate(classes.values()):
            axes.barh(place, value - least, left=least, height=0.66, color=_COLOURS[one.group])
            axes.text(value + 0.01 * (most - least), place, f"{value:.3g}", va="center", fontsize=9)
        if one.chance is not None:
            axes.axvline(one.chance, color=INK, lw=1.4, ls=(0, (4, 3)))
        _name_rows(axes, list(classes))
        axes.set_xlim(least, most + 0.09 * (most - least))
        axes.set_xlabel(wrapped(f"{one.name}, {_WAYS[bool(one.higher_is_better)]}", 70))

    return Figure.drawn(
        draw,
        f"classes-{number}",
        one.title,
        _about(one) + (" The dashed line is guessing." if one.chance is not None else ""),
        size=(_WIDTH, 0.8 + 0.34 * len(classes)),
        heading=f"{one.title}, by class",
        about="; ".join(f"{label}: {value:.3g}" for label, value in classes.items()),
    )


def confusion(number: int, one: Measured) -> Figure:
    """Shares of every true class, with the share (and the colour's strength) in every cell."""
    assert one.matrix is not None
    assert one.labels is not None
    labels = one.labels
    shares = [[cell / sum(row) if sum(row) else math.nan for cell in row] for row in one.matrix]
    size = len(labels)
    side = min(_WIDTH - 0.4, 2.2 + 0.62 * size)

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        for row, cells in enumerate(shares):
            for column, share in enumerate(cells):
                _cell(axes, row, column, share, _COLOURS[one.group], numbers=size <= 12)
        axes.set_xlim(0, size)
        axes.set_ylim(size, 0)
        axes.set_aspect("equal")
        axes.grid(False)
        bare(axes)
        middle = [place + 0.5 for place in range(size)]
        tilt = 0 if max(map(len, labels)) <= 6 else 40
        axes.set_xticks(middle, [wrapped(label, 16, 1) for label in labels], rotation=tilt)
        if tilt:
            for label in axes.get_xticklabels():
                label.set_horizontalalignment("right")
                label.set_rotation_mode("anchor")
        axes.set_yticks(middle, [wrapped(label, 16, 2) for label in labels])
        axes.set_xlabel("answered")
        axes.set_ylabel("true")

    cases = sum(map(sum, one.matrix))
    return Figure.drawn(
        draw,
        f"confusion-{number}",
        one.title,
        f"{_about(one)} Shares of each true class in percent; {cases:g} cases in all.",
        size=(side, side * 0.86),
        heading=f"{one.title}, confusion matrix",
        about="; ".join(
            f"{label}: {100 * shares[i][i]:.0f} % right"
            for i, label in enumerate(labels)
            if sum(one.matrix[i])
        ),
    )


def _cell(axes: Axes, row: int, column: int, share: float, colour: str, *, numbers: bool) -> None:
    if math.isnan(share):
        return
    strength = 0.04 + 0.96 * share
    axes.add_patch(
        Rectangle((column + 0.03, row + 0.03), 0.94, 0.94, facecolor=colour, alpha=strength, lw=0)
    )
    if numbers:
        axes.text(
            column + 0.5,
            row + 0.5,
            f"{100 * share:.0f}",
            ha="center",
            va="center",
            fontsize=10,
            color=PAPER if strength > 0.55 else INK,
        )


def _dot(axes: Axes, place: int, one: Measured, colour: str) -> None:
    assert one.value is not None
    if one.low is not None and one.high is not None:
        ends = [_goodness(one, one.low), _goodness(one, one.high)]
        axes.plot(ends, [place, place], color=colour, lw=5, alpha=0.35, solid_capstyle="butt")
    if one.unprotected is not None:
        at = _goodness(one, one.unprotected)
        axes.plot([at], [place], "o", ms=8, mfc="none", mec=MUTED, mew=1.6)
    if one.chance is not None:
        at = _goodness(one, one.chance)
        axes.plot([at, at], [place - 0.28, place + 0.28], color=INK, lw=1.8)
    at = _goodness(one, one.value)
    axes.plot([at], [place], "o", ms=8, color=colour)
    axes.text(1.03, place, f"{one.value:.3g}", va="center", fontsize=9)


def _curve(axes: Axes, number: int, points: Sequence[Measured]) -> None:
    colour, mark = SERIES[number % len(SERIES)], _MARKS[number % len(_MARKS)]
    at = [_epsilon(point) for point in points]
    if all(point.low is not None for point in points):
        low = [point.low or 0.0 for point in points]
        high = [point.high or 0.0 for point in points]
        axes.fill_between(at, low, high, color=colour, alpha=0.16, lw=0)
    axes.plot(at, [p.value or 0.0 for p in points], color=colour, marker=mark, ms=6, lw=2)
    if points[0].chance is not None:
        axes.axhline(points[0].chance, color=colour, lw=1.2, ls=(0, (4, 3)), alpha=0.8)


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [wrapped(name) for name in names])
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.grid(False, axis="y")
    bare(axes)


def _row_name(one: Measured) -> str:
    return one.title if one.epsilon is None else f"{one.title}, ε {one.epsilon:g}"


def _finite(one: Measured) -> bool:
    return one.bounds is not None and all(map(math.isfinite, one.bounds))


def _goodness(one: Measured, value: float) -> float:
    """0 at the worst bound, 1 at the best."""
    assert one.bounds is not None
    least, most = one.bounds
    share = (value - least) / (most - least)
    return share if one.higher_is_better else 1 - share


def _span(one: Measured) -> tuple[float, float]:
    """The bounds where they are finite, else the reach of the values."""
    assert one.bounds is not None
    assert one.per_class is not None
    values = [0.0, *one.per_class.values()]
    least = one.bounds[0] if math.isfinite(one.bounds[0]) else min(values)
    most = one.bounds[1] if math.isfinite(one.bounds[1]) else max(values)
    return least, most if most > least else least + 1


def _epsilon(one: Measured) -> float:
    return one.epsilon or 0.0


def _spread(ticks: Sequence[float]) -> list[float]:
    """At most eight ticks, the ends among them."""
    step = math.ceil(len(ticks) / 8)
    return sorted({*ticks[::step], ticks[-1]})


def _about(one: Measured) -> str:
    parts = ["An attack." if one.group == "privacy" else "A use."]
    if one.note:
        parts.append(one.note if one.note.endswith(".") else f"{one.note}.")
    return " ".join(parts)
