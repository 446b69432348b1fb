"""PASS: replace each sample by a donor's, drawn so that private attributes cannot be told.

What is released is the donor's own record, by index. Nothing is proven about it at tau = 0.01:
the log-ratio of two samples' draws is bounded by 4/tau = 400 only (finding H8). So ``Pass`` comes
with ``NoGuarantee`` and measured leakage; ``PassLDP`` is the variant with a proof.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from sfumato.attributes._donors import DONORS_PUBLISHED, Declared, DonorSet, match_matrix
from sfumato.attributes._draws import DrawMemory, Indices, Scope, draw
from sfumato.attributes._encoders import ENCODERS, Encoder, build_encoder
from sfumato.attributes._loss import LossTerms, UsefulBatch, terms
from sfumato.attributes._tasks import (
    AttributesError,
    Classes,
    Task,
    read_table,
    records_tensor,
    require_two_classes,
)
from sfumato.attributes._theory import Theory
from sfumato.attributes._training import PassTraining, embed, train_substitution
from sfumato.data import ArrayRecords, Record, Records
from sfumato.files import atomic_output
from sfumato.privacy import Guarantee, NoGuarantee, Randomness
from sfumato.protect import DatasetMethod, get_dataset_method
from sfumato.settings import Settings, parameters_of, schema_from

Weight = Annotated[float, Field(ge=0, le=10**6)]
Dimension = Annotated[int, Field(ge=1, le=2**12)]
_FORMAT = "sfumato-pass-1"
_USUAL_DONORS = 4096
# what may be typed for every variant, and for its training
TYPED = ("lambda_", "mu", "dimension", "encoder", "remember")
TYPED_TRAINING = ("steps", "batch", "learning_rate")
# whose networks and training the paper's Table 6 names
Published = Literal["audio", "motion", "faces"]


@cache
def _schema(method: type[Pass]) -> type[Settings]:
    receiver, training = parameters_of(Pass) | parameters_of(method), parameters_of(PassTraining)
    typed = {name: receiver[name] for name in method.typed}
    # only Python code can pass a network or a memory of draws
    typed["encoder"] = (Literal[tuple(ENCODERS)], typed["encoder"][1])
    typed["remember"] = (Scope, typed["remember"][1])
    if method is Pass:
        typed["published"] = (Published | None, None)
    return schema_from(method.name, typed | {name: training[name] for name in TYPED_TRAINING})


def pass_method(name: str) -> type[Pass]:
    """PASS or a variant of it, by name."""
    found = get_dataset_method(name)
    if not issubclass(found, Pass):
        raise AttributesError(f"Expected pass or a variant of it, got the method {name}.")
    return found


class Pass(DatasetMethod):
    """Substitution by donors (Chen et al. 2025, restated in docs/soundness.md).

    | setting | default |
    | --- | --- |
    | ``lambda_`` | number of private over number of useful attributes |
    | ``mu`` | 0.2 times the number of private attributes; at most that number |
    | ``tau`` | 0.01; more where nothing hidden is to survive: rows near one-hot follow details of a sample that another person's samples do not share, so that neither privacy nor use carries over to new ones |
    | ``remember`` | ``sample``: one draw a sample; ``person``: one a person; ``never``; or the memory of an earlier run |

    ``fit`` reads records with all attributes; ``protect`` reads none of them.
    """

    name: ClassVar[str] = "pass"
    summary: ClassVar[str] = "every record of a data set replaced by a donor's (PASS)"
    provides: ClassVar[str] = "no guarantee; measured leakage of private attributes"
    typed: ClassVar[tuple[str, ...]] = (*TYPED, "tau")
    training_defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        private: Sequence[str],
        useful: Sequence[str],
        donors: DonorSet,
        *,
        lambda_: Weight | None = None,
        mu: Weight | None = None,
        tau: Annotated[float, Field(ge=1e-6, le=1e6)] = 0.01,
        dimension: Dimension = 512,
        encoder: str | nn.Module = "whitened-mlp",
        encoder_settings: Mapping[str, Any] | None = None,
        training: PassTraining | None = None,
        remember: Scope | DrawMemory = "sample",
        randomness: Randomness | None = None,
    ) -> None:
        self.task = Task(private, useful)
        self.donors = donors
        count = len(self.task.private)
        self.lambda_ = count / len(self.task.useful) if lambda_ is None else lambda_
        self.mu = 0.2 * count if mu is None else mu
        if not 0 <= self.mu <= count:
            raise AttributesError(
                f"Expected mu between 0 and the number of private attributes ({count}), got "
                f"{self.mu:g}: beyond it the loss bounds nothing (Theorem 4.1)."
            )
        if not tau > 0:
            raise AttributesError(f"Expected a temperature tau > 0, got {tau!r}.")
        self.tau = tau
        self.dimension = dimension
        self.training = training or PassTraining()
        self.memory = remember if isinstance(remember, DrawMemory) else DrawMemory(remember)
        self.randomness = randomness or Randomness()
        self.history: list[tuple[int, LossTerms]] = []
        self.theory: Theory | None = None
        self._wanted_encoder = encoder
        self._encoder_settings = dict(encoder_settings or {})
        self._encoder: nn.Module | None = None
        self._placed: Tensor | None = None
        self._classes: Classes = {}
        self._generator = self.randomness.generator()

    @classmethod
    def published(
        cls,
        kind: Published,
        private: Sequence[str],
        useful: Sequence[str],
        donors: DonorSet,
        **settings: Any,
    ) -> Pass:
        """As in the paper's Table 6: its networks, learning rates and epochs.

        ``audio``: 3-layer perceptron; ``motion``: 6-layer convolutional network on windows;
        ``faces``: 2-layer perceptron on features of a face backbone, faces centre-cropped before.
        """
        encoder = {"audio": "mlp", "motion": "window-cnn", "faces": "feature-head"}[kind]
        return cls(
            private,
            useful,
            donors,
            encoder=encoder,
            training=PassTraining.published(kind),
            **settings,
        )

    @classmethod
    def settings_schema(cls) -> type[Settings]:
        return _schema(cls)

    @classmethod
    def expectation(cls, settings: Mapping[str, Any]) -> str:
        """What a release with these settings will prove, in words, before anything is read."""
        return f"{cls.name} proves nothing; sfumato audit probe measures what leaks."

    @classmethod
    def usual_donors(
        cls, pool: Records, useful: Sequence[str], declared: Declared, seed: int, most: int
    ) -> DonorSet:
        """The donors out of ``pool`` where nobody says how many: ``most`` at most."""
        count = min(_USUAL_DONORS, len(pool), most)
        return DonorSet.sample(pool, count, declared=declared, seed=seed)

    # -- training ------------------------------------------------------------------------------

    def fit(
        self,
        records: Records,
        *,
        report: Callable[[int, LossTerms], None] | None = None,
        announce: Callable[[str], None] | None = None,
    ) -> Pass:
        """Learn the substitution. ``announce`` gets the theory as text before the first step."""
        table = read_table(records, self.task.names)
        require_two_classes(table, self.task.names)
        if len(table) < len(self.donors):
            raise AttributesError(
                f"Expected at least as many records as donors, got {len(table)} records for "
                f"{len(self.donors)} donors: ask for fewer donors or bring more records."
            )
        donors = self.donors.table(self.task, table.classes)
        if donors.x.shape[1:] != table.x.shape[1:]:
            raise AttributesError(
                f"Expected donors shaped like the records {tuple(table.x.shape[1:])}, got "
                f"{tuple(donors.x.shape[1:])}: cut both in the same way."
            )
        self.theory = Theory.of(
            table, self.task, donors=len(donors), lambda_=self.lambda_, mu=self.mu
        )
        if announce is not None:
            announce(str(self.theory))
        # start and dropout must not depend on who used torch before
        with torch.random.fork_rng():
            torch.manual_seed(self.training.seed)
            encoder = self._new_encoder(tuple(table.x.shape[1:]))
            if isinstance(encoder, Encoder):
                encoder.prepare(
                    table.x,
                    [table.labels[name] for name in self.task.private],
                    [table.labels[name] for name in self.task.useful],
                )
            fitted = train_substitution(
                encoder,
                table,
                donors,
                self.task,
                self.training,
                temperature=self._temperature(),
                lambda_=self.lambda_,
                mu=self.mu,
                report=report,
            )
        self._adopt(fitted.encoder, nn.functional.normalize(fitted.table, dim=1), table.classes)
        self.history = fitted.history
        return self

    def _new_encoder(self, shape: tuple[int, ...]) -> nn.Module:
        if isinstance(self._wanted_encoder, nn.Module):
            return self._wanted_encoder
        return build_encoder(self._wanted_encoder, shape, self.dimension, **self._encoder_settings)

    def _temperature(self) -> float:
        return self.tau

    def _adopt(self, encoder: nn.Module, placed: Tensor, classes: Classes) -> None:
        self._encoder = encoder.eval()
        self._placed = placed.detach()
        self._classes = classes

    @property
    def classes(self) -> Classes:
        return self._classes

    # -- the channel ---------------------------------------------------------------------------

    def embeddings(self, x: Tensor) -> Tensor:
        encoder, _ = self._fitted()
        if isinstance(encoder, Encoder) and tuple(x.shape[1:]) != encoder.shape:
            raise AttributesError(
                f"Expected samples of shape {encoder.shape} as in training, got "
                f"{tuple(x.shape[1:])}: cut them in the same way."
            )
        return embed(encoder, x)

    def substitution(self, x: Tensor | Records) -> Tensor:
        """P(X' = donor k | x) for every sample: the whole channel, rows sum to one."""
        samples = x if isinstance(x, Tensor) else records_tensor(x)
        return self._rows(self.embeddings(samples))

    def _rows(self, embedded: Tensor) -> Tensor:
        _, placed = self._fitted()
        return torch.softmax(embedded @ placed.T / self._temperature(), 1)

    def terms(self, records: Records) -> LossTerms:
        """The loss over a whole data set, exactly; add ``theory.constant`` to bound the objective."""
        table = read_table(records, self.task.names, classes=self._classes)
        donors = self.donors.table(self.task, self._classes)
        return terms(
            self.substitution(table.x),
            [(table.labels[name], table.class_count(name)) for name in self.task.private],
            [
                UsefulBatch(
                    table.class_count(name),
                    match_matrix(table.labels[name], donors.labels[name]),
                )
                for name in self.task.useful
            ],
        )

    def obfuscate(self, x: Tensor, generator: np.random.Generator) -> Tensor:
        """Fresh draws, not remembered: what the probing attack trains on. Not for releases."""
        drawn = draw(self.substitution(x), generator)
        return self._donor_tensor()[torch.from_numpy(drawn)]

    def sampler(self, x: Tensor) -> Callable[[np.random.Generator], Tensor]:
        """``obfuscate`` of the same samples again and again: the channel is computed once."""
        rows, donors = self.substitution(x), self._donor_tensor()
        return lambda generator: donors[torch.from_numpy(draw(rows, generator))]

    def _donor_tensor(self) -> Tensor:
        return records_tensor(self.donors.records)

    # -- the release ---------------------------------------------------------------------------

    def protect(self, records: Records | Record) -> Indices:
        """The donor of every record, as indices into ``donors``; remembered draws stay the same."""
        if isinstance(records, Record):
            records = ArrayRecords(records.x[None], [0], owners=[records.owners])
        x = records_tensor(records)
        owners = [records[index].owners for index in range(len(records))]
        names = [self.memory.digest(sample, who) for sample, who in zip(x, owners)]
        recalled = {name: self.memory.recall(name) for name in names}
        fresh = [name for name, donor in recalled.items() if donor is None]
        if self.memory.scope == "never":
            groups = [[index] for index in range(len(names))]
        else:
            where: dict[str, list[int]] = {name: [] for name in fresh}
            for index, name in enumerate(names):
                if name in where:
                    where[name].append(index)
            groups = list(where.values())
        self._before_drawing([owners[group[0]] for group in groups])
        result = np.array([recalled[name] or 0 for name in names], dtype=np.int64)
        if groups:
            embedded = self.embeddings(x)
            # one draw a person: the person's mean direction stands for all of their samples
            means = torch.stack([embedded[group].mean(0) for group in groups])
            chosen = self._chosen(nn.functional.normalize(means, dim=1))
            for group, donor in zip(groups, chosen):
                result[group] = donor
                self.memory.remember(names[group[0]], int(donor), owners[group[0]])
        return result

    def _chosen(self, embedded: Tensor) -> Indices:
        """One donor for each row of embeddings, as it is released."""
        return draw(self._rows(embedded), self._generator)

    def _before_drawing(self, owners: Sequence[tuple[str, ...]]) -> None:
        """Hook of the proven variant: refuse before anything is drawn."""

    def promise_for(self, records: Records) -> Guarantee | NoGuarantee:
        """What a release of these records will come with, before anything is drawn."""
        return self.guarantee

    @property
    def guarantee(self) -> Guarantee | NoGuarantee:
        """What is proven about the release: nothing, and why."""
        repeated = {
            "sample": "each sample is drawn once and remembered; a person's samples still add up",
            "person": "each person is drawn once and remembered",
            "never": "draws are not remembered, so repeated releases of a sample add up",
        }[self.memory.scope]
        return NoGuarantee(
            mechanism=f"PASS (tau {self.tau:g}, {len(self.donors)} donors)",
            reason=(
                "The draw depends on the sample too strongly for differential privacy: the proven "
                f"bound on its log-ratio is 4/tau = {4 / self.tau:g}."
            ),
            assumptions=(self.donors.sentence, repeated),
            not_covered=(
                DONORS_PUBLISHED,
                "the people in the training records: encoder and donor table are not private",
            ),
            randomness=self.randomness.label,
        )

    # -- files ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Encoder and donor table as safetensors; neither donors nor draws are in the file."""
        encoder, placed = self._fitted()
        if not isinstance(encoder, Encoder):
            raise AttributesError(
                "Expected one of sfumato's encoders to save, got a module of your own: "
                "save its weights yourself and pass it to load."
            )
        tensors = {
            f"encoder.{name}": value.contiguous() for name, value in encoder.state_dict().items()
        }
        tensors["donors.embedding"] = placed.contiguous()
        body = {
            "format": _FORMAT,
            "method": self.name,
            "encoder": encoder.kind,
            "encoder_settings": encoder.settings,
            "classes": {name: list(values) for name, values in self._classes.items()},
            "settings": self._settings(),
        }
        with atomic_output(path, force=force) as temporary:
            save_file(tensors, temporary, metadata={"sfumato": json.dumps(body, sort_keys=True)})

    def _settings(self) -> dict[str, Any]:
        return {
            "private": list(self.task.private),
            "useful": list(self.task.useful),
            "lambda_": self.lambda_,
            "mu": self.mu,
            "tau": self.tau,
            "dimension": self.dimension,
        }

    def condition(self) -> dict[str, Any]:
        """What a later run must know beside ``save`` for its promise, as JSON."""
        return {}

    def restore(self, condition: Mapping[str, Any]) -> None:
        """Take up the ``condition`` of the run that fitted this method."""

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        donors: DonorSet,
        *,
        remember: Scope | DrawMemory = "sample",
        randomness: Randomness | None = None,
    ) -> Pass:
        """Read what ``save`` wrote; ``donors`` must be the set it was trained with."""
        with safe_open(path, framework="pt") as stored:
            metadata = stored.metadata() or {}
            body = json.loads(metadata.get("sfumato", "{}"))
            if body.get("format") != _FORMAT or body.get("method") != cls.name:
                raise AttributesError(
                    f"Expected a file saved by {cls.__name__}, got {body.get('method')!r}: "
                    "load it with the class that saved it."
                )
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        placed = tensors.pop("donors.embedding")
        if len(placed) != len(donors):
            raise AttributesError(
                f"Expected the {len(placed)} donors it was trained with, got {len(donors)}: "
                "pass the same donor set, in the same order."
            )
        settings = dict(body["encoder_settings"])
        shape, dimension = tuple(settings.pop("shape")), settings.pop("dimension")
        encoder = build_encoder(body["encoder"], shape, dimension, **settings)
        encoder.load_state_dict(
            {name.removeprefix("encoder."): value for name, value in tensors.items()}
        )
        made = cls(donors=donors, remember=remember, randomness=randomness, **body["settings"])
        made._adopt(
            encoder, placed, {name: tuple(values) for name, values in body["classes"].items()}
        )
        made.donors.table(made.task, made._classes)
        return made

    def _fitted(self) -> tuple[nn.Module, Tensor]:
        if self._encoder is None or self._placed is None:
            raise AttributesError("Expected a fitted method, got an untrained one: call fit first.")
        return self._encoder, self._placed
