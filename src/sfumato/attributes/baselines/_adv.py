"""ADV / ALR: adversarially learned representations (Bertran et al. 2019)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from sfumato.attributes.baselines._game import AdversarialMethod, Turn


class ADV(AdversarialMethod):
    """Keep the useful prediction, and make the adversary answer with the prior.

    minimise CE(U | x') + weight * sum_S KL(P_phi(S | x') || P(S)): the adversary's estimate of
    I(X'; S) goes to zero when all its answers equal the prior.
    """

    name = "adv"
    objective_text = "CE(U) + w KL(P(S|x') || P(S))"

    def objective(self, turn: Turn) -> Tensor:
        divergences = []
        for name, logits in turn.private.items():
            log_p = torch.log_softmax(logits, 1)
            log_prior = turn.priors[name].clamp(min=1e-9).log()
            divergences.append(
                functional.kl_div(
                    log_prior.expand_as(log_p), log_p, log_target=True, reduction="batchmean"
                )
            )
        return turn.useful_loss() + self.weight * torch.stack(divergences).sum()
