"""The runner of ``make portable`` tells failures from skips, and orders are orders."""

from __future__ import annotations

import importlib.util
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def portable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("portable", ROOT / "tools" / "portable.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "portable", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "WORK", tmp_path / "work")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VERSIONS", "print('here')")
    monkeypatch.setenv("SFUMATO_TEST_WORKERS", "0")
    for condition in ("SFUMATO_TEST_ORDER", "SFUMATO_TEST_SEED", "TZ"):  # of a run around this one
        monkeypatch.delenv(condition, raising=False)
    # many runs of nothing: only what the command needs is loaded
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    return module


def run(portable: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["portable.py", *arguments])
    return int(portable.main())


def test_passed_failed_and_skipped_are_counted_and_a_failure_is_the_exit_code(
    portable: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tests = tmp_path / "test_some.py"
    tests.write_text(
        "import time, pytest\n"
        "def test_zone(): assert time.timezone == -19800\n"
        "def test_absent(): pytest.skip('nothing here')\n"
    )
    assert run(portable, monkeypatch, "tz", "--tests", str(tests)) == 0
    assert "1 passed, 0 failed, 1 skipped" in capsys.readouterr().out
    assert run(portable, monkeypatch, "order-5", "tz", "--tests", str(tests)) == 1
    told = capsys.readouterr().out
    assert "2 passed" not in told
    assert "1 failed, 2 skipped" in told
    assert "order-5.log" in told
    assert "test_some::test_zone" in told
    assert "assert 0 == -19800" in told
    broken = tmp_path / "test_broken.py"
    broken.write_text("import what_nobody_has\n")
    assert run(portable, monkeypatch, "tz", "--tests", str(broken)) == 1


def test_a_condition_that_is_not_there_is_skipped_with_the_reason(
    portable: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refused() -> object:
        raise portable.Skip("no such CPU")

    def pretended() -> object:
        return portable.Setting(check="assert False, 'it is not so'")

    conditions = [portable.Condition(m.__name__, "", ("tests",), m) for m in (refused, pretended)]
    monkeypatch.setattr(portable, "CONDITIONS", conditions)
    assert run(portable, monkeypatch, "refused", "pretended") == 0
    told = capsys.readouterr().out
    assert "skipped: no such CPU" in told
    assert "skipped: it is not so" in told
    with pytest.raises(SystemExit, match="refused, pretended or order-N, got tzz"):
        run(portable, monkeypatch, "tzz")


def test_the_default_runs_hold_every_condition_with_every_test_it_can_touch(
    portable: ModuleType,
) -> None:
    environments = portable.chosen(portable.ENVIRONMENTS)
    assert len(environments) <= 4
    for condition in portable.CONDITIONS:
        assert any(
            set(condition.tests) <= set(each.tests) or each.tests == portable.WHOLE
            for each in environments
            if condition in each.conditions
        ), condition.name


def test_a_failure_in_a_combined_run_is_laid_at_the_door_of_one_condition(
    portable: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def absent() -> object:
        raise portable.Skip("no such thing here")

    def marked(name: str) -> object:
        return portable.Setting({name: "yes"})

    monkeypatch.setattr(
        portable,
        "CONDITIONS",
        [
            portable.Condition("red", "", ("tests",), lambda: marked("RED")),
            portable.Condition("blue", "", ("tests",), lambda: marked("BLUE")),
            portable.Condition("absent", "", ("tests",), absent),
        ],
    )
    tests = tmp_path / "test_some.py"
    tests.write_text(
        "import os\n"
        "RED, BLUE, ORDER = (name in os.environ for name in ('RED', 'BLUE', 'SFUMATO_TEST_ORDER'))\n"
        "def test_good(): assert True\n"
        "def test_red(): assert not RED\n"
        "def test_both(): assert not (RED and BLUE)\n"
        "def test_order(): assert not ORDER\n"
        "def test_always(): assert False\n"
    )
    assert run(portable, monkeypatch, "red+absent+order-3+blue", "--tests", str(tests)) == 1
    told = capsys.readouterr().out
    assert "absent skipped: no such thing here" in told, "the rest is still tried"
    assert "1 passed, 4 failed" in told
    assert "::test_red: red\n" in told
    assert "::test_order: order-3\n" in told
    assert "::test_both: only together" in told
    assert "::test_always: fails without any condition\n" in told
    assert "test_good" not in told


def test_conditions_that_contradict_each_other_are_not_combined(
    portable: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tests = tmp_path / "test_some.py"
    tests.write_text("def test_good(): assert True\n")
    assert run(portable, monkeypatch, "order-1+order-2", "--tests", str(tests)) == 0
    assert "order-2 skipped: two conditions want SFUMATO_TEST_ORDER" in capsys.readouterr().out


def test_an_order_holds_the_same_tests_and_can_be_had_again(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrange = request.config.pluginmanager.getplugin(str(ROOT / "tests" / "conftest.py"))
    usual = [SimpleNamespace(path=Path(file), name=n) for file in "abcd" for n in range(9)]

    def arranged(order: str) -> list[SimpleNamespace]:
        monkeypatch.setenv("SFUMATO_TEST_ORDER", order)
        items = list(usual)
        arrange.pytest_collection_modifyitems(items)  # type: ignore[union-attr]
        return items

    one, two = arranged("1"), arranged("2")
    assert usual != one != two != usual
    assert one == arranged("1")
    assert sorted(map(str, one)) == sorted(map(str, usual))
    changes = sum(before.path != after.path for before, after in pairwise(one))
    assert changes == 3, "the tests of a file stay together"


def test_what_fails_once_is_printed_and_what_fails_twice_counts(
    portable: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tests = tmp_path / "test_some.py"
    tests.write_text(
        "from pathlib import Path\n"
        "mark = Path(__file__).with_suffix('.mark')\n"
        "def test_chance():\n"
        "    if not mark.exists():\n"
        "        mark.touch()\n"
        "        assert False, 'the first time'\n"
    )
    assert run(portable, monkeypatch, "tz", "--again", "--tests", str(tests)) == 0
    told = capsys.readouterr().out
    assert "1 failed once, of which 0 failed again" in told
    assert "the first time" in told
    tests.write_text("def test_always(): assert False\n")
    assert run(portable, monkeypatch, "tz", "--again", "--tests", str(tests)) == 1
    assert "1 failed once, of which 1 failed again" in capsys.readouterr().out
