"""Every value of the accounting table of the soundness notes, typed in here as data."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.privacy import Relation, account_dpsgd, dpsgd_event
from sfumato.privacy.accounting._rdp import GOOGLE_ORDERS, best_epsilon, epsilon_by_rdp
from sfumato.privacy.accounting._terms import terms_of

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE
OPACUS_ORDERS = np.array([1 + x / 10 for x in range(1, 100)] + [float(x) for x in range(12, 64)])

# records, batch, epochs, steps, delta, then per target:
# (epsilon, sigma by RDP with Google's orders, sigma PLD add-remove, sigma PLD replace,
#  PLD epsilon at the RDP sigma under add-remove, and under replace)
TABLE = {
    "NTU": (40_000, 128, 150, 46_875, 1e-6, [
        (0.1, 28.728, 25.226, 50.420, 0.087, 0.182),
        (0.25, 11.755, 10.713, 21.361, 0.226, 0.473),
        (0.5, 6.063, 5.637, 11.168, 0.462, 0.963),
        (0.75, 4.179, 3.898, 7.651, 0.694, 1.440),
        (1, 3.227, 3.022, 5.860, 0.928, 1.909),
        (5, 0.977, 0.942, 1.387, 4.663, 8.068),
    ]),
    "MPII": (22_246, 64, 25, 8_690, 4e-5, [
        (0.2, 4.411, 3.978, 7.801, 0.178, 0.376),
        (0.4, 2.426, 2.216, 4.176, 0.358, 0.732),
        (0.6, 1.753, 1.618, 2.898, 0.539, 1.058),
        (0.8, 1.420, 1.321, 2.242, 0.720, 1.357),
    ]),
    "MPII-40k": (40_000, 64, 25, 15_625, 4e-5, [
        (0.2, 3.322, 3.004, 5.818, 0.178, 0.372),
        (0.4, 1.866, 1.714, 3.115, 0.358, 0.711),
        (0.6, 1.381, 1.284, 2.168, 0.538, 1.011),
        (0.8, 1.154, 1.074, 1.683, 0.709, 1.268),
    ]),
    "UCF-150": (9_537, 128, 150, 11_177, 1e-5, [
        (0.25, 20.700, 18.881, 37.708, 0.226, 0.480),
        (0.5, 10.921, 10.022, 19.959, 0.455, 0.966),
        (1, 5.802, 5.357, 10.590, 0.914, 1.944),
        (2, 3.147, 2.931, 5.659, 1.838, 3.885),
        (5, 1.530, 1.450, 2.534, 4.618, 9.236),
        (10, 1.005, 0.967, 1.440, 9.255, 16.714),
    ]),
    "UCF-300": (9_537, 128, 300, 22_353, 1e-5, [
        (0.25, 29.253, 26.688, 53.343, 0.226, 0.481),
        (0.5, 15.415, 14.143, 28.224, 0.455, 0.969),
        (0.75, 10.617, 9.770, 19.467, 0.684, 1.460),
        (1, 8.162, 7.534, 14.981, 0.915, 1.956),
        (5, 2.045, 1.928, 3.580, 4.625, 9.803),
    ]),
    "UCF-B8": (9_537, 8, 50, 59_607, 1e-4, [
        (2, 0.733, 0.691, 0.834, 1.683, 2.599),
        (5, 0.565, 0.542, 0.582, 4.179, 5.555),
        (8, 0.506, 0.488, 0.515, 6.775, 8.592),
    ]),
    "TSH": (10_000, 128, 150, 11_719, 1e-5, [
        (0.1, 47.121, 42.645, 85.272, 0.090, 0.191),
        (0.25, 20.215, 18.444, 36.821, 0.226, 0.480),
        (0.5, 10.666, 9.786, 19.490, 0.455, 0.966),
        (0.75, 7.358, 6.774, 13.443, 0.684, 1.454),
        (1, 5.668, 5.233, 10.341, 0.915, 1.944),
        (5, 1.501, 1.423, 2.475, 4.618, 9.197),
    ]),
    "HMDB": (3_570, 128, 150, 4_184, 1e-5, [
        (0.5, 17.826, 16.354, 32.623, 0.455, 0.968),
        (1, 9.439, 8.708, 17.309, 0.914, 1.955),
        (2, 5.062, 4.702, 9.249, 1.838, 3.954),
        (3, 3.561, 3.324, 6.448, 2.764, 5.956),
        (5, 2.342, 2.203, 4.134, 4.620, 9.870),
        (10, 1.422, 1.356, 2.317, 9.271, 18.777),
    ]),
}  # fmt: skip
ROWS = [
    pytest.param(batch / records, steps, delta, *row, id=f"{name}-{row[0]:g}")
    for name, (records, batch, _, steps, delta, rows) in TABLE.items()
    for row in rows
]
HALF_DIGIT = 0.0005


def tolerance(printed: float) -> float:
    return max(0.005 * printed, HALF_DIGIT)


def test_the_table_is_complete_and_its_steps_are_whole_epochs_rounded_up():
    assert len(ROWS) == 40
    for records, batch, epochs, steps, _, _ in TABLE.values():
        assert steps == math.ceil(epochs * records / batch)


@pytest.mark.parametrize(
    ("q", "steps", "delta", "target", "rdp", "add", "replace", "at", "at_replace"), ROWS
)
def test_multipliers_and_epsilons(q, steps, delta, target, rdp, add, replace, at, at_replace):
    for printed, relation in ((add, ADD), (replace, REPLACE)):
        # the printed multiplier is right when the target lies between its two neighbours
        off = tolerance(printed)
        assert account_dpsgd(printed + off, delta, q, steps, relation) <= target
        assert account_dpsgd(printed - off, delta, q, steps, relation) >= target
    assert account_dpsgd(rdp, delta, q, steps, ADD) == pytest.approx(at, abs=tolerance(at))
    assert account_dpsgd(rdp, delta, q, steps, REPLACE) == pytest.approx(
        at_replace, abs=tolerance(at_replace)
    )


@pytest.mark.parametrize(
    ("q", "steps", "delta", "target", "rdp", "add", "replace", "at", "at_replace"), ROWS
)
def test_renyi_multipliers(q, steps, delta, target, rdp, add, replace, at, at_replace):
    def epsilon(sigma):
        return epsilon_by_rdp(terms_of(dpsgd_event(sigma, q, steps), ADD), delta, GOOGLE_ORDERS)

    off = tolerance(rdp)
    assert epsilon(rdp + off) <= target <= epsilon(rdp - off)


@pytest.mark.parametrize(("delta", "floor"), [(1e-6, 0.140), (1e-5, 0.103)])
def test_orders_up_to_63_cannot_reach_a_tenth(delta, floor):
    """F7: even a divergence of zero leaves this much, which is why orders go to 1024 here."""
    found = best_epsilon(np.zeros(OPACUS_ORDERS.size), OPACUS_ORDERS, delta)
    assert found == pytest.approx(floor, abs=0.0005)


def test_dense_orders_need_less_noise_than_a_coarse_grid_of_orders():
    """All integers to 399 ask for 27.36 on NTU at 0.1, the coarse grid for 28.73."""
    terms = terms_of(dpsgd_event(27.36, 0.0032, 46_875), ADD)
    assert epsilon_by_rdp(terms, 1e-6) == pytest.approx(0.1, rel=5e-3)
    assert epsilon_by_rdp(terms, 1e-6, GOOGLE_ORDERS) > 0.103
