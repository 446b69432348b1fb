"""GAP: generative adversarial privacy (Huang et al. 2018)."""

from __future__ import annotations

from torch import Tensor

from sfumato.attributes.baselines._game import AdversarialMethod, Turn


class GAP(AdversarialMethod):
    """Maximise the adversary's loss within a budget of distortion; no useful attribute is used.

    minimise -CE(S | x') + penalty * max(0, E|x' - x|^2 - weight): ``weight`` is the distortion
    allowed, in units of the data's variance.
    """

    name = "gap"
    objective_text = "-CE(S) subject to |x' - x|^2 <= w"
    penalty = 10.0

    def objective(self, turn: Turn) -> Tensor:
        beyond = (turn.distortion() - self.weight).clamp(min=0)
        return -turn.private_loss() + self.penalty * beyond
