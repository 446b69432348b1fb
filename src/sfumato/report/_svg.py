"""Matplotlib drawings as inline SVG that follows the page's colours and font, without global state.

Drawings use stand-in colours; each becomes a CSS variable, so one drawing serves light, dark and
paper. Identifiers get a prefix, because all figures of a page share one name space.
"""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Callable
from html import escape
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

INK, MUTED, GRID, PAPER = "#010101", "#020202", "#030303", "#fefefe"
PRIVACY, UTILITY = "#0a0a01", "#0a0a02"
SERIES = tuple(f"#0b0b{number:02x}" for number in range(1, 7))
_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--line",
    PAPER: "--paper",
    PRIVACY: "--privacy",
    UTILITY: "--utility",
    **{colour: f"--series-{number}" for number, colour in enumerate(SERIES, start=1)},
}
_SETTINGS: Any = {
    "svg.fonttype": "none",  # text stays text: it can be searched, read aloud and scaled
    "text.parse_math": False,  # a dollar sign in a label is a dollar sign
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "grid.color": GRID,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
}


_POINTS_A_REM = 10.9  # the widest figures, 7.6 inches, fill a page of 50 rem


def drawing(
    draw: Callable[[Canvas], None], *, size: tuple[float, float], key: str, title: str, about: str
) -> Markup:
    """Run ``draw`` on an empty figure of ``size`` inches; return the SVG with title and description."""
    written = io.StringIO()
    with mpl.rc_context({**_SETTINGS, "svg.hashsalt": key}), warnings.catch_warnings():
        # letters that the measuring font lacks are still drawn by the reader's own font
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        canvas = Canvas(figsize=size, layout="constrained")
        draw(canvas)
        canvas.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return Markup(_for_page(written.getvalue(), key, title, about))


def _for_page(svg: str, key: str, title: str, about: str) -> str:
    head, body = re.split(r"(?=<svg\b)", svg, maxsplit=1)[1].split(">", 1)
    box = re.search(r'viewBox="([^"]+)"', head)
    assert box is not None
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{key}-', body)
    body = re.sub(r'(url\(#|xlink:href="#)', lambda found: f"{found[1]}{key}-", body)
    body = body.replace("xlink:href", "href")
    # inside style attributes only: a label may spell anything
    body = re.sub(r'style="([^"]*)"', lambda found: f'style="{_restyle(found[1])}"', body)
    named = f'<title id="{key}-title">{escape(title)}</title><desc id="{key}-about">{escape(about)}</desc>'
    # letters are as large in a narrow figure as in a wide one
    widest = f"{float(box[1].split()[2]) / _POINTS_A_REM:.1f}rem"
    return (
        f'<svg role="img" viewBox="{box[1]}" style="max-width: {widest}" '
        f'aria-labelledby="{key}-title {key}-about">{named}{body}'
    )


def _restyle(style: str) -> str:
    style = re.sub(r"#[0-9a-f]{6}", lambda c: _as_variable(c[0]), style)
    return re.sub(
        r"font: (?:(\d+|bold) )?([\d.]+)px [^;]*",
        lambda f: f"font-size: {f[2]}px" + (f"; font-weight: {f[1]}" if f[1] else ""),
        style,
    )


def _as_variable(colour: str) -> str:
    return f"var({_VARIABLES[colour]})" if colour in _VARIABLES else colour


def wrapped(text: str, width: int = 30, lines: int = 2) -> str:
    """A label of a few short lines; the rest is cut with an ellipsis (tables have it in full)."""
    parts = textwrap.wrap(text, width) or [text]
    if len(parts) > lines:
        parts = [*parts[: lines - 1], parts[lines - 1][: width - 1] + "…"]
    return "\n".join(parts)


def bare(axes: Axes) -> None:
    """Rows without a frame: the labels are frame enough."""
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
