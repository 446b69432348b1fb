"""The seven adversarial methods: each objective on known inputs, and the pattern of Table 1."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from attribute_data import speech_like

from benchmarks.attributes.pictures import PictureMethod
from sfumato import protect
from sfumato.attributes import AttributesError, read_table
from sfumato.attributes.baselines import (
    ADV,
    ALF,
    BASELINES,
    BDQ,
    GAP,
    MSDA,
    PPDAR,
    GameSettings,
    MaSS,
    Turn,
)
from sfumato.audit import ProbeSettings
from sfumato.audit.attack import probe
from sfumato.audit.measure import ClassifierScores
from sfumato.privacy import NoGuarantee

QUICK = GameSettings(steps=250, batch=128, width=48)


def turn(private_logits: list[list[float]], *, moved: float = 0.0) -> Turn:
    """Two records of classes 0 and 1 with the adversary's logits; the useful logits are sure."""
    logits = torch.tensor(private_logits)
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    return Turn(
        x=x,
        released=x + moved,
        private={"sex": logits},
        useful={"word": torch.tensor([[20.0, 0.0], [0.0, 20.0]])},
        ensemble=[{"sex": logits}, {"sex": logits * 0}],
        labels={"sex": torch.tensor([0, 1]), "word": torch.tensor([0, 1])},
        priors={"sex": torch.tensor([0.5, 0.5]), "word": torch.tensor([0.5, 0.5])},
    )


SURE = [[4.0, 0.0], [0.0, 4.0]]
UNSURE = [[0.0, 0.0], [0.0, 0.0]]
WRONG = [[0.0, 4.0], [4.0, 0.0]]


def value(kind: type, logits: list[list[float]], **settings: float) -> float:
    method = kind(["sex"], ["word"])
    return float(method.objective(turn(logits, **settings)))


def test_uncertainty_methods_want_the_adversary_unsure() -> None:
    """ADV and BDQ: lowest at the prior; a confidently wrong adversary is as bad as a right one."""
    for kind in (ADV, BDQ):
        assert value(kind, UNSURE) < value(kind, SURE)
        assert value(kind, SURE) == pytest.approx(value(kind, WRONG), abs=1e-5)
    assert value(ADV, UNSURE) == pytest.approx(0.0, abs=1e-5)
    assert value(BDQ, UNSURE) == pytest.approx(-math.log(2), abs=1e-5)


def test_misprediction_methods_want_the_adversary_wrong() -> None:
    for kind in (GAP, MSDA):
        assert value(kind, WRONG) < value(kind, SURE)
    assert value(GAP, WRONG) < value(GAP, UNSURE) < value(GAP, SURE)
    own = math.log(1 + math.exp(-4))
    assert value(GAP, SURE) == pytest.approx(-own, abs=1e-5)


def test_gap_pays_for_distortion_beyond_its_budget_only() -> None:
    method = GAP(["sex"], ["word"], weight=0.25)
    inside, beyond = turn(UNSURE, moved=0.5), turn(UNSURE, moved=1.0)
    assert float(method.objective(inside)) == pytest.approx(-math.log(2), abs=1e-5)
    assert float(method.objective(beyond)) == pytest.approx(-math.log(2) + 10 * 0.75, abs=1e-4)


def test_mass_stops_once_no_information_is_left() -> None:
    """Its hinge is zero at and beyond H(S): a wrong adversary is not rewarded further."""
    assert value(MaSS, WRONG) == pytest.approx(value(MaSS, UNSURE), abs=1e-5)
    own = math.log(1 + math.exp(-4))
    assert value(MaSS, SURE) - value(MaSS, UNSURE) == pytest.approx(math.log(2) - own, abs=1e-4)


def test_ppdar_fights_the_strongest_of_its_ensemble() -> None:
    """The second adversary always answers uniformly, so only a better first one counts."""
    assert value(PPDAR, SURE) == pytest.approx(-math.log(1 + math.exp(-4)), abs=1e-4)
    assert value(PPDAR, WRONG) == pytest.approx(-math.log(2), abs=1e-4)
    assert ALF is PPDAR


def test_there_are_seven_and_each_states_its_objective() -> None:
    assert sorted(BASELINES) == ["adv", "bdq", "gap", "mass", "msda", "ppdar", "spact"]
    assert len({kind.objective_text for kind in BASELINES.values()}) == 7


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_releases_have_the_shape_of_the_data_and_no_guarantee(name: str) -> None:
    records = speech_like(200)
    settings = GameSettings(steps=3, batch=32, width=16)
    method = BASELINES[name](["sex"], ["word"], settings=settings).fit(records)
    x = torch.from_numpy(records.x[:20])
    released = method.obfuscate(x, np.random.default_rng(0))
    assert released.shape == x.shape
    assert torch.isfinite(released).all()
    assert set(method.protector_guesses(x)) == {"sex"}
    assert isinstance(method.guarantee, NoGuarantee)
    with pytest.raises(AttributesError, match="call fit first"):
        BASELINES[name](["sex"], ["word"]).obfuscate(x, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["adv", "mass"])
def test_harmless_to_its_own_adversary_broken_by_the_probe(name: str) -> None:
    """Table 1: the protector's adversary sees little, a fresh attacker a lot, and the word stays."""
    train, test = speech_like(600), speech_like(400, seed=1)
    method = BASELINES[name](["sex"], ["word"], weight=2.0, settings=QUICK).fit(train)
    table = read_table(test, ["sex"], classes=method.classes)
    own = ClassifierScores(2)
    own.update(method.protector_guesses(table.x)["sex"].numpy(), table.labels["sex"].numpy())
    settings = ProbeSettings(width=48, epochs=15, batch=64, learning_rate=3e-3)
    attacked = probe(method, train, test, ["sex", "word"], settings=settings).scores
    assert attacked["sex"].balanced_accuracy > own.compute().balanced_accuracy + 0.1
    assert attacked["sex"].balanced_accuracy > 0.8
    assert attacked["word"].accuracy > 0.9
    # the gap of appendix C: the adversary's information is below the attacker's
    assert attacked["sex"].information > own.compute().information


def test_picture_methods_serve_as_attribute_methods() -> None:
    """Laplace noise at a tiny epsilon drowns a picture, at a huge one leaves it; shape stays."""
    x = torch.linspace(0, 255, 2 * 16 * 16).view(2, 16, 16)
    settings = {"unit": "pixels(1, frames=1)", "seed": 1}
    loud = PictureMethod(protect.get("laplace")(epsilon=0.01, **settings))
    quiet = PictureMethod(protect.get("laplace")(epsilon=1e6, **settings))
    rng = np.random.default_rng(0)
    assert (quiet.obfuscate(x, rng) - x).abs().max() <= 1
    drowned = loud.obfuscate(x, rng)
    assert drowned.shape == x.shape
    assert (drowned - x).abs().mean() > 30
    assert not torch.equal(loud.obfuscate(x, rng), drowned)
    assert loud.promise(16, 16).epsilon <= 0.01 * (1 + 1e-9)
    with pytest.raises(protect.ProtectError, match="for pictures only"):
        loud.obfuscate(torch.zeros(3, 12), rng)
