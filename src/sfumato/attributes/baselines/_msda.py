"""MSDA: mobile sensor data anonymization (Malekzadeh et al. 2019)."""

from __future__ import annotations

import torch
from torch import Tensor

from sfumato.attributes.baselines._game import AdversarialMethod, Turn


class MSDA(AdversarialMethod):
    """Wrong *and* uncertain private guesses, right useful ones, little distortion.

    minimise weight * sum_S [ -log(1 - P(s | x')) - H(P(S | x')) / log|S| ] + CE(U | x')
    + distance * |x' - x|^2, s the true class.
    """

    name = "msda"
    objective_text = "w [-log(1 - P(s)) - H(P(S))/log|S|] + CE(U) + d |x' - x|^2"
    distance = 0.1

    def objective(self, turn: Turn) -> Tensor:
        terms = []
        for name, logits in turn.private.items():
            p = torch.softmax(logits, 1)
            true = p.gather(1, turn.labels[name][:, None]).clamp(max=1 - 1e-6)
            entropy = -(p * p.clamp(min=1e-9).log()).sum(1).mean()
            scale = torch.log(torch.tensor(float(logits.shape[1])))
            terms.append(-torch.log1p(-true).mean() - entropy / scale)
        private = torch.stack(terms).sum()
        return self.weight * private + turn.useful_loss() + self.distance * turn.distortion()
