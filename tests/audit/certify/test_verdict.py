"""``sfumato audit guarantee``: right promises stand, wrong ones fall, none is said plainly."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato import protect
from sfumato.attributes import PassLDP
from sfumato.audit import LowerBound, audit_guarantee, verdict_paths, write_verdict
from sfumato.audit.certify import _release_code as release_code
from sfumato.audit.certify import _verdict as verdict_module
from sfumato.audit.certify import check_draws
from sfumato.cli.audit import app
from sfumato.errors import SfumatoError
from sfumato.learn import Plan
from sfumato.learn.engine import _noise as noise_module
from sfumato.media import VideoWriter, write_image
from sfumato.privacy import (
    Bounds,
    Card,
    DiscreteNoise,
    ExponentialChoice,
    Gaussian,
    Guarantee,
    NoAccess,
    NoGuarantee,
    Output,
    Relation,
    SelfComposed,
    Unit,
)
from sfumato.protect.noise import VideoDprp
from sfumato.protect.noise import _random_pixels as random_pixels
from sfumato.protect.noise._bases import Dct3


def carded(folder: Path, promise: Guarantee | NoGuarantee, method: str = "any") -> Path:
    output = folder / "released.bin"
    output.write_bytes(b"released")
    Card(
        method=method, done="Something was released.", promise=promise,
        outputs=(Output.of(output),),
    ).write(output)  # fmt: skip
    return output


def guarantee(event: Any, **changes: Any) -> Guarantee:
    settings: dict[str, Any] = {
        "mechanism": "test", "unit": Unit.record(), "relation": Relation.REPLACE, "delta": 1e-5,
        "event": event, "accountant": "pld",
    }  # fmt: skip
    return Guarantee(**{**settings, **changes})


@pytest.fixture
def dprp_release(tmp_path: Path) -> Path:
    source = tmp_path / "in.mkv"
    rng = np.random.default_rng(0)
    with VideoWriter(source, rate=Fraction(10), size=(32, 24), codec="ffv1") as writer:
        for _ in range(6):
            writer.write(rng.integers(0, 256, (24, 32, 3)).astype(np.uint8))
    method = VideoDprp(
        epsilon=2.0, delta=1e-5, unit="pixels(4, frames=2)", block=4, kept_frames=2, kept_size=4
    )
    method.apply(source, tmp_path / "out.mkv")
    return tmp_path / "out.mkv"


def test_a_right_training_stands_and_wrong_noise_falls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(
        epsilon=2.0, delta=1e-5, records=4, batch=1, steps=4, clip_norm=1.0,
        relation="add-remove", unit="record",
    )  # fmt: skip
    output = carded(tmp_path, plan.guarantee, "dp-sgd")
    verdict = audit_guarantee(output, trials=4000, generator=np.random.default_rng(1))
    assert not verdict.refuted, str(verdict)
    assert len(verdict.attacks) == 2
    assert len(verdict.findings) == 4
    assert 0.2 < verdict.attacks[0].bound.epsilon < 2.0
    assert {point.epsilon for point in verdict.curve} == {0.0, 0.1, 0.3}

    real = noise_module.GaussianNoise.draw
    monkeypatch.setattr(noise_module.GaussianNoise, "draw", lambda self, n: real(self, n) * 0.8)
    broken = audit_guarantee(output, trials=2000, generator=np.random.default_rng(1))
    assert broken.refuted
    assert "REFUTED" in str(broken)


def test_an_accountant_that_understates_is_refuted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulation follows what was done, so a curve that is too low does not survive it."""
    output = carded(tmp_path, guarantee(Gaussian(2.0, Bounds.DIFFERENCE)))
    assert not audit_guarantee(output, trials=20_000, generator=np.random.default_rng(1)).refuted
    real = verdict_module.delta_of
    monkeypatch.setattr(verdict_module, "delta_of", lambda *args: 0.8 * real(*args))
    assert audit_guarantee(output, trials=20_000, generator=np.random.default_rng(1)).refuted


def test_a_release_is_audited_from_its_settings(
    dprp_release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = audit_guarantee(dprp_release, trials=4000, generator=np.random.default_rng(1))
    assert not verdict.refuted, str(verdict)
    assert [attack.target for attack in verdict.attacks] == ["Accounting", "Release code"]
    assert verdict.attacks[1].bound.epsilon > 0.5
    assert len(verdict.findings) == 3
    real = Dct3.analyse
    monkeypatch.setattr(Dct3, "analyse", lambda self, block: 2 * real(self, block))
    broken = audit_guarantee(dprp_release, trials=4000, generator=np.random.default_rng(1))
    wrong = [finding.check for finding in broken.findings if not finding.conforms]
    assert wrong == ["sensitivity of the basis dct, rounding included"]


def test_no_guarantee_is_said_plainly(tmp_path: Path) -> None:
    output = carded(tmp_path, NoGuarantee(mechanism="blur", reason="Blur proves nothing."))
    verdict = audit_guarantee(output)
    assert "no guarantee to falsify" in str(verdict)
    assert not verdict.refuted
    assert verdict.to_json()["falsifiable"] is False


def test_a_stream_that_was_never_opened_needs_no_simulation(tmp_path: Path) -> None:
    nothing = guarantee(NoAccess(), unit=Unit.masked_tokens(), delta=0.0)
    verdict = audit_guarantee(carded(tmp_path, nothing))
    assert "nothing private was read" in str(verdict)
    assert not verdict.attacks


RELEASES: list[tuple[str, dict[str, Any]]] = [
    ("laplace", {"epsilon": 2.0, "unit": "pixels(1, frames=2)"}),
    ("dppix", {"epsilon": 2.0, "unit": "pixels(4, frames=1)", "b": 2}),
    ("snow", {"unit": "pixels(2, frames=1)", "p": 0.9}),
    ("randomized-response", {"epsilon": 9.0, "unit": "pixels(1, frames=1)"}),
    ("dp-image", {"epsilon": 6.0, "delta": 1e-5, "unit": "frame"}),
    ("dprp", {"epsilon": 2.0, "delta": 1e-5, "unit": "pixels(4, frames=2)", "basis": "srht",
              "k": 30, "block": 4}),
    ("dprp", {"epsilon": 2.0, "delta": 1e-5, "unit": "pixels(4, frames=2)", "basis": "gaussian",
              "k": 30, "block": 4}),
]  # fmt: skip


@pytest.fixture
def few_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_code, "_PICTURES", 3000)
    monkeypatch.setattr(release_code, "_LATENTS", 1000)
    monkeypatch.setattr(release_code, "_MOST", 3000)


def released(folder: Path, name: str, settings: dict[str, Any]) -> Path:
    source = folder / "in.png"
    rng = np.random.default_rng(0)
    write_image(source, rng.integers(0, 256, (12, 16, 3)).astype(np.uint8))
    protect.make(name, settings | {"seed": 3}).apply(source, folder / "out.png")
    return folder / "out.png"


@pytest.mark.usefixtures("few_pictures")
@pytest.mark.parametrize(("name", "settings"), RELEASES, ids=[name for name, _ in RELEASES])
def test_the_code_of_every_release_is_run(
    tmp_path: Path, name: str, settings: dict[str, Any]
) -> None:
    output = released(tmp_path, name, settings)
    verdict = audit_guarantee(output, trials=1000, generator=np.random.default_rng(1))
    assert not verdict.refuted, str(verdict)
    assert not verdict.not_run
    assert verdict.attacks[-1].target == "Release code"
    assert len(verdict.findings) >= 2
    if name in {"laplace", "dppix", "randomized-response", "dp-image"}:
        found = verdict.attacks[-1].bound
        assert found.epsilon > 0.2


def weaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise half as large, and coins that fall for the original."""
    draw = DiscreteNoise.draw
    monkeypatch.setattr(DiscreteNoise, "draw", lambda self, *rest: draw(self, *rest) // 2)
    fair = random_pixels.coins
    monkeypatch.setattr(
        random_pixels, "coins", lambda threshold, *rest: fair(threshold * 5 // 6, *rest)
    )


@pytest.mark.usefixtures("few_pictures")
@pytest.mark.parametrize(("name", "settings"), RELEASES, ids=[name for name, _ in RELEASES])
def test_weak_noise_of_any_release_is_refuted(
    tmp_path: Path, name: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = released(tmp_path, name, settings)
    weaken(monkeypatch)
    verdict = audit_guarantee(output, trials=1000, generator=np.random.default_rng(1))
    assert verdict.refuted
    assert any(not finding.conforms for finding in verdict.findings)


def test_pass_ldp_is_audited_by_its_own_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    promise = guarantee(
        SelfComposed(ExponentialChoice(1.0), 2), delta=0.0, mechanism="PASS-LDP (epsilon 1 a draw)"
    )
    stored = tmp_path / "promise.json"
    stored.write_text(json.dumps({"promise": promise.to_json()}))
    verdict = audit_guarantee(stored, trials=4000, generator=np.random.default_rng(1))
    assert not verdict.refuted, str(verdict)
    assert [f.check for f in verdict.findings] == [
        "enumeration of the table",
        "draws follow the table",
    ]
    assert 0.5 < verdict.attacks[-1].bound.epsilon < 2.0
    # half of the temperature: twice the epsilon
    real = PassLDP._weights
    monkeypatch.setattr(PassLDP, "_weights", lambda self, x: (real(self, x) >> 32) ** 3)
    assert audit_guarantee(stored, trials=1000, generator=np.random.default_rng(1)).refuted


def test_draws_that_do_not_follow_their_table_are_found() -> None:
    table = np.array([[0.7, 0.3], [0.3, 0.7]])
    assert check_draws(10_000 * table, table).conforms
    assert not check_draws([[6500, 3500], [3000, 7000]], table).conforms
    assert not check_draws([[7000, 3000], [3000, 7000]], [[1.0, 0.0], [0.3, 0.7]]).conforms


def test_a_tight_mechanism_is_not_accused_by_chance(tmp_path: Path) -> None:
    """At 95 % one right answer in twenty looks wrong; an alarm needs 99.99 %."""
    bound = LowerBound(1.02, 0.95, 0.0, "test", 100, beside=((0.99, 1.005), (0.9999, 0.98)))
    assert bound.exceeds(1.0)
    assert not verdict_module.Attack("any", 1.0, bound).refutes
    assert verdict_module.Attack("any", 0.97, bound).refutes


def test_what_was_not_run_is_listed(tmp_path: Path) -> None:
    verdict = audit_guarantee(
        carded(tmp_path, guarantee(ExponentialChoice(1.0), delta=0.0)),
        trials=2000,
        generator=np.random.default_rng(1),
    )
    assert any("code of any" in reason for reason in verdict.not_run)
    assert 0.5 < verdict.attacks[0].bound.epsilon <= 1.0


def test_the_promise_of_a_release_of_records_is_read(tmp_path: Path) -> None:
    stored = tmp_path / "promise.json"
    stored.write_text(
        json.dumps({"promise": guarantee(ExponentialChoice(1.0), delta=0.0).to_json()})
    )
    verdict = audit_guarantee(stored, trials=2000, generator=np.random.default_rng(1))
    assert 0.5 < verdict.attacks[0].bound.epsilon <= 1.0
    stored.write_text("{}")
    with pytest.raises(SfumatoError, match=r"promise\.json"):
        audit_guarantee(stored)


def test_the_verdict_lies_beside_the_card_and_is_not_overwritten(tmp_path: Path) -> None:
    output = carded(tmp_path, guarantee(ExponentialChoice(1.0), delta=0.0))
    runner = CliRunner()
    first = runner.invoke(app, ["guarantee", str(output), "--trials", "1000", "--json"])
    assert first.exit_code == 0, first.output
    machine, words = verdict_paths(output)
    stored = json.loads(machine.read_text())
    shown = json.loads(first.stdout)
    assert stored["attacks"] == shown["attacks"]
    assert stored["attacks"][0]["confidence"] == 0.95
    assert stored["attacks"][0]["beside"][0]["confidence"] == 0.99
    assert "at least" in words.read_text()
    assert str(tmp_path) not in machine.read_text() + words.read_text()
    again = runner.invoke(app, ["guarantee", str(output), "--trials", "1000"])
    assert isinstance(again.exception, SfumatoError)
    with pytest.raises(SfumatoError):
        write_verdict(
            audit_guarantee(output, trials=1000, generator=np.random.default_rng(1)), output
        )
    forced = runner.invoke(app, ["guarantee", f"{output}.card.json", "--trials", "1000", "--force"])
    assert forced.exit_code == 0
    assert verdict_paths(f"{output}.card.json") == (machine, words)


def test_where_nothing_is_promised_the_last_lines_say_that_nothing_was_tried(
    tmp_path: Path,
) -> None:
    """Whoever reads "not refuted" there takes a blur for something that stood an attack."""
    (tmp_path / "blur").mkdir()
    without = carded(
        tmp_path / "blur", NoGuarantee(mechanism="blur", reason="Blur proves nothing.")
    )
    with_one = carded(tmp_path, guarantee(ExponentialChoice(1.0), delta=0.0))
    told = {}
    for name, output in (("without", without), ("with", with_one)):
        found = CliRunner().invoke(app, ["guarantee", str(output), "--trials", "1000"])
        assert found.exit_code == 0, found.output
        told[name] = found.output
    assert "nothing is promised, so nothing was tried" in told["without"]
    assert "nothing is proven" in told["without"]
    assert "refuted" not in told["without"]
    assert "the promise is not refuted" in told["with"]


def test_a_refuted_promise_exits_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = carded(tmp_path, guarantee(Gaussian(2.0, Bounds.DIFFERENCE)))
    monkeypatch.setattr(verdict_module, "delta_of", lambda *args: 0.0)
    found = CliRunner().invoke(app, ["guarantee", str(output), "--trials", "2000"])
    assert found.exit_code == 1
    assert "do not rely on it" in found.stdout
