"""What a budget admits and what it refuses, on both engines where the engine could matter."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sfumato.ledger import (
    BudgetExceededError,
    KeyConflictError,
    Ledger,
    LedgerError,
    UnguaranteedReleaseError,
)
from sfumato.privacy import (
    ApproximateRelease,
    Bounds,
    Gaussian,
    Guarantee,
    NoAccess,
    NoGuarantee,
    Relation,
    SelfComposed,
    Unit,
    UnitMismatchError,
    epsilon_of,
    new_run_id,
)

Promise = Callable[..., Guarantee]
Budget = dict[str, object]
BLUR = NoGuarantee(mechanism="blur", reason="A blur can be undone.")


def cost(count: int, multiplier: float = 8.0, delta: float = 1e-5) -> float:
    event = SelfComposed(Gaussian(multiplier, Bounds.DIFFERENCE), count)
    return epsilon_of(event, delta, Relation.ADD_REMOVE)


@pytest.mark.parametrize("places", [1, 3, 7])
def test_the_boundary_is_exact(
    tmp_path: Path, budget: Budget, promise: Promise, places: int
) -> None:
    exact, short = cost(places), math.nextafter(cost(places), 0.0)
    ledger = Ledger.open(tmp_path / "ledger.db")
    for name, epsilon, admitted in (("exact", exact, places), ("short", short, places - 1)):
        ledger.create(name, **{**budget, "epsilon": epsilon})  # type: ignore[arg-type]
        for turn in range(admitted):
            ledger.reserve(name, promise(), key=f"{turn}")
        with pytest.raises(BudgetExceededError, match="Nothing was drawn or recorded"):
            ledger.reserve(name, promise(), key="one too many")
        assert len(ledger.show(name).releases) == admitted


def test_events_are_composed_and_epsilons_not_added(ledger: Ledger, promise: Promise) -> None:
    for turn in range(10):
        ledger.reserve("gym", promise(), key=f"{turn}")
    spent = ledger.show("gym").spent_epsilon
    assert spent == cost(10)
    assert spent < 0.6 * 10 * promise().epsilon


def test_the_total_is_at_the_budgets_delta_whatever_delta_a_release_states(
    ledger: Ledger, promise: Promise
) -> None:
    ledger.reserve("gym", promise(delta=1e-2), key="loose")
    assert ledger.show("gym").spent_epsilon == cost(1, delta=1e-5) > promise(delta=1e-2).epsilon


def test_a_refusal_leaves_no_trace(ledger: Ledger, promise: Promise) -> None:
    before = ledger.export()
    with pytest.raises(BudgetExceededError):
        ledger.reserve("gym", promise(0.5), key="too much")
    hopeless = ApproximateRelease(0.1, 0.5, "snow")
    with pytest.raises(BudgetExceededError, match="no finite epsilon"):
        ledger.reserve("gym", promise(hopeless, delta=0.6), key="hopeless")
    assert ledger.export() == before


def test_public_only_costs_nothing(ledger: Ledger, promise: Promise) -> None:
    ledger.reserve("gym", promise(NoAccess()), key="public")
    assert ledger.show("gym").spent_epsilon == 0


def test_other_units_and_relations_are_refused_by_name(
    ledger: Ledger, budget: Budget, promise: Promise
) -> None:
    record = promise(unit=Unit.record())
    with pytest.raises(UnitMismatchError, match=r"unit person.*unit record"):
        ledger.reserve("gym", record, key="a")
    with pytest.raises(UnitMismatchError, match=r"add-remove.*replace"):
        ledger.reserve("gym", promise(relation=Relation.REPLACE), key="b")
    assert ledger.show("gym").releases == ()
    # three records are not everything of a person, unless nobody has more than three (R23)
    with pytest.raises(UnitMismatchError, match="says nothing about person"):
        record.for_group(3, Unit.person())
    # Saying it explicitly is the only way, and it costs what a group of three costs.
    ledger.create("club", **{**budget, "unit": "person(3)"})  # type: ignore[arg-type]
    ledger.reserve("club", record.for_group(3, Unit.person(3)), key="converted")
    assert ledger.show("club").spent_epsilon == cost(1, multiplier=8.0 / 3)


def test_no_guarantee_needs_an_acknowledgement_and_is_recorded(
    ledger: Ledger, promise: Promise
) -> None:
    with pytest.raises(UnguaranteedReleaseError, match="--acknowledge-no-guarantee"):
        ledger.reserve("gym", BLUR, key="blur")
    held = ledger.reserve("gym", BLUR, key="blur", acknowledge_no_guarantee=True)
    assert not held.guaranteed
    statement = ledger.show("gym")
    assert statement.without_guarantee == (held,)
    assert "NOT COVERED: one release without a guarantee (blur)" in str(statement)
    assert ledger.export().entries[-1].content()["acknowledged_no_guarantee"] is True
    ledger.reserve("gym", promise(), key="sum")
    assert ledger.show("gym").spent_epsilon == cost(1)


def test_seeded_noise_is_no_guarantee(ledger: Ledger, promise: Promise) -> None:
    seeded = promise(randomness="seeded (not private)")
    with pytest.raises(UnguaranteedReleaseError, match="seed"):
        ledger.reserve("gym", seeded, key="test run")
    held = ledger.reserve("gym", seeded, key="test run", acknowledge_no_guarantee=True)
    assert not held.guaranteed
    assert ledger.show("gym").spent_epsilon == 0
    # The same key cannot turn into a private release afterwards.
    with pytest.raises(KeyConflictError):
        ledger.reserve("gym", promise(), key="test run")


def test_a_budget_without_limit_counts_and_never_refuses(
    tmp_path: Path, budget: Budget, promise: Promise
) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    ledger.create("open", **{**budget, "epsilon": math.inf})  # type: ignore[arg-type]
    ledger.reserve("open", BLUR, key="blur")
    ledger.reserve("open", promise(0.05), key="loud")
    statement = ledger.show("open")
    assert statement.spent_epsilon == cost(1, multiplier=0.05) > 100
    assert math.isinf(statement.remaining_epsilon)
    assert statement.to_json()["remaining_epsilon"] is None
    assert "no limit" in str(statement)


def test_disjoint_shards_compose_in_parallel_and_the_same_records_in_sequence(
    tmp_path: Path, budget: Budget, promise: Promise
) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    ledger.create("gym", **{**budget, "epsilon": cost(3)}, shards=["a", "b", "c"])  # type: ignore[arg-type]
    ledger.reserve("gym", promise(), key="1", records="a")
    ledger.reserve("gym", promise(), key="2", records="b")
    assert ledger.show("gym").spent_epsilon == cost(1)
    ledger.reserve("gym", promise(), key="3", records={"a", "b"})
    assert ledger.show("gym").spent_epsilon == cost(2)
    ledger.reserve("gym", promise(), key="4")
    assert dict(ledger.show("gym").by_shard) == {"a": cost(3), "b": cost(3), "c": cost(1)}
    # a and b are full, so whatever touches them is refused; c still has room.
    for records in ("a", "all", {"b", "c"}):
        with pytest.raises(BudgetExceededError):
            ledger.reserve("gym", promise(), key="5", records=records)
    ledger.reserve("gym", promise(), key="5", records="c")
    ledger.reserve("gym", promise(), key="6", records=["c"])
    assert set(ledger.show("gym").by_shard.values()) == {cost(3)}


def test_records_that_nobody_declared_disjoint_count_as_the_same(
    ledger: Ledger, budget: Budget, promise: Promise
) -> None:
    ledger.reserve("gym", promise(), key="1", records="Monday")
    ledger.reserve("gym", promise(), key="2", records="Tuesday")
    assert ledger.show("gym").spent_epsilon == cost(2)
    ledger.create("pool", **budget, shards=("a", "b"))  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match=r"declared shards of 'pool' \(a, b\), got A"):
        ledger.reserve("pool", promise(), key="typo", records="A")


def test_a_resumed_job_finds_its_reservation_and_pays_once(
    address: str, budget: Budget, promise: Promise
) -> None:
    Ledger.open(address).create("gym", **{**budget, "epsilon": cost(1)})  # type: ignore[arg-type]
    first = Ledger.open(address).reserve("gym", promise(), key="job")
    # The process is gone; the budget is spent, also for the job's own second self.
    with pytest.raises(BudgetExceededError):
        Ledger.open(address).reserve("gym", promise(), key="another")
    reworded = promise(assumptions=("said in other words",))
    assert Ledger.open(address).reserve("gym", reworded, key="job") == first
    assert len(Ledger.open(address).show("gym").releases) == 1


def test_a_key_means_one_release(address: str, budget: Budget, promise: Promise) -> None:
    ledger = Ledger.open(address)
    ledger.create("gym", **budget)  # type: ignore[arg-type]
    held = ledger.reserve("gym", promise(), key="job")
    for changed in (promise(9.0), promise(mechanism="another")):
        with pytest.raises(KeyConflictError, match="another release"):
            ledger.reserve("gym", changed, key="job")
    with pytest.raises(KeyConflictError, match="another release"):
        ledger.reserve("gym", promise(), key="job", records="half")
    ledger.commit(held)
    with pytest.raises(KeyConflictError, match="second release"):
        ledger.reserve("gym", promise(), key="job")
    # The same key in another data set is another job.
    ledger.create("pool", **budget)  # type: ignore[arg-type]
    ledger.reserve("pool", promise(), key="job")
    with pytest.raises(LedgerError, match="several data sets"):
        ledger.commit("job")
    assert ledger.commit("job", dataset="pool").committed


def test_a_run_is_one_reservation_and_a_fresh_start_another(
    address: str, budget: Budget, promise: Promise
) -> None:
    """R20: what finds a reservation again is the run's own random id, not its name or promise."""
    Ledger.open(address).create("gym", **budget)  # type: ignore[arg-type]
    runs = [new_run_id() for _ in range(4)]
    for run in runs:
        first = Ledger.open(address).reserve("gym", promise(), key=f"train-{run}", run=run)
        again = Ledger.open(address).reserve("gym", promise(), key=f"train-{run}", run=run)
        assert first == again
        assert first.run == run
    assert len(set(runs)) == 4
    assert Ledger.open(address).show("gym").spent_epsilon == cost(4)


def test_a_named_key_belongs_to_the_run_that_took_it(ledger: Ledger, promise: Promise) -> None:
    run = new_run_id()
    ledger.reserve("gym", promise(), key="spring", run=run)
    for other in (new_run_id(), None):
        with pytest.raises(KeyConflictError, match="another run"):
            ledger.reserve("gym", promise(), key="spring", run=other)
    ledger.reserve("gym", promise(), key="by hand")
    with pytest.raises(KeyConflictError, match="another run"):
        ledger.reserve("gym", promise(), key="by hand", run=run)
    assert ledger.show("gym").spent_epsilon == cost(2)


def test_a_committed_run_is_found_only_to_write_what_it_drew(
    ledger: Ledger, promise: Promise
) -> None:
    run = new_run_id()
    assert not ledger.counts("gym", run)
    with ledger.spending("gym", promise(), key="job", run=run) as held:
        assert ledger.counts("gym", run)
    with pytest.raises(KeyConflictError, match="second release"):
        ledger.reserve("gym", promise(), key="job", run=run)
    before = ledger.export()
    with ledger.spending("gym", promise(), key="job", run=run, draws=False) as again:
        assert (again.entry, again.committed) == (held.entry, True)
    assert ledger.export() == before
    # but it is that run's alone, and no way around the budget for another
    with pytest.raises(KeyConflictError, match="another run"):
        ledger.reserve("gym", promise(), key="job", run=new_run_id(), draws=False)
    with pytest.raises(BudgetExceededError):
        ledger.reserve("gym", promise(0.5), key="more", run=run, draws=False)


def test_two_copies_of_one_run_cannot_both_be_let_go(
    address: str, budget: Budget, promise: Promise
) -> None:
    """A run's folder that was copied and resumed twice draws twice: one of the two is counted."""
    Ledger.open(address).create("gym", **budget)  # type: ignore[arg-type]
    run, finished = new_run_id(), []

    def resume(name: str, meanwhile: Callable[[], None]) -> None:
        with Ledger.open(address).spending("gym", promise(), key="job", run=run):
            meanwhile()
        finished.append(name)

    with pytest.raises(KeyConflictError, match="copy of the run's folder"):
        resume("second", lambda: resume("first", lambda: None))
    assert finished == ["first"]
    assert Ledger.open(address).show("gym").spent_epsilon == cost(1)


@pytest.mark.parametrize("kind", [np.float16, np.float32, Fraction])
def test_the_type_of_a_budget_changes_nothing(ledger: Ledger, promise: Promise, kind: type) -> None:
    made = ledger.create("odd", owner="o", epsilon=kind(1.5), delta=kind(2**-10), unit="record",
                         relation="replace")  # fmt: skip
    assert (made.budget.epsilon, made.budget.delta) == (1.5, 2**-10)
    assert ledger.show("odd").budget == made.budget


def test_the_least_budget_can_be_shown(ledger: Ledger) -> None:
    assert "delta 0 fits" in str(ledger.create("least", owner="o", epsilon=5e-324, delta=0.0,
                                               unit="record", relation="replace"))  # fmt: skip


@pytest.mark.parametrize("run", ["", "/data/run", "spring", "A" * 32, "ab" * 32, 7])
def test_a_run_id_that_two_runs_could_share_is_refused(
    ledger: Ledger, promise: Promise, run: str
) -> None:
    with pytest.raises(LedgerError, match="drawn at random"):
        ledger.reserve("gym", promise(), key="job", run=run)


def test_committing_twice_records_once(address: str, budget: Budget, promise: Promise) -> None:
    ledger = Ledger.open(address)
    ledger.create("gym", **budget)  # type: ignore[arg-type]
    held = ledger.reserve("gym", promise(), key="job")
    assert not ledger.find("job").committed
    done = ledger.commit(held, output_digest="ab" * 32)
    assert done == ledger.commit("job") == ledger.find("job")
    assert ledger.export().count == 3
    with pytest.raises(LedgerError, match="reserve it first"):
        ledger.commit("never reserved")


def test_a_reservation_of_another_ledger_is_not_committed_here(
    tmp_path: Path, ledger: Ledger, budget: Budget, promise: Promise
) -> None:
    other = Ledger.open(tmp_path / "other.db")
    other.create("gym", **{**budget, "owner": "Bob"})  # type: ignore[arg-type]
    ledger.reserve("gym", promise(), key="job")
    with pytest.raises(LedgerError, match="another ledger"):
        ledger.commit(other.reserve("gym", promise(), key="job"))
    assert ledger.show("gym").committed_epsilon == 0


def test_spending_commits_after_the_block_and_stays_spent_when_it_fails(
    ledger: Ledger, promise: Promise
) -> None:
    with ledger.spending("gym", promise(), key="good") as held:
        assert ledger.show("gym").pending == (held,)
    assert ledger.find("good").committed

    def crash() -> None:
        with ledger.spending("gym", promise(), key="bad"):
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        crash()
    assert not ledger.find("bad").committed
    assert ledger.show("gym").spent_epsilon == cost(2)
    assert ledger.show("gym").committed_epsilon == cost(1)


def test_a_refused_release_never_runs(ledger: Ledger, promise: Promise) -> None:
    ran = []
    with (
        pytest.raises(BudgetExceededError),
        ledger.spending("gym", promise(0.5), key="too much"),
    ):
        ran.append("noise")
    assert ran == []


def test_a_preview_says_what_reserve_will_say_and_records_nothing(
    ledger: Ledger, promise: Promise
) -> None:
    before = ledger.export()
    fits = ledger.preview("gym", promise())
    assert (fits.fits, fits.before, fits.after) == (True, 0.0, cost(1))
    too_much = ledger.preview("gym", promise(0.5))
    assert not too_much.fits
    assert "within epsilon 2" in str(too_much.refusal)
    assert not ledger.preview("gym", BLUR).fits
    assert ledger.export() == before


def test_the_statement_is_never_rounded_in_our_favour(ledger: Ledger, promise: Promise) -> None:
    ledger.reserve("gym", promise(40.0), key="small")
    statement = ledger.show("gym")
    assert 0 < statement.used < 1 / 20
    assert statement.bar(10) == "▒░░░░░░░░░"
    ledger.commit("small")
    assert ledger.show("gym").bar(10) == "█░░░░░░░░░"
    words = str(statement)
    left = float(words.split("epsilon up to ")[1].split(" ")[0])
    assert statement.budget.epsilon - 0.01 < left + statement.spent_epsilon
    assert left <= statement.remaining_epsilon == 2.0 - statement.spent_epsilon


def test_what_is_said_to_fit_does_fit(ledger: Ledger, promise: Promise) -> None:
    for turn in range(3):
        ledger.reserve("gym", promise(), key=f"{turn}")
        left = ledger.show("gym").remaining_epsilon
        assert ledger.preview("gym", promise(ApproximateRelease(left * 0.999, 0.0, "x"))).fits


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 0.0}, "epsilon > 0"),
        ({"epsilon": math.nan}, "epsilon > 0"),
        ({"epsilon": "3"}, "epsilon > 0"),
        ({"epsilon": None}, "epsilon > 0"),
        ({"delta": "0"}, "delta < 1"),
        ({"delta": 1.0}, "delta < 1"),
        ({"unit": "everyone"}, "Expected a unit"),
        ({"unit": "masked-tokens"}, "relation replace or zero-out"),
        ({"relation": "neighbours"}, "Expected a relation"),
        ({"owner": ""}, "owner"),
        ({"shards": "ab"}, "list of shards"),
        ({"shards": ("a", "a")}, "different names"),
        ({"shards": ("all",)}, "different names"),
    ],
)
def test_an_impossible_budget_is_refused(
    tmp_path: Path, budget: Budget, change: Budget, words: str
) -> None:
    from sfumato.errors import SfumatoError

    ledger = Ledger.open(tmp_path / "ledger.db")
    with pytest.raises(SfumatoError, match=words):
        ledger.create("gym", **{**budget, **change})  # type: ignore[arg-type]
    assert not (tmp_path / "ledger.db").exists()


def test_a_budget_is_never_changed(address: str, budget: Budget) -> None:
    ledger = Ledger.open(address)
    ledger.create("gym", **budget)  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="already in this ledger"):
        ledger.create("gym", **{**budget, "epsilon": 100.0})  # type: ignore[arg-type]
    assert ledger.show("gym").budget.epsilon == 2.0


@pytest.mark.parametrize("name", ["Gym", "GYM", "gYm"])
def test_a_slip_in_case_finds_no_second_budget(tmp_path: Path, budget: Budget, name: str) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    ledger.create("gym", **budget)  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="unlike those of other data sets"):
        ledger.create(name, **budget)  # type: ignore[arg-type]
    assert [each.dataset for each in ledger.list()] == ["gym"]
