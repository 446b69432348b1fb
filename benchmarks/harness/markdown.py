"""Repeated measurements as text: mean, 95 % interval of the mean, Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats


def mean_and_error(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[float, float]:
    """Mean of ``name`` and half the width of its 95 % interval (Student's t); 0 for one row."""
    values = [float(row[name]) for row in rows]
    if len(values) < 2:
        return (values[0] if values else math.nan), 0.0
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return float(np.mean(values)), spread * float(stats.t.ppf(0.975, len(values) - 1))


def shown(rows: Sequence[Mapping[str, Any]], name: str, *, scale: float = 100) -> str:
    """``"48.1 ± 0.6"``, in per cent by default; a dash where nothing was measured."""
    if not rows:
        return "-"
    mean, error = mean_and_error(rows, name)
    return f"{scale * mean:.1f}" + (f" ± {scale * error:.1f}" if len(rows) > 1 else "")


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """A Markdown table: the first ``left`` columns to the left, the others to the right."""
    rule = ["---"] * left + ["--:"] * (len(head) - left)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines))
