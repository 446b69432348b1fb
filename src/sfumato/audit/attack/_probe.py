"""The probing attack: collect (sample, attribute, released sample) and train a fresh classifier.

As the paper defines it (3.2), strong by default: a network at least as large as the protector's,
fresh draws of the channel in every epoch, early stopping on records held out from the attacker's
own data, 95 % intervals and balanced accuracy beside accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.attributes import AttributeTable, read_table, whitening
from sfumato.audit.measure._measure import MeasureError
from sfumato.audit.measure._nag import nag
from sfumato.audit.measure._scores import AttributeScores, ClassifierScores
from sfumato.data import Records
from sfumato.devices import device_for


class Obfuscation(Protocol):
    """Anything that turns samples into released samples, with fresh randomness on every call."""

    def obfuscate(self, x: Tensor, generator: np.random.Generator) -> Tensor: ...


@runtime_checkable
class Resampled(Protocol):
    """An obfuscation that can draw again for the same samples without computing them again."""

    def sampler(self, x: Tensor) -> Callable[[np.random.Generator], Tensor]: ...


@dataclass(frozen=True)
class ProbeSettings:
    """The attacker's effort. ``held_out`` of its records decide when to stop."""

    width: int = 768
    epochs: int = 30
    patience: int = 4
    batch: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    dropout: float = 0.2
    components: int = 256
    held_out: float = 0.1
    seed: int = 0


@dataclass(frozen=True)
class ProbeReport:
    """What the attacker reads off released records, by attribute."""

    scores: Mapping[str, AttributeScores]
    epochs: int

    def nag(self, unprotected: ProbeReport) -> dict[str, float]:
        """NAG of every attribute against the same attack on unprotected records."""
        return {
            name: nag(
                score.accuracy,
                guessing=score.guessing,
                unprotected=unprotected.scores[name].accuracy,
            )
            for name, score in self.scores.items()
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "epochs": self.epochs,
            "scores": {name: score.to_json() for name, score in self.scores.items()},
        }


class ProbeNetwork(nn.Module):
    """Whitened input, three layers, one head an attribute: all attributes share one trunk."""

    basis: Tensor
    mean: Tensor

    def __init__(self, example: Tensor, heads: Mapping[str, int], settings: ProbeSettings) -> None:
        super().__init__()
        flat = example.flatten(1)
        mean = flat.mean(0)
        basis = whitening(flat - mean, settings.components)
        self.register_buffer("mean", mean)
        self.register_buffer("basis", basis)
        width = settings.width
        self.trunk = nn.Sequential(
            nn.Linear(basis.shape[1], width),
            nn.LayerNorm(width),
            nn.GELU(),
            nn.Dropout(settings.dropout),
            nn.Linear(width, width),
            nn.LayerNorm(width),
            nn.GELU(),
            nn.Dropout(settings.dropout),
        )
        self.heads = nn.ModuleDict(
            {f"head_{name}": nn.Linear(width, count) for name, count in heads.items()}
        )

    def features(self, x: Tensor) -> Tensor:
        """Whitened input; the same in every epoch, so computed outside the steps."""
        return (x.to(self.mean.device).flatten(1) - self.mean) @ self.basis

    def forward(self, features: Tensor) -> dict[str, Tensor]:
        hidden = self.trunk(features)
        return {name.removeprefix("head_"): head(hidden) for name, head in self.heads.items()}


def probe(
    protector: Obfuscation | None,
    train: Records,
    test: Records,
    attributes: Sequence[str],
    *,
    settings: ProbeSettings | None = None,
    together: bool = False,
) -> ProbeReport:
    """Attack ``protector`` (None: the unprotected data, the reference of NAG).

    Each attribute gets a classifier of its own; ``together`` trains one with a head for each,
    which is faster and a little weaker.

    ``train`` is what the attacker can run through the protector: the protector's own training
    records by default in the paper, more than those in its Table 15.
    """
    settings = settings or ProbeSettings()
    known = read_table(train, attributes)
    tested = read_table(test, attributes, classes=known.classes)
    scores, longest = {}, 0
    for names in [tuple(attributes)] if together else [(name,) for name in attributes]:
        network, epochs = train_probe(protector, known.only(names), settings)
        scores.update(score_probe(network, protector, tested.only(names), known))
        longest = max(longest, epochs)
    return ProbeReport(scores, longest)


def unfinetuned(
    protector: Obfuscation,
    train: Records,
    test: Records,
    attributes: Sequence[str],
    *,
    settings: ProbeSettings | None = None,
) -> ProbeReport:
    """A downstream classifier trained on original records and never adapted to released ones."""
    known = read_table(train, attributes)
    tested = read_table(test, attributes, classes=known.classes)
    network, epochs = train_probe(None, known, settings or ProbeSettings())
    return ProbeReport(score_probe(network, protector, tested, known), epochs)


def train_probe(
    protector: Obfuscation | None, table: AttributeTable, settings: ProbeSettings
) -> tuple[ProbeNetwork, int]:
    """The attacker's classifier for all attributes of ``table``, at its best held-out epoch."""
    if len(table) < 10:
        raise MeasureError(
            f"Expected at least 10 records to train an attacker, got {len(table)}: bring more."
        )
    generator = np.random.default_rng(settings.seed)
    order = torch.from_numpy(generator.permutation(len(table)))
    cut = max(1, round(settings.held_out * len(table)))
    held, used = table.take(order[:cut]), table.take(order[cut:])
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        released, held_released = _sampler(protector, used.x), _sampler(protector, held.x)
        example = released(generator)
        heads = {name: table.class_count(name) for name in table.labels}
        network = ProbeNetwork(example, heads, settings).to(device_for("probing network"))
        best, best_state, best_epoch = math.inf, _state(network), 0
        steps = settings.epochs * max(1, math.ceil(len(used) / settings.batch))
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for epoch in range(settings.epochs):
            network.train()
            shown = network.features(released(generator) if epoch else example)
            shuffled = torch.from_numpy(generator.permutation(len(used)))
            for rows in torch.split(shuffled, settings.batch):
                loss = _cross_entropy(network(shown[rows]), used, rows)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
            value = _held_loss(network, network.features(held_released(generator)), held)
            if value < best:
                best, best_state, best_epoch = value, _state(network), epoch
            elif epoch - best_epoch >= settings.patience:
                break
    network.load_state_dict(best_state)
    return network.eval(), best_epoch + 1


def score_probe(
    network: ProbeNetwork,
    protector: Obfuscation | None,
    tested: AttributeTable,
    known: AttributeTable,
) -> dict[str, AttributeScores]:
    """Scores on records the attacker never saw, one fresh draw for each."""
    released = _sampler(protector, tested.x)(np.random.default_rng(7))
    with torch.no_grad():
        logits = network(network.features(released))
    found = {}
    for name, logit in logits.items():
        counts = torch.bincount(known.labels[name], minlength=known.class_count(name)).double()
        measure = ClassifierScores(known.class_count(name), (counts / counts.sum()).numpy())
        measure.update(torch.softmax(logit, 1).cpu().numpy(), tested.labels[name].numpy())
        found[name] = measure.compute()
    return found


def _sampler(protector: Obfuscation | None, x: Tensor) -> Callable[[np.random.Generator], Tensor]:
    if protector is None:
        return lambda generator: x
    if isinstance(protector, Resampled):
        return protector.sampler(x)
    return lambda generator: protector.obfuscate(x, generator)


def _cross_entropy(logits: Mapping[str, Tensor], table: AttributeTable, rows: Tensor) -> Tensor:
    losses = [
        functional.cross_entropy(logit, table.labels[name][rows].to(logit.device))
        for name, logit in logits.items()
    ]
    return torch.stack(losses).sum()


def _held_loss(network: ProbeNetwork, shown: Tensor, held: AttributeTable) -> float:
    network.eval()
    with torch.no_grad():
        return float(_cross_entropy(network(shown), held, torch.arange(len(held))))


def _state(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}
