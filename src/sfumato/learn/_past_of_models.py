"""What a model object has been through in this program: a second training of it is not a first one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from weakref import WeakKeyDictionary

from torch import nn

from sfumato.learn._starting_weights import PastTraining, StartingWeights

Told = Callable[[], PastTraining | None]
_PAST: WeakKeyDictionary[nn.Module, list[Told]] = WeakKeyDictionary()


def remember(model: nn.Module, told: Told) -> None:
    """``told`` is asked whenever somebody wants to know; None: nothing has happened yet."""
    _PAST.setdefault(model, []).append(told)


def with_past(start: StartingWeights, model: nn.Module, *, without: str = "") -> StartingWeights:
    """``start`` with all that this program has trained into ``model``, each run once, as it stands last.

    ``without`` is the run that asks.
    """
    known = {without, *(training.run for training in start.trainings)}
    asked = [told() for told in _PAST.get(model, ())]
    found = {past.run: past for past in asked if past is not None and past.run not in known}
    return replace(start, trainings=(*start.trainings, *found.values()))
