"""``sfumato audit visual`` and ``reid``: attacks on the pictures of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.table import Table

from sfumato.cli._output import FORCE, JSON, emit, shown_path

if TYPE_CHECKING:
    from sfumato.audit import Result

ORIGINALS = typer.Argument(..., help="The folder of originals, as they were before.")
PROTECTED = typer.Argument(..., help="The same files protected (with --keep-names).")
LABELS = typer.Option(
    None, help="CSV with file_name, person, room, action and attributes, if no metadata.jsonl."
)
OUT = typer.Option(None, "--out", "-o", help="Where to write NAME.measures.json for the report.")


def visual(
    originals: Path = ORIGINALS,
    protected: Path = PROTECTED,
    labels: Path | None = LABELS,
    whole: bool = typer.Option(False, help="Look at whole pictures, not at the people in them."),
    out: Path | None = OUT,
    force: bool = FORCE,
    as_json: bool = JSON,
) -> None:
    """What can be read off protected clips: attributes of people, and actions beside them."""
    from sfumato.audit import pair_clips, visual_folder

    target = _target(out, protected, "visual", force)
    rows = visual_folder(pair_clips(originals, protected, labels), at_people=not whole)
    _finish(rows, target, "Visual privacy", "visual", force, as_json)


def reid(
    originals: Path = ORIGINALS,
    protected: Path = PROTECTED,
    by: str = typer.Option("face", help="face, gait, room or voice (AudioMNIST folders)."),
    labels: Path | None = LABELS,
    out: Path | None = OUT,
    force: bool = FORCE,
    as_json: bool = JSON,
) -> None:
    """Who (or which room) is in protected recordings, against a gallery of the others."""
    from sfumato.audit import attack_folder

    target = _target(out, protected, f"reid-{by}", force)
    rows = attack_folder(by, originals, protected, labels)
    _finish(rows, target, "Re-identification", f"reid --by {by}", force, as_json)


def cross_data(
    vispr: Path = typer.Argument(
        ..., help="VISPR as published: pictures to learn attributes from."
    ),
    videos: Path = typer.Argument(..., help="The videos of PA-HMDB51, or HMDB51 with them."),
    annotations: Path = typer.Argument(..., help="PA-HMDB51's privacy annotations."),
    method: str = typer.Option("", help="Protect both by this method; without, both stay raw."),
    setting: list[str] = typer.Option([], "--set", help="Settings of the method, as name=value."),
    shift: bool = typer.Option(False, help="Learn from raw pictures: measures domain shift."),
    network: bool = typer.Option(True, help="Look with an ImageNet network too."),
    out: Path = typer.Option(Path("cross-data"), "--out", "-o", help="NAME.measures.json."),
    force: bool = FORCE,
    as_json: bool = JSON,
) -> None:
    """Attributes learned on VISPR, asked about frames of PA-HMDB51 (Video-DPRP's protocol)."""
    from sfumato.audit import cross_data as looked_at
    from sfumato.audit import cross_data_attack, on_pictures
    from sfumato.cli.protect import _settings
    from sfumato.data import pa_hmdb51, pa_hmdb51_videos
    from sfumato.data import vispr as read_vispr

    target = _target(out, out, "", force)
    found = looked_at(
        read_vispr(vispr), pa_hmdb51_videos(videos, annotations), pa_hmdb51(annotations),
        protect=on_pictures(method, _settings(setting)) if method else None,
        protect_taught=not shift, network=network,
    )  # fmt: skip
    rows = cross_data_attack(found).results(note="learned on VISPR, asked about PA-HMDB51")
    _finish(rows, target, "Cross-data visual privacy", "cross-data", force, as_json)


def _target(out: Path | None, protected: Path, name: str, force: bool) -> Path:
    from sfumato.audit import beside_release, measures_path
    from sfumato.files import refuse_overwrite

    target = measures_path(out if out is not None else beside_release(protected, name))
    refuse_overwrite(target, force=force)
    return target


def _finish(
    rows: list[Result], target: Path, title: str, command: str, force: bool, as_json: bool
) -> None:
    from sfumato.audit import measures_json, write_measures

    said = f"sfumato audit {command} ORIGINALS PROTECTED"
    write_measures(target, rows, title=title, commands=[said], force=force)
    table = Table("attack", "of", "got (95 %)", "guessing", "raw", "how")
    for row in rows:
        if row.value is None:
            continue
        span = "" if row.low is None else f" ({_number(row.low)}-{_number(row.high)})"
        plain = [_number(each) for each in (row.chance, row.unprotected)]
        # the first words of a protocol tell it from the other; the file has all of them
        how = (row.note or "").split(":")[-1].strip()
        table.add_row(row.name, row.target or "", _number(row.value) + span, *plain, how)
    payload = measures_json(rows, title=title, commands=[said])
    emit(
        as_json,
        payload | {"written": target.name},
        table,
        escape(f"Written to {shown_path(target)}."),
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
