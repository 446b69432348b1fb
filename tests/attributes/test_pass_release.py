"""PASS end to end on small data: what it hides, what it releases, what it refuses, what it stores."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest
import torch
from attribute_data import speech_like

from sfumato.attributes import (
    AttributesError,
    DonorSet,
    DrawMemory,
    Encoder,
    Pass,
    PassTraining,
    Task,
    open_state,
    read_table,
    release,
    whitening,
)
from sfumato.attributes._draws import draw
from sfumato.attributes._encoders import build_encoder
from sfumato.attributes._training import _anchors
from sfumato.audit.attack import BayesAttacker
from sfumato.data import ArrayRecords, Subset
from sfumato.errors import SfumatoError
from sfumato.privacy import Guarantee, NoGuarantee, Randomness

QUICK = PassTraining(steps=80, batch=200, learning_rate=3e-3, start_temperature=0.2)


def small_encoder() -> Encoder:
    return build_encoder("whitened-mlp", (12,), 24, width=48)


def quick_pass(records: ArrayRecords, **settings: object) -> Pass:
    donors = DonorSet.sample(records, 64, declared="consenting")
    settings = {"tau": 0.1, "mu": 0.05, **settings}
    return Pass(
        private=["sex"],
        useful=["word"],
        donors=donors,
        encoder=small_encoder(),
        training=QUICK,
        **settings,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def fitted() -> Pass:
    return quick_pass(speech_like()).fit(speech_like())


def test_defaults_are_those_of_the_corrected_paper() -> None:
    """H4: lambda = #private / #useful, mu = 0.2 #private, tau 0.01."""
    donors = DonorSet.sample(speech_like(), 16, declared="synthetic")
    method = Pass(private=["sex", "person"], useful=["word"], donors=donors)
    assert (method.lambda_, method.mu, method.tau) == (2.0, 0.4, 0.01)
    assert method.dimension == 512


def test_hides_the_private_attribute_and_keeps_the_useful_one(fitted: Pass) -> None:
    train, test = speech_like(), speech_like(seed=1)
    known = read_table(train, ["sex", "word"])
    tested = read_table(test, ["sex", "word"], classes=known.classes)
    score = {}
    for name in ("sex", "word"):
        attacker = BayesAttacker.learn(
            fitted.substitution(known.x), known.labels[name], known.class_count(name)
        )
        score[name] = attacker.score(fitted.substitution(tested.x), tested.labels[name])
    assert score["word"].accuracy > 0.95
    assert score["sex"].balanced_accuracy < 0.62
    # the raw samples give sex away to a nearest-donor rule
    untrained = quick_pass(train, tau=0.01)
    untrained.training = PassTraining(
        steps=1, learning_rate=1e-9, start_temperature=None, donor_start="encoder"
    )
    untrained.fit(train)
    attacker = BayesAttacker.learn(untrained.substitution(known.x), known.labels["sex"], 2)
    raw = attacker.score(untrained.substitution(tested.x), tested.labels["sex"])
    assert raw.balanced_accuracy > 0.9


def test_live_bound_stays_above_the_objective(fitted: Pass) -> None:
    records = speech_like()
    assert fitted.theory is not None
    found = fitted.terms(records)
    bound = fitted.theory.live_bound(found.total(fitted.lambda_, fitted.mu))
    table = read_table(records, ["sex", "word"])
    rows = fitted.substitution(table.x).double().numpy()

    def information(codes: np.ndarray) -> float:
        joint = np.stack([rows[codes == c].sum(0) for c in np.unique(codes)]) / len(rows)
        product = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
        seen = joint > 0
        return float((joint[seen] * np.log(joint[seen] / product[seen])).sum())

    value = information(table.labels["sex"].numpy())
    value -= fitted.lambda_ * information(table.labels["word"].numpy())
    value -= fitted.mu * information(np.arange(len(rows)))
    assert value <= bound + 1e-4


def test_theory_is_announced_before_the_first_step() -> None:
    seen: list[str] = []
    method = quick_pass(speech_like())
    method.fit(
        speech_like(),
        announce=seen.append,
        report=lambda step, _: seen.append(f"step {step}"),
    )
    assert "Theorem 4.2" in seen[0]
    assert "Theorem 4.1, corrected" in seen[0]
    assert seen[1] == "step 0"


def test_released_index_names_a_donor_and_follows_the_channel(fitted: Pass) -> None:
    """The empirical frequencies of fresh draws match the rows (chi-square of the sampler)."""
    sample = speech_like(seed=5).x[:1]
    row = fitted.substitution(torch.from_numpy(sample)).double().numpy()[0]
    generator = np.random.default_rng(1)
    draws = np.concatenate(
        [fitted_draw(fitted, np.repeat(sample, 500, axis=0), generator) for _ in range(8)]
    )
    seen = np.bincount(draws, minlength=len(row)) / len(draws)
    assert 0.5 * np.abs(seen - row).sum() < 0.06


def fitted_draw(method: Pass, x: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return draw(method.substitution(torch.from_numpy(x)), generator)


def test_a_sample_keeps_its_donor_and_another_run_does_not(fitted: Pass) -> None:
    records = speech_like(60, seed=2)
    first, again = fitted.protect(records), fitted.protect(records)
    assert np.array_equal(first, again)
    assert len(fitted.memory) >= 60
    one = fitted.protect(records[3])
    assert one[0] == first[3]


def test_without_memory_draws_differ_and_with_one_a_person_they_agree() -> None:
    records = speech_like()
    method = quick_pass(records, remember="never", tau=0.5, mu=0.0).fit(records)
    some = Subset(records, range(80))
    assert not np.array_equal(method.protect(some), method.protect(some))
    method.memory = DrawMemory("person")
    by_person: dict[str, set[int]] = {}
    for record, donor in zip(some, method.protect(some), strict=True):
        by_person.setdefault(record.owners[0], set()).add(int(donor))
    assert by_person
    assert all(len(donors) == 1 for donors in by_person.values())
    later = method.protect(Subset(records, range(80, 160)))
    for record, donor in zip(Subset(records, range(80, 160)), later, strict=True):
        if record.owners[0] in by_person:
            assert by_person[record.owners[0]] == {int(donor)}


def test_memory_survives_a_run_and_is_for_the_owner_only(fitted: Pass, tmp_path: Path) -> None:
    records = speech_like(40, seed=3)
    first = fitted.protect(records)
    fitted.memory.save(tmp_path / "draws.json")
    assert stat.S_IMODE((tmp_path / "draws.json").stat().st_mode) == 0o600
    assert "person" not in (tmp_path / "draws.json").read_text().replace('"scope"', "")
    fitted.save(tmp_path / "pass.safetensors")
    loaded = Pass.load(
        tmp_path / "pass.safetensors",
        fitted.donors,
        remember=DrawMemory.load(tmp_path / "draws.json"),
    )
    assert np.array_equal(loaded.protect(records), first)


def test_save_and_load_keep_the_channel_and_nothing_of_the_people(
    fitted: Pass, tmp_path: Path
) -> None:
    path = tmp_path / "pass.safetensors"
    fitted.save(path)
    loaded = Pass.load(path, fitted.donors)
    x = torch.from_numpy(speech_like(50, seed=4).x)
    assert torch.equal(loaded.substitution(x), fitted.substitution(x))
    assert loaded.task == fitted.task
    assert b"person3" not in path.read_bytes()
    with pytest.raises(AttributesError, match="the 64 donors it was trained with, got 10"):
        Pass.load(path, DonorSet.sample(speech_like(), 10, declared="public"))


def test_no_epsilon_without_proof(fitted: Pass) -> None:
    promise = fitted.guarantee
    assert isinstance(promise, NoGuarantee)
    assert "4/tau = 40" in promise.reason
    assert any("agreed" in sentence for sentence in promise.assumptions)
    assert any("donors" in sentence for sentence in promise.not_covered)


def test_seeded_draws_are_labelled_not_private() -> None:
    method = quick_pass(speech_like(), randomness=Randomness(1))
    assert method.guarantee.randomness == "seeded (not private)"


def one_class() -> ArrayRecords:
    records = speech_like(100)
    records.attributes["sex"] = np.array(["male"] * 100)
    return records


def no_word_three() -> ArrayRecords:
    records = speech_like(200)
    kept = records.attributes["word"] != 3
    return ArrayRecords(
        records.x[kept],
        records.y[kept],
        attributes={name: value[kept] for name, value in records.attributes.items()},
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: quick_pass(one_class()).fit(one_class()),
            r"at least two classes of the attribute 'sex', got 1",
        ),
        (
            lambda: Pass(["sex"], ["sex"], DonorSet.sample(speech_like(), 8, declared="public")),
            r"private and useful attributes to differ, got 'sex' in both",
        ),
        (
            lambda: Pass(
                ["sex"], ["word"], DonorSet.sample(no_word_three(), 40, declared="public")
            ).fit(speech_like()),
            r"donors for each of the 4 classes of 'word', got none for 1",
        ),
        (
            lambda: DonorSet.sample(speech_like(50), 64, declared="public"),
            r"as many records as donors, got 50 records for 64 donors",
        ),
        (
            lambda: quick_pass(speech_like()).fit(speech_like(50)),
            r"as many records as donors, got 50 records for 64 donors",
        ),
        (
            lambda: DonorSet(speech_like(), "somebody"),  # type: ignore[arg-type]
            r"declared as public, consenting or synthetic, got 'somebody'",
        ),
        (
            lambda: Pass(
                ["height"], ["word"], DonorSet.sample(speech_like(), 8, declared="public")
            ).fit(speech_like()),
            r"an attribute of the records, got 'height': they have person, sex, word",
        ),
        (lambda: quick_pass(speech_like(), mu=1.5), r"mu between 0 and the number of private"),
        (lambda: quick_pass(speech_like()).protect(speech_like()), r"call fit first"),
    ],
)
def test_bad_input_gets_one_clear_sentence(make: object, message: str) -> None:
    with pytest.raises(AttributesError, match=message) as caught:
        make()  # type: ignore[operator]
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_published_preset_is_table_6() -> None:
    preset = {kind: PassTraining.published(kind) for kind in ("audio", "motion", "faces")}  # type: ignore[arg-type]
    assert {kind: t.learning_rate for kind, t in preset.items()} == {
        "audio": 1e-3,
        "motion": 1e-3,
        "faces": 1e-4,
    }
    assert {kind: t.epochs for kind, t in preset.items()} == {
        "audio": 2000,
        "motion": 200,
        "faces": 50,
    }
    assert {t.weight_decay for t in preset.values()} == {1e-4}
    assert preset["audio"].bank_rate == 1.0
    donors = DonorSet.sample(speech_like(), 8, declared="public")
    method = Pass.published("audio", ["sex"], ["word"], donors)
    assert (method.tau, method.mu, method.lambda_) == (0.01, 0.2, 1.0)


@pytest.mark.parametrize(
    ("kind", "shape"), [("mlp", (4, 5)), ("window-cnn", (64, 6)), ("feature-head", (30,))]
)
def test_published_encoders_give_one_embedding_a_sample(kind: str, shape: tuple[int, ...]) -> None:
    encoder = build_encoder(kind, shape, 16)
    x = torch.randn(7, *shape)
    encoder.prepare(x)
    assert encoder(x).shape == (7, 16)
    layers = [m for m in encoder.modules() if isinstance(m, torch.nn.Linear | torch.nn.Conv1d)]
    assert len(layers) == {"mlp": 3, "window-cnn": 6, "feature-head": 2}[kind]


def test_samples_of_another_shape_are_refused(fitted: Pass) -> None:
    with pytest.raises(
        AttributesError, match=r"samples of shape \(12,\) as in training, got \(9,\)"
    ):
        fitted.substitution(torch.zeros(3, 9))


def test_release_holds_donors_records_and_nothing_of_the_input(
    fitted: Pass, tmp_path: Path
) -> None:
    records = speech_like(50, seed=6)
    promise = release(fitted, records, tmp_path / "out", measured={"sex": 0.5})
    assert isinstance(promise, NoGuarantee)
    with np.load(tmp_path / "out" / "records.npz", allow_pickle=False) as stored:
        assert sorted(stored) == ["attribute_word", "donor", "x"]
        donors = np.stack([fitted.donors[i].x for i in range(len(fitted.donors))])
        assert np.array_equal(stored["x"], donors[stored["donor"]])
        assert np.array_equal(np.sort(stored["donor"]), np.sort(fitted.protect(records)))
        assert not np.array_equal(stored["donor"], fitted.protect(records))
    text = (tmp_path / "out" / "promise.json").read_text()
    assert "agreed" in text
    assert "empirical, not a bound" in text
    assert "person1" not in text
    with pytest.raises(SfumatoError, match="but one is there"):
        release(fitted, records, tmp_path / "out")


def test_gender_and_sex_are_one_attribute() -> None:
    table = read_table(speech_like(30), ["gender"])
    assert table.classes["gender"] == ("female", "male")


def test_anchored_donors_start_inside_the_most_frequent_private_class() -> None:
    """Men are the most frequent; every woman among the donors takes a man's place, same word."""
    records = speech_like()
    task = Task(["sex"], ["word"])
    table = read_table(records, task.names)
    donors = DonorSet.sample(records, 60, declared="public").table(task, table.classes)
    anchors = _anchors(table, donors, task, torch.Generator().manual_seed(0))
    male = table.classes["sex"].index("male")
    moved = anchors >= 0
    assert bool(moved.any())
    assert torch.equal(moved, donors.labels["sex"] != male)
    assert (table.labels["sex"][anchors[moved]] == male).all()
    assert torch.equal(table.labels["word"][anchors[moved]], donors.labels["word"][moved])


def test_anchors_share_what_they_can_where_a_useful_class_tells_the_private_one() -> None:
    """No man is called like a woman: her donor takes the place of a man who says the same word."""
    records = speech_like()
    task = Task(["sex"], ["person", "word"])
    table = read_table(records, task.names)
    donors = DonorSet.sample(records, 60, declared="public").table(task, table.classes)
    anchors = _anchors(table, donors, task, torch.Generator().manual_seed(0))
    male = table.classes["sex"].index("male")
    moved = anchors >= 0
    assert torch.equal(moved, donors.labels["sex"] != male)
    assert (table.labels["sex"][anchors[moved]] == male).all()
    assert torch.equal(table.labels["word"][anchors[moved]], donors.labels["word"][moved])


def test_donors_without_private_labels_start_at_their_own_place() -> None:
    records = speech_like()
    bare = ArrayRecords(records.x, records.y, attributes={"word": records.attributes["word"]})
    donors = DonorSet.sample(bare, 64, declared="synthetic")
    method = Pass(
        ["sex"],
        ["word"],
        donors,
        encoder=small_encoder(),
        training=PassTraining(steps=1, batch=100, learning_rate=1e-9),
    ).fit(records)
    own = method.embeddings(torch.from_numpy(np.stack([donors[i].x for i in range(64)])))
    assert method._placed is not None
    torch.testing.assert_close(method._placed, own, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [5, 40])
def test_whitening_gives_unit_variance_with_fewer_and_with_more_records_than_features(
    rows: int,
) -> None:
    """Also where records repeat: the directions without variance are left out, not blown up."""
    x = torch.randn(rows, 12, generator=torch.Generator().manual_seed(0)).repeat(2, 1)
    x = x - x.mean(0)
    basis = whitening(x, 12)
    assert basis.shape == (12, 12)
    covariance = (x @ basis).T @ (x @ basis) / len(x)
    rank = min(rows - 1, 12)
    expected = torch.diag(torch.tensor([1.0] * rank + [0.0] * (12 - rank)))
    assert torch.allclose(covariance, expected, atol=1e-4)


def test_dropout_is_of_the_training_alone_and_follows_the_seed(tmp_path: Path) -> None:
    records = speech_like(200)

    def fit() -> Pass:
        return Pass(
            ["sex"],
            ["word"],
            DonorSet.sample(records, 32, declared="synthetic"),
            dimension=16,
            encoder_settings={"width": 24, "dropout": 0.5},
            training=PassTraining(steps=4, batch=50),
        ).fit(records)

    torch.manual_seed(1)
    one = fit()
    torch.manual_seed(2)
    other = fit()
    rows = one.substitution(records)
    assert torch.equal(rows, other.substitution(records))
    assert torch.equal(rows, one.substitution(records))
    one.save(tmp_path / "model.safetensors")
    assert torch.equal(
        rows, Pass.load(tmp_path / "model.safetensors", one.donors).substitution(records)
    )


@pytest.mark.parametrize(("name", "proven"), [("pass", False), ("pass-ldp", True)])
def test_states_written_before_still_load_with_their_draws(name: str, proven: bool) -> None:
    folder = Path(__file__).parent / "states_written_before" / name
    kept = open_state(folder, {"method": name})
    assert kept is not None
    assert kept.method.name == name
    assert list(kept.donor_rows) == list(range(6))
    again = speech_like(8, seed=5)
    again.owners = [(f"stranger{number}",) for number in range(8)]
    drawn = {False: [1, 5, 3, 3, 0, 3, 5, 5], True: [3, 2, 2, 3, 2, 2, 4, 0]}[proven]
    assert kept.method.protect(again).tolist() == drawn
    assert isinstance(kept.method.guarantee, Guarantee) == proven
