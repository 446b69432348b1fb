"""Fill the generated tables of README.md and docs/, and draw the figures: python docs/generate.py [--check].

A page is written by hand; what stands between ``<!-- table NAME: PART -->`` and ``<!-- /table -->`` is
a table of the measured numbers in benchmarks/. Figures of the same numbers are drawn to docs/results/.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # other packages install a folder named benchmarks too

from benchmarks.harness.figures import drawn_from, same_data
from benchmarks.tables import TABLES, drawn_figures, markdown_tables, results_path

MARKED = re.compile(r"(<!-- table ([\w-]+): ([^>]+) -->\n).*?(<!-- /table -->)", re.DOTALL)


@cache
def numbers(name: str) -> dict[str, Any]:
    return dict(json.loads(results_path(name).read_text(encoding="utf-8")))


@cache
def parts(name: str) -> dict[str, str]:
    return markdown_tables(TABLES[name].load(), numbers(name))


def filled(text: str) -> str:
    """``text`` of a page with every generated table made anew."""
    return MARKED.sub(lambda mark: f"{mark[1]}{parts(mark[2])[mark[3]]}\n{mark[4]}", text)


def not_shown(pages: list[str]) -> list[str]:
    """Tables that were measured and stand on no page."""
    shown = {(mark[2], mark[3]) for page in pages for mark in MARKED.finditer(page)}
    measured = {
        (name, part) for name in TABLES if results_path(name).is_file() for part in parts(name)
    }
    return [f"{name}: {part}" for name, part in sorted(measured - shown)]


def figures() -> dict[Path, str]:
    """Every figure of every table that was measured."""
    return {
        ROOT / "docs" / "results" / file: svg
        for name in TABLES
        if results_path(name).is_file()
        for file, svg in drawn_figures(TABLES[name].load(), numbers(name), name).items()
    }


def current(path: Path, text: str, new: str) -> bool:
    """Whether the file says what would be written anew; of a figure, the data it was drawn from."""
    if path.suffix == ".svg":
        return same_data(drawn_from(text), drawn_from(new))
    return text == new


def main() -> int:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = {page: filled(page.read_text(encoding="utf-8")) for page in pages}
    stale = 0
    for part in not_shown(list(texts.values())):
        print(f"The table {part} was measured and stands on no page.")
        stale = 1
    made = texts | figures()
    for path, new in made.items():
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if current(path, text, new):
            continue
        if "--check" in sys.argv[1:]:
            print(f"{path.relative_to(ROOT)} is not what docs/generate.py makes: run make docs.")
            stale = 1
        else:
            path.write_text(new, encoding="utf-8")
    return stale


if __name__ == "__main__":
    raise SystemExit(main())
