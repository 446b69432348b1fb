"""What a model object has been through in this program: a second training of it is not a first one."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from torch import nn

from sfumato.learn._starting_weights import PastTraining

Told = Callable[[], PastTraining | None]
_PAST: WeakKeyDictionary[nn.Module, list[Told]] = WeakKeyDictionary()


def remember(model: nn.Module, told: Told) -> None:
    """``told`` is asked whenever somebody wants to know; None: nothing has happened yet."""
    _PAST.setdefault(model, []).append(told)


def past_of(model: nn.Module, *, without: set[str]) -> tuple[PastTraining, ...]:
    """All trainings of the model but those of the runs named; each run once, as it stands last."""
    asked = [told() for told in _PAST.get(model, ())]
    found = {past.run: past for past in asked if past is not None and past.run not in without}
    return tuple(found.values())
