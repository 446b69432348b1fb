"""What a plan samples from the records at hand, after everything that would void its promise."""

from __future__ import annotations

from sfumato.data import Records
from sfumato.errors import SfumatoError
from sfumato.learn._as_records import OWN_ITEMS, DatasetRecords
from sfumato.learn._overlap import digest
from sfumato.learn._plan import Plan
from sfumato.learn._projector import refuse_overlap
from sfumato.learn.engine._ranks import Team
from sfumato.learn.engine._sampling import records_by_owner
from sfumato.learn.engine._step import units_of
from sfumato.learn.views._prepare import AsIs, Preparation
from sfumato.privacy import Guarantee

Units = list[tuple[int, ...]]
# A plan's constant is public and need not be exact; beyond this factor it counts something else.
_FAR = 2.0


class TrainingError(SfumatoError):
    """A training that cannot start."""


def sampled_units(plan: Plan, records: Records, team: Team, *, shared: str = "refuse") -> Units:
    """Records, or the records of each person; raises where plan and records do not fit."""
    if len(records) == 0:
        raise TrainingError("Expected at least one record, got none.")
    promise = plan.guarantee
    if plan.is_private and isinstance(promise, Guarantee) and promise.epsilon < plan.epsilon / 2:
        # noise is calibrated to a few parts in 10 000: so far off, one of the two is wrong
        raise TrainingError(
            f"Expected about epsilon {plan.epsilon:g} from noise that was calibrated to it, got "
            f"{promise.epsilon:g} from the accountant: nothing was trained. Please report this."
        )
    if plan.public_view is not None:
        plan.public_view.check(records[0].x.shape)
    if team.size > 1:
        team.check_alike(plan.digest.encode() + digest(records))
    if plan.projector is not None:
        refuse_overlap(plan.projector.public, records, by_person=plan.by_person)
    if not plan.by_person:
        return units_of(plan, records, None)
    persons = records_by_owner(records, most=plan.unit.max_records, shared=shared)
    _check_count(plan, len(records), len(persons))
    return persons


def _check_count(plan: Plan, records: int, persons: int) -> None:
    """R3: with unit person, the plan counts persons."""
    far = not persons / _FAR <= plan.records <= persons * _FAR
    if far or plan.records == records != persons:
        raise TrainingError(
            f"Expected records={persons}, the number of persons, in a plan with unit person, got "
            f"{plan.records} for {records} records of {persons} persons: each person is sampled as a "
            "whole, with probability batch / records."
        )


def assumed_about(records: Records) -> tuple[str, ...]:
    """What a promise takes for granted about records that other people's code makes."""
    return (OWN_ITEMS,) if isinstance(records, DatasetRecords) else ()


def usual_preparation(records: Records) -> Preparation:
    """Numbers as float32; whole numbers of a torch data set stay whole, as torch would keep them."""
    return AsIs(keep_integers=isinstance(records, DatasetRecords))
