"""PASS with a proof: donors drawn from softmax((epsilon/4) cos), few donors (SOUNDNESS H8, R5).

The score t cos lies in [-t, t] whatever the sample, so one sample exchanged for another moves a
log-probability by at most 2t, and the log of the normaliser by at most 2t: 4t = epsilon in all.

Donors are drawn by whole weights, exactly. No weight leaves the bounds whose ratio proves epsilon, so
the proof does not hang on how well cosines and exponentials were computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor, nn

from sfumato.attributes._donors import DONORS_PUBLISHED, Declared, DonorSet
from sfumato.attributes._draws import Indices
from sfumato.attributes._loss import LossTerms
from sfumato.attributes._pass import TYPED, Pass
from sfumato.attributes._tasks import AttributesError, owners_of
from sfumato.attributes._training import PassTraining
from sfumato.data import Records
from sfumato.privacy import (
    DRAWN_EXACTLY,
    ExponentialChoice,
    Guarantee,
    NoGuarantee,
    Relation,
    SelfComposed,
    Unit,
    choose,
    least_weight,
)
from sfumato.protect import Epsilon

# Weights are whole numbers up to 2^48, or fewer bits where so many donors would not add up to 63.
_WEIGHT_BITS, _SUM_BITS = 48, 62
_ROWS_AT_ONCE = 2048
_PROTOTYPES = 2  # donors a class: few, or the best one is hardly ever drawn


class PassLDP(Pass):
    """Local differential privacy of the released index: ``epsilon`` a draw, times draws a person.

    Formal guarantee: for any two samples x, x~ and any donor k,
    P(k | x) <= e^epsilon P(k | x~). A person about whom at most ``draws_per_person`` draws are
    made is protected with epsilon times that number; a further draw is refused.

    | case | what happens |
    | --- | --- |
    | encoder and donors from people who are also protected | refused (R5) |
    | not said that they are disjoint, or owners unknown | ``NoGuarantee`` |
    | draws not remembered | each repetition counts as a draw |
    | embedding exactly zero, or not finite | cosine 0 with every donor: a uniform draw |
    """

    name: ClassVar[str] = "pass-ldp"
    summary: ClassVar[str] = "every record of a data set replaced by a donor's, drawn with a proof"
    provides: ClassVar[str] = "epsilon for a person or record, local"
    typed: ClassVar[tuple[str, ...]] = (*TYPED, "epsilon", "draws_per_person")
    # the scores are soft by construction: nothing to anneal
    training_defaults: ClassVar[Mapping[str, Any]] = {"start_temperature": None}

    def __init__(
        self,
        private: Sequence[str],
        useful: Sequence[str],
        donors: DonorSet,
        *,
        epsilon: Epsilon,
        draws_per_person: Annotated[int, Field(ge=1, le=10**4)] = 1,
        training: PassTraining | None = None,
        **settings: Any,
    ) -> None:
        """``settings`` are those of ``Pass``, but for tau, which epsilon decides."""
        if not 0 < epsilon < float("inf"):
            raise AttributesError(f"Expected 0 < epsilon < infinity, got {epsilon!r}.")
        if draws_per_person < 1:
            raise AttributesError(f"Expected at least one draw a person, got {draws_per_person!r}.")
        self.epsilon = float(epsilon)
        self.draws_per_person = int(draws_per_person)
        super().__init__(
            private,
            useful,
            donors,
            tau=4.0 / self.epsilon,
            training=training or PassTraining(**self.training_defaults),
            **settings,
        )
        self._stream = self.randomness.keystream()
        self._fixed_on: frozenset[str] | None = None
        self._disjoint: str | None = None
        self._ownerless = False

    @classmethod
    def expectation(cls, settings: Mapping[str, Any]) -> str:
        return (
            f"{cls.name} proves epsilon {settings['epsilon']} a draw, for people who are neither "
            "donors nor in the data it is fitted on (--fit-on)."
        )

    @classmethod
    def usual_donors(
        cls, pool: Records, useful: Sequence[str], declared: Declared, seed: int, most: int
    ) -> DonorSet:
        return DonorSet.prototypes(pool, useful[0], _PROTOTYPES, declared=declared)

    def fit(
        self,
        records: Records,
        *,
        report: Callable[[int, LossTerms], None] | None = None,
        announce: Callable[[str], None] | None = None,
    ) -> PassLDP:
        super().fit(records, report=report, announce=announce)
        owners = [*owners_of(records), *owners_of(self.donors.records)]
        if all(owners):
            self._fixed_on = frozenset(name for who in owners for name in who)
        return self

    def condition(self) -> dict[str, Any]:
        """Whose data encoder and donors were fixed on, where all of them have owners."""
        return {"fixed_on": None if self._fixed_on is None else sorted(self._fixed_on)}

    def restore(self, condition: Mapping[str, Any]) -> None:
        """The people of the fit that this method was loaded from; they can only grow in number."""
        if condition["fixed_on"] is not None:
            self._fixed_on = (self._fixed_on or frozenset()) | set(condition["fixed_on"])

    def declare_disjoint(self, sentence: str) -> PassLDP:
        """State that encoder and donors were fixed on other people; the sentence goes on the card.

        Needed after ``load`` or when training records had no owners. Where owners are known the
        statement is checked whenever records are protected.
        """
        if not sentence.strip():
            raise AttributesError(
                "Expected a sentence saying on whose data encoder and donors were fixed, got none."
            )
        self._disjoint = sentence.strip().rstrip(".")
        return self

    def _weights(self, embedded: Tensor) -> npt.NDArray[np.uint64]:
        """Whole weights of the donors: 2^bits exp((epsilon / 4) (cos - 1)), kept within their bounds."""
        _, placed = self._fitted()
        unit = nn.functional.normalize(embedded.to(torch.float64), dim=1)
        donors = nn.functional.normalize(placed.to(torch.float64), dim=1)
        cosine = (unit @ donors.T).nan_to_num(0.0).clamp(-1.0, 1.0)
        largest = 1 << min(_WEIGHT_BITS, _SUM_BITS - len(donors).bit_length())
        wanted = (largest * torch.exp(self.epsilon / 4.0 * (cosine - 1.0))).numpy()
        least = least_weight(self.epsilon, largest)
        return np.asarray(np.clip(np.rint(wanted), least, largest), dtype=np.uint64)

    def _rows(self, embedded: Tensor) -> Tensor:
        weights = self._weights(embedded).astype(np.float64)
        return torch.from_numpy(weights / weights.sum(axis=1, keepdims=True))

    def _chosen(self, embedded: Tensor) -> Indices:
        parts = [
            choose(self._weights(part), self._stream)
            for part in torch.split(embedded, _ROWS_AT_ONCE)
        ]
        return np.concatenate(parts)

    def _before_drawing(self, owners: Sequence[tuple[str, ...]]) -> None:
        asked = Counter(name for who in owners for name in who)
        both = sum(name in (self._fixed_on or ()) for name in asked)
        if both:
            raise AttributesError(
                f"Expected people who are neither in the training records nor donors, got {both} "
                "who are: the proof holds for others only (R5); leave them out."
            )
        beyond = sum(
            self.memory.spent(name) + count > self.draws_per_person for name, count in asked.items()
        )
        if beyond:
            raise AttributesError(
                f"Expected at most {self.draws_per_person} draws a person, got more for {beyond} "
                "people: keep fewer records of them, draw once a person, or raise draws_per_person."
            )
        self._ownerless = self._ownerless or any(not who for who in owners)

    def promise_for(self, records: Records) -> Guarantee | NoGuarantee:
        self._ownerless = self._ownerless or any(not each for each in owners_of(records))
        return self.guarantee

    @property
    def guarantee(self) -> Guarantee | NoGuarantee:
        """A guarantee where the proof's conditions (R5) were checked or stated, else none."""
        if self._disjoint is None and (self._fixed_on is None or self._ownerless):
            return self._none(
                "It is not known that encoder and donors were fixed on other people's data "
                "(R5): give all records owners, or call declare_disjoint."
            )
        if self._ownerless and self.memory.scope == "never":
            return self._none(
                "Records without owners were drawn without a memory, so nobody counted how often."
            )
        choice, count = ExponentialChoice(self.epsilon), self.draws_per_person
        if self._ownerless:
            unit, counted = Unit.record(), "every record is drawn once"
        else:
            # one draw a person covers any number of that person's records
            unit = Unit.person(None if self.memory.scope == "person" else count)
            counted = f"at most {count} draws a person, enforced"
        return Guarantee(
            mechanism=self._mechanism,
            unit=unit,
            relation=Relation.REPLACE,
            delta=0.0,
            event=choice if self._ownerless or count == 1 else SelfComposed(choice, count),
            accountant="pld",
            assumptions=(
                self._disjoint
                or "encoder and donors were fixed on other people's data (checked by owner)",
                self.donors.sentence,
                counted,
                "a later run starts from the memory of this one's draws",
            ),
            not_covered=(
                DONORS_PUBLISHED,
                "the people in the training records: encoder and donor table are not private",
                "how many records a person has",
            ),
            public=("encoder", "donors", "the number of released records", DRAWN_EXACTLY),
            randomness=self.randomness.label,
        )

    def _none(self, reason: str) -> NoGuarantee:
        return NoGuarantee(
            mechanism=self._mechanism,
            reason=reason,
            not_covered=(DONORS_PUBLISHED,),
            randomness=self.randomness.label,
        )

    @property
    def _mechanism(self) -> str:
        return f"PASS-LDP (epsilon {self.epsilon:g} a draw, {len(self.donors)} donors)"

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        del settings["tau"]
        return {**settings, "epsilon": self.epsilon, "draws_per_person": self.draws_per_person}
