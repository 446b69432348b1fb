"""One release as the ledger sees it: what is asked for, and what was granted."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.ledger._budget import ALL, Budget, checked_name
from sfumato.ledger._errors import LedgerError, UnguaranteedReleaseError
from sfumato.privacy import Event, Guarantee, NoGuarantee, UnitMismatchError

# What makes two requests the same release. Sentences may be reworded by a later version of
# sfumato, and a resumed job must still find its reservation.
_IDENTITY = ("type", "mechanism", "unit", "relation", "event")
_RUN_ID = re.compile("[0-9a-f]{32}")
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class ReleasedOutput:
    """A file or folder that was released, by its own name and digest; older entries have no name."""

    name: str | None
    sha256: str

    @classmethod
    def checked(cls, name: object, sha256: object) -> ReleasedOutput:
        if not isinstance(sha256, str) or not _DIGEST.fullmatch(sha256):
            raise LedgerError(f"Expected the SHA-256 of an output in hexadecimal, got {sha256!r}.")
        named = None if name is None else checked_name("name of an output", name)
        if named is not None and ("/" in named or "\\" in named):
            raise LedgerError(f"Expected the name of an output without folders, got {name!r}.")
        return cls(named, sha256)


@dataclass(frozen=True)
class Reservation:
    """A release whose cost is already counted; ``committed`` once its output was released.

    ``entry`` and ``digest`` are its receipt: they name the entry of the chain that holds it.
    ``records`` is None for all records, else the shards (or the description) that were named.
    ``run`` is the random id of the one run that may draw under it; None when a person keeps the
    key (``sfumato ledger reserve``) and answers for that. ``operator`` and ``purpose`` are what was
    said when it was reserved; entries of earlier versions say neither.
    """

    dataset: str
    key: str
    promise: Mapping[str, Any]
    records: frozenset[str] | None
    event: Event | None
    entry: int
    digest: str
    committed: bool = False
    run: str | None = None
    at: str = ""
    operator: str | None = None
    purpose: str | None = None
    committed_at: str | None = None
    outputs: tuple[ReleasedOutput, ...] = ()

    @property
    def guaranteed(self) -> bool:
        """False for a release without a guarantee, which no epsilon of the ledger covers."""
        return self.event is not None

    @property
    def mechanism(self) -> str:
        return str(self.promise["mechanism"])

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "key": self.key,
            "state": "committed" if self.committed else "reserved",
            "promise": dict(self.promise),
            "records": plain_records(self.records),
            "entry": self.entry,
            "digest": self.digest,
            "run": self.run,
            "at": self.at,
            "operator": self.operator,
            "purpose": self.purpose,
            "committed_at": self.committed_at,
            "outputs": [vars(output) for output in self.outputs],
        }


@dataclass(frozen=True)
class ReservationRequest:
    """What a caller asks for, checked in itself but not yet against a budget."""

    key: str
    promise: Mapping[str, Any]
    event: Event | None
    records: frozenset[str] | None
    acknowledged: bool
    run: str | None = None
    draws: bool = True
    operator: str | None = None
    purpose: str | None = None

    @classmethod
    def of(
        cls,
        promise: Guarantee | NoGuarantee,
        *,
        key: str,
        records: str | Collection[str],
        acknowledged: bool,
        run: str | None = None,
        draws: bool = True,
        operator: str | None = None,
        purpose: str | None = None,
    ) -> ReservationRequest:
        stored, event = _stored(promise)
        return cls(
            checked_name("key", key),
            stored,
            event,
            _named_records(records),
            acknowledged,
            _checked_run_id(run),
            draws,
            None if operator is None else checked_name("operator", operator),
            None if purpose is None else checked_name("purpose", purpose),
        )

    def check_same_terms(self, dataset: str, budget: Budget) -> None:
        """Raise unless this release and the budget are about the same thing.

        Epsilon for a pixel and epsilon for a person cannot be added: converting is explicit
        (``Guarantee.for_group``), never done here.
        """
        if self.event is None:
            if budget.finite and not self.acknowledged:
                raise UnguaranteedReleaseError(
                    f"Expected a release with a guarantee, because the budget of {dataset!r} is "
                    f"finite, got {self.promise['mechanism']} without one "
                    f"({self.promise['reason']}): choose a method that has one, or pass "
                    "--acknowledge-no-guarantee (acknowledge_no_guarantee=True) to record it "
                    "outside the budget."
                )
        elif self.promise["unit"] != str(budget.unit):
            raise UnitMismatchError(
                f"Expected a release for unit {budget.unit}, which the budget of {dataset!r} is "
                f"about, got one for unit {self.promise['unit']}: convert the guarantee explicitly "
                "(for_group, or re-run with the budget's unit)."
            )
        elif self.promise["relation"] != budget.relation.value:
            raise UnitMismatchError(
                f"Expected a release under relation {budget.relation.value}, which the budget of "
                f"{dataset!r} is about, got one under {self.promise['relation']}: re-run with the "
                "budget's relation."
            )
        if budget.shards and self.records is not None:
            unknown = sorted(self.records - set(budget.shards))
            if unknown:
                raise LedgerError(
                    f"Expected records {ALL!r} or declared shards of {dataset!r} "
                    f"({', '.join(budget.shards)}), got {', '.join(unknown)}."
                )

    def same_release(self, held: Reservation) -> bool:
        """Whether ``held`` is what an earlier run of this very job reserved."""
        return self.records == held.records and all(
            self.promise.get(name) == held.promise.get(name) for name in _IDENTITY
        )


def _stored(promise: Guarantee | NoGuarantee) -> tuple[dict[str, Any], Event | None]:
    """The part of a promise whose meaning never changes: the event, without any epsilon."""
    if isinstance(promise, Guarantee) and promise.is_private:
        value = promise.to_json()
        for computed in ("version", "epsilon", "delta", "accountant", "randomness"):
            del value[computed]
        return value, promise.event
    if isinstance(promise, Guarantee):
        promise = NoGuarantee(
            mechanism=promise.mechanism,
            reason="Its noise came from a seed, so whoever knows the seed can remove it.",
            assumptions=promise.assumptions,
            not_covered=promise.not_covered,
            randomness=promise.randomness,
        )
    if not isinstance(promise, NoGuarantee):
        raise LedgerError(
            f"Expected a Guarantee or a NoGuarantee to reserve for, got {type(promise).__name__}: "
            "pass what the method or the plan returns."
        )
    value = promise.to_json()
    del value["version"]
    return value, None


def _checked_run_id(run: str | None) -> str | None:
    """Refuse whatever two runs could share: a path, a plan's digest, a name (R20)."""
    if run is not None and (not isinstance(run, str) or not _RUN_ID.fullmatch(run)):
        raise LedgerError(
            f"Expected the id of a run as 32 hexadecimal digits drawn at random, got {run!r}: take "
            "sfumato.privacy.new_run_id() at a fresh start and keep it in the run's journal."
        )
    return run


def _named_records(records: str | Collection[str]) -> frozenset[str] | None:
    named = {records} if isinstance(records, str) else set(records)
    if not named:
        raise LedgerError(f"Expected the records a release touches ({ALL!r} or shards), got none.")
    for label in named:
        checked_name("records label", label)
    return None if ALL in named else frozenset(named)


def plain_records(records: frozenset[str] | None) -> str | list[str]:
    return ALL if records is None else sorted(records)
