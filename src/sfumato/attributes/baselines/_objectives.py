"""The seven adversarial methods that PASS is compared with: one objective each, on one training loop."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from sfumato.attributes._tasks import AttributeTable
from sfumato.attributes.baselines._game import AdversarialMethod, Classifiers, Turn, _Parts


def _entropy(logits: Tensor) -> Tensor:
    """Mean entropy of the guesses."""
    p = torch.softmax(logits, 1)
    return -(p * p.clamp(min=1e-9).log()).sum(1).mean()


class ADV(AdversarialMethod):
    """ADV / ALR, adversarially learned representations (Bertran et al. 2019): answer with the prior.

    The adversary's estimate of I(X'; S) goes to zero when all its answers equal the prior.
    """

    name = "adv"
    objective_text = "CE(U) + w KL(P(S|x') || P(S))"

    def objective(self, turn: Turn) -> Tensor:
        divergences = []
        for name, logits in turn.private.items():
            log_p = torch.log_softmax(logits, 1)
            prior = turn.priors[name].clamp(min=1e-9).log().expand_as(log_p)
            divergences.append(
                functional.kl_div(prior, log_p, log_target=True, reduction="batchmean")
            )
        return turn.useful_loss() + self.weight * torch.stack(divergences).sum()


class GAP(AdversarialMethod):
    """Generative adversarial privacy (Huang et al. 2018); no useful attribute is used.

    ``weight`` is the distortion allowed, in units of the data's variance; more costs ``penalty``.
    """

    name = "gap"
    objective_text = "-CE(S) subject to |x' - x|^2 <= w"
    penalty = 10.0

    def objective(self, turn: Turn) -> Tensor:
        beyond = (turn.distortion() - self.weight).clamp(min=0)
        return -turn.private_loss() + self.penalty * beyond


class MSDA(AdversarialMethod):
    """Mobile sensor data anonymization (Malekzadeh et al. 2019): wrong *and* uncertain guesses.

    s is the true class of S; d is ``distance``.
    """

    name = "msda"
    objective_text = "w [-log(1 - P(s)) - H(P(S))/log|S|] + CE(U) + d |x' - x|^2"
    distance = 0.1

    def objective(self, turn: Turn) -> Tensor:
        terms = []
        for name, logits in turn.private.items():
            p = torch.softmax(logits, 1)
            true = p.gather(1, turn.labels[name][:, None]).clamp(max=1 - 1e-6)
            scale = torch.log(torch.tensor(float(logits.shape[1])))
            terms.append(-torch.log1p(-true).mean() - _entropy(logits) / scale)
        private = torch.stack(terms).sum()
        return self.weight * private + turn.useful_loss() + self.distance * turn.distortion()


class BDQ(AdversarialMethod):
    """The objective of motion difference quantisation (Kumawat and Nagahara 2022).

    The paper's blur-difference-quantise front end is for video; on other tensors the shared
    obfuscator takes its place.
    """

    name = "bdq"
    objective_text = "CE(U) - w H(P(S|x'))"

    def objective(self, turn: Turn) -> Tensor:
        entropies = [_entropy(logits) for logits in turn.private.values()]
        return turn.useful_loss() - self.weight * torch.stack(entropies).sum()


class PPDAR(AdversarialMethod):
    """Privacy-preserving deep action recognition (Wu et al. 2020; Video-DPRP calls it ALF).

    The strongest of several adversaries, which restart from time to time, is made wrong. Its loss is
    capped at that of an adversary that answers uniformly: beyond it a wrong answer is as telling as
    a right one.
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


class MaSS(AdversarialMethod):
    """Multi-attribute selective suppression (Chen et al. 2024).

    I_phi = H(S) - CE(S | x') as the adversary sees it, m is ``limit``, g is ``general``.
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


class SPAct(AdversarialMethod):
    """Self-supervised privacy preservation (Dave et al. 2022); needs no private labels.

    The adversary is a feature extractor that minimises the NT-Xent loss between two masked views
    of x'. A classifier of the private attributes is trained beside it only to be reported as the
    protector's own guess.
    """

    name = "spact"
    objective_text = "CE(U) - w NT-Xent(view 1, view 2)"
    temperature = 0.1
    masked = 0.3
    dimension = 64

    def _build(self, table: AttributeTable) -> _Parts:
        parts = super()._build(table)
        heads = {name: table.class_count(name) for name in self.task.private}
        parts.adversaries = [
            Classifiers(table.x[0].numel(), {**heads, "view": self.dimension}, self.settings.width)
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
        network = self._fitted().adversaries[0]
        views = [
            functional.normalize(
                network(released * (torch.rand_like(released) > self.masked))["view"]
            )
            for _ in range(2)
        ]
        both = torch.cat(views)
        similar = both @ both.T / self.temperature
        similar = similar.masked_fill(torch.eye(len(both), dtype=torch.bool), -1e9)
        partner = torch.arange(len(both)).roll(len(released))
        return functional.cross_entropy(similar, partner)
