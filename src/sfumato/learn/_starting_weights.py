"""Starting weights are data (R18): what they learned stays in the model, whatever noise comes later.

A model that sfumato trained carries its trainings, one promise each, in the header of its file, so
that a copy without its card carries them too. A training that starts from it adds them to its own
promise, or is refused. What was seeded once stays "not private" (R25).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from sfumato.errors import SfumatoError
from sfumato.files import sha256
from sfumato.privacy import (
    Composed,
    Event,
    Guarantee,
    NoGuarantee,
    UnitKind,
    UnitMismatchError,
    card_path,
    format_epsilon,
    promise_from_json,
    read_card,
)

HEADER = "sfumato"
UNSEEN = "the starting weights saw none of these records"
_PLANNED = "noise and steps were not chosen by looking at the starting weights"
_SAME_MASKS = "every record had the same mask when the starting weights were trained"
_VERSION = 1
_RUN_DIGITS = 32


class StartingWeightsError(SfumatoError):
    """Weights that would make the new promise untrue."""


@dataclass(frozen=True)
class PastTraining:
    """One training that a model has been through: the run, its own promise, what a record was."""

    run: str
    promise: Guarantee | NoGuarantee
    record: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"run": self.run, "promise": self.promise.to_json(), "record": self.record}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> PastTraining:
        return cls(value["run"], promise_from_json(value["promise"]), value["record"])

    def __str__(self) -> str:
        promise = self.promise
        if isinstance(promise, NoGuarantee):
            return f"{promise.mechanism}, no guarantee"
        seeded = "" if promise.is_private else ", seeded"
        return (
            f"{promise.mechanism}, epsilon {format_epsilon(promise.epsilon)}, "
            f"{promise.terms}{seeded}"
        )


@dataclass(frozen=True)
class StartingWeights:
    """Where a model's first parameters come from.

    ``trainings`` are those that they carry. ``other_data`` is the operator's word that none of them
    saw a record of this training. ``known`` is False for weights that nothing is known about;
    ``public`` names weights that everybody has. ``digest`` is of the file.
    """

    trainings: tuple[PastTraining, ...] = ()
    known: bool = False
    public: tuple[str, ...] = ()
    other_data: bool = False
    digest: str = ""

    @classmethod
    def fresh(cls) -> StartingWeights:
        """Drawn at random: they saw nothing."""
        return cls(known=True)

    @classmethod
    def from_store(cls, name: str, trained_on: str) -> StartingWeights:
        """Of the model store: public, by a name and a digest that everybody can look up."""
        told = f"the starting weights, {name} from the model store, trained on {trained_on}"
        return cls(known=True, public=(told,))

    @classmethod
    def of_file(cls, path: str | Path, *, other_data: bool = False) -> StartingWeights:
        """What the file and the card beside it say about the trainings that it has been through."""
        file = Path(path)
        if not file.is_file():
            raise StartingWeightsError(
                f"Expected a file of starting weights, but {file.name} is not there."
            )
        digest = sha256(file)
        trainings = _in_header(file) or ()
        if card_path(file).exists():
            card = read_card(file)
            if digest not in {output.sha256 for output in card.outputs}:
                raise StartingWeightsError(
                    f"Expected the card beside {file.name} to be about it, got a card of another "
                    "file: put the weights' own card there, or take the wrong one away."
                )
            if not trainings:
                made = str(card.settings.get("record", ""))
                trainings = (PastTraining(digest[:_RUN_DIGITS], card.promise, made),)
        return cls(trainings, known=bool(trainings), other_data=other_data, digest=digest)

    @property
    def identity(self) -> str:
        """What a resumed run must start from again."""
        runs = [training.run for training in self.trainings]
        told = [self.digest, self.known, list(self.public), self.other_data, runs]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    @property
    def counted(self) -> tuple[PastTraining, ...]:
        """Trainings that may have seen the records of this one."""
        return () if self.other_data else self.trainings

    def before(self, event: Event) -> Event:
        """``event`` of the new training with those that its first weights carry."""
        promises = [training.promise for training in self.counted]
        events = [promise.event for promise in promises if isinstance(promise, Guarantee)]
        return Composed((*events, event)) if events else event

    @property
    def sentence(self) -> str:
        """Where the model started, for its card."""
        if self.trainings:
            told = "; then ".join(str(training) for training in self.trainings)
            return f"It started from weights that had been trained before ({told})."
        if self.public:
            return f"It started from {'; '.join(self.public)}."
        return "" if self.known else "It started from weights that came without a card."

    def alone(self, promise: Guarantee | NoGuarantee) -> Guarantee | NoGuarantee:
        """The new training's own promise, with what it takes for granted about these weights."""
        if isinstance(promise, Guarantee):
            promise = replace(promise, public=(*promise.public, *self.public))
        if not self.known:
            return _assuming(promise, UNSEEN)
        if self.trainings and self.other_data:
            earlier = "; ".join(map(str, self.trainings))
            return _assuming(promise, f"as declared, {UNSEEN} ({earlier})")
        return promise

    def together(
        self, promise: Guarantee | NoGuarantee, record: str = ""
    ) -> Guarantee | NoGuarantee:
        """What is true for a model that started here and was then trained under ``promise``.

        | the weights | what happens |
        | --- | --- |
        | drawn at random, or of the model store | nothing, or they are named as public |
        | nothing is known about them | the assumption that they saw none of these records |
        | trained with a guarantee | both are composed, as about the same records |
        | trained without one | refused, unless the operator declares that the records were others |
        | declared to have seen other records | that declaration is an assumption |
        | trained with noise from a seed | not private, declared or not |
        """
        total = self.alone(promise)
        if self.counted and isinstance(total, Guarantee):
            total = self._composed(total, record)
        elif self.counted:
            seen = "every record that the starting weights saw"
            total = replace(total, not_covered=(*total.not_covered, seen))
        seeded = [each.promise for each in self.trainings if _noise_from_a_seed(each.promise)]
        return replace(total, randomness=seeded[0].randomness) if seeded else total

    def _composed(self, promise: Guarantee, record: str) -> Guarantee:
        total = promise
        for training in reversed(self.trainings):
            earlier = training.promise
            if isinstance(earlier, NoGuarantee):
                raise StartingWeightsError(
                    "Expected starting weights that carry a guarantee, got ones that were trained "
                    f"without ({earlier.mechanism}): what they learned stays in the model however "
                    f"much noise is added now. {_REMEDY}"
                )
            if training.record != record:
                raise StartingWeightsError(
                    "Expected starting weights whose records were the same kind of thing, got ones "
                    f"where a record was {training.record or 'a recording'!r} and not "
                    f"{record or 'a recording'!r}: their epsilons cannot be added. {_REMEDY}"
                )
            try:
                total = earlier.compose(total, delta=total.delta or earlier.delta)
            except UnitMismatchError as error:
                raise StartingWeightsError(
                    f"Expected starting weights whose guarantee can be added to the new one: {error} "
                    f"{_REMEDY}"
                ) from None
        # a pixel that was public in the earlier training was not protected there
        masks = (_SAME_MASKS,) if promise.unit.kind is UnitKind.MASKED_TOKENS else ()
        return replace(total, assumptions=(*total.assumptions, _PLANNED, *masks))


_REMEDY = (
    "Start from other weights; or, if every record that they saw was another than these, say so "
    "with model.weights_saw=other-data (in Python: start=StartingWeights(other_data=True)), and it will "
    "stand on the card."
)


def header(trainings: Sequence[PastTraining]) -> dict[str, str]:
    """What a model file says about itself, for whoever trains it further."""
    told = {"version": _VERSION, "trainings": [training.to_json() for training in trainings]}
    return {HEADER: json.dumps(told, sort_keys=True)}


def _in_header(file: Path) -> tuple[PastTraining, ...] | None:
    """The trainings that a safetensors file names; None if it is not one of ours."""
    if file.suffix != ".safetensors":
        return None
    try:
        with safe_open(str(file), framework="pt") as stored:
            text = (stored.metadata() or {}).get(HEADER)
    except (OSError, SafetensorError):
        return None  # whoever loads the tensors says what is wrong with them
    if text is None:
        return None
    try:
        told = json.loads(text)
        if told["version"] != _VERSION:
            raise ValueError
        return tuple(PastTraining.from_json(each) for each in told["trainings"])
    except (KeyError, TypeError, ValueError):
        raise StartingWeightsError(
            f"Expected the trainings of a model in the header of {file.name}, got something that "
            "this version of sfumato cannot read: use the version that wrote it."
        ) from None


def _noise_from_a_seed(promise: Guarantee | NoGuarantee) -> bool:
    """Without noise there is nothing that a seed could take away."""
    return isinstance(promise, Guarantee) and not promise.is_private


def _assuming(promise: Guarantee | NoGuarantee, assumption: str) -> Guarantee | NoGuarantee:
    return replace(promise, assumptions=(*promise.assumptions, assumption))
