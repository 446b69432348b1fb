"""Membership attacks on a run of ``sfumato train``: its folder is all that is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sfumato.audit.attack._membership import (
    Array,
    Membership,
    MembershipSuccess,
    allowed_rate,
    lira_scores,
    train_shadows,
)
from sfumato.audit.certify._epsilon import AuditError
from sfumato.data import Records, Subset, find_dataset
from sfumato.devices import device_for
from sfumato.learn import Plan, TrainConfig, make_job, read_config, train
from sfumato.learn.config import (
    CONFIG,
    MODEL,
    build_model,
    load_records,
    optimizer_of,
    preparation,
    speed_of,
)
from sfumato.learn.engine import Streams, forward
from sfumato.models import load_weights
from sfumato.privacy import Card, Guarantee, Randomness, checked_card
from sfumato.privacy.verdict import LowerBound
from sfumato.progress import tell

_OTHER_SEED = 7919
_BATCH = 32


@dataclass(frozen=True)
class MembersReport:
    """Attacks on one run, and what shadow models certify about its plan."""

    measures: tuple[MembershipSuccess, ...]
    certificate: LowerBound | None
    promised: float | None
    shadows: int

    @property
    def attacks(self) -> list[Membership]:
        return [measure.compute() for measure in self.measures]

    @property
    def refuted(self) -> bool:
        """True when the certificate contradicts the promise; an attack's success alone is no proof."""
        return (
            self.promised is not None
            and self.certificate is not None
            and self.certificate.surest > self.promised
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "attacks": [attack.to_json() for attack in self.attacks],
            "certificate": None if self.certificate is None else self.certificate.to_json(),
            "promised": self.promised,
            "membership_is_covered": self.promised is not None,
            "shadows": self.shadows,
            "refuted": self.refuted,
            "words": self.summary_lines(),
        }

    def summary_lines(self) -> list[str]:
        said = [str(attack) for attack in self.attacks]
        if self.certificate is not None:
            said.append(f"Shadow model 1, attacked with the others' help: {self.certificate}.")
        if self.promised is None:
            said.append("Nothing was promised about membership: there is nothing to contradict.")
        elif self.refuted:
            said.append(f"REFUTED: epsilon {self.promised:.3g} was promised.")
        else:
            said.append(f"Promised: epsilon {self.promised:.3g}. Nothing here contradicts it.")
        return said


def audit_members(
    run: str | Path,
    *,
    shadows: int = 8,
    most: int = 2000,
    confidence: float = 0.95,
    progress: Callable[[str], None] | None = None,
    randomness: Randomness | None = None,
) -> MembersReport:
    """Attack the model in a run's folder: its records against records that it never saw.

    Others are the configuration's ``held_out`` records; a synthetic set makes its own. Shadow models
    follow the same plan on random halves of both, so they cost as much as so many trainings.
    At most ``most`` records of each side are looked at.
    """
    folder = Path(run)
    say = progress or (lambda sentence: None)
    card, config = _read(folder)
    plan = make_job(config).plan
    source = randomness or Randomness()
    generator = source.generator()
    members = _some(load_records(config.data, config), most, generator)
    others = _some(_others(config), most, generator)
    pool = _Joined(members, others)
    inside = np.arange(len(pool)) < len(members)
    target = build_model(config, len(members.classes))
    load_weights(target, folder / MODEL)
    target.to(device_for("attacked model"))
    seen = confidences(target, pool, plan, config)
    promise = card.promise

    def attack(name: str, scores: Array) -> MembershipSuccess:
        measure = MembershipSuccess(name, promise=promise, confidence=confidence)
        measure.update(scores, inside)
        return measure

    found, certificate = [attack("loss threshold", seen)], None
    if shadows:
        done = 0

        def fit(indices: npt.NDArray[np.int64]) -> Array:
            nonlocal done
            done += 1
            say(f"training shadow model {done} of {shadows}")
            tell("shadow models", done - 1, shadows)
            model = build_model(config, len(members.classes)).to(device_for("shadow models"))
            train(
                model, Subset(pool, indices.tolist()), plan, speed=speed_of(config),
                optimizer=optimizer_of(config), prepare=preparation(config),
                shared_records=config.shared_records, randomness=source,
            )  # fmt: skip
            return confidences(model, pool, plan, config)

        trained = train_shadows(fit, len(pool), shadows, randomness=source)
        for offline in (False, True):
            scores = lira_scores(seen, trained.confidences, trained.included, offline=offline)
            found.append(attack(f"LiRA {'offline' if offline else 'online'}", scores))
        certificate = trained.certificate(delta=_delta(promise), confidence=confidence)
    covered = allowed_rate(promise, 0.01) is not None
    promised = promise.epsilon if covered and isinstance(promise, Guarantee) else None
    return MembersReport(tuple(found), certificate, promised, shadows)


def confidences(model: nn.Module, records: Records, plan: Plan, config: TrainConfig) -> Array:
    """log p / (1 - p) of the right label, clips averaged: what LiRA fits Gaussians to."""
    streams = Streams(model, records, plan, preparation(config))
    was = model.training
    model.eval()
    found = []
    with torch.no_grad():
        for start in range(0, len(records), _BATCH):
            rows = streams.held_out(records, range(start, min(start + _BATCH, len(records))))
            assert rows is not None
            scores = forward(model, rows.x).cpu().double().softmax(-1)
            scores = scores.reshape(rows.records, rows.clips, -1).mean(1)
            right = scores.gather(1, rows.y[:: rows.clips, None].cpu().long())[:, 0]
            right = right.clamp(1e-12, 1 - 1e-12)
            found.append((right.log() - (1 - right).log()).numpy())
    model.train(was)
    return np.concatenate(found)


def _read(folder: Path) -> tuple[Card, TrainConfig]:
    for name in (MODEL, CONFIG):
        if not (folder / name).is_file():
            raise AuditError(
                f"Expected a folder of sfumato train with {MODEL} and {CONFIG}, but there is no "
                f"{name}: name the folder that the training wrote."
            )
    return checked_card(folder / MODEL), read_config(folder / CONFIG, [])


def _others(config: TrainConfig) -> Records:
    if config.held_out is not None:
        return load_records(config.held_out, config)
    if find_dataset(config.data.kind).generated:
        other = config.data.model_copy(update={"seed": config.data.seed + _OTHER_SEED})
        return load_records(other, config)
    raise AuditError(
        "Expected records that the model never saw (held_out in the run's configuration), got none: "
        "add them, or train again with some held out."
    )


def _some(records: Records, most: int, generator: np.random.Generator) -> Records:
    if len(records) <= most:
        return records
    return Subset(records, sorted(generator.choice(len(records), most, replace=False).tolist()))


def _delta(promise: Any) -> float:
    return float(promise.delta) if isinstance(promise, Guarantee) else 0.0


class _Joined:
    """Two collections one after the other."""

    def __init__(self, first: Records, second: Records) -> None:
        if tuple(first.classes) != tuple(second.classes):
            raise AuditError(
                "Expected members and others with the same classes, got different ones."
            )
        self._first, self._second = first, second
        self.classes = tuple(first.classes)

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    def __getitem__(self, index: int) -> Any:
        count = len(self._first)
        return self._first[index] if index < count else self._second[index - count]
