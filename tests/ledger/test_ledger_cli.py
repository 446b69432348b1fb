"""``sfumato ledger`` as a person and as a program would use it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sfumato.cli.main import main
from sfumato.privacy import Guarantee, NoGuarantee

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run ``sfumato ledger ...`` in an empty folder; gives exit code, output, error output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("SFUMATO_LEDGER", raising=False)

    def called(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sfumato", "ledger", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        printed = capsys.readouterr()
        return (code if isinstance(code, int) else 0), printed.out, printed.err

    return called


@pytest.fixture
def guarantee(tmp_path: Path, promise: Callable[..., Guarantee]) -> str:
    path = tmp_path / "guarantee.json"
    path.write_text(json.dumps(promise().to_json()))
    return str(path)


CREATE = [
    "create",
    "gym",
    "--owner",
    "Ada",
    "--epsilon",
    "0.5",
    "--delta",
    "1e-5",
    "--unit",
    "person",
    "--relation",
    "add-remove",
]


def as_json(answer: tuple[int, str, str]) -> dict[str, Any]:
    assert answer[2] == ""
    return dict(json.loads(answer[1]))


def test_the_life_of_a_budget_in_words(run: Run, guarantee: str, tmp_path: Path) -> None:
    code, out, _ = run(*CREATE)
    assert code == 0
    assert "gym belongs to Ada" in out
    assert "Nothing has been spent yet." in out
    assert (tmp_path / "sfumato-ledger.db").is_file()

    code, out, _ = run("reserve", "gym", "--guarantee", guarantee, "--key", "week 1")
    assert code == 0
    assert "Reserved a noisy sum as week 1 (entry 2)" in out
    assert "▒" in out
    code, out, _ = run("commit", "gym", "--key", "week 1", "--output", guarantee)
    assert (code, "Committed" in out) == (0, True)

    code, out, err = run("reserve", "gym", "--guarantee", guarantee, "--key", "week 2")
    assert (code, out) == (1, "")
    assert err.startswith("sfumato: Expected a release of 'gym' that keeps the total within")
    assert err.count("\n") == 1

    code, out, _ = run("show", "gym")
    assert "█" in out
    assert "▒" not in out
    assert "one release came to epsilon 0.435" in out
    code, out, _ = run("list")
    assert "gym" in out
    assert "of 0.5" in out


def test_every_command_speaks_json(run: Run, guarantee: str) -> None:
    assert as_json(run(*CREATE, "--json"))["spent_epsilon"] == 0
    reserved = as_json(run("reserve", "gym", "--card", guarantee, "--key", "k", "--json"))
    assert reserved["reservation"]["state"] == "reserved"
    assert 0 < reserved["spent_epsilon"] < 0.5
    committed = as_json(run("commit", "gym", "--key", "k", "--json"))
    assert committed["reservation"]["state"] == "committed"
    assert as_json(run("show", "gym", "--json"))["committed_epsilon"] == reserved["spent_epsilon"]
    assert [each["dataset"] for each in as_json(run("list", "--json"))["datasets"]] == ["gym"]
    chain = as_json(run("export", "--json"))
    assert (chain["count"], len(chain["entries"])) == (3, 3)
    assert as_json(run("verify", "--json")) == {
        "ok": True,
        "sound": True,
        "count": 3,
        "head": chain["head"],
    }
    code, out, err = run("show", "pool", "--json")
    assert (code, err) == (1, "")
    assert json.loads(out)["ok"] is False


def test_a_release_without_guarantee_needs_its_flag(run: Run, tmp_path: Path) -> None:
    blur = NoGuarantee(mechanism="blur", reason="A blur can be undone.")
    (tmp_path / "card.json").write_text(json.dumps({"promise": blur.to_json()}))
    run(*CREATE)
    ask = ("reserve", "gym", "--card", "card.json", "--key", "k")
    code, _, err = run(*ask)
    assert code == 1
    assert "--acknowledge-no-guarantee" in err
    code, out, _ = run(*ask, "--acknowledge-no-guarantee")
    assert code == 0
    assert "no budget covers it" in out
    assert "NOT COVERED" in run("show", "gym")[1]


def test_a_dry_run_records_nothing(run: Run, guarantee: str) -> None:
    run(*CREATE, "--shard", "a", "--shard", "b")
    ask = ("reserve", "gym", "--guarantee", guarantee, "--key", "k", "--records", "a")
    code, out, _ = run(*ask, "--dry-run")
    assert (code, "It fits." in out) == (0, True)
    assert as_json(run("export", "--json"))["count"] == 1
    run(*ask)
    code, _, err = run(*ask[:-3], "k2", "--records", "a", "--dry-run")
    assert code == 1
    assert "would bring it to epsilon" in err
    assert run(*ask[:-3], "k2", "--records", "b")[0] == 0


def test_an_export_shows_a_ledger_that_was_cut(run: Run, guarantee: str, tmp_path: Path) -> None:
    run(*CREATE)
    short = (tmp_path / "sfumato-ledger.db").read_bytes()
    run("reserve", "gym", "--guarantee", guarantee, "--key", "k")
    code, out, _ = run("export", "-o", "chain.json")
    assert (code, "2 entries, head" in out) == (0, True)
    assert run("export", "-o", "chain.json")[0] == 1, "an export is not overwritten"
    code, out, _ = run("verify", "--against", "chain.json")
    assert (code, "all there, unchanged" in out) == (0, True)
    (tmp_path / "sfumato-ledger.db").write_bytes(short)
    assert run("verify")[0] == 0
    code, _, err = run("verify", "--against", "chain.json")
    assert code == 1
    assert "at least 2 entries, got 1" in err


def test_the_ledgers_address_comes_from_the_option_or_the_environment(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SFUMATO_LEDGER", "team.db")
    run(*CREATE)
    assert (tmp_path / "team.db").is_file()
    assert run("show", "gym")[0] == 0
    assert run("show", "gym", "--ledger", "other.db")[0] == 1
    monkeypatch.setenv("SFUMATO_LEDGER", "postgresql://ada:secret@127.0.0.1:1/x")
    code, out, err = run("show", "gym")
    assert code == 1
    assert "secret" not in out + err
    assert "secret" not in run("show", "--help")[1]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"type": "guarantee"}', '{"promise": 3}'])
def test_a_file_without_a_guarantee_is_refused_in_one_sentence(
    run: Run, tmp_path: Path, content: str
) -> None:
    run(*CREATE)
    (tmp_path / "bad.json").write_text(content)
    code, _, err = run("reserve", "gym", "--guarantee", "bad.json", "--key", "k")
    assert code == 1
    assert err.startswith("sfumato: Expected")
    assert "Unexpected" not in err


def test_history_as_table_csv_html_and_json(run: Run, guarantee: str, tmp_path: Path) -> None:
    run(*CREATE)
    assert "Nothing was released yet." in run("history")[1]
    ask = ("reserve", "gym", "--guarantee", guarantee, "--key", "k")
    run(*ask, "--operator", "ada", "--purpose", "for the annual report")
    run("commit", "gym", "--key", "k", "--output", guarantee)
    _, out, _ = run("history")
    for words in ("for the annual report", "ada", "guarantee.json", "a noisy sum", "0.435"):
        assert words in out
    (row,) = as_json(run("history", "gym", "--json"))["releases"]
    assert row["outputs"][0]["name"] == "guarantee.json"
    for ending in ("csv", "html", "json"):
        assert run("history", "-o", f"h.{ending}")[0] == 0
        text = (tmp_path / f"h.{ending}").read_text()
        assert "for the annual report" in text
        assert row["outputs"][0]["sha256"] in text
    assert run("history", "-o", "h.csv")[0] == 1, "a history is not overwritten"
    code, _, err = run("history", "-o", "h.pdf")
    assert (code, "as .html, .csv or .json" in err) == (1, True)
    assert run("history", "pool")[0] == 1


def test_the_operator_is_the_user_unless_named_or_denied(
    run: Run, guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "the user")
    run(*CREATE[:5], "20", *CREATE[6:])
    ask = ("reserve", "gym", "--guarantee", guarantee, "--key")
    for key, more in (("a", ()), ("b", ("--operator", "ada")), ("c", ("--operator", "-"))):
        assert run(*ask, key, *more)[0] == 0
    rows = as_json(run("history", "--json"))["releases"]
    assert [row["operator"] for row in rows] == ["the user", "ada", None]


def test_list_and_history_read_at_80_columns(
    run: Run, guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    owner = "the department of movement science"
    run(*CREATE[:3], owner, *CREATE[4:-3], "pixels(16, frames=1)", "--relation", "replace")
    run("create", "a data set with a long name of its own", *CREATE[2:])
    ask = ("reserve", CREATE[1], "--guarantee", guarantee, "--key", "k")
    run(
        "reserve",
        "a data set with a long name of its own",
        *ask[2:],
        "--purpose",
        "x " * 60 + "end",
    )
    for verb in ("list", "history"):
        _, out, _ = run(verb)
        assert max(len(line) for line in out.splitlines()) <= 80
        assert "…" not in out
    words = " ".join(run("list")[1].split())
    assert "pixels(16, frames=1)" in words
    assert "0.435 of 0.5" in words
