"""One promise that holds for every recording of a folder: what a ledger reserves once for all of them.

Recordings are disjoint, so the weakest promise counts (R13). Weakest is judged by events, not by
epsilon: a smaller epsilon at one delta may be the larger one when other releases come on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfumato.privacy import (
    ApproximateRelease,
    Event,
    Gaussian,
    Laplace,
    NoGuarantee,
    Relation,
    UnitKind,
    epsilon_of,
)
from sfumato.protect._method import Promise, ProtectError

_MARGIN = 1e-9  # the accountant's grid needs a little room above an exact delta


def covers(reserved: Promise, promise: Promise) -> bool:
    """Whether whatever is composed with ``reserved`` also bounds a release under ``promise``."""
    if isinstance(reserved, NoGuarantee):
        return True
    if isinstance(promise, NoGuarantee) or promise.is_private != reserved.is_private:
        return False
    if (promise.unit, promise.relation) != (reserved.unit, reserved.relation):
        return False
    return _dominates(reserved.event, promise.event, reserved.relation)


def covering(promises: Sequence[Promise]) -> Promise:
    """The promise among them that covers all, or a coarser one that does."""
    different = list({_identity(promise): promise for promise in promises}.values())
    for promise in different:
        if not isinstance(promise, NoGuarantee) and promise.unit.kind is UnitKind.PERSON:
            raise ProtectError("A folder of recordings cannot be counted for a person: use train.")
    for promise in different:
        if all(covers(promise, other) for other in different):
            return promise
    return _coarse(different)


def _identity(promise: Promise) -> str:
    body = promise.to_json()
    return repr([body.get(name) for name in ("type", "unit", "relation", "event", "randomness")])


def _dominates(event: Event, other: Event, relation: Relation) -> bool:
    if event == other:
        return True
    match event, other:
        case ApproximateRelease(), ApproximateRelease():
            return other.epsilon <= event.epsilon and other.delta <= event.delta
        case ApproximateRelease(), _ if event.delta > 0:
            return epsilon_of(other, event.delta, relation, "pld") <= event.epsilon
    for kind in (Gaussian, Laplace):
        if isinstance(event, kind) and isinstance(other, kind):
            same = event.bounds is other.bounds
            return same and event.noise_multiplier <= other.noise_multiplier
    return False


def _coarse(promises: Sequence[Promise]) -> Promise:
    """Each of several mechanisms by one pair (epsilon, delta), which all of them keep."""
    proven = [promise for promise in promises if not isinstance(promise, NoGuarantee)]
    first = proven[0]
    # half of delta, so that there is room for what comes on top in a ledger
    delta = min(promise.delta for promise in proven) / 2
    if delta == 0:
        raise ProtectError(
            "Expected recordings that one entry of the ledger can count for, got different promises "
            "without a delta: state a delta, or release them one by one."
        )
    epsilon = max(epsilon_of(each.event, delta, each.relation, "pld") for each in proven)
    event = ApproximateRelease(epsilon, delta, first.mechanism)
    return replace(first, event=event, delta=delta + _MARGIN, accountant="pld")
