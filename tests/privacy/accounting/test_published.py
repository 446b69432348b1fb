"""What the papers claim, and what is true of the mechanism they describe."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gammaln

from sfumato.privacy import (
    PUBLISHED,
    AccountingError,
    Guarantee,
    NoGuarantee,
    Relation,
    UnitKind,
    truths,
)
from sfumato.privacy.accounting._published import dprp_noise


def printed_theorem_one(
    noise_multiplier: float,
    delta: float,
    sampling_rate: float,
    steps: int,
    *,
    only_exponent: bool = False,
) -> float:
    """Theorem 1 of the first MaskDP paper exactly as printed, misprints and all.

    ``alpha^{q}`` stands where ``alpha q`` should, and the exponent lost its factor l. With
    ``only_exponent`` just the second slip is kept. Orders 2 to 399. Not an epsilon: it can be negative.
    """
    q, orders = sampling_rate, np.arange(2.0, 400.0)
    values = []
    for order in orders:
        count = np.arange(2.0, order + 1)
        rest = (
            gammaln(order + 1)
            - gammaln(count + 1)
            - gammaln(order - count + 1)
            + (order - count) * math.log1p(-q)
            + count * math.log(q)
            + np.where(count == 2, 2.0, count - 1) / (2 * noise_multiplier**2)
        )
        first = (order - 1) * math.log1p(-q)
        head = order * q - q + 1 if only_exponent else order**q - q + 1
        level = float(np.logaddexp.reduce(np.append(rest, first + math.log(head))))
        values.append(steps * level / (order - 1))
    with np.errstate(over="ignore"):
        converted = (
            np.array(values)
            + np.log1p(-1 / orders)
            - (math.log(delta) + np.log(orders)) / (orders - 1)
        )
    return float(converted.min())


@pytest.mark.parametrize(
    ("sigma", "only_exponent", "expected"),
    [(6.063, False, -7.41), (0.977, False, 64.5), (6.063, True, 0.477), (0.977, True, 4.865)],
)
def test_theorem_one_as_printed_is_impossible_or_wrong(sigma, only_exponent, expected):
    """F4: a negative epsilon cannot be."""
    found = printed_theorem_one(sigma, 1e-6, 0.0032, 46_875, only_exponent=only_exponent)
    assert found == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize(("epsilon", "expected"), [(2, 13.85), (5, 6.148), (8, 4.189)])
def test_noise_of_the_projection_paper(epsilon, expected):
    assert dprp_noise(epsilon, 1e-4) == pytest.approx(expected, rel=5e-4)


def test_maskdp_at_its_headline():
    setting = PUBLISHED["maskdp-ntu"]
    found = {(truth.what, truth.relation): truth for truth in setting.describe(setting, 0.5)}
    published = [truth for (what, _), truth in found.items() if what.startswith("as published")]
    assert [round(truth.epsilon, 1) for truth in published] == [11.4, 27.8]
    assert all(isinstance(truth.promise, Guarantee) for truth in published)
    assert {truth.unit.kind for truth in published} == {UnitKind.MASKED_TOKENS}
    assert Relation.ADD_REMOVE not in {truth.relation for truth in found.values()}
    (realised,) = [truth for truth in found.values() if truth.at_least is not None]
    assert realised.at_least == pytest.approx(0.995, rel=5e-3)
    assert realised.promise is None
    (person,) = [truth for truth in found.values() if truth.unit.kind is UnitKind.PERSON]
    assert person.epsilon == pytest.approx(27_622, rel=5e-3)


def test_projection_paper_at_the_unit_it_states():
    frame = {
        claimed: truth.at_least
        for _, claimed, truth in truths("video-dprp")
        if truth.unit.kind is UnitKind.FRAME
    }
    assert frame == pytest.approx({2.0: 3.9e7, 5.0: 2.0e8, 8.0: 4.3e8}, rel=0.015)


def test_pass_has_no_guarantee():
    ((_, _, truth),) = list(truths("pass"))
    assert isinstance(truth.promise, NoGuarantee)


def test_unknown_settings_are_named():
    with pytest.raises(AccountingError, match="maskdp-ntu"):
        list(truths("imagenet"))
