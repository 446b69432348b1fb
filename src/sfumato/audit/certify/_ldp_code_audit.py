"""The code of PASS-LDP on the worst of donors: its table enumerated, its draws made and compared."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from sfumato.attributes import DonorSet, PassLDP
from sfumato.audit.certify._conformance import Finding
from sfumato.audit.certify._conformance_release import check_table
from sfumato.audit.certify._release_code import check_draws
from sfumato.audit.certify._worst_case_simulation import Array
from sfumato.data import ArrayRecords
from sfumato.privacy import Randomness

_DIMENSION, _DONORS = 16, 8


def audit_ldp_code(
    epsilon: float, draws: int, *, trials: int = 20_000, randomness: Randomness | None = None
) -> tuple[list[Finding], tuple[Array, Array]]:
    """Findings about one draw, and scores of ``draws`` draws about a sample and its opposite.

    All donors but one sit together opposite to it, and the samples lie on and opposite to that one:
    there the proof's bound is nearly attained. Records go through ``protect``, as in a release.
    """
    source = randomness or Randomness()
    one = nn.functional.normalize(torch.ones(1, _DIMENSION), dim=1)
    placed = torch.cat([one, -one.repeat(_DONORS - 1, 1)])
    donors = DonorSet(
        ArrayRecords(placed.numpy(), np.zeros(_DONORS), attributes={"kept": np.zeros(_DONORS)}),
        declared="synthetic",
    )
    method = PassLDP(
        private=["hidden"], useful=["kept"], donors=donors, epsilon=epsilon,
        draws_per_person=1, encoder=nn.Identity(), remember="never", randomness=source,
    )  # fmt: skip
    method._adopt(nn.Identity(), placed, {})
    random = torch.from_numpy(source.generator().standard_normal((64, _DIMENSION))).float()
    hardest = torch.cat([random, 10 * random, placed, -placed, torch.zeros(1, _DIMENSION)])
    findings = [check_table(method._rows(hardest).numpy(), epsilon)]
    rows = method._rows(torch.cat([one, -one])).numpy()
    ratio = np.log(rows[0]) - np.log(rows[1])
    counts, scores = [], []
    for side in (one, -one):
        samples = ArrayRecords(side.repeat(trials * draws, 1).numpy(), np.zeros(trials * draws))
        chosen = method.protect(samples)
        counts.append(np.bincount(chosen, minlength=_DONORS))
        scores.append(ratio[chosen].reshape(trials, draws).sum(1))
    findings.append(check_draws(np.stack(counts), rows))
    return findings, (scores[0], scores[1])
