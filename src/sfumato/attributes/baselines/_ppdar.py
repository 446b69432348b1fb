"""PPDAR: privacy-preserving deep action recognition (Wu et al. 2020; Video-DPRP calls it ALF)."""

from __future__ import annotations

import torch
from torch import Tensor

from sfumato.attributes.baselines._game import AdversarialMethod, Turn


class PPDAR(AdversarialMethod):
    """Make the strongest of several adversaries wrong; adversaries restart from time to time.

    minimise CE(U | x') - weight * min over the ensemble of CE(S | x'), capped at the loss of an
    adversary that answers uniformly: beyond it a wrong answer is as telling as a right one.
    """

    name = "ppdar"
    objective_text = "CE(U) - w min_m CE_m(S), restarts"
    adversaries = 3
    restart_every = 200

    def objective(self, turn: Turn) -> Tensor:
        losses = torch.stack([turn.private_loss(each) for each in turn.ensemble])
        uniform = sum(
            float(torch.log(torch.tensor(float(out.shape[1])))) for out in turn.private.values()
        )
        return turn.useful_loss() - self.weight * losses.min().clamp(max=uniform)


ALF = PPDAR
