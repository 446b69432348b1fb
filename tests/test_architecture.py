"""The rooms import only what docs/architecture.md allows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "sfumato"
COMMON = {"errors", "files"}


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
