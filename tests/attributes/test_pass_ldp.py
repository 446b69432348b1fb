"""PASS-LDP: the proof by enumeration, its conditions (R5), and that seeded bugs 30-33 are seen."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from attribute_data import speech_like

from sfumato.attributes import AttributesError, DonorSet, PassLDP, PassTraining
from sfumato.attributes._encoders import build_encoder
from sfumato.data import ArrayRecords, Subset
from sfumato.privacy import Guarantee, NoGuarantee, Relation

EPSILON = 4.0


def people(records: ArrayRecords, names: range) -> Subset:
    wanted = {f"person{number}" for number in names}
    return Subset(records, [i for i in range(len(records)) if records[i].owners[0] in wanted])


@pytest.fixture(scope="module")
def data() -> ArrayRecords:
    return speech_like(800)


@pytest.fixture
def fitted(data: ArrayRecords) -> PassLDP:
    """Encoder and donors from people 0-5; people 6-9 are left to be protected."""
    known = people(data, range(6))
    donors = DonorSet.prototypes(known, "word", 2, declared="consenting")
    method = PassLDP(
        private=["sex"],
        useful=["word"],
        donors=donors,
        epsilon=EPSILON,
        encoder=build_encoder("whitened-mlp", (12,), 16, width=32),
        training=PassTraining(steps=10, batch=200, start_temperature=None),
    )
    return method.fit(known)


def hardest_embeddings(placed: torch.Tensor) -> torch.Tensor:
    """Random directions, and those on and opposite to every donor: where the bound is attained."""
    generator = torch.Generator().manual_seed(0)
    random = torch.randn(64, placed.shape[1], generator=generator)
    return torch.cat([random, placed, -placed, torch.zeros(1, placed.shape[1])])


def largest_log_ratio(rows: torch.Tensor) -> float:
    logs = rows.to(torch.float64).log()
    return float((logs.max(0).values - logs.min(0).values).max())


def largest_exact_log_ratio(method: PassLDP, embedded: torch.Tensor) -> float:
    """Of the whole weights by which donors are really drawn, in fractions."""
    weights = method._weights(embedded)
    chances = [
        [Fraction(int(each), int(row.sum())) for each in row] for row in weights.astype(object)
    ]
    worst = max(max(column) / min(column) for column in zip(*chances))
    return math.log(worst.numerator) - math.log(worst.denominator)


def opposite_pair() -> torch.Tensor:
    """Donors of which all but one sit together opposite to it: the worst case of the normaliser."""
    direction = torch.nn.functional.normalize(torch.ones(1, 16), dim=1)
    return torch.cat([direction, -direction.repeat(7, 1)])


def test_no_log_ratio_exceeds_epsilon_on_and_opposite_to_donors(fitted: PassLDP) -> None:
    for placed in (fitted._placed, opposite_pair()):
        assert placed is not None
        fitted._placed = placed
        rows = fitted._rows(hardest_embeddings(placed))
        assert largest_log_ratio(rows) <= EPSILON + 1e-9
        assert largest_exact_log_ratio(fitted, hardest_embeddings(placed)) <= EPSILON + 1e-12
        assert torch.allclose(rows.sum(1), torch.ones(len(rows), dtype=torch.float64))
    # the bound is nearly attained, so half of the true factor would be seen
    assert largest_log_ratio(fitted._rows(hardest_embeddings(opposite_pair()))) > 0.9 * EPSILON - 1


@pytest.mark.parametrize("epsilon", [1e-4, 0.5, 4.0, 40.0, 200.0])
def test_epsilon_holds_whatever_the_cosines_come_out_as(
    epsilon: float, fitted: PassLDP, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights never leave their bounds: not by rounding, and not by an embedding gone wrong."""
    fitted.epsilon = epsilon
    placed = opposite_pair()
    fitted._placed = placed
    broken = torch.full((4, 16), float("nan"))
    broken[1], broken[2], broken[3, 0] = float("inf"), -float("inf"), float("inf")
    embedded = torch.cat([hardest_embeddings(placed), broken, 1e30 * placed])
    assert largest_exact_log_ratio(fitted, embedded) <= epsilon * (1 + 1e-12)
    rows = fitted._rows(broken)
    assert torch.equal(rows, torch.full_like(rows, 1 / len(placed))), "a uniform draw"
    # even a cosine beyond one, which no clamp has seen
    monkeypatch.setattr(torch.Tensor, "clamp", lambda self, *_: 3 * self)
    assert largest_exact_log_ratio(fitted, embedded) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("bug", ["tau 0.01", "t = epsilon / 2", "not normalised", "top-k"])
def test_enumeration_sees_seeded_bugs(bug: str, fitted: PassLDP) -> None:
    """Bugs 30, 31 and 32 of the list of mutations."""
    placed = opposite_pair().double()
    inputs = hardest_embeddings(placed.float()).double()
    unit = torch.nn.functional.normalize(inputs, dim=1)
    cosine = unit @ placed.T
    rows = {
        "tau 0.01": torch.softmax(cosine / 0.01, 1),
        "t = epsilon / 2": torch.softmax(EPSILON / 2 * cosine, 1),
        "not normalised": torch.softmax(EPSILON / 4 * (10 * inputs) @ placed.T, 1),
        "top-k": torch.softmax(cosine.masked_fill(cosine < cosine.amax(1, keepdim=True), -1e9), 1),
    }[bug]
    assert largest_log_ratio(rows.clamp(min=1e-300)) > EPSILON + 0.1


def test_draws_are_random_and_not_the_best_donor(fitted: PassLDP, data: ArrayRecords) -> None:
    """Bug 33: argmax or a fixed seed passes every enumeration, so the sampler is tested."""
    sample = data[0]
    repeated = ArrayRecords(np.repeat(sample.x[None], 4000, axis=0), np.zeros(4000))
    fitted.memory.scope = "never"
    drawn, again = fitted.protect(repeated), fitted.protect(repeated)
    assert not np.array_equal(drawn, again)
    row = fitted.substitution(torch.from_numpy(sample.x[None])).numpy()[0]
    counts = np.bincount(drawn, minlength=len(row))
    statistic = float(((counts - 4000 * row) ** 2 / (4000 * row)).sum())
    assert statistic < 40  # chi-square with 7 degrees of freedom: 1e-6 alarm level


def test_guarantee_for_people_outside_training(fitted: PassLDP, data: ArrayRecords) -> None:
    promise = fitted.guarantee
    assert isinstance(promise, Guarantee)
    assert promise.epsilon == pytest.approx(EPSILON, rel=1e-6)
    assert promise.delta == 0
    assert promise.relation is Relation.REPLACE
    assert promise.unit.max_records == 1
    assert any("donors" in each for each in promise.not_covered)


def test_epsilon_is_multiplied_by_draws_a_person(fitted: PassLDP) -> None:
    fitted.draws_per_person = 5
    promise = fitted.guarantee
    assert isinstance(promise, Guarantee)
    assert promise.epsilon == pytest.approx(5 * EPSILON, rel=1e-6)


def test_more_draws_than_promised_are_refused(fitted: PassLDP, data: ArrayRecords) -> None:
    others = people(data, range(6, 10))
    with pytest.raises(AttributesError, match="at most 1 draws a person, got more for 4 people"):
        fitted.protect(others)
    one_each = [
        next(i for i in others.indices if data[i].owners[0] == f"person{n}") for n in range(6, 10)
    ]
    first = fitted.protect(Subset(data, one_each))
    assert np.array_equal(first, fitted.protect(Subset(data, one_each)))
    more = Subset(data, [i for i in others.indices if i not in one_each][:1])
    with pytest.raises(AttributesError, match="at most 1 draws a person"):
        fitted.protect(more)


def test_training_people_and_donors_cannot_be_protected(
    fitted: PassLDP, data: ArrayRecords
) -> None:
    with pytest.raises(AttributesError, match="neither in the training records nor donors, got 1"):
        fitted.protect(Subset(data, [people(data, range(6)).indices[0]]))


def test_without_known_owners_there_is_no_guarantee_until_it_is_declared(
    data: ArrayRecords,
) -> None:
    nameless = ArrayRecords(data.x, data.y, attributes=data.attributes)
    donors = DonorSet.prototypes(nameless, "word", 2, declared="synthetic")
    method = PassLDP(
        ["sex"],
        ["word"],
        donors,
        epsilon=2.0,
        encoder=build_encoder("whitened-mlp", (12,), 16, width=32),
        training=PassTraining(steps=2, batch=100, start_temperature=None),
    ).fit(nameless)
    assert isinstance(method.guarantee, NoGuarantee)
    method.declare_disjoint("encoder and donors come from a public corpus of actors")
    method.protect(ArrayRecords(speech_like(20, seed=9).x, np.zeros(20)))
    promise = method.guarantee
    assert isinstance(promise, Guarantee)
    assert str(promise.unit) == "record"
    assert promise.epsilon == pytest.approx(2.0, rel=1e-6)
    assert "public corpus of actors" in str(promise)
    method.memory.scope = "never"
    assert isinstance(method.guarantee, NoGuarantee)


def test_save_and_load_keep_epsilon_but_ask_again_for_disjointness(
    fitted: PassLDP, tmp_path: object
) -> None:
    path = f"{tmp_path}/ldp.safetensors"
    fitted.save(path)
    loaded = PassLDP.load(path, fitted.donors)
    assert isinstance(loaded, PassLDP)
    assert loaded.epsilon == EPSILON
    x = torch.from_numpy(speech_like(20, seed=3).x)
    assert torch.equal(loaded.substitution(x), fitted.substitution(x))
    assert isinstance(loaded.guarantee, NoGuarantee)
