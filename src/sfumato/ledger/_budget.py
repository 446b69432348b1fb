"""What the owner of a data set allows: a total for everything ever released about it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.ledger._errors import LedgerError
from sfumato.privacy import Relation, Unit, plain_number

# what epsilons of a ledger are computed by
ACCOUNTANT = "pld"
ALL = "all"
_LONGEST_NAME = 200


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Epsilon at delta, for one unit under one relation, over the whole life of the data.

    ``shards`` names parts of the data that are disjoint *in units*: nobody protected by ``unit``
    has data in two of them, and which shard a unit is in is public and does not depend on its
    content. Then what touches one shard says nothing about another (R13: parallel composition),
    under replace as well, because the replacement stays in its shard. Infinite epsilon means that
    releases are recorded but never refused for the budget's sake.
    """

    owner: str
    epsilon: float
    delta: float
    unit: Unit
    relation: Relation
    shards: tuple[str, ...] = ()

    @property
    def terms(self) -> str:
        """What epsilons of this budget are about; none is shown without it."""
        return (
            f"unit {self.unit}, relation {self.relation.value}, delta {self.delta:g}, "
            f"releases composed by accountant {ACCOUNTANT}"
        )

    def __post_init__(self) -> None:
        checked_name("owner", self.owner)
        object.__setattr__(self, "unit", Unit.parse(self.unit))
        object.__setattr__(self, "relation", Relation.parse(self.relation))
        epsilon, delta = plain_number(self.epsilon), plain_number(self.delta)
        if not epsilon > 0:
            raise LedgerError(f"Expected a budget of epsilon > 0, got {self.epsilon!r}.")
        if not 0 <= delta < 1:
            raise LedgerError(f"Expected a budget with 0 <= delta < 1, got {self.delta!r}.")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        self.unit.check(self.relation)
        object.__setattr__(self, "shards", tuple(sorted(self.shards)))
        for shard in self.shards:
            checked_name("shard", shard)
        if ALL in self.shards or len(set(self.shards)) != len(self.shards):
            raise LedgerError(
                f"Expected shards with different names, none of them {ALL!r}, got "
                f"{', '.join(self.shards)}."
            )

    @property
    def finite(self) -> bool:
        return math.isfinite(self.epsilon)

    def touched(self, records: Collection[str] | None) -> tuple[str, ...]:
        """The accounts that a release over ``records`` (None: all) counts against.

        A description that is not a declared shard may overlap with anything, so it counts as the
        same records as everything else. Without shards there is one account, named ``all``.
        """
        accounts = self.shards or (ALL,)
        if records is None or not set(records) <= set(self.shards):
            return accounts
        return tuple(sorted(records))

    def to_json(self) -> dict[str, Any]:
        return {
            "owner": self.owner,
            "epsilon": self.epsilon if self.finite else None,
            "delta": self.delta,
            "unit": str(self.unit),
            "relation": self.relation.value,
            "shards": list(self.shards),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Budget:
        return cls(
            owner=value["owner"],
            epsilon=math.inf if value["epsilon"] is None else value["epsilon"],
            delta=value["delta"],
            unit=Unit.parse(value["unit"]),
            relation=Relation.parse(value["relation"]),
            shards=tuple(value["shards"]),
        )


def checked_name(what: str, value: object) -> str:
    """A name that a person can read and type: printable, not empty, not too long."""
    if (
        not isinstance(value, str)
        or not value.isprintable()
        or value != value.strip()
        or not 0 < len(value) <= _LONGEST_NAME
    ):
        raise LedgerError(
            f"Expected the {what} as 1 to {_LONGEST_NAME} printable characters without blanks at "
            f"either end, got {value!r}."
        )
    return value
