"""One entry of a ledger for many recordings: it must bound each of them, whatever comes on top."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from sfumato.privacy import (
    ApproximateRelease,
    Bounds,
    Composed,
    Event,
    Gaussian,
    Guarantee,
    Laplace,
    NoGuarantee,
    RandomizedResponse,
    Relation,
    SelfComposed,
    epsilon_of,
)
from sfumato.protect import ProtectError
from sfumato.protect._covering import covering, covers


def promise(event: Event, delta: float = 1e-5, **changes: Any) -> Guarantee:
    fields: dict[str, Any] = {"mechanism": "test", "unit": "video", "relation": "replace"}
    return Guarantee(**(fields | {"delta": delta, "event": event, "accountant": "pld"} | changes))


def gaussian(noise: float) -> Event:
    return Gaussian(noise, Bounds.DIFFERENCE)


def responses(noise: float, count: int) -> Event:
    return SelfComposed(RandomizedResponse(noise, 256), count)


FOLDERS: dict[str, list[Guarantee]] = {
    "equal": [promise(gaussian(4.0)), promise(gaussian(4.0))],
    "gaussian": [promise(gaussian(noise)) for noise in (4.0, 3.5, 5.0)],
    "laplace": [promise(Laplace(noise, Bounds.DIFFERENCE)) for noise in (2.0, 1.5)],
    # all of epsilon 0, and far from equal
    "snow": [promise(ApproximateRelease(0.0, d, "snow"), d + 1e-9) for d in (1e-4, 1e-2, 1e-3)],
    "responses": [promise(responses(0.97, 2)), promise(responses(0.985, 9))],
    "mixed": [promise(gaussian(4.0)), promise(Laplace(2.0, Bounds.DIFFERENCE))],
}


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("other", [gaussian(2.0), gaussian(8.0)], ids=["much", "little"])
def test_a_reservation_bounds_every_recording_beside_other_releases(
    folder: str, other: Event
) -> None:
    """The theorem: total of the reserved event is at least that of each recording's own."""
    for order in permutations(FOLDERS[folder]):
        reserved = covering(order)
        assert isinstance(reserved, Guarantee)
        for delta in (2e-5, 2e-2):
            total = epsilon_of(Composed((reserved.event, other)), delta, Relation.REPLACE)
            for each in order:
                own = epsilon_of(Composed((each.event, other)), delta, Relation.REPLACE)
                assert own <= total * (1 + 1e-6)
            assert all(covers(reserved, each) for each in order)


def test_nothing_else_is_covered() -> None:
    held = promise(gaussian(4.0))
    none = NoGuarantee(mechanism="test", reason="None.")
    assert covers(none, held)
    assert covers(none, none)
    for other in (
        none,
        promise(gaussian(3.999)),
        promise(gaussian(4.0), unit="frame"),
        promise(gaussian(4.0), relation="zero-out"),
        promise(gaussian(4.0), randomness="seeded (not private)"),
        promise(Gaussian(4.0)),
        promise(Laplace(400.0, Bounds.DIFFERENCE)),
    ):
        assert not covers(held, other)
    assert covering([held, none, promise(gaussian(3.0))]) == none


def test_people_are_not_counted_by_recordings() -> None:
    with pytest.raises(ProtectError, match="a person"):
        covering([promise(gaussian(4.0), unit="person")])
