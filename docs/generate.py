"""Write the generated parts of README.md and docs/: python docs/generate.py [--check]."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # other packages install a folder of that name too

from benchmarks import TABLES, files
from benchmarks.attacks import run as attacks
from benchmarks.attacks.people import real_lines
from benchmarks.attributes import run as attributes
from benchmarks.figures import drawn_from, same_data
from benchmarks.protect import run as releases
from sfumato import protect

COSTS = ROOT / "benchmarks" / "results" / "methods.json"
DPRP = ROOT / "benchmarks" / "results" / "protect-dprp.json"
BLUR = ROOT / "benchmarks" / "results" / "protect-blur.json"
ATTACKS = ROOT / "benchmarks" / "results" / "attacks.json"
PASS = ROOT / "benchmarks" / "results" / "pass.json"
AVATAR = ROOT / "benchmarks" / "results" / "avatar.json"
STRENGTH = ROOT / "benchmarks" / "results" / "strength.json"


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


def avatar_caption() -> str:
    """What the picture of avatars starts from, with the finder's figures beside it."""
    result = json.loads(AVATAR.read_text())
    found = result["staged"]
    return (
        "*A staged recording, what is erased, the empty room, the release, its public mask. The picture "
        "starts from the stage's true joints and masks: it shows fitting, drawing and erasing, not what a "
        "recording gets. Where the detectors of a release find people, joints are "
        f"{found['estimated joint error cm']:.3g} cm off ({found['joint error cm']:.3g} given the truth), and "
        f"{100 * found['person left share']:.2g} % of a person's pixels stay as they were "
        f"(`benchmarks/results/avatar.json`, {result['staged clips']} staged clips).*"
    )


def release_table(numbers: Path) -> str:
    """A part of ``python -m benchmarks protect``: Video-DPRP as published and ours, or blur beside deface."""
    return releases.page(json.loads(numbers.read_text(encoding="utf-8"))).strip()


def quality_table() -> str:
    """What is left of real pictures under each guarantee, as ``python -m benchmarks methods`` measured it."""
    rows = json.loads(COSTS.read_text())["quality"]
    lines = [
        "| method | epsilon for a frame | measured, dB | predicted, dB |",
        "| --- | --: | --: | --: |",
        f"| *a grey picture* |  | {rows[0]['grey']:.1f} |  |",
    ]
    for row in rows:
        told = "" if row["predicted"] is None else f"{row['predicted']:.1f}"
        lines.append(f"| {row['method']} | {row['epsilon']:g} | {row['decibel']:.1f} | {told} |")
    return "\n".join([*lines, "", f"{rows[0]['clips']} clips."])


def attacks_table() -> str:
    """How every protection fares against every attack, as ``python -m benchmarks attacks`` measured it."""
    found = json.loads(ATTACKS.read_text())
    rows, raw = found["rows"], found["rows"][attacks.RAW]
    columns = list(attacks.COLUMNS)
    chances = [(attacks.cell(raw, column) or {}).get("chance") for column in columns]
    lines = [
        f"| protection | {' | '.join(columns)} |",
        "| --- |" + " --: |" * len(columns),
        "| *guessing* | "
        + " | ".join("" if c is None else f"{100 * c:.0f}" for c in chances)
        + " |",
    ]
    for way in attacks.in_order(rows):
        shown = (
            attacks.text(attacks.cell(rows[way], column)).replace("*", "\\*") for column in columns
        )
        lines.append(f"| {way} | {' | '.join(shown)} |")
    staging = found["staging"]
    size = f"{staging['width']}x{staging['height']}"
    lines += [
        "",
        f"In per cent, by attackers trained and tested on protected clips; \\* where the whole 95 % "
        f"interval lies beyond guessing. {staging['clips']} staged clips of {staging['actors']} people in "
        f"{staging['rooms']} rooms, {staging['frames']} frames of {size}. People and heads are found by "
        "the stage's truth, so that a row shows the method and not what a detector missed. Face (turned to "
        "the camera), sex, build and identity: people known from other clips; skin and clothing: strangers. "
        "Room: people masked out. Found: a detector finds somebody where somebody is. Undone: how much of "
        "the hidden pixels' variance the best reconstruction explains (0: one flat colour a place). Action "
        "and SSIM are utility.",
    ]
    if found.get("real"):
        lines += ["", *real_lines(found["real"])]
    return "\n".join(lines)


def pass_table() -> str:
    """What PASS reaches on the three data sets, as ``python -m benchmarks pass`` measured it."""
    found = json.loads(PASS.read_text()) if PASS.exists() else attributes.run()
    return attributes.summary(found)


def strength_table() -> str:
    """What ``sfumato audit strength`` certified of epsilons that are known."""
    rows = json.loads(STRENGTH.read_text())["strengths"]
    lines = [
        "| audit | target | trials | certified share | soundness notes |",
        "| --- | --- | --- | --: | --: |",
    ]
    lines += [
        f"| {row['audit']} | {row['target']} | {row['trials']} | {row['fraction']:.2f} | "
        f"{row['reference']:.2f} |"
        for row in rows
    ]
    return "\n".join(lines)


def table_page(name: str) -> str:
    """The page of a table, from its measured numbers."""
    numbers = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())
    return str(TABLES[name].load().page(numbers)).strip()


def people_before() -> str:
    """Table ``people`` as the code was before people were found first."""
    numbers = json.loads((ROOT / "benchmarks" / "results" / "people-old.json").read_text())
    return str(TABLES["people"].load().page(numbers)).strip()


# file -> {name of the part: what makes it}
PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"avatar-picture": avatar_caption, "methods": methods_table},
    "docs/avatar.md": {
        "avatar-picture": avatar_caption,
        "avatar": partial(table_page, "avatar"),
    },
    "docs/protect.md": {
        "dprp": partial(release_table, DPRP),
        "blur": partial(release_table, BLUR),
        "quality": quality_table,
    },
    "docs/people.md": {"hiding": partial(table_page, "hiding")},
    "docs/people-measured.md": {"people-old": people_before},
    "docs/train.md": {
        "training": partial(table_page, "train"),
        "speed": partial(table_page, "speed"),
    },
    "docs/pass.md": {"pass": pass_table},
    "docs/pose.md": {"pose": partial(table_page, "pose")},
    "docs/audit.md": {
        "guarantees": partial(table_page, "guarantees"),
        "attacks": attacks_table,
        "strength": strength_table,
    },
}


def generated(path: str, text: str) -> str:
    """``text`` of the file ``path`` with every generated part made anew."""
    for name, make in PARTS[path].items():
        before, begins, rest = text.partition(f"<!-- {name} -->\n")
        _, ends, after = rest.partition(f"<!-- /{name} -->")
        assert begins, f"{path} has no place for {name}"
        assert ends, f"{path} does not say where {name} ends"
        text = f"{before}{begins}{make()}\n{ends}{after}"
    return text


def results() -> dict[str, str]:
    """docs/results.md, and beside the numbers of every table that has a page, the page and figures."""
    made: dict[str, str] = {}
    parts = [
        "# Results",
        "",
        "Written by `make docs` from `benchmarks/results/`, which `python -m benchmarks` fills: every headline table of "
        "the five papers on data that can be had, the paper's numbers beside ours. Everything, about "
        f"{TABLES['all'].minutes / 60:.0f} hours on two cores, may be stopped and goes on where it was: "
        "`python -m benchmarks all data=FOLDER`. A look at all of it, into another folder: "
        "`python -m benchmarks all --quick data=FOLDER results=LOOK`, about "
        f"{sum(table.quick_minutes for name, table in TABLES.items() if name != 'all'):.0f} minutes on two "
        "idle cores, with nothing kept from before; a run ends with the seconds of every table.",
    ]
    for name, table in TABLES.items():
        numbers = ROOT / "benchmarks" / "results" / f"{name}.json"
        module = table.load() if numbers.exists() else None
        if module is None or not hasattr(module, "page"):
            continue
        beside = files(module, json.loads(numbers.read_text()), numbers)
        data = " data=FOLDER" if table.data else ""
        parts += [
            "",
            f"## {name}",
            "",
            f"{table.line} About {table.minutes} minutes on two cores:",
            "",
            f"    python -m benchmarks {name}{data} --out benchmarks/results/{name}.json --force",
            "",
            beside[numbers.with_suffix(".md")].strip(),
        ]
        made |= {str(path.relative_to(ROOT)): text for path, text in beside.items()}
        parts += [
            f"\n![{path.stem}](../benchmarks/results/{path.name})"
            for path in beside
            if path.suffix == ".svg"
        ]
    return made | {"docs/results.md": "\n".join(parts) + "\n"}


def current(path: str, text: str, new: str) -> bool:
    """Whether the file says what would be written anew; of a figure, the data it was drawn from."""
    if path.endswith(".svg"):
        return same_data(drawn_from(text), drawn_from(new))
    return text == new


def main() -> int:
    stale = 0
    made = results()
    for path in PARTS:
        made[path] = generated(path, (ROOT / path).read_text(encoding="utf-8"))
    for path, new in made.items():
        file = ROOT / path
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if "--check" not in sys.argv[1:]:
            file.write_text(new, encoding="utf-8")
        elif not current(path, text, new):
            print(f"{path} is not what docs/generate.py makes: run make docs.")
            stale = 1
    return stale


if __name__ == "__main__":
    raise SystemExit(main())
