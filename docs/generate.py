"""Write the generated parts of README.md: python docs/generate.py [--check]."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from sfumato import protect

ROOT = Path(__file__).resolve().parents[1]
COSTS = ROOT / "results" / "methods.json"


def methods_table() -> str:
    """Every release method with its guarantee and its measured cost."""
    costs = json.loads(COSTS.read_text())["methods"] if COSTS.exists() else {}
    lines = [
        "| method | what it does | what it proves | cost |",
        "| --- | --- | --- | --- |",
    ]
    for name, method in sorted(protect.methods().items()):
        cost = costs.get(name)
        shown = f"{cost['ratio']:.1f}" if cost else "not measured"
        lines.append(f"| `{name}` | {method.summary} | {method.provides} | {shown} |")
    lines += [
        "",
        "Cost is the time for a 320x240 video, as a multiple of decoding and encoding it alone.",
    ]
    return "\n".join(lines)


def generated(text: str) -> str:
    """``text`` with every generated part made anew."""
    for name, make in {"methods": methods_table}.items():
        pattern = re.compile(f"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text, count = pattern.subn(lambda found, make=make: f"{found[1]}{make()}\n{found[2]}", text)
        assert count == 1, f"README.md has no place for {name}"
    return text


def main() -> int:
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    new = generated(text)
    if "--check" in sys.argv[1:]:
        if new != text:
            print("README.md is not what docs/generate.py makes: run make docs.")
        return int(new != text)
    readme.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
