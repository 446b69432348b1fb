"""One frozen plan yields sampler, noise, event and Guarantee together; nothing else sets the noise."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.learn._as_records import Owners, as_records
from sfumato.learn._projector import Subspace
from sfumato.learn.engine._sampling import records_by_owner
from sfumato.learn.engine._validate import (
    LARGEST_CLIP_NORM,
    ROUNDING_OF_CLIPPED,
    SMALLEST_CLIP_NORM,
)
from sfumato.learn.views._public_view import PublicView
from sfumato.privacy import (
    BandedGaussian,
    Event,
    Gaussian,
    Guarantee,
    NoAccess,
    NoGuarantee,
    PoissonSampled,
    Relation,
    SelfComposed,
    SharedBatch,
    Unit,
    UnitKind,
    calibrate_dpsgd,
    plain_count,
    plain_number,
)

# what epsilons of a sound plan are computed and calibrated by
_ACCOUNTANT = "pld"
_UNITS_WITHOUT_VIEW = {UnitKind.RECORD, UnitKind.CLIP, UnitKind.VIDEO, UnitKind.PERSON}


class PlanError(SfumatoError):
    """A plan whose promise would not be true."""


@lru_cache(maxsize=256)
def _remembered(calibrate: Callable[..., float], *settings: Any) -> float:
    """The same settings give the same noise, so a plan that is built again costs nothing."""
    return calibrate(*settings)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be promised and how training keeps it.

    **Guarantee** (``.guarantee``): ``steps`` times, every unit takes part with probability
    ``batch / records``, its contribution is clipped to ``clip_norm``, Gaussian noise of
    ``noise_multiplier * clip_norm`` is added to the sum and the sum divided by the constant
    ``batch``. The noise multiplier is calibrated to ``epsilon`` and cannot be passed in.

    ``records`` is a constant of the plan (persons, with unit person), not the length of the data.

    | case | result |
    | --- | --- |
    | public view with unit record, clip, person, or relation add-remove | refused (R1) |
    | ``epsilon=inf`` | plain training; ``.guarantee`` is a NoGuarantee |
    | ``epsilon=0`` with a public view | the private stream is off: 0 at that unit, infinite for the record |
    | ``as_published=True`` | MaskDP's shared batch; ``.guarantee`` carries its true epsilon (Lemma D) |
    | ``bands=b`` | no sampling: every unit has its turn each ``records // batch`` steps, and noise is correlated over b steps (R28) |
    """

    epsilon: float
    delta: float
    records: int
    batch: int
    steps: int
    clip_norm: float
    relation: Relation
    unit: Unit
    public_view: PublicView | None = None
    clips: int = 1
    projector: Subspace | None = None
    as_published: bool = False
    bands: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", Relation.parse(self.relation))
        object.__setattr__(self, "unit", Unit.parse(self.unit))
        for name in ("epsilon", "delta", "clip_norm"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))
        for name in ("records", "batch", "steps", "clips"):
            count = plain_count(getattr(self, name))
            if count is None or count < 1:
                raise PlanError(
                    f"Expected {name} as a whole number >= 1, got {getattr(self, name)!r}."
                )
            object.__setattr__(self, name, count)
        if type(self.unit) is not Unit:
            raise PlanError(f"Expected a Unit itself, got {type(self.unit).__name__}.")
        if self.batch > self.records:
            raise PlanError(
                f"Expected a batch of at most {self.records}, the number of "
                f"{'persons' if self.by_person else 'records'}, got {self.batch}."
            )
        if self.epsilon < 0:
            raise PlanError(f"Expected epsilon >= 0 (inf for no privacy), got {self.epsilon!r}.")
        if self.is_private and not 0 < self.delta < 1:
            raise PlanError(f"Expected 0 < delta < 1, got {self.delta!r}.")
        if self.is_private and not (math.isfinite(self.clip_norm) and self.clip_norm > 0):
            raise PlanError(f"Expected a finite clip_norm > 0, got {self.clip_norm!r}.")
        if self.is_private and not SMALLEST_CLIP_NORM <= self.clip_norm <= LARGEST_CLIP_NORM:
            raise PlanError(
                f"Expected a clip_norm between {SMALLEST_CLIP_NORM:g} and {LARGEST_CLIP_NORM:g}, "
                f"got {self.clip_norm!r}: float32 cannot hold gradients to it. Scale the loss."
            )
        self._check_view()
        self._check_bands()
        if self.epsilon == 0 and self.public_view is None:
            raise PlanError(
                "Expected epsilon > 0, got 0: only training on a public view reads nothing private; "
                "name one, or choose a positive epsilon."
            )
        if self.as_published and not (self.is_private and self.public_view is not None):
            raise PlanError(
                "Expected a public view and a finite epsilon with as_published: it names the shared "
                "batch of the published MaskDP and FDP, which other methods do not have."
            )

    def _check_bands(self) -> None:
        """R28: turns follow from a unit's place, and bands may not reach from one turn to the next."""
        bands = plain_count(self.bands)
        if bands is None or bands < 0:
            raise PlanError(f"Expected bands as a whole number >= 0, got {self.bands!r}.")
        object.__setattr__(self, "bands", bands)
        if not bands:
            return
        if not self.is_private or self.as_published or self.relation is Relation.ADD_REMOVE:
            raise PlanError(
                "Expected a private plan with relation replace or zero-out for banded noise, got "
                "another, or the published form: a unit's turn follows from its place among the "
                "others, so that one who is missing would move theirs."
            )
        if bands > self.slots:
            raise PlanError(
                f"Expected at most {self.slots} bands, one for each step between two turns of a unit "
                f"(records // batch), got {bands}: take smaller batches or fewer bands."
            )

    def _check_view(self) -> None:
        """R1: beside an un-noised view, presence and label are public whatever the noise."""
        view, unit = self.public_view, self.unit
        if view is None:
            if unit.has_public_view:
                raise PlanError(
                    f"Expected a public view for unit {unit}, got none: name the view, or state the "
                    "stronger unit record."
                )
            if unit.kind not in _UNITS_WITHOUT_VIEW:
                raise PlanError(
                    f"Expected unit record, clip, video or person, got {unit}: a whole record is "
                    "clipped at once, so state that."
                )
        else:
            if not isinstance(view, PublicView) or not view.unit.has_public_view:
                raise PlanError(
                    f"Expected a PublicView whose unit leaves out what it shows, got {view!r}: "
                    "a view is masked-tokens or features (R1)."
                )
            if unit != view.unit:
                raise PlanError(
                    f"Expected unit {view.unit} beside the public view, got {unit}: the view is "
                    "shown without noise, so nothing larger is protected (R1)."
                )
        unit.check(self.relation)

    @classmethod
    def for_(
        cls,
        dataset: Any = None,
        *,
        epsilon: float,
        epochs: float | None = None,
        steps: int | None = None,
        records: int | None = None,
        owners: Owners | None = None,
        batch: int = 32,
        delta: float | None = None,
        clip_norm: float = 1.0,
        relation: Relation | str = Relation.REPLACE,
        unit: Unit | str = "record",
        **more: Any,
    ) -> Plan:
        """A plan with the defaults of a training file: unit record, relation replace, delta at most
        a tenth of 1/records, clip norm 1, batch 32.

        ``dataset`` (with ``owners``, for unit person) is counted where ``records`` is not said. Their
        number is public then, which it is under replace and zero-out but not under add-remove.
        """
        unit, relation = Unit.parse(unit), Relation.parse(relation)
        person = unit.kind is UnitKind.PERSON
        if records is None:
            records = _counted(dataset, owners, unit, relation)
        if (steps is None) == (epochs is None):
            raise PlanError("Expected either steps or epochs, got both or neither.")
        if batch > records:
            raise PlanError(
                f"Expected a batch of at most {records}, the number of "
                f"{'persons' if person else 'records'}, got {batch}."
            )
        return cls(
            epsilon=epsilon, delta=usual_delta(records) if delta is None else delta, records=records,
            batch=batch, steps=steps or steps_for(epochs or 0, records, batch), clip_norm=clip_norm,
            relation=relation, unit=unit, **more,
        )  # fmt: skip

    # -- what follows from the fields ------------------------------------------------------------

    @property
    def is_private(self) -> bool:
        """True when a private stream runs under clipping and noise."""
        return 0 < self.epsilon < math.inf

    @property
    def by_person(self) -> bool:
        return self.unit.kind is UnitKind.PERSON

    @property
    def sampling_rate(self) -> float:
        return self.batch / self.records

    @property
    def slots(self) -> int:
        """With bands: a unit's turn comes every so many steps."""
        return self.records // self.batch

    @property
    def divisor(self) -> float:
        """The constant q N; never the realised batch size (Lemma C)."""
        return float(self.batch)

    @cached_property
    def noise_multiplier(self) -> float:
        """Noise over clip norm, calibrated to epsilon; 0 where nothing private is noised."""
        if not self.is_private:
            return 0.0
        if self.as_published:  # the papers: add-remove, RDP
            relation, accountant = Relation.ADD_REMOVE, "rdp"
        else:
            relation, accountant = self.relation, _ACCOUNTANT
        if self.bands:
            one = _remembered(
                calibrate_dpsgd, self.epsilon, self.delta, 1.0, 1, relation, accountant
            )
            # as far as the whole sequence of sums moves, in contributions
            return one * self._banded(1.0, self.steps).sensitivity(Relation.ZERO_OUT) * (1 + 1e-12)
        return _remembered(
            calibrate_dpsgd, self.epsilon, self.delta, self.sampling_rate, self.steps, relation,
            accountant,
        )  # fmt: skip

    def _banded(self, noise: float, steps: int) -> BandedGaussian:
        return BandedGaussian(noise, self.bands, self.slots, steps)

    @property
    def noise_deviation(self) -> float:
        """Standard deviation of the noise on the *sum* of clipped gradients."""
        return self.noise_multiplier * self.contribution_bound if self.is_private else 0.0

    @property
    def contribution_bound(self) -> float:
        """The most that a unit adds to the sum, with the rounding of clipping included (R19)."""
        return self.clip_norm * (1 + ROUNDING_OF_CLIPPED)

    @property
    def event(self) -> Event:
        return self.event_after(self.steps)

    def event_after(self, steps: int) -> Event:
        """The event of the first ``steps`` steps."""
        if self.epsilon == 0 or steps == 0:
            return NoAccess()
        if not self.is_private:
            raise PlanError(
                "Expected a finite epsilon for an event, got infinity: no noise is added."
            )
        if self.bands:
            return self._banded(self.noise_multiplier, steps)
        noise = Gaussian(self.noise_multiplier)
        if self.as_published:
            return SharedBatch(self.sampling_rate, noise, steps)
        return SelfComposed(PoissonSampled(self.sampling_rate, noise), steps)

    @cached_property
    def guarantee(self) -> Guarantee | NoGuarantee:
        """What may be said about the trained model."""
        if math.isinf(self.epsilon):
            return NoGuarantee(
                mechanism=self.mechanism,
                reason="Training added no noise: epsilon is infinite.",
                not_covered=("every record used in training",),
            )
        return Guarantee(
            mechanism=self.mechanism,
            unit=self.unit,
            relation=self.relation,
            delta=self.delta if self.is_private else 0.0,
            event=self.event,
            accountant=_ACCOUNTANT,
            assumptions=self._assumptions(),
            not_covered=self._not_covered(),
            public=self._public(),
        )

    @property
    def terms(self) -> str:
        """What an epsilon of this plan is about; no epsilon is shown without it."""
        promise = self.guarantee
        return promise.terms if isinstance(promise, Guarantee) else "no guarantee"

    @property
    def mechanism(self) -> str:
        """The method's name, made of its switches."""
        if math.isinf(self.epsilon):
            return "sgd"
        view = self.public_view
        if self.epsilon == 0:
            return "public-only training"
        parts = ["person-" if self.by_person else ""]
        if view is None:
            parts.append("projected dp-sgd" if self.projector else "dp-sgd")
        else:
            parts.append(view.mechanism(projected=self.projector is not None))
        if self.clips > 1:
            parts.append(f", {self.clips} clips a record")
        if self.as_published:
            parts.append(", as published (one batch for both streams)")
        if self.bands:
            parts.append(f", noise correlated over {self.bands} steps")
        return "".join(parts)

    def _assumptions(self) -> tuple[str, ...]:
        said = []
        if self.bands:
            said.append(
                f"every {'person' if self.by_person else 'record'} takes part in every "
                f"{self.slots}th step, at a place that says nothing about anybody"
            )
        elif self.is_private:
            said.append(
                f"every {'person' if self.by_person else 'record'} is sampled with probability "
                f"{self.sampling_rate:.6g} in each of {self.steps} steps, and nobody learns who was"
            )
        if self.by_person:
            said.append("every record names its one owner truthfully")
        elif self.unit.kind in {UnitKind.CLIP, UnitKind.VIDEO}:
            said.append(f"every record is one {self.unit.kind.value}")
        if self.public_view is not None:
            said += self.public_view.assumptions
        return tuple(said)

    def _not_covered(self) -> tuple[str, ...]:
        said = ["settings, classes or checkpoints chosen by looking at private data"]
        if not self.by_person:
            said.append("people who own several records")
        if self.public_view is not None:
            said += self.public_view.not_covered
        if self.delta > 1 / self.records:
            said.append("a delta above 1/records allows a rare full disclosure of one record")
        said.append("attacks on floating-point sampling of the noise")
        return tuple(said)

    def _public(self) -> tuple[str, ...]:
        said = [f"the constant {self.records} and the training settings"]
        if self.projector is not None:
            said.append(f"the {self.projector.samples} records that the projector uses")
        return tuple(said)

    def to_json(self) -> dict[str, Any]:
        """Plain values; enough to tell whether a resumed run follows the same plan."""
        view, subspace = self.public_view, self.projector
        return {
            "epsilon": "inf" if math.isinf(self.epsilon) else self.epsilon,
            "delta": self.delta,
            "records": self.records,
            "batch": self.batch,
            "steps": self.steps,
            "clip_norm": "inf" if math.isinf(self.clip_norm) else self.clip_norm,
            "relation": self.relation.value,
            "unit": str(self.unit),
            "public_view": None if view is None else view.stored,
            "clips": self.clips,
            "projector": None if subspace is None else subspace.name,
            "as_published": self.as_published,
            **({"bands": self.bands} if self.bands else {}),
        }

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()


def usual_delta(records: int) -> float:
    """A power of ten, at most a tenth of 1/records."""
    return float(10.0 ** math.floor(math.log10(1 / (10 * records))))


def steps_for(epochs: float, records: int, batch: int) -> int:
    return max(1, round(epochs * records / batch))


def _counted(dataset: Any, owners: Owners | None, unit: Unit, relation: Relation) -> int:
    """How many units the data set has; never under add-remove, where that is private."""
    if dataset is None:
        raise PlanError("Expected records= or a dataset to count, got neither.")
    if relation is Relation.ADD_REMOVE:
        raise PlanError(
            "Expected records= with add-remove, got a dataset to count: under that relation the "
            "number of records is private. State a public constant, or relation replace."
        )
    found = as_records(dataset, owners)
    if unit.kind is not UnitKind.PERSON:
        return len(found)
    return len(records_by_owner(found, most=unit.max_records))


def verified(plan: Plan) -> Plan:
    """The plan built anew from its fields: every number that training uses is derived again here.

    A subclass could override the noise, and Python lets a frozen object be changed; both are refused.
    """
    if type(plan) is not Plan:
        raise PlanError(
            f"Expected a Plan itself, got {type(plan).__name__}: what a subclass changes would not "
            "be what the guarantee says. Build a Plan."
        )
    kept = vars(plan)
    own = {field.name for field in fields(Plan)}
    anew = Plan(**{name: getattr(plan, name) for name in own})
    for name in kept.keys() - own:  # what a cached property has left
        if not hasattr(Plan, name) or kept[name] != getattr(anew, name):
            raise PlanError(
                f"Expected a plan as it was built, got one whose {name} was changed afterwards: "
                "build a Plan with the settings that are meant."
            )
    return anew


def _number(name: str, value: Any) -> float:
    """A plain float: a subclass could compare otherwise than it counts."""
    number = plain_number(value)
    if math.isnan(number):
        raise PlanError(f"Expected {name} as a number, got {value!r}.")
    return number
