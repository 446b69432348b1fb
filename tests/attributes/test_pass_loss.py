"""The loss of PASS against loops over its definition, and the corrected theorems (H1-H4, H9)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sfumato.attributes import AttributesError, guess_bound
from sfumato.attributes._loss import EntropyBank, UsefulBatch, class_rows, loss_and_gradient, terms
from sfumato.attributes._theory import (
    conditional_entropy,
    entropy,
    theorem_41_constant,
    total_correlation,
)
from sfumato.attributes._training import pull_back


def random_channel(rng: np.random.Generator, n: int, donors: int, sharpness: float) -> np.ndarray:
    logits = sharpness * rng.normal(size=(n, donors))
    p = np.exp(logits - logits.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def slow_terms(
    p: np.ndarray,
    private: list[tuple[np.ndarray, int]],
    useful: list[tuple[np.ndarray, np.ndarray, int]],
) -> tuple[list[float], list[float], float]:
    """Loops over SOUNDNESS 4.1, nothing shared with the implementation."""
    n, donors = p.shape
    per_private = []
    for codes, classes in private:
        total = 0.0
        for s in range(classes):
            members = [i for i in range(n) if codes[i] == s]
            if not members:
                continue
            h = 0.0
            for k in range(donors):
                q = sum(p[i, k] for i in members) / len(members)
                h -= q * math.log(q) if q > 0 else 0.0
            total -= len(members) / n * h
        per_private.append(total)
    per_useful = []
    for codes, donor_codes, classes in useful:
        total = 0.0
        for i in range(n):
            kept = sum(p[i, k] for k in range(donors) if donor_codes[k] == codes[i])
            total += -math.log(kept) / n
        per_useful.append(math.log(classes) * total)
    general = sum(-p[i, k] * math.log(p[i, k]) for i in range(n) for k in range(donors)) / n
    return per_private, per_useful, general


def as_useful(codes: np.ndarray, donor_codes: np.ndarray, classes: int) -> UsefulBatch:
    match = torch.from_numpy((codes[:, None] == donor_codes[None]).astype(np.float64))
    return UsefulBatch(classes, match)


def objective(
    p: np.ndarray, private: list[np.ndarray], useful: list[np.ndarray], lam: float, mu: float
) -> float:
    """Eq. 1 itself: sum I(X';S) - lambda sum I(X';U) - mu I(X';X), records uniform."""

    def information(codes: np.ndarray) -> float:
        joint = np.stack([p[codes == c].sum(0) for c in np.unique(codes)]) / len(p)
        product = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
        seen = joint > 0
        return float((joint[seen] * np.log(joint[seen] / product[seen])).sum())

    whole = information(np.arange(len(p)))
    return (
        sum(information(c) for c in private)
        - lam * sum(information(c) for c in useful)
        - mu * whole
    )


@pytest.fixture
def setting() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        "p": random_channel(rng, 24, 7, 2.0),
        "s1": rng.integers(0, 2, 24),
        "s2": rng.integers(0, 4, 24),
        "u1": rng.integers(0, 3, 24),
        "u2": rng.integers(0, 2, 24),
        "d1": np.array([0, 1, 2, 0, 1, 2, 0]),
        "d2": np.array([0, 1, 0, 1, 0, 1, 0]),
    }


def test_terms_equal_loops_over_the_definition(setting: dict[str, np.ndarray]) -> None:
    found = terms(
        torch.from_numpy(setting["p"]),
        [(torch.from_numpy(setting["s1"]), 2), (torch.from_numpy(setting["s2"]), 4)],
        [as_useful(setting["u1"], setting["d1"], 3), as_useful(setting["u2"], setting["d2"], 2)],
    )
    private, useful, general = slow_terms(
        setting["p"],
        [(setting["s1"], 2), (setting["s2"], 4)],
        [(setting["u1"], setting["d1"], 3), (setting["u2"], setting["d2"], 2)],
    )
    assert found.private == pytest.approx(private, rel=1e-9)
    assert found.useful == pytest.approx(useful, rel=1e-9)
    assert found.general == pytest.approx(general, rel=1e-9)
    # H1: useful and general terms are added, not subtracted
    expected = sum(private) + 1.5 * sum(useful) + 0.4 * general
    assert found.total(1.5, 0.4) == pytest.approx(expected, rel=1e-9)


def test_closed_form_gradient_equals_automatic_differentiation(
    setting: dict[str, np.ndarray],
) -> None:
    """With bank_rate 1 the bank is the batch itself, so the gradient is that of the plain loss."""
    rng = np.random.default_rng(5)
    logits = torch.from_numpy(rng.normal(size=(24, 7))).requires_grad_()
    codes = torch.from_numpy(setting["s2"])
    useful = as_useful(setting["u1"], setting["d1"], 3)
    lam, mu = 1.3, 0.6
    p = torch.softmax(logits, 1)
    rows, counts = class_rows(p, codes, 4)
    loss = (counts / 24 * (rows * rows.log()).sum(1)).sum()
    loss = loss - lam * math.log(3) * (p * useful.match).sum(1).log().mean()
    loss = loss - mu * (p * p.log()).sum(1).mean()
    (expected,) = torch.autograd.grad(loss, logits)
    bank = EntropyBank(torch.full((4, 7), 1 / 7, dtype=torch.float64), counts.detach() / 24, 1.0)
    _, gradient = loss_and_gradient(
        torch.log_softmax(logits.detach(), 1), [(codes, bank)], [useful], lambda_=lam, mu=mu
    )
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)


def test_bank_gradient_is_the_whole_data_gradient_where_the_batch_one_is_not() -> None:
    """Averaged over batches, the bank's gradient points where the full-data entropy term does."""
    rng = np.random.default_rng(11)
    n, donors, batch = 512, 64, 16
    logits = torch.from_numpy(4 * rng.normal(size=(n, donors)))
    codes = torch.from_numpy(rng.integers(0, 2, n))

    def gradient(rows: torch.Tensor, bank: EntropyBank) -> torch.Tensor:
        log_p = torch.log_softmax(logits[rows], 1)
        return loss_and_gradient(log_p, [(codes[rows], bank)], [], lambda_=1.0, mu=0.0)[1]

    everything = torch.arange(n)
    full_rows, counts = class_rows(torch.softmax(logits, 1), codes, 2)
    whole = gradient(everything, EntropyBank(full_rows, counts / n, 1.0))
    by_bank, by_batch = torch.zeros_like(whole), torch.zeros_like(whole)
    for rows in torch.split(everything, batch):
        share = batch / n
        by_bank[rows] = share * gradient(rows, EntropyBank(full_rows, counts / n, 1e-9))
        by_batch[rows] = share * gradient(rows, EntropyBank(full_rows, counts / n, 1.0))
    torch.testing.assert_close(by_bank, whole, rtol=1e-5, atol=1e-9)
    assert (by_batch - whole).norm() > 0.3 * whole.norm()


def test_entropy_over_a_batch_saturates_at_the_log_of_its_class_size() -> None:
    """H9: one-hot rows onto 4096 donors, uniform in truth; a batch of 128 shows 4.2 of 8.3 nats."""
    rng = np.random.default_rng(0)
    donors, records = 4096, 8192
    one_hot = torch.zeros(records, donors)
    one_hot[torch.arange(records), torch.arange(records) % donors] = 1.0
    codes = torch.from_numpy((np.arange(records) // donors) % 2)
    truth = -terms(one_hot, [(codes, 2)], []).private[0]
    assert truth == pytest.approx(math.log(4096), abs=1e-3)
    chosen = torch.from_numpy(rng.choice(records, 128, replace=False))
    batch = -terms(one_hot[chosen], [(codes[chosen], 2)], []).private[0]
    assert batch == pytest.approx(math.log(64), abs=0.15)
    assert batch - truth == pytest.approx(-4.17, abs=0.15)
    rows, counts = class_rows(one_hot, codes, 2)
    bank = EntropyBank(rows, counts / records, 0.05)
    bank.mix(*class_rows(one_hot[chosen], codes[chosen], 2))
    assert float((bank.priors * bank.entropies()).sum()) > truth - 0.5


def product_channel(count: int, keep: float) -> tuple[np.ndarray, list[np.ndarray]]:
    """Every record has ``count`` binary attributes; each is kept with probability ``keep``."""
    grid = np.array([[(i >> j) & 1 for j in range(count)] for i in range(2**count)])
    same = (grid[:, None, :] == grid[None, :, :]).sum(2)
    return keep**same * (1 - keep) ** (count - same), [grid[:, j] for j in range(count)]


def loss_and_objective(
    p: np.ndarray, private: list[np.ndarray], useful: list[np.ndarray], lam: float, mu: float
) -> tuple[float, float]:
    found = terms(
        torch.from_numpy(p),
        [(torch.from_numpy(c), int(c.max()) + 1) for c in private],
        [as_useful(c, c, int(c.max()) + 1) for c in useful],
    )
    return found.total(lam, mu), objective(p, private, useful, lam, mu)


@pytest.mark.parametrize("count", [3, 5])
def test_constant_needs_one_fano_term_for_each_useful_attribute(count: int) -> None:
    """H2: with + lambda instead of + lambda N the stated bound fails on a product channel."""
    p, useful = product_channel(count, 0.78)
    loss, true_objective = loss_and_objective(p, [], useful, 1.0, 0.0)
    corrected = theorem_41_constant(
        [entropy(c) for c in useful], private=0, donors=len(p), lambda_=1.0, mu=0.0
    )
    published = corrected - (count - 1) * math.log(2)
    assert loss + published < true_objective
    assert loss + corrected >= true_objective


def test_corrected_bound_holds_on_random_channels_and_fails_beyond_mu_m() -> None:
    """H2, H3: no violation for mu <= M; M = 1, N = 4, mu = 3.2 is the counter-example beyond."""
    rng = np.random.default_rng(8)
    for _ in range(300):
        n, donors = int(rng.integers(4, 12)), int(rng.integers(2, 8))
        p = random_channel(rng, n, donors, float(rng.uniform(0, 6)))
        private = [rng.integers(0, 2, n) for _ in range(int(rng.integers(1, 3)))]
        useful = [rng.integers(0, 3, n) for _ in range(int(rng.integers(1, 4)))]
        donor_codes = [rng.integers(0, 3, donors) for _ in useful]
        lam = float(rng.uniform(0.1, 3))
        mu = float(rng.uniform(0, len(private)))
        if any(not np.isin(u[:, None], d).all() for u, d in zip(useful, donor_codes, strict=True)):
            continue
        loss = terms(
            torch.from_numpy(p),
            [(torch.from_numpy(c), 2) for c in private],
            [
                UsefulBatch(len(np.unique(u)), as_useful(u, d, 3).match)
                for u, d in zip(useful, donor_codes, strict=True)
            ],
        ).total(lam, mu)
        constant = theorem_41_constant(
            [entropy(u) for u in useful], private=len(private), donors=donors, lambda_=lam, mu=mu
        )
        assert loss + constant >= objective(p, private, useful, lam, mu) - 1e-9
    with pytest.raises(AttributesError, match="mu at most the number of private"):
        theorem_41_constant([1.0] * 4, private=1, donors=16, lambda_=1.0, mu=3.2)


def test_theorem_42_holds_on_random_channels() -> None:
    """Utility is bounded by H(U|S) + C(U) + I(X';S) for any channel."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        n = int(rng.integers(3, 12))
        p = random_channel(rng, n, int(rng.integers(2, 9)), float(rng.uniform(0, 8)))
        s = rng.integers(0, 2, n)
        useful = [rng.integers(0, 3, n), rng.integers(0, 2, n)]
        got = -objective(p, [], useful, 1.0, 0.0)
        leaked = objective(p, [s], [], 0.0, 0.0)
        assert got <= leaked + conditional_entropy(useful, s) + total_correlation(useful) + 1e-9


def test_entropies_of_known_distributions() -> None:
    a = np.array([0, 0, 1, 1])
    b = np.array([0, 1, 0, 1])
    assert entropy(a) == pytest.approx(math.log(2))
    assert conditional_entropy([b], a) == pytest.approx(math.log(2))
    assert conditional_entropy([a], a) == pytest.approx(0.0)
    assert total_correlation([a, b]) == pytest.approx(0.0)
    assert total_correlation([a, a]) == pytest.approx(math.log(2))


def test_guess_bound_is_zero_for_an_independent_channel_and_log_two_for_a_telling_one() -> None:
    codes = torch.tensor([0, 0, 1, 1])
    same = torch.full((4, 3), 1 / 3)
    assert guess_bound(same, codes, 2).gamma == pytest.approx(0.0, abs=1e-12)
    telling = torch.eye(2)[codes]
    assert guess_bound(telling, codes, 2).gamma == pytest.approx(math.log(2))
    assert "empirical" in str(guess_bound(telling, codes, 2))


@pytest.mark.parametrize("width", [0.05, 3.0])
def test_pulled_back_gradient_equals_the_plain_products(width: float) -> None:
    """Sparse where rows are nearly one-hot (small width), dense where they are not."""
    generator = torch.Generator().manual_seed(0)
    embedded = torch.randn(64, 8, generator=generator)
    placed = torch.randn(300, 8, generator=generator)
    logits = torch.randn(64, 300, generator=generator) / width
    gradient = torch.softmax(logits, 1) * torch.randn(64, 300, generator=generator)
    dense = float((gradient.abs() > 1e-7 * gradient.abs().max()).float().mean()) > 0.03
    assert dense == (width > 1)
    first, second = pull_back(gradient, embedded, placed)
    assert torch.allclose(first, gradient @ placed, atol=1e-4)
    assert torch.allclose(second, gradient.T @ embedded, atol=1e-4)
