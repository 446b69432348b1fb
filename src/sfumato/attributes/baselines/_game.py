"""The one training loop of all adversarial methods: an obfuscator against classifiers.

Every method is an objective over the same moving parts. In each step the adversary improves on the
current releases, then the obfuscator improves its objective against the adversary as it stands.
That the adversary is *this* network, trained *this* long, is the weakness they share: what the
objective measures is a lower bound on what another attacker learns (appendix C of the PASS paper).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.attributes._tasks import (
    AttributesError,
    AttributeTable,
    Classes,
    Task,
    read_table,
    require_two_classes,
)
from sfumato.data import Records
from sfumato.privacy import NoGuarantee


@dataclass(frozen=True)
class GameSettings:
    """Effort of the game. ``adversary_steps`` updates of the adversary for each of the obfuscator."""

    steps: int = 600
    batch: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    adversary_steps: int = 1
    width: int = 256
    seed: int = 0


@dataclass(frozen=True)
class Turn:
    """What an objective sees: a batch, its release, and what the classifiers say about it.

    ``private`` and ``useful`` hold logits by attribute; ``ensemble`` the private logits of every
    adversary where a method has several; ``priors`` the class shares in the training records.
    """

    x: Tensor
    released: Tensor
    private: Mapping[str, Tensor]
    useful: Mapping[str, Tensor]
    ensemble: Sequence[Mapping[str, Tensor]]
    labels: Mapping[str, Tensor]
    priors: Mapping[str, Tensor]

    def useful_loss(self) -> Tensor:
        return torch.stack(
            [functional.cross_entropy(out, self.labels[name]) for name, out in self.useful.items()]
        ).sum()

    def private_loss(self, logits: Mapping[str, Tensor] | None = None) -> Tensor:
        """Cross entropy of the adversary: what it tries to lower."""
        return torch.stack(
            [
                functional.cross_entropy(out, self.labels[name])
                for name, out in (logits or self.private).items()
            ]
        ).sum()

    def distortion(self) -> Tensor:
        return (self.released - self.x).square().mean()


class Obfuscator(nn.Module):
    """x + a learned change: same space as the data, so that releases fit any pipeline."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(features, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, features),
        )

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.body(x)
        return result


class Classifiers(nn.Module):
    """One trunk, a head for each attribute."""

    def __init__(self, features: int, heads: Mapping[str, int], width: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.heads = nn.ModuleDict(
            {f"head_{name}": nn.Linear(width, count) for name, count in heads.items()}
        )

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        hidden = self.trunk(x)
        return {name.removeprefix("head_"): head(hidden) for name, head in self.heads.items()}


class AdversarialMethod(ABC):
    """Base of the seven methods. Nothing is proven about any of them."""

    name: ClassVar[str]
    objective_text: ClassVar[str]
    adversaries: ClassVar[int] = 1
    restart_every: ClassVar[int | None] = None

    def __init__(
        self,
        private: Sequence[str],
        useful: Sequence[str],
        *,
        weight: float = 1.0,
        settings: GameSettings | None = None,
    ) -> None:
        self.task = Task(private, useful)
        self.weight = weight
        self.settings = settings or GameSettings()
        self.classes: Classes = {}
        self._parts: _Parts | None = None

    @abstractmethod
    def objective(self, turn: Turn) -> Tensor:
        """What the obfuscator minimises."""

    def fit(self, records: Records) -> AdversarialMethod:
        """Play the game on these records."""
        table = read_table(records, self.task.names)
        require_two_classes(table, self.task.names)
        self.classes = table.classes
        with torch.random.fork_rng():
            torch.manual_seed(self.settings.seed)
            self._parts = self._build(table)
            self._play(table, self._parts)
        return self

    def obfuscate(self, x: Tensor, generator: np.random.Generator) -> Tensor:
        """The release; these methods draw nothing, so ``generator`` is not used."""
        parts = self._fitted()
        with torch.no_grad():
            released: Tensor = parts.obfuscator(parts.flat(x))
        return parts.unflat(released, x)

    def protector_guesses(self, x: Tensor) -> dict[str, Tensor]:
        """Class probabilities of the method's own adversary: the paper's NAG-Protector."""
        parts = self._fitted()
        with torch.no_grad():
            logits = parts.adversaries[0](parts.obfuscator(parts.flat(x)))
        return {name: torch.softmax(out, 1) for name, out in logits.items()}

    @property
    def guarantee(self) -> NoGuarantee:
        return NoGuarantee(
            mechanism=f"{self.name} (adversarial training)",
            reason=(
                "It was trained against one adversary; what another one learns is not bounded."
            ),
            not_covered=("the people in the training records: the network is not private",),
        )

    def _build(self, table: AttributeTable) -> _Parts:
        features = table.x[0].numel()
        width = self.settings.width
        private = {name: table.class_count(name) for name in self.task.private}
        useful = {name: table.class_count(name) for name in self.task.useful}
        mean = table.x.mean(0)
        return _Parts(
            obfuscator=Obfuscator(features, width),
            adversaries=[Classifiers(features, private, width) for _ in range(self.adversaries)],
            utility=Classifiers(features, useful, width),
            mean=mean,
            scale=(table.x - mean).square().mean().sqrt().clamp(min=1e-6),
        )

    def _play(self, table: AttributeTable, parts: _Parts) -> None:
        settings = self.settings
        priors = {
            name: torch.bincount(codes, minlength=table.class_count(name)) / len(table)
            for name, codes in table.labels.items()
        }
        protect = _optimizer([parts.obfuscator, parts.utility], settings)
        attack = _optimizer(parts.adversaries, settings)
        flat = parts.flat(table.x)
        for step in range(settings.steps):
            if self.restart_every and step and step % self.restart_every == 0:
                parts.adversaries = self._build(table).adversaries
                attack = _optimizer(parts.adversaries, settings)
            for _ in range(settings.adversary_steps):
                rows = torch.randint(len(flat), (min(settings.batch, len(flat)),))
                turn = self._turn(parts, flat[rows], table, rows, priors, learn_release=False)
                _descend(attack, self.adversary_loss(turn))
            rows = torch.randint(len(flat), (min(settings.batch, len(flat)),))
            turn = self._turn(parts, flat[rows], table, rows, priors, learn_release=True)
            _descend(protect, self.objective(turn))

    def adversary_loss(self, turn: Turn) -> Tensor:
        """What the adversary minimises: its cross entropy, summed over the ensemble."""
        return torch.stack([turn.private_loss(each) for each in turn.ensemble]).sum()

    def _turn(
        self,
        parts: _Parts,
        x: Tensor,
        table: AttributeTable,
        rows: Tensor,
        priors: Mapping[str, Tensor],
        *,
        learn_release: bool,
    ) -> Turn:
        released = parts.obfuscator(x)
        seen = released if learn_release else released.detach()
        ensemble = [adversary(seen) for adversary in parts.adversaries]
        return Turn(
            x=x,
            released=seen,
            private=ensemble[0],
            useful=parts.utility(seen),
            ensemble=ensemble,
            labels={name: codes[rows] for name, codes in table.labels.items()},
            priors=priors,
        )

    def _fitted(self) -> _Parts:
        if self._parts is None:
            raise AttributesError("Expected a fitted method, got an untrained one: call fit first.")
        return self._parts


@dataclass
class _Parts:
    obfuscator: nn.Module
    adversaries: list[Classifiers]
    utility: Classifiers
    mean: Tensor
    scale: Tensor

    def flat(self, x: Tensor) -> Tensor:
        return ((x - self.mean) / self.scale).flatten(1)

    def unflat(self, released: Tensor, like: Tensor) -> Tensor:
        return released.view(like.shape) * self.scale + self.mean


def _optimizer(modules: Sequence[nn.Module], settings: GameSettings) -> torch.optim.Optimizer:
    parameters = [parameter for module in modules for parameter in module.parameters()]
    return torch.optim.AdamW(
        parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay
    )


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
