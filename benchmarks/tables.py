"""The tables there are, where their numbers lie, and how a finished one is written."""

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
    """A module of ``benchmarks`` with ``run(**options)``, which measures and returns plain values,
    ``terminal(result)``, which shows them, and, where they have a page in docs/results/,
    ``tables(result)``, name -> Markdown, and ``figures(result)``, name -> SVG. ``failed(result)``,
    where it has one, decides the exit code. It is imported only when its table is asked for."""

    module: str
    line: str
    # by the clock on two idle cores: a whole run, and a quick one as ``all`` reports it
    minutes: float
    quick_minutes: float
    # the folders below the data's root that ``data=`` means, if the table reads real recordings
    data: tuple[str, ...] = ()
    # the options of a quick run (``--quick``)
    quick: tuple[str, ...] = ("quick=true",)
    # whether it resumes only from a folder ``work=``, which ``all`` then gives it
    work: bool = False
    # whether ``all`` leaves it out: it would write less over what was measured beside a peer, makes an hour
    # of video, needs the bodies of the extra [avatar], or has no room in its 20 quick minutes
    alone: bool = False

    def load(self) -> ModuleType:
        return import_module(f"benchmarks.{self.module}")


TABLES: dict[str, Table] = {
    "all": Table("harness.all_tables", "Every table in order, each in a process of its own.", 1317, 20),
    "accounting": Table("accounting.run", "What the papers claim, and what is true.", 3, 0.1),
    "accounting-speed": Table("accounting.speed", "Calibration of noise beside dp_accounting.", 9, 1.3),
    "attacks": Table("attacks.run", "How every protection fares against every attack.", 60, 1.1,
                     ("utd_mhad", "utkface", "audiomnist")),
    "avatar": Table("avatar.run", "Avatars on staged truth and real clips, and their speed.", 60, 0.5,
                    ("clips", "airtlab"),
                    ("body=procedural", "seeds=101", "clips=1", "length=10", "step=100", "frames=8",
                     "speed=false"), work=True),
    "context": Table("context.run", "What the person and the room say about the action.", 60, 1.5),
    "guarantees": Table("guarantees.run", "Every promise, and what audits of it certify.", 5, 0.5,
                        quick=("trials=2000",)),
    "hiding": Table("hiding.run", "Blur, pixelate and silhouette on every clip of a folder.", 120, 0.6,
                    ("clips", "airtlab")),
    "maskdp": Table("maskdp.run", "DP and MaskDP, real people and avatars: accuracy against epsilon.", 120, 0.6),
    "maskdp-gap": Table("maskdp.gap", "The same where recordings are no renderings and avatars are found.", 60, 1.5, alone=True),
    "methods": Table("methods.run", "What every release method costs.", 5, 0.4,
                     quick=("frames=20",)),
    "multiclip": Table("multiclip.run", "Noise in the training beside noise in the recordings.", 30, 0.8,
                       ("utd_mhad",)),
    "pass": Table("attributes.run", "Private attributes: PASS, seven methods, noise; by every attacker.", 270, 3.4,
                  ("audiomnist", "sisfall", "utkface")),
    "pass-ablation": Table("attributes.ablation", "PASS on AudioMNIST, one setting at a time.", 60, 0.7,
                           ("audiomnist",)),
    "people": Table("people.run", "Who is still to be seen in releases, on frames labelled by eye.", 120, 1,
                    ("clips", "airtlab"), ("quick=true", "methods=blur,silhouette"), work=True),
    "pose": Table("pose.run", "Pose estimation: every method, epsilon and clip norm.", 180, 2, ("lsp",)),
    "pose-public": Table("pose.public_trunks", "Pose: what private pictures add to a public network.", 10, 0.5,
                         ("lsp",)),
    "pose-tiny-vit": Table("pose.tiny_vit", "Pose: TinyViT with weights that were really trained.", 12, 0.5,
                           ("lsp",), alone=True),
    "protect-blur": Table("protect.blur", "Face blur beside deface, on a clip of yours.", 5, 0.4, alone=True),
    "protect-dprp": Table("protect.dprp", "Video-DPRP as published and ours: seconds and memory.", 10, 0.4),
    "real": Table("real.run", "Private training on real recordings, per record and per person.", 20, 0.7,
                  ("audiomnist", "fsdd", "sisfall", "utd_mhad", "utkface", "lsp")),
    "scale": Table("scale.run", "What a folder job of a million items costs its driver; engines.", 15, 0.2),
    "speed": Table("speed.run", "What a private step costs, beside plain SGD and Opacus.", 8, 0.6),
    "strength": Table("strength.run", "How much of a known epsilon the audits certify.", 1, 0.1,
                      quick=("seeds=1",)),
    "text": Table("text.run", "Are written words covered, and nothing where there are none?", 6, 0.2, ("clips",)),
    "speed-others": Table("speed.others", "The same on models nobody tuned for, and a whole epoch.", 17, 0.2,
                          work=True, alone=True),
    "studio": Table("studio.run", "Opening and seeking in an hour of 1080p in the studio.", 10, 0.7, alone=True),
    "train": Table("train.run", "Every training method: accuracy against epsilon.", 15, 0.7, ("utd_mhad",)),
    "visual": Table("visual.run", "Video-DPRP and obfuscations: actions against attributes of people.", 60, 1,
                    ("utd_mhad",)),
    "visual-large": Table("visual.large", "Video-DPRP at 320x240 on real people: actions and faces.", 40, 0.1,
                          ("airtlab", "utkface")),
    "voice": Table("voice.run", "Voices: speakers still told apart, digits still understood.", 30, 1,
                   ("fsdd",), work=True),
}  # fmt: skip

QUICK_NOTE = "A quick run with little of everything: it shows that the table works, and no result."


def results_path(name: str) -> Path:
    """Where the measured numbers of a table lie: ``results/`` in the folder of its module."""
    folder = TABLES[name].module.partition(".")[0]
    return Path(__file__).parent / folder / "results" / f"{name}.json"


def refuse_replacing_whole(out: Path) -> None:
    """Refuse to write a quick run over a table that was measured whole, whatever was forced."""
    if not out.is_file():
        return
    try:
        stored = json.loads(out.read_text(encoding="utf-8"))
    except ValueError:
        stored = None
    if not (isinstance(stored, dict) and stored.get("quick") is True):
        raise SfumatoError(
            f"Expected another place for a quick run than {out.name}, which holds a whole table: "
            "choose another --out, or results= of all."
        )


def markdown_tables(module: ModuleType, result: dict[str, Any]) -> dict[str, str]:
    """Every table of a result as Markdown; none where its module shows none."""
    return dict(module.tables(result)) if hasattr(module, "tables") else {}


def drawn_figures(module: ModuleType, result: dict[str, Any], stem: str) -> dict[str, str]:
    """File name -> SVG, of every figure of a result."""
    found = module.figures(result) if hasattr(module, "figures") else {}
    return {f"{stem}-{name}.svg": svg for name, svg in found.items()}


def publish(module: ModuleType, result: dict[str, Any], out: Path, *, force: bool) -> None:
    """Write the numbers as JSON, the tables as Markdown and the figures as SVG, or nothing."""
    beside = {
        out.with_name(name): svg for name, svg in drawn_figures(module, result, out.stem).items()
    }
    if parts := markdown_tables(module, result):
        note = f"{QUICK_NOTE}\n\n" if result.get("quick") else ""
        text = "\n\n".join(f"## {name}\n\n{table}" for name, table in parts.items())
        beside[out.with_suffix(".md")] = f"{note}{text}\n"
    for path in (out, *beside):
        refuse_overwrite(path, force=force)
    for path, text in beside.items():
        write_text(path, text, force=force)
    write_json(out, result, force=force)
