"""verify, audit guarantee and report ask the same question of a card: does it speak for this file?"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sfumato.cli.audit import app as audit
from sfumato.cli.report import app as report
from sfumato.cli.verify import app as verify
from sfumato.privacy import (
    PRIVATE_NOTE,
    Bounds,
    Card,
    CardError,
    Gaussian,
    Guarantee,
    Output,
    card_path,
)

RUNNER = CliRunner()
VERBS: dict[str, Any] = {
    "verify": lambda path, page: RUNNER.invoke(verify, [str(path)]),
    "audit guarantee": lambda path, page: RUNNER.invoke(
        audit, ["guarantee", str(path), "--trials", "1000"]
    ),
    "report": lambda path, page: RUNNER.invoke(report, [str(path), "-o", str(page)]),
}


@pytest.fixture
def output(tmp_path: Path) -> Path:
    made = tmp_path / "walk.mp4"
    made.write_bytes(b"protected")
    promise = Guarantee(
        mechanism="test noise",
        unit="frame",
        relation="replace",
        delta=1e-5,
        event=Gaussian(4.0, Bounds.DIFFERENCE),
        accountant="analytic-gaussian",
    )
    Card(method="other", done="Done.", promise=promise, outputs=(Output.of(made),)).write(made)
    return made


def sign(output: Path) -> None:
    RUNNER.invoke(verify, ["--make-key", str(output.with_name("key"))])
    done = RUNNER.invoke(verify, [str(output), "--sign", str(output.with_name("key"))])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("verb", VERBS)
def test_the_own_card_is_accepted(verb: str, output: Path, tmp_path: Path) -> None:
    done = VERBS[verb](output, tmp_path / "page.html")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("asked", ["other.mp4", "other.mp4.card.json"])
@pytest.mark.parametrize("verb", VERBS)
def test_the_card_of_another_file_is_refused(
    verb: str, asked: str, there: bool, signed: bool, output: Path, tmp_path: Path
) -> None:
    if signed:
        sign(output)
    other = output.with_name("other.mp4")
    shutil.copy(card_path(output), card_path(other))
    if there:
        shutil.copy(output, other)
    done = VERBS[verb](tmp_path / asked, tmp_path / "page.html")
    assert done.exit_code != 0
    assert isinstance(done.exception, CardError) or "found none" in str(done.exception)
    assert not (tmp_path / "page.html").exists()
    assert not (tmp_path / "other.mp4.audit.json").exists()


@pytest.mark.parametrize("verb", ["verify", "audit guarantee"])
def test_a_changed_output_is_refused(verb: str, output: Path, tmp_path: Path) -> None:
    output.write_bytes(b"other")
    for asked in (output, card_path(output)):
        done = VERBS[verb](asked, tmp_path / "page.html")
        assert "content has changed" in str(done.exception)


def test_a_card_whose_output_is_elsewhere_can_be_audited(output: Path, tmp_path: Path) -> None:
    output.rename(tmp_path / "moved.mp4")
    assert VERBS["verify"](card_path(output), None).exit_code != 0
    assert VERBS["audit guarantee"](card_path(output), None).exit_code == 0


def test_verify_prints_nothing_raw(output: Path) -> None:
    card = json.loads(card_path(output).read_text())
    card["done"] = "Done.\x1b[2J\x1b[1;1HThe output and its card agree."
    card_path(output).write_text(json.dumps(card))
    done = RUNNER.invoke(verify, [str(output)])
    assert "\x1b" not in done.output + str(done.exception)
    assert done.exit_code != 0


def test_verify_tells_what_it_could_not_check(output: Path) -> None:
    told = json.loads(RUNNER.invoke(verify, [str(output), "--json"]).stdout)
    assert told["readable_page"] == "agrees"
    assert told["remarks"] == []
    card_path(output).with_suffix(".md").write_text("# Everything is fine")
    assert "readable page" in str(RUNNER.invoke(verify, [str(output)]).exception)


def test_a_wrong_key_file_is_one_sentence(output: Path, tmp_path: Path) -> None:
    sign(output)
    for name in ("missing.pub", "walk.mp4"):
        done = RUNNER.invoke(verify, [str(output), "--key", str(tmp_path / name)])
        assert "public key file" in str(done.exception)


@pytest.fixture
def released(output: Path, tmp_path: Path) -> Path:
    """A folder as ``protect`` leaves it: outputs, cards and pages, also in a folder below."""
    folder = tmp_path / "released"
    (folder / "deep").mkdir(parents=True)
    promise = Card.from_json(json.loads(card_path(output).read_text())).promise
    for place in (folder / "a.mp4", folder / "b.png", folder / "deep" / "c.mp4"):
        place.write_bytes(place.name.encode())
        Card(method="other", done="Done.", promise=promise, outputs=(Output.of(place),)).write(
            place
        )
    return folder


def test_a_folder_agrees_if_every_file_of_it_has_a_card(
    released: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(released)
    for name in (str(released), f"{released}/", ".", "../released"):
        done = RUNNER.invoke(verify, [name, "--json"])
        assert done.exit_code == 0, done.output
        told = json.loads(done.stdout)
        assert (told["ok"], told["agree"], told["problems"]) == (True, True, [])
        assert sorted(each["outputs"][0] for each in told["cards"]) == ["a.mp4", "b.png", "c.mp4"]
    assert "All 3 outputs and their 3 cards agree." in RUNNER.invoke(verify, ["."]).output


def test_a_folder_says_of_what_lies_in_it_what_it_is(released: Path) -> None:
    (released / "a.mp4.audit.json").write_text("{}")
    (released / "nice.png").write_bytes(b"pixels " + PRIVATE_NOTE.encode())
    told = json.loads(RUNNER.invoke(verify, [str(released), "--json"]).stdout)
    reasons = {each["name"]: each["reason"] for each in told["problems"]}
    assert "audit" in reasons["a.mp4.audit.json"]
    assert "private preview" in reasons["nice.png"]
    said = RUNNER.invoke(verify, [str(released)]).output
    assert "may be an original" in said
    for part in ("relation", "delta", "accountant"):
        assert part in said, "an epsilon in the table has its terms"
    assert "All " not in said


@pytest.mark.parametrize(
    "harm", ["stranger", "hidden", "changed", "lost", "link", "page", "forged"]
)
def test_a_folder_does_not_agree_if_one_file_of_it_does_not(released: Path, harm: str) -> None:
    name = {"changed": "deep/c.mp4.card.json", "lost": "a.mp4.card.json"}.get(harm, "new.png")
    if harm == "stranger":
        (released / name).write_bytes(b"original")
    elif harm == "hidden":
        name = "deep/.new.png"
        (released / name).write_bytes(b"original")
    elif harm == "changed":
        (released / "deep" / "c.mp4").write_bytes(b"original")
    elif harm == "lost":
        (released / "a.mp4").unlink()
    elif harm == "link":
        (released / name).symlink_to(released / "b.png")
    elif harm == "page":
        name = "b.png.card.json"
        (released / "b.png.card.md").write_text("# Everything is fine")
    else:
        name = "new.mp4.card.json"
        shutil.copy(released / "a.mp4", released / "new.mp4")
        shutil.copy(released / "a.mp4.card.json", released / name)
    done = RUNNER.invoke(verify, [str(released), "--json"])
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert (told["ok"], told["agree"]) == (False, False)
    assert name in [each["name"] for each in told["problems"]]
    assert name in RUNNER.invoke(verify, [str(released)]).output


def test_a_folder_is_signed_as_a_whole_or_not_at_all(released: Path, tmp_path: Path) -> None:
    RUNNER.invoke(verify, ["--make-key", str(tmp_path / "key")])
    assert RUNNER.invoke(verify, [str(released), "--signed"]).exit_code == 1
    (released / "new.png").write_bytes(b"original")
    before = {path.name: path.read_bytes() for path in released.rglob("*.json")}
    assert RUNNER.invoke(verify, [str(released), "--sign", str(tmp_path / "key")]).exit_code == 1
    assert before == {path.name: path.read_bytes() for path in released.rglob("*.json")}
    (released / "new.png").unlink()
    done = RUNNER.invoke(verify, [str(released), "--sign", str(tmp_path / "key")])
    assert done.exit_code == 0, done.output
    assert "Signed by" in done.output
    public = str(tmp_path / "key.pub")
    assert RUNNER.invoke(verify, [str(released), "--key", public]).exit_code == 0


def test_a_folder_without_cards_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "a.mp4").write_bytes(b"x")
    done = RUNNER.invoke(verify, [str(tmp_path / "some")])
    assert "found no card" in str(done.exception)


def test_a_folder_with_a_card_of_its_own_is_one_output(released: Path, output: Path) -> None:
    promise = Card.from_json(json.loads(card_path(output).read_text())).promise
    whole = Card(method="pass", done="Done.", promise=promise, outputs=(Output.of(released),))
    whole.write(released)
    told = json.loads(RUNNER.invoke(verify, [str(released), "--json"]).stdout)
    assert told["outputs"] == ["released"]
    (released / "new.png").write_bytes(b"original")
    assert "content has changed" in str(RUNNER.invoke(verify, [str(released)]).exception)


def test_a_folder_is_one_table_that_reads_at_80_columns(
    released: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = RUNNER.invoke(verify, [str(released)]).output
    rows = [line for line in words.splitlines() if "agrees" in line]
    assert [row.split()[0] for row in rows] == ["a.mp4", "b.png", "c.mp4"]
    assert all("other" in row and "epsilon" in row for row in rows)
    (released / "b.png").write_bytes(b"original")
    (released / "stranger with a rather long name.png").write_bytes(b"original")
    words = RUNNER.invoke(verify, [str(released)]).output
    table = words.split("\n  ")[0]
    assert table.count("agrees") == 2
    assert table.count(" NO ") == 4  # the card, its page, its output, the stranger
    assert max(map(len, table.splitlines())) <= 80
    assert "…" not in table
