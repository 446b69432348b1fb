"""How a model learned: the public history that ``sfumato train`` writes beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.files import parse_json

HISTORY = "history.json"
_MODEL = "model.safetensors"


@dataclass(frozen=True)
class Learned:
    """Steps with epsilon spent and held-out scores; the last score of every class.

    No card covers this file: it is what the training stated, and no promise.
    """

    name: str
    steps: tuple[int, ...]
    epsilon: tuple[float | None, ...]
    scores: dict[str, tuple[float | None, ...]]
    per_class: dict[str, float]
    measure: str


def read_learned(model: Path) -> Learned | None:
    """The history beside a model of ``sfumato train``; None where there is none that can be read."""
    file = model.with_name(HISTORY)
    if model.name != _MODEL or not file.is_file():
        return None
    try:
        rows = [row for row in parse_json(file.read_bytes())["history"] if isinstance(row, dict)]
        steps = tuple(int(row["step"]) for row in rows)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not steps:
        return None
    last = rows[-1]
    measure = last.get("held_out_measure")
    measure = measure if isinstance(measure, str) else "accuracy"
    named = {
        "held_out_accuracy": f"held-out {measure}",
        "held_out_mean_class_accuracy": "mean over classes",
    }
    scores = {
        title: tuple(_number(row.get(key)) for row in rows)
        for key, title in named.items()
        if any(_number(row.get(key)) is not None for row in rows)
    }
    classes = last.get("held_out_per_class")
    per_class = {
        str(name): value
        for name, each in (classes if isinstance(classes, dict) else {}).items()
        if (value := _number(each)) is not None and 0 <= value <= 1
    }
    epsilon = tuple(_number(row.get("epsilon")) for row in rows)
    return Learned(f"{model.parent.name}: {model.name}", steps, epsilon, scores, per_class, measure)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
