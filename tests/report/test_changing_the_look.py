"""The report's look is two files: a change in them is on the page, and no Python has to move."""

from __future__ import annotations

import re
import shutil
from importlib.resources import files
from pathlib import Path

import pytest
from jinja2 import FileSystemLoader
from report_material import page_of

from sfumato.report import _templates

TEMPLATES = Path(str(files("sfumato.report"))) / "templates"
RULE = ".toy-banner { border: 3px dotted var(--privacy); }"
BANNER = (
    '<p class="toy-banner">Hospital of the toys: {{ report.found.releases | length }} releases</p>'
)


def test_a_style_and_a_banner_added_to_the_templates_are_on_the_page(
    untouched_run: Path, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited = shutil.copytree(TEMPLATES, tmp_path / "templates")
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    (edited / "style.css").write_text(f"{style}\n{RULE}\n", encoding="utf-8")
    text = (TEMPLATES / "report.html").read_text(encoding="utf-8")
    (edited / "report.html").write_text(
        text.replace("</header>", f"{BANNER}\n</header>"), encoding="utf-8"
    )
    monkeypatch.setattr(_templates, "PackageLoader", lambda package: FileSystemLoader(edited))
    changed = page_of(untouched_run)
    assert RULE in changed
    assert re.search(r"Hospital of the toys: \d+ releases", changed)
    # everything else is as it was
    kept = [line for line in changed.splitlines() if "toy" not in line and line.strip()]
    assert kept == [line for line in page.splitlines() if line.strip()]


def test_the_look_is_in_the_templates_alone() -> None:
    for module in TEMPLATES.parent.glob("*.py"):
        if module.name == "_svg.py":  # draws figures: shapes, and colours by the style's own names
            continue
        written = module.read_text(encoding="utf-8")
        assert not re.search(r"<(p|div|span|table|section|h[1-6]|ul|li)\b", written), module.name
        assert not re.search(r"[\"']#[0-9a-fA-F]{3,8}[\"']", written), module.name
