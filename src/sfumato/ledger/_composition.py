"""Adding releases up: their events are composed and read by the accountant, never their epsilons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from sfumato.ledger._budget import ACCOUNTANT
from sfumato.ledger._chain import canonical
from sfumato.privacy import Composed, Event, Gaussian, NoAccess, Relation, SelfComposed, epsilon_of


def merged(events: Iterable[Event]) -> Event:
    """One event that stands for all of ``events`` on the same units, equal ones counted together.

    Composition is associative and does not depend on the order, so nested compositions are opened
    and equal parts become one self-composition: a thousand equal releases cost one evaluation.
    """
    counts: Counter[Event] = Counter()
    for event in events:
        _open(event, 1, counts)
    parts = [
        part if count == 1 else SelfComposed(part, count)
        for part, count in sorted(counts.items(), key=lambda item: canonical(item[0].to_json()))
    ]
    if not parts:
        return NoAccess()
    return parts[0] if len(parts) == 1 else Composed(tuple(parts))


def _open(event: Event, times: int, counts: Counter[Event]) -> None:
    match event:
        case NoAccess():
            return
        case Composed():
            for part in event.events:
                _open(part, times, counts)
        case SelfComposed():
            _open(event.event, times * event.count, counts)
        case _:
            counts[event] += times


def must_be_planned(events: Iterable[Event]) -> bool:
    """Whether the total assumes that noise and steps were not chosen after seeing earlier outputs.

    What is asked may always depend on earlier outputs; this is about *how much* is asked. Not needed
    where stopping early is all the freedom there is (equal events), and for Gaussian releases, whose
    total holds with freely chosen noise (Smith and Thakurta 2022, Koskela, Tobaben, Honkela 2023).
    """
    kinds = set(events) - {NoAccess()}
    counts: Counter[Event] = Counter()
    for event in kinds:
        _open(event, 1, counts)
    return len(kinds) > 1 and not all(isinstance(part, Gaussian) for part in counts)


def spent(events: Iterable[Event], delta: float, relation: Relation) -> float:
    """Epsilon at ``delta`` of all ``events`` together on the same units."""
    return _evaluated(merged(events), delta, relation)


@lru_cache(maxsize=4096)
def _evaluated(event: Event, delta: float, relation: Relation) -> float:
    return 0.0 if isinstance(event, NoAccess) else epsilon_of(event, delta, relation, ACCOUNTANT)
