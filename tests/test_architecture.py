"""The rooms import only what docs/architecture.md allows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import files
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "sfumato"
COMMON = {"devices", "errors", "files", "progress", "settings"}


def allowed_imports() -> dict[str, set[str]]:
    rows = re.findall(
        r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$",
        (ROOT / "docs/architecture.md").read_text(),
        re.MULTILINE,
    )
    return {room: set(re.findall(r"\w+", names)) for room, names in rows}


def rooms_imported_by(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(ROOT)}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "sfumato" and len(parts) > 1 and (SOURCE / parts[1]).exists():
                found.add(parts[1])
    return found


def test_every_room_is_in_the_table() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms <= set(allowed_imports())
    assert len(rooms) > 3


def test_rooms_import_only_what_the_table_allows() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {other}"
        for room, allowed in allowed_imports().items()
        for path in (SOURCE / room).rglob("*.py")
        for other in rooms_imported_by(path) - allowed - COMMON - {room}
    ]
    assert not wrong, "\n".join(wrong)


def private_modules_imported_by(path: Path) -> set[str]:
    """Modules of other rooms with a private part in their name."""
    own = path.relative_to(SOURCE).parts[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if (
                parts[0] == "sfumato"
                and own not in parts[1:2]
                and any(p.startswith("_") for p in parts)
            ):
                found.add(name)
    return found


def test_no_room_imports_private_modules_of_another() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in SOURCE.rglob("*.py")
        if len(path.relative_to(SOURCE).parts) > 1
        for name in private_modules_imported_by(path)
    ]
    assert not wrong, "\n".join(sorted(wrong))


def test_no_class_name_stands_for_two_things() -> None:
    """A newcomer who searches for a class finds one."""
    found: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert len(found) > 300
    twice = [f"{name}: {', '.join(places)}" for name, places in found.items() if len(places) > 1]
    assert not twice, "\n".join(twice)


def test_no_package_refers_to_what_lies_outside_the_project() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "shared/" not in text, path
        assert not re.search(r"^\s*(import|from) torchvision", text, re.MULTILINE), path
        assert "weights_only=False" not in text, path


def test_importing_privacy_imports_neither_torch_nor_the_accounting_library() -> None:
    code = (
        "import sys, sfumato.privacy;"
        "print([n for n in ('torch', 'dp_accounting', 'cv2') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def runtime_dependencies() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(line) for line in project["dependencies"]]


def test_every_runtime_dependency_is_imported_by_the_library() -> None:
    """What only tests and benchmarks import is for development: nobody else has to install it."""
    imported = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(str(node.module).partition(".")[0])
    needless = [
        needed.name
        for needed in runtime_dependencies()
        if not {path.parts[0].partition(".")[0] for path in files(needed.name) or ()} & imported
    ]
    assert not needless


def test_no_dependency_keeps_users_from_newer_versions() -> None:
    """Tested versions stand in constraints.txt; an upper bound here would hold users back."""
    bounded = [
        str(needed)
        for needed in runtime_dependencies()
        if any(each.operator in {"<", "<=", "==", "~=", "==="} for each in needed.specifier)
    ]
    assert not bounded


def test_every_dependency_has_a_tested_version() -> None:
    """The Makefile installs with constraints.txt; what is missing there comes as it likes."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    tested = {Requirement(line).name for line in lines if line and not line.startswith("#")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    # diffusion is for those who have its models: nothing here installs it
    wanted = [line for name, lines in extras.items() if name != "diffusion" for line in lines]
    wanted += project["dependencies"]
    names = {canonicalize_name(Requirement(line).name) for line in wanted} - {"sfumato"}
    assert names <= {canonicalize_name(name) for name in tested}
