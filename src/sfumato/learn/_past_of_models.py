"""What a model object has been through in this program: a second training of it is not a first one.

It lies on the layers that were trained, so that a deep copy of the model, a pickle of it and another model
with a layer of it carry it too. Numbers that a program copies by itself carry nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from sfumato.learn._starting_weights import PastTraining, StartingWeights

Told = Callable[[], PastTraining | None]
_KEY = "_sfumato_past"


class _Past(list[Told]):
    """Asked when somebody wants to know; a copy keeps what had happened when it was made."""

    def told(self) -> list[PastTraining]:
        return [past for each in self if (past := each()) is not None]

    def __reduce__(self) -> tuple[Any, ...]:
        return _so_far, ([past.to_json() for past in self.told()],)

    def __deepcopy__(self, memo: object) -> _Past:
        return _Past(map(_fixed, self.told()))


def _fixed(past: PastTraining) -> Told:
    return lambda: past


def _so_far(trainings: list[dict[str, Any]]) -> _Past:
    return _Past(_fixed(PastTraining.from_json(each)) for each in trainings)


def remember(model: nn.Module, told: Told) -> None:
    """``told`` is asked whenever somebody wants to know; None: nothing has happened yet."""
    for layer in model.modules():
        if layer is model or any(p.requires_grad for p in layer.parameters(recurse=False)):
            layer.__dict__.setdefault(_KEY, _Past()).append(told)


def with_past(start: StartingWeights, model: nn.Module, *, without: str = "") -> StartingWeights:
    """``start`` with all that this program has trained into ``model``, each run once, as it stands last.

    ``without`` is the run that asks.
    """
    known = {without, *(training.run for training in start.trainings)}
    lists = [layer.__dict__[_KEY] for layer in model.modules() if _KEY in layer.__dict__]
    asked = [past for each in lists for past in each.told()]
    found = {past.run: past for past in asked if past.run not in known}
    return replace(start, trainings=(*start.trainings, *found.values()))
