"""The seeded-bug suite fits the code as it is: every patch applies, every test it names exists."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from mutants.__main__ import ALL, Job, verdict  # noqa: E402
from mutants._mutant import Mutant, Patch, PatchError  # noqa: E402


@pytest.mark.parametrize("mutant", ALL, ids=[mutant.number for mutant in ALL])
def test_patches_apply_and_tests_exist(mutant: Mutant, tmp_path: Path) -> None:
    for patch in mutant.patches:
        target = tmp_path / patch.file
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "src" / "sfumato" / patch.file, target)
        patch.apply(tmp_path)
    for test in mutant.tests:
        file, name = test.split("::")
        source = (ROOT / file).read_text()
        assert re.search(rf"^def {re.escape(name.split('[')[0])}\(", source, re.MULTILINE), test


def test_every_number_of_the_notes_is_there() -> None:
    assert {int(mutant.number.rstrip("abcde")) for mutant in ALL} >= set(range(1, 45))
    assert len({mutant.number for mutant in ALL}) == len(ALL)


def test_a_patch_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("a = 1\na = 1\nb = 2\n")
    for text in ("c = 3", "a = 1"):
        with pytest.raises(PatchError):
            Patch("code.py", text, "d = 4").apply(tmp_path)
    with pytest.raises(SyntaxError):
        Patch("code.py", "b = 2", "b = (").apply(tmp_path)
    Patch("code.py", "b = 2", "b = 3").apply(tmp_path)
    assert (tmp_path / "code.py").read_text().endswith("b = 3\n")


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        ({"failures": [("t.py::t", "AssertionError")], "passed": 0}, "caught"),
        ({"failures": [("t.py::t", "Failed")], "passed": 0}, "caught"),
        ({"failures": [], "passed": 3}, "MISSED"),
        ({"failures": [("t.py::t", "NameError")], "passed": 0}, "ERROR"),
        ({"error": "patch", "failures": [], "passed": 0}, "ERROR"),
    ],
)
def test_a_crash_or_a_broken_patch_is_no_catch(outcome: dict[str, object], state: str) -> None:
    assert verdict(Job("1", ("t",), outcome=outcome))[0] == state
