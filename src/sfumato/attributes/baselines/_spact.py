"""SPAct: self-supervised privacy preservation (Dave et al. 2022); needs no private labels."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from sfumato.attributes._tasks import AttributeTable
from sfumato.attributes.baselines._game import AdversarialMethod, Classifiers, Turn, _Parts


class SPAct(AdversarialMethod):
    """Two views of one sample should not be recognisable as such after obfuscation.

    The adversary is a feature extractor that minimises the NT-Xent loss between two masked views
    of x'; the obfuscator minimises CE(U | x') - weight * NT-Xent. A classifier of the private
    attributes is trained beside it only to be reported as the protector's own guess.
    """

    name = "spact"
    objective_text = "CE(U) - w NT-Xent(view 1, view 2)"
    temperature = 0.1
    masked = 0.3
    dimension = 64

    def _build(self, table: AttributeTable) -> _Parts:
        parts = super()._build(table)
        features = table.x[0].numel()
        heads = {name: table.class_count(name) for name in self.task.private}
        parts.adversaries = [
            Classifiers(features, {**heads, "view": self.dimension}, self.settings.width)
        ]
        return parts

    def objective(self, turn: Turn) -> Tensor:
        return turn.useful_loss() - self.weight * self._contrast(turn.released)

    def adversary_loss(self, turn: Turn) -> Tensor:
        guesses: Mapping[str, Tensor] = {name: turn.private[name] for name in self.task.private}
        return self._contrast(turn.released) + turn.private_loss(guesses)

    def protector_guesses(self, x: Tensor) -> dict[str, Tensor]:
        guesses = super().protector_guesses(x)
        return {name: guesses[name] for name in self.task.private}

    def _contrast(self, released: Tensor) -> Tensor:
        views = [
            functional.normalize(self._view(released * (torch.rand_like(released) > self.masked)))
            for _ in range(2)
        ]
        both = torch.cat(views)
        similar = both @ both.T / self.temperature
        similar = similar.masked_fill(torch.eye(len(both), dtype=torch.bool), -1e9)
        partner = torch.arange(len(both)).roll(len(released))
        return functional.cross_entropy(similar, partner)

    def _view(self, masked: Tensor) -> Tensor:
        result: Tensor = self._fitted().adversaries[0](masked)["view"]
        return result
