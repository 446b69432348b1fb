"""The programs of docs/opacus.md and docs/train.md for one's own model run as they stand."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from sfumato.learn import Plan
from sfumato.privacy import Guarantee, read_card

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "opacus.md"


def _python(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def _programs() -> tuple[str, str]:
    first, second = _python(PAGE)
    return first, second


def test_the_sfumato_half_runs_and_keeps_its_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(_programs()[1], str(PAGE), "exec"), names)
    promise = read_card(tmp_path / "model.safetensors").promise
    assert isinstance(promise, Guarantee)
    assert promise.is_private
    assert 3.9 < promise.epsilon <= 4.0
    assert names["step"].steps_taken == names["plan"].steps == 50


def test_both_halves_say_the_same_numbers() -> None:
    opacus, ours = _programs()
    for line in opacus.split("\n")[5:9]:
        assert line in ours, "data and model are the same lines"
    for number in ("4.0", "1e-4", "60", "0.01"):
        assert number in opacus
        assert number in ours


def test_the_opacus_half_runs_and_its_noise_is_the_one_on_the_page() -> None:
    pytest.importorskip("opacus")
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus about itself
        exec(compile(_programs()[0], str(PAGE), "exec"), names)
    ours = {"records": 600, "epsilon": 4.0, "delta": 1e-4, "epochs": 5, "batch": 60}
    noise = {
        relation: Plan.for_(**ours, relation=relation).noise_multiplier  # type: ignore[arg-type]
        for relation in ("add-remove", "replace")
    }
    assert names["engine"].get_epsilon(1e-4) == pytest.approx(4.0, abs=0.05)
    said = PAGE.read_text(encoding="utf-8")
    for number in (names["optimizer"].noise_multiplier, noise["add-remove"], noise["replace"]):
        assert f"{number:.3f}" in said


def test_ones_own_data_and_ones_own_loop_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    own = [code for code in _python(DOCS / "train.md") if "owners" in code]
    assert len(own) == 2
    for code in own:
        exec(compile(code, "train.md", "exec"), names)
    for promise in (names["run"].guarantee, names["step"].guarantee):
        assert str(promise.unit) == "person"
        assert 3.9 < promise.epsilon <= 4.0
    assert len(names["log"]) == names["plan"].steps == 25
