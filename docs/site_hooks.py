"""What `mkdocs build` needs beside the pages: CONTRIBUTING.md lies at the root, where people look for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGE = "contributing.md"


def on_files(files: Files, config: Any) -> Files:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    files.append(File.generated(config, PAGE, content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    return markdown.replace("](../CONTRIBUTING.md", f"]({PAGE}")
