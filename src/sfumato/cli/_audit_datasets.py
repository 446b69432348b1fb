"""``sfumato audit visual``, ``reid``, ``cross-data`` and ``probe``: what can be read off a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from sfumato.cli._output import emit, ending, finite, progress_bar, say, shown_path
from sfumato.errors import SfumatoError
from sfumato.settings import parse_pairs

if TYPE_CHECKING:
    from sfumato.audit import Result

ORIGINALS = typer.Argument(..., help="The folder of originals, as they were before.")
PROTECTED = typer.Argument(..., help="The same files protected (with --keep-names).")
LABELS = typer.Option(
    None, help="CSV with file_name, person, room, action and attributes, if no metadata.jsonl."
)


def visual(
    originals: Path = ORIGINALS,
    protected: Path = PROTECTED,
    labels: Path | None = LABELS,
    whole: bool = typer.Option(False, help="Look at whole pictures, not at the people in them."),
    *,
    device: str | None,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """What can be read off protected clips: attributes of people, and actions beside them."""
    from sfumato.audit import pair_clips, visual_folder

    target = _target(out, protected, "visual", force)
    with progress_bar(hidden=as_json):
        rows = visual_folder(pair_clips(originals, protected, labels), at_people=not whole)
    _finish(rows, target, "Visual privacy", "visual", force, as_json)


def reid(
    originals: Path = ORIGINALS,
    protected: Path = PROTECTED,
    by: str = typer.Option("face", help="face, gait, room or voice (folders of sound)."),
    labels: Path | None = LABELS,
    *,
    device: str | None,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Who (or which room) is in protected recordings, against a gallery of the others."""
    from sfumato.audit import REID_ATTACKS, attack_folder

    # an attack that is not known is refused by attack_folder, whatever its name would be as a file's
    target = _target(out, protected, f"reid-{by}" if by in REID_ATTACKS else "reid", force)
    with progress_bar(hidden=as_json):
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
    *,
    device: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Attributes learned on VISPR, asked about frames of PA-HMDB51 (Video-DPRP's protocol)."""
    from sfumato.audit import cross_data as looked_at
    from sfumato.audit import cross_data_attack, on_pictures
    from sfumato.data import pa_hmdb51, pa_hmdb51_videos
    from sfumato.data import vispr as read_vispr

    if not method and (setting or shift):
        raise SfumatoError(
            "Expected --method with --set and --shift, got none: without it pictures and videos stay raw, "
            "and there is nothing to set or to leave out."
        )
    target = _target(out, out, "", force)
    with progress_bar(hidden=as_json):
        found = looked_at(
            read_vispr(vispr), pa_hmdb51_videos(videos, annotations), pa_hmdb51(annotations),
            protect=on_pictures(method, parse_pairs(setting)) if method else None,
            protect_taught=not shift, network=network,
        )  # fmt: skip
    rows = cross_data_attack(found).results(note="learned on VISPR, asked about PA-HMDB51")
    _finish(rows, target, "Cross-data visual privacy", "cross-data", force, as_json)


def probe(
    data: Path = typer.Argument(..., help="The folder of the data set, in its published layout."),
    state: Path | None = typer.Option(
        None, help="The private folder of sfumato protect --method pass --state."
    ),
    method: str | None = typer.Option(
        None, help="Or a method to fit and attack: adv, gap, msda, bdq, ppdar, mass, spact."
    ),
    private: list[str] | None = typer.Option(
        None, help="With --method: what must disappear; repeat it."
    ),
    useful: list[str] | None = typer.Option(
        None, help="With --method: what must survive; repeat it."
    ),
    hidden: list[str] | None = typer.Option(None, help="Further attributes to attack; repeat it."),
    epochs: int = typer.Option(30, min=1, max=10**5, help="How long the attacker trains at most."),
    most: float | None = typer.Option(
        None,
        min=0,
        callback=finite,
        help="Exit code 1 if a private attribute's NAG is above this (per cent).",
    ),
    *,
    device: str | None,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Train fresh attackers on what a protector releases: NAG of every attribute (100: unprotected)."""
    from sfumato.audit import ProbeSettings, measures_path, write_measures
    from sfumato.audit.attack import probe_dataset
    from sfumato.files import refuse_overwrite

    target = None if out is None else measures_path(out)
    if target is not None:
        refuse_overwrite(target, force=force)
    with progress_bar(hidden=as_json):
        report = probe_dataset(
            data, state=state, method=method, private=private or (), useful=useful or (),
            hidden=hidden or (), settings=ProbeSettings(epochs=epochs), say=say,
        )  # fmt: skip
    table = Table(
        "attribute", "", "NAG trained", "NAG exact", "balanced", "guessing", "unprotected"
    )
    for row in report.rows:
        exact = "" if row.exact is None else f"{row.nag(row.exact):.1f}"
        low, high = row.worst.balanced_interval
        table.add_row(
            row.name, row.role, f"{row.nag(row.trained):.1f}", exact,
            f"{100 * row.worst.balanced_accuracy:.1f} ({100 * low:.1f}-{100 * high:.1f})",
            f"{100 / row.worst.classes:.1f}", f"{100 * row.clear.balanced_accuracy:.1f}",
        )  # fmt: skip
    done = f"mNAG {report.mnag:.1f} on {report.records} records; an estimate, not a bound."
    if target is not None:
        write_measures(
            target, report.results, title="Private attributes",
            commands=[f"sfumato audit probe DATA ({report.method})"], force=force,
        )  # fmt: skip
        done += f" Written to {target.name}."
    failed = most is not None and report.worst_private > most
    last = ending(
        done,
        f"the worst private attribute keeps a NAG of {report.worst_private:.1f} (100: unprotected).",
        "sfumato audit probe DATA --out NAME" if target is None else f"sfumato report {target}",
    )
    emit(as_json, report.to_json(), table, *last, ok=not failed)


def _target(out: Path | None, protected: Path, name: str, force: bool) -> Path:
    from sfumato.audit import audit_output_path, measures_path
    from sfumato.files import refuse_overwrite

    target = measures_path(out if out is not None else audit_output_path(protected, name))
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
    last = ending(
        f"attacked; written to {shown_path(target)}.",
        "what beats guessing can be read off the release; other attacks may get more.",
        f"sfumato report {shown_path(target)}",
    )
    emit(as_json, payload | {"written": target.name}, table, *last)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
