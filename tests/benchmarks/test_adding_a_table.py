"""A table is a module and one line; the command, its files and the pages know it then."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import benchmarks
from benchmarks import TABLES, Table, tables
from benchmarks.__main__ import app

ROOT = Path(__file__).resolve().parents[2]
TOY = """
from benchmarks.harness.figures import Curve, curves
from benchmarks.harness.markdown import markdown

def run(*, quick: bool = False, most: int = 3) -> dict:
    return {"squares": [n * n for n in range(1 if quick else most)]}

def tables(result: dict) -> dict:
    lines = [[str(n), str(square)] for n, square in enumerate(result["squares"])]
    return {"squares": markdown(["n", "square"], lines)}

def terminal(result: dict) -> list:
    return [f"{len(result['squares'])} squares"]

def figures(result: dict) -> dict:
    x = list(range(len(result["squares"])))
    return {"growth": curves("Squares", "n", "square", [Curve("square", x, result["squares"])])}
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder ``benchmarks/toy`` that somebody would add, elsewhere, and the line in TABLES."""
    folder = tmp_path / "toy"
    (folder / "results").mkdir(parents=True)
    (folder / "__init__.py").write_text('"""Table ``toy``."""\n')
    (folder / "run.py").write_text(TOY)
    monkeypatch.setattr(benchmarks, "__path__", [*benchmarks.__path__, str(tmp_path)])
    monkeypatch.setitem(TABLES, "toy", Table("toy.run", "Squares of small numbers.", 1, 0.1))
    monkeypatch.setattr(tables, "__file__", str(tmp_path / "tables.py"))
    yield folder
    for name in [each for each in sys.modules if each.startswith("benchmarks.toy")]:
        del sys.modules[name]


def test_the_command_runs_it_and_writes_numbers_table_and_figure(toy: Path) -> None:
    out = toy / "results" / "toy.json"
    done = CliRunner().invoke(app, ["toy", "most=4", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "4 squares" in done.output
    assert json.loads(out.read_text()) == {"squares": [0, 1, 4, 9]}
    assert "| 3 | 9 |" in out.with_suffix(".md").read_text()
    assert "<svg" in out.with_name("toy-growth.svg").read_text()


def test_an_option_that_it_does_not_have_is_refused_in_a_sentence(toy: Path) -> None:
    told = CliRunner().invoke(app, ["toy", "colour=red"])
    assert "colour" in str(told.exception)


def test_a_page_with_its_mark_is_filled_from_its_numbers(toy: Path) -> None:
    (toy / "results" / "toy.json").write_text(json.dumps({"squares": [0, 1]}))
    made = runpy.run_path(str(ROOT / "docs/generate.py"))
    page = "Prose.\n\n<!-- table toy: squares -->\nold\n<!-- /table -->\n\nMore prose.\n"
    filled = made["filled"](page)
    assert "| 1 | 1 |" in filled
    assert "old" not in filled
    assert filled.startswith("Prose.")
    assert filled.endswith("More prose.\n")
    assert made["filled"](filled) == filled
    assert made["not_shown"]([filled]) == []
    assert made["not_shown"](["a page without the mark"]) == ["toy: squares"]
