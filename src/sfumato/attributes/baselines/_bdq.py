"""BDQ: the objective of motion difference quantisation (Kumawat and Nagahara 2022)."""

from __future__ import annotations

import torch
from torch import Tensor

from sfumato.attributes.baselines._game import AdversarialMethod, Turn


class BDQ(AdversarialMethod):
    """Keep the useful prediction and maximise the entropy of the private one.

    minimise CE(U | x') - weight * sum_S H(P_phi(S | x')). The paper's blur-difference-quantise
    front end is for video; on other tensors the shared obfuscator takes its place.
    """

    name = "bdq"
    objective_text = "CE(U) - w H(P(S|x'))"

    def objective(self, turn: Turn) -> Tensor:
        entropies = []
        for logits in turn.private.values():
            p = torch.softmax(logits, 1)
            entropies.append(-(p * p.clamp(min=1e-9).log()).sum(1).mean())
        return turn.useful_loss() - self.weight * torch.stack(entropies).sum()
