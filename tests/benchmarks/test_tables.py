"""Tables: what is measured once stays measured; what is written is written together or not at all."""

import inspect
import json
import math
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from benchmarks import TABLES, publish
from benchmarks.__main__ import app
from benchmarks.harness import all_tables as all_
from benchmarks.harness.cells import Cells
from benchmarks.harness.figures import Curve, bars, curves, drawn_from, matrix, same_data
from sfumato.errors import SfumatoError
from sfumato.files import OutputExistsError


def _never():
    raise AssertionError("measured twice")


def test_a_part_is_measured_once_for_its_settings(tmp_path):
    first = Cells("demo", {"clips": 3}, str(tmp_path))
    assert first.done("a/b", lambda: {"value": (1, 2)}) == {"value": [1, 2]}
    assert Cells("demo", {"clips": 3}, str(tmp_path)).done("a/b", _never) == {"value": [1, 2]}
    other = Cells("demo", {"clips": 4}, str(tmp_path))
    assert other.done("a/b", lambda: {"value": 5}) == {"value": 5}


def test_keys_that_look_alike_are_kept_apart(tmp_path):
    cells = Cells("demo", {}, str(tmp_path))
    assert cells.path("a/b") != cells.path("a-b")
    assert cells.path("x" * 100 + "1") != cells.path("x" * 100 + "2")


def test_a_part_that_fails_leaves_nothing(tmp_path):
    cells = Cells("demo", {}, str(tmp_path))
    with pytest.raises(AssertionError):
        cells.done("a", _never)
    assert cells.done("a", lambda: {"value": 1}) == {"value": 1}


def _module():
    return SimpleNamespace(
        tables=lambda result: {"values": f"value {result['value']}"},
        figures=lambda result: {"curve": curves("t", "x", "y", [Curve("a", [1, 2], [3, 4])])},
    )


def test_numbers_tables_and_figures_are_written_together(tmp_path):
    publish(_module(), {"value": 7}, tmp_path / "demo.json", force=False)
    assert json.loads((tmp_path / "demo.json").read_text()) == {"value": 7}
    assert (tmp_path / "demo.md").read_text() == "## values\n\nvalue 7\n"
    assert "<svg" in (tmp_path / "demo-curve.svg").read_text()


def test_nothing_is_written_when_one_of_them_is_there(tmp_path):
    (tmp_path / "demo.md").write_text("mine")
    with pytest.raises(OutputExistsError):
        publish(_module(), {"value": 7}, tmp_path / "demo.json", force=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo.md"]
    assert (tmp_path / "demo.md").read_text() == "mine"


def _bars(height=2.0, name="y"):
    return bars("t", "%", ["a", "b"], {"x": [1, height], name: [2, 3]}, errors={"x": [0.1, 0.2]})


def test_a_figure_carries_the_data_it_was_drawn_from():
    assert drawn_from(_bars())["series"] == {"x": [1, 2.0], "y": [2, 3]}
    assert drawn_from(_bars())["errors"] == {"x": [0.1, 0.2]}
    line = Curve("a < b & c", (1, 2), (3, math.nan), error=[0.5, 0.5])
    kept = drawn_from(curves("t", "x", "y", [line], levels={"guess": 0.5}))
    assert kept["lines"][0]["name"] == "a < b & c"
    assert kept["levels"] == {"guess": 0.5}
    assert same_data(kept, drawn_from(curves("t", "x", "y", [line], levels={"guess": 0.5})))
    shares = [[0.25, 0.75], [1.0, 0.0]]
    assert drawn_from(matrix("t", "x", "y", ["0", "1"], shares))["values"] == shares
    assert ">x<" in _bars()
    assert ">y<" in _bars()


def test_a_figure_is_known_by_its_data_and_not_by_its_bytes():
    """Ids of clip paths and the last bits of a mean differ between platforms; neither is news."""
    drawn = drawn_from(_bars())
    assert same_data(drawn, drawn_from(re.sub(r"(#|id=\")p[0-9a-f]{10}", r"\1p0", _bars())))
    assert same_data(drawn, drawn_from(_bars(math.nextafter(2.0, 3.0))))
    assert not same_data(drawn, drawn_from(_bars(2.001)))
    assert not same_data(drawn, drawn_from(_bars(name="z")))
    for nothing in ("", "<svg/>", "not a figure"):
        assert not same_data(drawn, drawn_from(nothing))


def test_every_table_loads_and_can_be_shown():
    for name, table in TABLES.items():
        module = table.load()
        assert callable(module.run), name
        assert callable(module.terminal), name


def test_all_runs_the_tables_asked_for_and_says_which_were_written(tmp_path, monkeypatch):
    ran = []

    def fake(command):
        ran.append(command)
        return SimpleNamespace(returncode=int("train" in command))

    monkeypatch.setattr(subprocess, "run", fake)
    (tmp_path / "data" / "utd_mhad").mkdir(parents=True)
    result = all_.run(data=str(tmp_path / "data"), quick=True, results=str(tmp_path / "out"),
                      only="train,methods")  # fmt: skip
    assert [row["written"] for row in result["rows"]] == [False, True]
    assert ran[0][:4] == [sys.executable, "-m", "benchmarks", "train"]
    assert f"data={tmp_path / 'data' / 'utd_mhad'}" in ran[0]
    assert "--quick" in ran[0]
    assert not any(part.startswith("data=") for part in ran[1])


def test_all_writes_nothing_over_tables_whose_recordings_are_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda command: pytest.fail("it was run"))
    result = all_.run(results=str(tmp_path), only="train")
    assert result["rows"][0]["written"] is False
    assert not all_.failed(result), "nothing went wrong"


def test_the_command_fails_when_a_table_does(tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda command: SimpleNamespace(returncode=1))
    ended = CliRunner().invoke(app, ["all", "only=methods", f"results={tmp_path}"])
    assert ended.exit_code == 1
    monkeypatch.setattr(subprocess, "run", lambda command: SimpleNamespace(returncode=0))
    assert CliRunner().invoke(app, ["all", "only=methods", f"results={tmp_path}"]).exit_code == 0


def test_all_refuses_an_unknown_table():
    with pytest.raises(SfumatoError, match="'nonsense'"):
        all_.run(only="nonsense")


def test_the_command_refuses_an_unknown_table_and_lists_those_there_are():
    caught = CliRunner().invoke(app, ["nonsense"]).exception
    assert isinstance(caught, SfumatoError)
    assert "speed: What a private step costs" in str(caught)


def test_all_goes_on_after_a_table_that_fails_and_says_what_it_lacked(tmp_path, monkeypatch):
    ran = []

    def fake(command):
        ran.append(command[3])
        return SimpleNamespace(returncode=int(command[3] == "accounting"))

    monkeypatch.setattr(subprocess, "run", fake)
    result = all_.run(quick=True, results=str(tmp_path), only="accounting,visual,speed")
    assert ran == ["accounting", "visual", "speed"]
    assert all_.failed(result)
    assert [row["without"] for row in result["rows"]] == [[], ["utd_mhad"], []]


def test_all_lets_every_table_go_on_where_it_was(tmp_path, monkeypatch):
    """Tables keep their parts themselves, or are given the same folder again."""
    ran = []
    monkeypatch.setattr(
        subprocess, "run", lambda command: ran.append(command) or SimpleNamespace(returncode=0)
    )
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "cache"))
    for quick in (True, True, False):
        all_.run(
            quick=quick,
            results=str(tmp_path / str(quick)),
            only="avatar",
            data=str(_with(tmp_path, "clips")),
        )
    works = [[part for part in command if part.startswith("work=")] for command in ran]
    assert works[0] == works[1] == [f"work={tmp_path / 'cache' / 'bench' / 'avatar-quick'}"]
    assert works[2] == [f"work={tmp_path / 'cache' / 'bench' / 'avatar'}"]


def _with(folder, name):
    (folder / "data" / name).mkdir(parents=True, exist_ok=True)
    return folder / "data"


def test_all_never_imports_the_tables_itself(tmp_path, monkeypatch):
    """One that cannot be imported fails by itself, in its own process."""
    monkeypatch.setattr(subprocess, "run", lambda command: SimpleNamespace(returncode=1))
    monkeypatch.setattr(type(TABLES["speed"]), "load", lambda self: pytest.fail("imported"))
    assert all_.failed(all_.run(quick=True, results=str(tmp_path), only="speed"))


def test_the_whole_of_all_takes_what_its_tables_take():
    others = [each for name, each in TABLES.items() if name != "all" and not each.alone]
    assert TABLES["all"].minutes == sum(table.minutes for table in others)
    assert TABLES["all"].quick_minutes >= sum(table.quick_minutes for table in others)
    assert TABLES["all"].quick_minutes <= 20


def _table(monkeypatch, result):
    module = SimpleNamespace(run=lambda quick=False: dict(result), terminal=lambda result: ["said"],
                             tables=lambda result: {"all": "table"})  # fmt: skip
    monkeypatch.setattr(type(TABLES["speed"]), "load", lambda self: module)


def test_a_quick_run_says_so_and_never_replaces_a_whole_table(tmp_path, monkeypatch):
    _table(monkeypatch, {"value": 1})
    whole, short = tmp_path / "speed.json", tmp_path / "short.json"
    assert CliRunner().invoke(app, ["speed", "--out", str(whole)]).exit_code == 0
    for options in (["--quick"], ["quick=true"]):
        refused = CliRunner().invoke(app, ["speed", *options, "--out", str(whole), "--force"])
        assert isinstance(refused.exception, SfumatoError), options
        told = CliRunner().invoke(app, ["speed", *options, "--out", str(short), "--force"])
        assert told.exit_code == 0
        assert "A quick run" in told.output
        assert "A quick run" in short.with_suffix(".md").read_text()
        assert json.loads(short.read_text())["quick"] is True
    assert json.loads(whole.read_text()) == {"value": 1}
    assert whole.with_suffix(".md").read_text() == "## all\n\ntable\n"
    # a whole table may replace a quick run
    assert CliRunner().invoke(app, ["speed", "--out", str(short), "--force"]).exit_code == 0
    assert json.loads(short.read_text()) == {"value": 1}


def test_quick_options_are_options_of_their_tables():
    for name, table in TABLES.items():
        known = inspect.signature(table.load().run).parameters
        assert {option.partition("=")[0] for option in table.quick} <= set(known), name
