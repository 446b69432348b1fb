"""The ledger's total is the accountant's answer on the composed events, for any history."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sfumato.ledger import BudgetExceededError, Ledger
from sfumato.ledger._composition import merged, spent
from sfumato.privacy import (
    Bounds,
    Composed,
    Event,
    ExponentialChoice,
    Gaussian,
    Group,
    Guarantee,
    Laplace,
    NoAccess,
    PoissonSampled,
    Relation,
    SelfComposed,
    Unit,
    epsilon_of,
)

SHARDS = ("east", "north", "west")
LEAVES = st.sampled_from(
    [
        Gaussian(4.0, Bounds.DIFFERENCE),
        Gaussian(9.0),
        Laplace(20.0),
        ExponentialChoice(0.05),
        Group(Gaussian(30.0), 3),
        NoAccess(),
    ]
)
EVENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(SelfComposed, inner, st.integers(1, 4)),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Composed(tuple(parts))),
    ),
    max_leaves=4,
)
GENTLY = settings(
    max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


def flat(event: Event) -> list[Event]:
    """The obvious oracle: every single release written out."""
    if isinstance(event, Composed):
        return [leaf for part in event.events for leaf in flat(part)]
    if isinstance(event, SelfComposed):
        return flat(event.event) * event.count
    return [event]


@GENTLY
@given(st.lists(EVENTS, min_size=1, max_size=4))
def test_merging_keeps_every_release_and_the_epsilon(events: list[Event]) -> None:
    everything = [leaf for event in events for leaf in flat(event)]
    counted = [leaf for leaf in everything if leaf != NoAccess()]
    together = merged(events)
    left = [leaf for leaf in flat(together) if leaf != NoAccess()]
    assert sorted(map(repr, left)) == sorted(map(repr, counted))
    assert merged(reversed(events)) == together
    written_out = epsilon_of(Composed(tuple(everything)), 1e-5, Relation.REPLACE, "pld")
    assert spent(events, 1e-5, Relation.REPLACE) == pytest.approx(written_out, rel=1e-6)


@settings(parent=GENTLY, max_examples=8)
@given(
    st.lists(
        st.tuples(
            EVENTS, st.one_of(st.just({"all"}), st.sets(st.sampled_from(SHARDS), min_size=1))
        ),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_a_shard_pays_for_what_touched_it_and_for_nothing_else(
    history: list[tuple[Event, set[str]]], commit: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.open(Path(folder) / "ledger.db")
        ledger.create(
            "data",
            owner="Ada",
            epsilon=1e6,
            delta=1e-5,
            unit="record",
            relation="replace",
            shards=SHARDS,
        )
        for number, (event, records) in enumerate(history):
            promise = Guarantee(
                mechanism="any",
                unit=Unit.record(),
                relation=Relation.REPLACE,
                delta=1e-5,
                event=event,
                accountant="pld",
            )
            held = ledger.reserve("data", promise, key=f"{number}", records=records)
            if commit:
                ledger.commit(held)
        statement = ledger.show("data")
    for shard in SHARDS:
        touching = [event for event, records in history if records & {"all", shard}]
        expected = (
            epsilon_of(Composed(tuple(touching)), 1e-5, Relation.REPLACE, "pld") if touching else 0
        )
        assert statement.by_shard[shard] == pytest.approx(expected, rel=1e-6)
    assert statement.spent_epsilon == max(statement.by_shard.values())
    assert statement.committed_epsilon == (statement.spent_epsilon if commit else 0)


def test_the_statement_names_the_assumption_that_only_mixed_releases_need(
    ledger: Ledger, promise: Callable[..., Guarantee]
) -> None:
    ledger.reserve("gym", promise(8.0), key="1")
    ledger.reserve("gym", promise(SelfComposed(Gaussian(90.0), 2)), key="2")
    ledger.reserve("gym", promise(NoAccess()), key="public")
    assert ledger.show("gym").assumptions == ()
    ledger.reserve("gym", promise(Laplace(20.0)), key="3")
    assert "not chosen by looking at the outputs" in str(ledger.show("gym"))


def test_training_and_releases_share_one_budget(
    ledger: Ledger, promise: Callable[..., Guarantee]
) -> None:
    training = SelfComposed(PoissonSampled(0.02, Gaussian(1.5)), 200)
    ledger.reserve("gym", promise(training), key="train")
    ledger.reserve("gym", promise(8.0), key="mean")
    both = Composed((training, Gaussian(8.0, Bounds.DIFFERENCE)))
    total = ledger.show("gym").spent_epsilon
    assert total == pytest.approx(epsilon_of(both, 1e-5, Relation.ADD_REMOVE, "pld"), rel=1e-9)
    assert total < promise(training).epsilon + promise(8.0).epsilon
    with pytest.raises(BudgetExceededError):
        ledger.reserve("gym", promise(SelfComposed(training, 20)), key="train much longer")


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE])
def test_no_release_lowers_the_total(relation: Relation) -> None:
    """One step with next to no noise once brought a total of 2.457 down to 0."""
    before = [SelfComposed(PoissonSampled(0.01, Gaussian(1.1)), 500), Gaussian(4.0)]
    added = PoissonSampled(0.01, Gaussian(0.02))
    total = spent([*before, added], 1e-6, relation)
    assert total >= spent([added], 1e-6, relation) > 1400
    assert total >= spent(before, 1e-6, relation) > 0
