"""MaSS: multi-attribute selective suppression (Chen et al. 2024)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from sfumato.attributes.baselines._game import AdversarialMethod, Turn


class MaSS(AdversarialMethod):
    """Private information below a limit, useful information above one, the rest by contrast.

    minimise weight * sum_S max(0, I_phi(X'; S) - limit) + CE(U | x') + general * InfoNCE(x, x'),
    with I_phi = H(S) - CE(S | x') as the adversary sees it, and limit 0.
    """

    name = "mass"
    objective_text = "w max(0, I_phi(X';S) - m) + CE(U) + g InfoNCE(x, x')"
    limit = 0.0
    general = 0.2
    temperature = 0.1

    def objective(self, turn: Turn) -> Tensor:
        excess = []
        for name, logits in turn.private.items():
            prior = turn.priors[name]
            entropy = -(prior * prior.clamp(min=1e-9).log()).sum()
            information = entropy - functional.cross_entropy(logits, turn.labels[name])
            excess.append((information - self.limit).clamp(min=0))
        a, b = functional.normalize(turn.x, dim=1), functional.normalize(turn.released, dim=1)
        contrast = functional.cross_entropy(a @ b.T / self.temperature, torch.arange(len(a)))
        private = torch.stack(excess).sum()
        return self.weight * private + turn.useful_loss() + self.general * contrast
