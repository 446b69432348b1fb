"""The tables there are, and how a finished one is written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.files import refuse_overwrite, write_json, write_text


@dataclass(frozen=True)
class Table:
    """A module with ``run(**options)``, ``words(result)`` and, for docs/results.md, ``page(result)``
    and ``figures(result)``; imported only when its table is asked for. ``failed(result)``, where it
    has one, decides the exit code."""

    module: str
    line: str
    # by the clock on two idle cores: a whole run, and a quick look as ``all`` reports it
    minutes: float
    quick_minutes: float
    # the folders below the data's root that ``data=`` means, if the table reads real recordings
    data: tuple[str, ...] = ()
    # the options of a quick look (``--quick``)
    look: tuple[str, ...] = ("quick=true",)
    # whether it goes on only from a folder ``work=``, which ``all`` then gives it
    work: bool = False

    def load(self) -> ModuleType:
        return import_module(f"benchmarks.{self.module}")


RESULTS = Path(__file__).with_name("results")

TABLES: dict[str, Table] = {
    "all": Table("all_tables", "Every table in order, each in a process of its own.", 1121, 17),
    "accounting": Table("accounting.run", "What the papers claim, and what is true.", 3, 0.1),
    "attacks": Table("attacks.run", "How every protection fares against every attack.", 60, 1.1,
                     ("utd_mhad", "utkface", "audiomnist")),
    "avatar": Table("avatar.run", "Avatars on staged truth and real clips, and their speed.", 60, 0.5,
                    ("clips", "airtlab"),
                    ("body=procedural", "seeds=101", "clips=1", "length=10", "step=100", "frames=8",
                     "speed=false"), work=True),
    "context": Table("context.run", "What the person and the room say about the action.", 60, 1.5),
    "guarantees": Table("guarantees.run", "Every promise, and what audits of it certify.", 5, 0.5,
                        look=("trials=2000",)),
    "hiding": Table("hiding.run", "Blur, pixelate and silhouette on every clip of a folder.", 120, 0.6,
                    ("clips", "airtlab")),
    "maskdp": Table("maskdp.run", "DP and MaskDP, real people and avatars: accuracy against epsilon.", 120, 0.6),
    "methods": Table("methods.run", "What every release method costs.", 5, 0.4,
                     look=("frames=20",)),
    "pass": Table("attributes.run", "Private attributes: PASS, seven methods, noise; by every attacker.", 200, 3.4,
                  ("audiomnist", "sisfall", "utkface")),
    "pass-ablation": Table("attributes.ablation", "PASS on AudioMNIST, one setting at a time.", 60, 0.7,
                           ("audiomnist",)),
    "multiclip": Table("multiclip.run", "Noise in the training beside noise in the recordings.", 30, 0.8,
                       ("utd_mhad",)),
    "people": Table("people.run", "Who is still to be seen in releases, on frames labelled by eye.", 120, 1,
                    ("clips", "airtlab"), ("quick=true", "methods=blur,silhouette"), work=True),
    "pose": Table("pose.run", "Pose estimation: every method, epsilon and clip norm.", 180, 2, ("lsp",)),
    "protect": Table("protect.run", "Video-DPRP as published and ours; blur beside deface.", 15, 0.8),
    "speed": Table("speed.run", "What a private step costs, beside plain SGD and Opacus.", 8, 0.6),
    "train": Table("train.run", "Every training method: accuracy against epsilon.", 15, 0.7, ("utd_mhad",)),
    "visual": Table("visual.run", "Video-DPRP and obfuscations: actions against attributes of people.", 60, 1,
                    ("utd_mhad",)),
}  # fmt: skip


A_LOOK = "A quick look with little of everything: it shows that the table runs, and no result."


def keep_whole(out: Path) -> None:
    """Refuse to write a quick look over a table that was measured whole, whatever was forced."""
    if not out.is_file():
        return
    try:
        stored = json.loads(out.read_text(encoding="utf-8"))
    except ValueError:
        stored = None
    if not (isinstance(stored, dict) and stored.get("quick") is True):
        raise SfumatoError(
            f"Expected another place for a quick look than {out.name}, which holds a whole table: "
            "choose another --out, or results= of all."
        )


def files(module: ModuleType, result: dict[str, Any], out: Path) -> dict[Path, str]:
    """What is written beside the numbers in ``out``: the Markdown page and the figures."""
    written = {}
    if hasattr(module, "page"):
        said = f"{A_LOOK}\n\n" if result.get("quick") else ""
        written[out.with_suffix(".md")] = said + str(module.page(result)).strip() + "\n"
    if hasattr(module, "figures"):
        for name, svg in module.figures(result).items():
            written[out.with_name(f"{out.stem}-{name}.svg")] = svg
    return written


def publish(module: ModuleType, result: dict[str, Any], out: Path, *, force: bool) -> None:
    """Write the numbers as JSON, the page as Markdown and the figures as SVG, or nothing."""
    beside = files(module, result, out)
    for path in (out, *beside):
        refuse_overwrite(path, force=force)
    for path, text in beside.items():
        write_text(path, text, force=force)
    write_json(out, result, force=force)
