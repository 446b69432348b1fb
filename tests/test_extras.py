"""What few need is an extra: without it everything else works, and one sentence names it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sfumato.errors import MissingExtraError, needs_extra

ROOT = Path(__file__).resolve().parents[1]
BLOCK = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
LATE = {"embreex", "dlib", "matplotlib", "sqlalchemy", "anny", "psycopg", "starlette", "uvicorn"}
USES = {
    ("embreex", "render"): (
        "from sfumato import stage\n"
        "list(stage.clips(stage.Staging(clips=1, actors=1, rooms=1, frames=1, width=16, height=16)))"
    ),
    ("dlib", "faces"): "from sfumato.people import face_embedder\nface_embedder()",
    ("matplotlib", "report"): (
        "from sfumato.report import Collected, Report\n"
        "Report(Collected((), (), (), (), 0), 'today').figures"
    ),
    ("starlette", "studio"): "from sfumato.studio import serve\nserve('.', say=print)",
    ("sqlalchemy", "ledger"): "from sfumato.ledger import Ledger\nLedger.open('book.db')",
}


def without(packages: set[str], code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCK.format(blocked=packages) + code, *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("package", "extra"), USES)
def test_a_missing_package_is_one_sentence_that_names_its_extra(package: str, extra: str) -> None:
    caught = f"""
from sfumato.errors import MissingExtraError
try:
{chr(10).join("    " + line for line in USES[package, extra].splitlines())}
except MissingExtraError as missing:
    print(missing)
"""
    done = without({package}, caught)
    assert f"pip install 'sfumato[{extra}]'" in done.stdout, done.stderr
    assert repr(package) in done.stdout
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert any(package in line for line in extras[extra])


def test_every_room_can_be_imported_without_any_extra() -> None:
    rooms = sorted(path.parent.name for path in (ROOT / "src" / "sfumato").glob("*/__init__.py"))
    code = "".join(f"import sfumato.{room}\n" for room in rooms) + "print('all')"
    done = without(LATE, code)
    assert done.stdout.strip() == "all", done.stderr
    assert len(rooms) > 10


def test_the_command_line_answers_without_any_extra(tmp_path: Path) -> None:
    code = "from sfumato.cli.main import main\nsys.argv = ['sfumato', *sys.argv[1:]]\nmain()"
    assert without(LATE, code, "methods").returncode == 0
    refused = without(LATE, code, "ledger", "list", "--ledger", str(tmp_path / "book.db"))
    assert refused.returncode == 1
    assert refused.stderr.strip().endswith("run pip install 'sfumato[ledger]'.")
    assert refused.stderr.count("\n") == 1


def test_only_the_named_package_is_taken_for_an_extra() -> None:
    with (
        pytest.raises(ModuleNotFoundError, match="nobody_has_this") as caught,
        needs_extra("other", "ledger", "A ledger"),
    ):
        import nobody_has_this  # noqa: F401
    assert not isinstance(caught.value, MissingExtraError)


def test_the_library_logs_under_one_name_and_shows_nothing() -> None:
    code = (
        "import logging, sfumato\n"
        "logging.getLogger('sfumato.any').error('seen')\n"
        "print(type(logging.getLogger('sfumato').handlers[0]).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "NullHandler"
    assert done.stderr == ""
    for path in (ROOT / "src" / "sfumato").rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if "getLogger(" in line:
                assert 'getLogger("sfumato' in line or "getLogger(__name__)" in line, path
