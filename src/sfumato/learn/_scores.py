"""How well a model does on held-out records: overall, and class by class."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from sfumato.data import Records
from sfumato.learn.engine._independence import evaluating
from sfumato.learn.engine._routes import Loss, Rows, forward
from sfumato.learn.engine._streams import Streams

_ROWS_AT_A_TIME = 32


@dataclass(frozen=True)
class Scores:
    """Measured on held-out records only. ``per_class`` names the classes that have any.

    ``mean_class_accuracy`` (mPCA) counts every class alike: noise hurts rare classes most, and the
    overall accuracy does not show it.
    """

    accuracy: float
    loss: float
    per_class: dict[str, float] = field(default_factory=dict)
    measure: str = "accuracy"
    # further measures of the same answers, as shares of one
    others: dict[str, float] = field(default_factory=dict)

    @property
    def mean_class_accuracy(self) -> float:
        return math.fsum(self.per_class.values()) / max(1, len(self.per_class))

    def to_json(self) -> dict[str, Any]:
        told = {
            "held_out_accuracy": self.accuracy,
            "held_out_mean_class_accuracy": self.mean_class_accuracy,
            "held_out_per_class": self.per_class,
            "held_out_loss": self.loss,
        }
        # classes are scored by accuracy unless something else is said
        if self.measure == "accuracy":
            return told
        return {**told, "held_out_measure": self.measure, "held_out_others": self.others}


def score(model: nn.Module, held_out: Records, streams: Streams, loss: Loss) -> Scores:
    """Top-1, mean per-class accuracy and loss; a record's class scores are averaged over its clips.

    A loss with a method ``scores(output, y, attributes of records)`` (pose: PCK) is asked instead.
    """
    own = getattr(loss, "scores", None)
    guessed, true, losses, outputs, facts = [], [], [], [], []
    with evaluating(model), torch.no_grad():
        for start in range(0, len(held_out), _ROWS_AT_A_TIME):
            stop = min(start + _ROWS_AT_A_TIME, len(held_out))
            chosen = [held_out[index] for index in range(start, stop)]
            rows = streams.held_out(chosen, range(len(chosen)))
            assert rows is not None
            output = forward(model, rows.x)
            if own is not None:
                outputs.append((output, rows.y))
                facts += [record.attributes for record in chosen]
                continue
            losses.append(loss(output, rows.y))
            guessed.append(_classes(output, rows))
            true.append(rows.y[:: rows.clips])
    if own is not None:
        found: Scores = own(*(torch.cat(part) for part in zip(*outputs)), facts)
        return found
    right, labels = torch.cat(guessed) == torch.cat(true), torch.cat(true)
    names = held_out.classes
    per_class = {
        names[label] if label < len(names) else str(label): float(right[labels == label].float().mean())
        for label in sorted(set(labels.tolist()))
    }  # fmt: skip
    return Scores(float(right.float().mean()), float(torch.cat(losses).mean()), per_class)


def _classes(output: torch.Tensor, rows: Rows) -> torch.Tensor:
    scores = output.softmax(-1).reshape(rows.records, rows.clips, -1).mean(1)
    return scores.argmax(1)
