"""``sfumato protect --method pass`` and ``sfumato audit probe`` on a small AudioMNIST of wav files."""

from __future__ import annotations

import dataclasses
import json
import stat
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile
from typer.testing import CliRunner, Result

from sfumato.attributes import DonorSet, Pass, PassTraining, read_dataset
from sfumato.attributes._command import AttributeRequest, _method
from sfumato.attributes.baselines import GameSettings
from sfumato.cli.audit import app as audit
from sfumato.cli.protect import app as protect
from sfumato.errors import SfumatoError
from sfumato.privacy import Guarantee, NoGuarantee, Randomness, check_outputs, read_card

SPEAKERS = {f"{number:02d}": "female" if number % 3 == 0 else "male" for number in range(1, 7)}
RATE = 16_000


def make_speakers(root: Path, speakers: dict[str, str], *, digits: int = 3) -> Path:
    """Tones: the digit sets the low one, the speaker the high one; fifteen takes to train, two to test."""
    generator = np.random.default_rng(len(speakers))
    time = np.arange(RATE // 4) / RATE
    for number, speaker in enumerate(speakers):
        folder = root / "data" / speaker
        folder.mkdir(parents=True)
        for digit in range(digits):
            for take in (*range(15), 40, 41):
                low, high = 300 + 400 * digit, 2500 + 500 * number
                sound = np.sin(2 * np.pi * low * time) + np.sin(2 * np.pi * high * time)
                noise = 0.05 * generator.normal(size=len(time))
                values = (8000 * (sound + noise)).astype(np.int16)
                wavfile.write(folder / f"{digit}_{speaker}_{take}.wav", RATE, values)
    facts = {
        speaker: {"accent": "german", "age": 20 + number, "gender": sex}
        for number, (speaker, sex) in enumerate(speakers.items())
    }
    (root / "data" / "audioMNIST_meta.txt").write_text(json.dumps(facts))
    return root


@pytest.fixture(scope="module")
def speakers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_speakers(tmp_path_factory.mktemp("spoken"), SPEAKERS)


def order(source: Path, target: Path, *more: str, method: str = "pass") -> Result:
    """The command as a person types it, with a short fit."""
    arguments = [str(source), str(target), "--method", method, "--donors-are", "consenting"]
    if "--private" not in more:
        arguments += ["--private", "gender", "--useful", "digit"]
    quick = ["--set", "steps=8", "--set", "batch=30", "--set", "dimension=32"]
    return CliRunner().invoke(protect, [*arguments, *quick, *more])


def named_next(result: Result) -> list[str]:
    """The words of the command that the last line names."""
    last = result.output.rstrip().splitlines()[-1]
    assert last.startswith("Next:")
    return last.partition("sfumato ")[2].split()


def sentence(result: Result) -> str:
    assert isinstance(result.exception, SfumatoError), result.output
    text = str(result.exception)
    assert text.count("\n") == 0
    return text


def test_the_papers_settings_are_typed_in_one_word(speakers: Path, tmp_path: Path) -> None:
    data = read_dataset(speakers).records
    donors = DonorSet.sample(data, 8, declared="public")

    def asked(method: str = "pass", **settings: object) -> AttributeRequest:
        return AttributeRequest(
            source=speakers, target=tmp_path / "out", method=method, private=["gender"],
            useful=["digit"], donors_are="public", settings={"dimension": 32, **settings},
        )  # fmt: skip

    typed = _method(asked(published="motion", batch=50), donors, Randomness(0))
    paper = Pass.published("motion", ["gender"], ["digit"], donors)
    assert typed.training == dataclasses.replace(paper.training, batch=50)
    assert typed._wanted_encoder == paper._wanted_encoder == "window-cnn"
    assert typed.dimension == 32
    usual = _method(asked(), donors, Randomness(0))
    assert usual.training == PassTraining()
    for name, value in {"steps": 8, "learning_rate": 0.1, "encoder": "mlp"}.items():
        with pytest.raises(SfumatoError, match=f"Expected published or {name}, got both"):
            asked(published="motion", **{name: value})
    with pytest.raises(SfumatoError, match="published"):
        asked("pass-ldp", epsilon=1.0, published="audio")


def test_release_holds_donors_files_and_a_card_and_no_name(speakers: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = order(speakers, out, "--donors", "40")
    assert result.exit_code == 0, result.output
    verb, *words = named_next(result)  # it takes this release, which holds no pictures to review
    then = CliRunner().invoke(import_module(f"sfumato.cli.{verb}").app, words)
    assert then.exit_code == 0, (verb, then.output, then.exception)
    card = read_card(out)
    assert isinstance(card.promise, NoGuarantee)
    check_outputs(card, tmp_path)
    assert "every donor agreed" in str(card.promise.assumptions)
    originals = {path.read_bytes() for path in (speakers / "data").rglob("*.wav")}
    files = sorted((out / "files").iterdir())
    assert len(files) == len(originals) == 6 * 3 * 17
    released = [path.read_bytes() for path in files]
    # donors' own files, of at most as many donors as were asked for, taken from the training takes
    tested = {path.read_bytes() for path in (speakers / "data").rglob("*_4[01].wav")}
    assert set(released) <= originals - tested
    assert 1 < len(set(released)) <= 40
    assert [path.name for path in files[:2]] == ["000000.wav", "000001.wav"]
    with np.load(out / "records.npz") as stored:
        assert len(stored["x"]) == len(files)
        tensors = {donor: stored["x"][row] for row, donor in enumerate(stored["donor"])}
        assert len(tensors) == len(set(released))
        digits = stored["attribute_digit"]
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*.json"))
    written += b"".join(path.read_bytes() for path in tmp_path.rglob("*.md"))
    for name in ("speaker_", str(speakers), "0_01_0"):
        assert name.encode() not in written
    data = read_dataset(speakers)
    assert data.write_file is not None
    content = {
        data.write_file(row, tmp_path / f"row{row}").read_bytes(): int(data.records.y[row])
        for row in range(len(data.records))
    }
    # row i of the table and file i are of the same donor
    assert [content[each] for each in released] == [int(digit) for digit in digits]


def test_nothing_is_replaced_without_force_and_nothing_stays_after_a_failure(
    speakers: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("keep")
    assert "but one is there" in sentence(order(speakers, out, "--donors", "40"))
    assert (out / "mine.txt").read_text() == "keep"
    fresh = tmp_path / "fresh"
    assert order(speakers, fresh, "--donors", "40").exit_code == 0
    before = read_card(fresh)
    assert order(speakers, fresh, "--donors", "40", "--force").exit_code == 0
    assert read_card(fresh).outputs != before.outputs
    assert not list(tmp_path.glob(".sfumato*"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--private", "accent", "--useful", "digit"], "at least two classes"),
        (["--private", "digit", "--useful", "digit"], "cannot be hidden and kept"),
        (["--private", "height", "--useful", "digit"], "they have accent, age"),
        (["--donors", "400"], "at least as many records as donors"),
        (["--donors", "2"], "donors for each of the 3 classes"),
        (["--region", "faces"], "no options for pictures"),
        (["--set", "colour=red"], "Expected settings of the method pass"),
        (["--epsilon", "3"], "take pass-ldp"),
    ],
)
def test_bad_input_is_one_sentence(
    speakers: Path, tmp_path: Path, more: list[str], said: str
) -> None:
    assert said in sentence(order(speakers, tmp_path / "out", *more))
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.iterdir())


def test_donors_must_be_declared_and_other_methods_know_no_attributes(
    speakers: Path, tmp_path: Path
) -> None:
    plain = [str(speakers), str(tmp_path / "out"), "--private", "gender", "--useful", "digit"]
    undeclared = CliRunner().invoke(protect, [*plain, "--method", "pass"])
    assert "--donors-are public, consenting or synthetic" in sentence(undeclared)
    blurred = CliRunner().invoke(protect, [*plain, "--method", "blur"])
    assert "other methods know no attributes" in sentence(blurred)
    dry = order(speakers, tmp_path / "out", "--dry-run")
    assert "Nothing was read or written" in dry.output
    assert "proves nothing" in dry.output
    assert not list(tmp_path.iterdir())
    (tmp_path / "none").mkdir()
    elsewhere = order(tmp_path / "none", tmp_path / "out")
    assert "in its published layout" in sentence(elsewhere)


def test_state_remembers_draws_and_serves_the_audit(speakers: Path, tmp_path: Path) -> None:
    state, first, second = tmp_path / "state", tmp_path / "first", tmp_path / "second"
    common = ["--donors", "40", "--state", str(state)]
    assert order(speakers, first, *common).exit_code == 0
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert stat.S_IMODE((state / "memory.json").stat().st_mode) == 0o600
    assert order(speakers, second, *common).exit_code == 0
    drawn = [np.sort(np.load(each / "records.npz")["donor"]) for each in (first, second)]
    assert np.array_equal(*drawn)
    assert "Expected the settings" in sentence(
        order(speakers, tmp_path / "third", *common, "--set", "mu=0.1")
    )
    strangers = make_speakers(tmp_path / "strangers", {"31": "male", "32": "female"})
    assert "name it by --donors-from" in sentence(order(strangers, tmp_path / "other", *common))
    assert not (tmp_path / "other").exists()
    served = order(strangers, tmp_path / "other", *common, "--donors-from", str(speakers))
    assert served.exit_code == 0, served.output
    donors = {path.read_bytes() for path in (speakers / "data").rglob("*.wav")}
    assert {path.read_bytes() for path in (tmp_path / "other" / "files").iterdir()} <= donors
    inside = order(speakers, tmp_path / "fourth", "--state", str(tmp_path / "fourth" / "state"))
    assert "outside the release" in sentence(inside)

    arguments = [str(speakers), "--state", str(state), "--hidden", "speaker", "--epochs", "30"]
    found = CliRunner().invoke(audit, ["probe", *arguments, "--json", "--out", str(tmp_path / "p")])
    assert found.exit_code == 0, found.output
    report = json.loads(found.stdout)
    assert {name: each["role"] for name, each in report["attributes"].items()} == {
        "gender": "private",
        "digit": "useful",
        "speaker": "hidden",
    }
    assert report["records"] == 6 * 3 * 2
    assert all(each["nag_exact"] is not None for each in report["attributes"].values())
    measures = json.loads((tmp_path / "p.measures.json").read_text())
    assert {row["target"] for row in measures["measures"]} == {"gender", "digit", "speaker"}
    strict = CliRunner().invoke(audit, ["probe", *arguments, "--most", "0"])
    assert strict.exit_code == (1 if report["worst_private_nag"] > 0 else 0)


def test_probe_breaks_a_baseline_and_says_what_it_needs(
    speakers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a short game: how long it is played decides nothing here
    short = partial(GameSettings, steps=40, batch=64, width=32)
    monkeypatch.setattr("sfumato.attributes.baselines._game.GameSettings", short)
    runner = CliRunner()
    chosen = ["--private", "gender", "--useful", "digit", "--epochs", "40"]
    found = runner.invoke(audit, ["probe", str(speakers), "--method", "adv", *chosen, "--json"])
    assert found.exit_code == 0, found.output
    gender = json.loads(found.stdout)["attributes"]["gender"]
    assert gender["nag"] > 50
    assert gender["nag_exact"] is None
    neither = runner.invoke(audit, ["probe", str(speakers), *chosen])
    assert "one of the two" in str(neither.exception)
    nowhere = runner.invoke(audit, ["probe", str(speakers), "--state", str(tmp_path)])
    assert "Expected a state folder" in str(nowhere.exception)


def test_proven_variant_needs_other_people_and_counts_draws(tmp_path: Path) -> None:
    """R5: fitted on others there is a guarantee for a person; on the same people there is none."""
    people = make_speakers(tmp_path / "people", {"21": "male", "22": "female", "23": "male"})
    others = make_speakers(tmp_path / "others", SPEAKERS)
    settings = ["--epsilon", "2", "--set", "draws_per_person=51"]
    out = tmp_path / "out"
    elsewhere = ["--fit-on", str(others), "--donors-from", str(others)]
    result = order(people, out, *settings, *elsewhere, method="pass-ldp")
    assert result.exit_code == 0, result.output
    promise = read_card(out).promise
    assert isinstance(promise, Guarantee)
    assert promise.epsilon == pytest.approx(2 * 51)
    assert len(list((out / "files").iterdir())) == 3 * 3 * 17

    same = order(others, tmp_path / "same", *settings, method="pass-ldp")
    assert "leave them out" in sentence(same)
    few = order(people, tmp_path / "few", "--epsilon", "2", *elsewhere, method="pass-ldp")
    assert "at most 1 draws a person" in sentence(few)
    once = order(
        people, tmp_path / "once", "--epsilon", "2", *elsewhere, "--set", "remember=person",
        method="pass-ldp",
    )  # fmt: skip
    assert once.exit_code == 0, once.output
    with np.load(tmp_path / "once" / "records.npz") as stored:
        assert len(set(stored["donor"].tolist())) <= 3
    assert read_card(tmp_path / "once").promise.epsilon == pytest.approx(2)
    assert "Expected --epsilon for pass-ldp" in sentence(
        order(people, tmp_path / "none", *elsewhere, method="pass-ldp")
    )
    assert not (tmp_path / "few").exists()
    assert not (tmp_path / "same").exists()
