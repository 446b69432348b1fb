"""The lemmas of the soundness notes, against direct integration and against their tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from sfumato.privacy import (
    Bounds,
    Composed,
    Gaussian,
    Group,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
    Relation,
    SelfComposed,
    SharedBatch,
    account_dpsgd,
    calibrate_gaussian,
    delta_of,
    dpsgd_event,
    epsilon_of,
)
from sfumato.privacy.accounting._gaussian import delta_of_gaussian
from sfumato.privacy.accounting._rdp import theorem_one

NTU = (0.0032, 46_875)
UCF = (128 / 9537, 22_353)
MPII = (64 / 22_246, 8_690)


def one_step(p, q, epsilon, x):
    """delta by summing max(P - e^eps Q, 0) over a dense grid."""
    return np.maximum(p - math.exp(epsilon) * q, 0).sum() * (x[1] - x[0])


def two_steps(p, q, epsilon, x):
    gap = np.outer(p, p) - math.exp(epsilon) * np.outer(q, q)
    return np.maximum(gap, 0).sum() * (x[1] - x[0]) ** 2


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE])
@pytest.mark.parametrize(("rate", "sigma"), [(0.1, 1.0), (0.3, 2.5)])
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_sampled_pairs_agree_with_integration(size, relation, rate, sigma, epsilon):
    weights = binom.pmf(np.arange(size + 1), size, rate)
    step = PoissonSampled(rate, Gaussian(sigma))
    for times, points, integrate in ((1, 100_001, one_step), (2, 1201, two_steps)):
        x = np.linspace(-12 * sigma - size, 12 * sigma + size, points)
        up = sum(w * norm.pdf(x, k, sigma) for k, w in enumerate(weights))
        down = sum(w * norm.pdf(x, -k, sigma) for k, w in enumerate(weights))
        base = norm.pdf(x, 0, sigma)
        orders = [(up, down)] if relation is Relation.REPLACE else [(up, base), (base, up)]
        truth = max(integrate(p, q, epsilon, x) for p, q in orders)
        found = delta_of(Group(SelfComposed(step, times), size), epsilon, relation)
        # the sum over a square has an error of the order of its step squared along the kink
        close = 1e-6 if times == 1 else 2e-5
        assert truth - close <= found <= truth + close, times


def test_no_pair_of_contributions_beats_the_antipodal_one():
    """Lemma A and its group form: random bounded contributions stay below the dominating pair."""
    rng = np.random.default_rng(0)
    x = np.linspace(-14, 14, 4001)
    for rate, sigma, epsilon in ((0.2, 0.9, 0.3), (0.5, 1.4, 1.0)):
        bound = delta_of(Group(PoissonSampled(rate, Gaussian(sigma)), 2), epsilon, "replace")
        for _ in range(30):
            a, b = rng.uniform(-1, 1, (2, 2))
            both = [
                (1 - rate) ** 2 * norm.pdf(x, 0, sigma)
                + rate * (1 - rate) * (norm.pdf(x, g[0], sigma) + norm.pdf(x, g[1], sigma))
                + rate**2 * norm.pdf(x, g[0] + g[1], sigma)
                for g in (a, b)
            ]
            assert one_step(*both, epsilon, x) <= bound + 1e-7


@pytest.mark.parametrize(
    ("schedule", "delta", "sigma", "blank", "exchanged"),
    [
        (NTU, 1e-6, 28.73, 1.92, 4.16),
        (NTU, 1e-6, 11.75, 5.23, 11.88),
        (NTU, 1e-6, 6.063, 11.43, 27.76),
        (NTU, 1e-6, 4.179, 18.21, 46.57),
        (NTU, 1e-6, 3.227, 25.53, 68.06),
        (NTU, 1e-6, 0.977, 149.8, 498.7),
        (UCF, 1e-5, 15.41, 5.06, 11.69),
        (UCF, 1e-5, 8.162, 10.88, 26.90),
        (UCF, 1e-5, 2.045, 73.4, 226.6),
        ((0.0128, 11_719), 1e-5, 10.67, 5.23, 12.15),
        ((0.01, 2_000), 1e-5, 3.543, 6.40, 15.47),
        (MPII, 4e-5, 4.411, 5.06, 12.15),
        (MPII, 4e-5, 1.420, 22.2, 63.6),
    ],
)
def test_shared_batches(schedule, delta, sigma, blank, exchanged):
    """F1, the attack's setting and G2."""
    q, steps = schedule
    event = SharedBatch(q, Gaussian(sigma), steps)
    assert epsilon_of(event, delta, "zero-out") == pytest.approx(blank, rel=5e-3)
    assert epsilon_of(event, delta, "replace") == pytest.approx(exchanged, rel=5e-3)
    assert epsilon_of(event, delta, "replace", "rdp") >= epsilon_of(event, delta, "replace")


def test_shared_batch_by_grid_equals_its_closed_form():
    """Composed with a purely private event of almost no loss, only the grid can answer."""
    event = SharedBatch(0.01, Gaussian(3.543), 2000)
    beside = Composed((event, Laplace(1e6)))
    assert epsilon_of(beside, 1e-5, "zero-out") == pytest.approx(
        epsilon_of(event, 1e-5, "zero-out"), rel=2e-4
    )
    assert epsilon_of(beside, 1e-5, "zero-out") >= epsilon_of(event, 1e-5, "zero-out")


@pytest.mark.parametrize(("sigma", "blank", "exchanged"), [(99.9, 0.5, None), (199.8, None, 0.5)])
def test_what_a_sound_shared_batch_costs(sigma, blank, exchanged):
    event = SharedBatch(NTU[0], Gaussian(sigma), NTU[1])
    if blank:
        assert epsilon_of(event, 1e-6, "zero-out") == pytest.approx(blank, rel=5e-3)
    if exchanged:
        assert epsilon_of(event, 1e-6, "replace") == pytest.approx(exchanged, rel=5e-3)


@pytest.mark.parametrize(
    ("sigma", "add", "replace", "realised"),
    [(6.063, 0.462, 0.963, 0.995), (3.227, 0.927, 1.909, 2.142), (0.977, 4.66, 8.06, 37.0)],
)
def test_realised_batch_size(sigma, add, replace, realised):
    """F3: the attained pair of Lemma C is the one-sided pair at twice the sensitivity."""
    q, steps = NTU
    assert account_dpsgd(sigma, 1e-6, q, steps, "add-remove") == pytest.approx(add, rel=5e-3)
    assert account_dpsgd(sigma, 1e-6, q, steps, "replace") == pytest.approx(replace, rel=5e-3)
    found = account_dpsgd(sigma / 2, 1e-6, q, steps, "add-remove")
    assert found == pytest.approx(realised, rel=5e-3)


@pytest.mark.parametrize(
    ("schedule", "delta", "sigma", "expected"),
    [
        (
            NTU,
            1e-6,
            6.063,
            {
                1: 0.463,
                2: 0.972,
                3: 1.51,
                5: 2.64,
                7: 3.83,
                20: 13.1,
                100: 120,
                1000: 7185,
                2000: 27622,
            },
        ),
        (
            NTU,
            1e-6,
            3.227,
            {
                1: 0.928,
                2: 1.97,
                3: 3.07,
                5: 5.47,
                7: 8.08,
                20: 30.0,
                100: 347,
                1000: 25181,
                2000: 98047,
            },
        ),
        (
            UCF,
            1e-5,
            8.162,
            {
                1: 0.915,
                2: 1.97,
                3: 3.11,
                5: 5.60,
                7: 8.37,
                20: 32.6,
                100: 410,
                1000: 31572,
                2000: 124081,
            },
        ),
        (MPII, 4e-5, 1.420, {2: 1.56, 3: 2.48}),
    ],
)
def test_persons(schedule, delta, sigma, expected):
    """F12 and G9: all m records of one person at once."""
    event = dpsgd_event(sigma, *schedule)
    for size, printed in expected.items():
        found = epsilon_of(Group(event, size), delta, "add-remove")
        assert found == pytest.approx(printed, rel=5e-3), size


@pytest.mark.parametrize(
    ("noise", "moved", "expected"),
    [
        (13.85, 255, 237),
        (6.148, 255, 1013),
        (4.189, 255, 2078),
        (13.85, 1767, 8612),
        (6.148, 1767, 4.2e4),
        (4.189, 1767, 9.1e4),
        (13.85, 122_400, 3.9e7),
        (6.148, 122_400, 2.0e8),
        (4.189, 122_400, 4.3e8),
        (13.85, 122_400 * math.sqrt(180), 7.0e9),
        (6.148, 122_400 * math.sqrt(180), 3.6e10),
        (4.189, 122_400 * math.sqrt(180), 7.7e10),
    ],
)
def test_true_epsilon_of_the_published_projection(noise, moved, expected):
    """J3; the table prints two digits for the large ones."""
    event = Gaussian(noise / moved, Bounds.DIFFERENCE)
    found = epsilon_of(event, 1e-4, "replace", "analytic-gaussian")
    half_digit = 0.5 * 10 ** (math.floor(math.log10(expected)) - 1) if expected > 9000 else 0.5
    assert abs(found - expected) <= max(0.005 * expected, half_digit)


@pytest.mark.parametrize(("epsilon", "expected"), [(2, 1.734), (5, 0.796), (8, 0.543)])
def test_analytic_gaussian_calibration(epsilon, expected):
    assert calibrate_gaussian(epsilon, 1e-4) == pytest.approx(expected, abs=0.0005)


@pytest.mark.parametrize(("epsilon", "frames", "videos", "expected"), [
    (2, 180, 1, 57.9), (2, 180, 5, 213), (8, 180, 1, 396), (8, 180, 5, 1730),
])  # fmt: skip
def test_frames_of_one_person_add_up(epsilon, frames, videos, expected):
    """J9: sound noise at frame level, seen by someone in every frame of several videos."""
    one = Gaussian(calibrate_gaussian(epsilon, 1e-4), Bounds.DIFFERENCE)
    found = epsilon_of(SelfComposed(one, frames * videos), 1e-4, "replace")
    assert found == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("mu", [0.01, 0.3, 2.0, 12.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.5, 20.0])
def test_gaussian_curve_against_integration(mu, epsilon):
    x = np.linspace(-14, 14 + mu, 400_001)
    with np.errstate(under="ignore"):
        gap = np.maximum(norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x), 0)
    truth = gap.sum() * (x[1] - x[0])
    assert delta_of_gaussian(epsilon, mu) == pytest.approx(truth, rel=1e-5, abs=1e-12)


def test_theorem_one_against_integration():
    """F4: the corrected Theorem 1 is the Renyi divergence of (mixture, base), order by order."""
    q, sigma = 0.1, 1.3
    x = np.linspace(-80, 80, 400_001)
    base = norm.logpdf(x, 0, sigma)
    mixed = np.logaddexp(math.log(1 - q) + base, math.log(q) + norm.logpdf(x, 1, sigma))
    for order in (2, 3, 5, 17):
        level = order * mixed + (1 - order) * base
        truth = math.log(np.exp(level).sum() * (x[1] - x[0])) / (order - 1)
        assert theorem_one(q, sigma, order) == pytest.approx(truth, rel=1e-9)


def test_pure_events():
    assert epsilon_of(Laplace(0.5), 0.0, "add-remove") == 2.0
    assert epsilon_of(Laplace(0.5), 0.0, "replace") == 4.0
    response = RandomizedResponse(0.25, 4)
    assert epsilon_of(response, 0.0, "replace") == pytest.approx(math.log(13))
    # Lap(0, 1/e) against Lap(1, 1/e): delta = 1 - exp((eps - e)/2), here at half of e = 2
    assert delta_of(Laplace(0.5), 1.0, "add-remove") == pytest.approx(1 - math.exp(-0.5), abs=1e-4)
    # one outcome keeps its value: delta = p - e^eps p'
    for scale in (0.37, 1.234, 7.77):
        truth = 1 - math.exp((0.1 - 1 / scale) / 2)
        assert truth - 1e-12 <= delta_of(Laplace(scale), 0.1, "add-remove") <= truth + 1e-8
    keep, other = 0.75 + 0.25 / 4, 0.25 / 4
    expected = keep - math.exp(1.0) * other
    assert delta_of(response, 1.0, "replace") == pytest.approx(expected, abs=1e-4)
