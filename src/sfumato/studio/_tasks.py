"""The work of the studio's jobs, each in a process of its own: calls of the rooms that do it.

Arguments are JSON that the server wrote: names below the root, never paths of the browser's.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from sfumato import people, protect
from sfumato.errors import SfumatoError
from sfumato.media import (
    IMAGE_SUFFIXES,
    Frame,
    Image,
    SeekableVideo,
    VideoWriter,
    image_suffix,
    open_video,
    read_image,
    video_suffix,
)
from sfumato.privacy import Guarantee, promise_from_json
from sfumato.progress import tell, track
from sfumato.studio._library import RELEASED, Library
from sfumato.studio._people_room import boxes_path, people_path, write_sidecars

Arguments = dict[str, Any]
Report = Callable[[dict[str, Any]], None]
KINDS = {
    "find": ("sfumato.studio._tasks:find", "long"),
    "protect": ("sfumato.studio._tasks:protect_recordings", "long"),
    "train": ("sfumato.studio._trainings:train", "long"),
    "audit": ("sfumato.studio._tasks:audit", "long"),
    "preview": ("sfumato.studio._tasks:preview", "short"),
}
CARRIED_AT_ONCE = people.STRETCH


def find(arguments: Arguments, report: Report) -> dict[str, Any]:
    """Search one recording for people."""
    library = Library(arguments["root"])
    path = library.inside(arguments["name"])
    with _frames(path) as (frames, width, height, count):
        stream = people.find(frames, **arguments["settings"])

        def found() -> Iterator[people.People]:
            for number, (_, everybody) in enumerate(stream, start=1):
                yield everybody
                tell("searching", number, count)

        people.PeopleFile.create(
            people_path(library, arguments["name"]),
            found(),
            width=width,
            height=height,
            doubts=lambda: stream.review.spans,
            force=True,
        )
    for category in protect.CATEGORIES:
        boxes_path(library, arguments["name"], category).unlink(missing_ok=True)
    write_sidecars(library, arguments["name"])
    return {"recording": library.id_of(path)}


@contextmanager
def _frames(path: Path) -> Iterator[tuple[Iterator[Frame], int, int, int | None]]:
    if path.suffix.lower() in IMAGE_SUFFIXES:
        image = read_image(path)
        yield iter([Frame(image, 0, Fraction(0))]), image.shape[1], image.shape[0], 1
        return
    with open_video(path) as video:
        yield iter(video), video.info.width, video.info.height, video.info.expected_frames


@cache
def _finders() -> tuple[people.Look, people.Look, Any]:
    """The whole search for a point, one quick detector to follow, and who makes masks."""
    look, segment = people.searchers(None, masks=True)
    return look, people.search("centernet"), segment


def click(arguments: Arguments, report: Report) -> dict[str, Any]:
    """Somebody who was missed: found at a point, and carried both ways, as one edit."""
    library = Library(arguments["root"])
    path = library.inside(arguments["name"])
    file = people.PeopleFile(people_path(library, arguments["name"]))
    look, quick, segment = _finders()
    start = arguments["frame"]
    known = _known_boxes(file, start)
    video: SeekableVideo | None = None
    if path.suffix.lower() in IMAGE_SUFFIXES:
        frame_at = _the_picture(path)
    else:
        video = SeekableVideo(path)
        frame_at = video.frame
    try:
        person = people.person_at(
            frame_at(start), arguments["x"], arguments["y"], file.new_track(), look, segment
        )
        rows = [people.PersonRow(start, person, key=True, confirmed=True)]
        for end in (
            min(file.frames - 1, start + CARRIED_AT_ONCE),
            max(0, start - CARRIED_AT_ONCE),
        ):
            if end != start:
                rows += [
                    people.PersonRow(number, _carried(each))
                    for number, each in people.carried(
                        frame_at, person, start, end, quick, segment, known
                    )
                ]
    finally:
        if video is not None:
            video.close()
    file.add(rows, revision=arguments["revision"])
    return {"track": person.track, "frames": len(rows)}


def _the_picture(path: Path) -> Callable[[int], Image]:
    return lambda number: read_image(path)


def _carried(person: people.Person) -> people.Person:
    return replace(person, evidence=people.CARRIED)


def _known_boxes(file: people.PeopleFile, start: int) -> Callable[[int], list[people.Box]]:
    rows = file.rows(max(0, start - CARRIED_AT_ONCE), start + CARRIED_AT_ONCE)
    boxes: dict[int, list[people.Box]] = {}
    for row in rows:
        boxes.setdefault(row.frame, []).append(row.person.box)
    return lambda number: boxes.get(number, [])


def promise(arguments: Arguments, report: Report) -> dict[str, Any]:
    """What a release would prove, in words; nothing is read of the recording."""
    height, width = arguments["height"], arguments["width"]
    request = protect.Request(
        source=Path(arguments["source"]),
        target=Path("any"),
        method=arguments["method"],
        settings=arguments["settings"],
        audio="keep" if arguments["keepAudio"] else "drop",
    )
    protect.check_form(request.method, request.settings)
    shape = protect.Shape(height, width, arguments["frames"])
    said = protect.dry_run(request, shape=shape, measure=arguments["measure"])
    promised = promise_from_json(said.payload["promise"])
    terms = promised.terms if isinstance(promised, Guarantee) else None
    return {**said.payload, "lines": said.lines, "words": str(promised), "terms": terms}


def methods(arguments: Arguments, report: Report) -> list[dict[str, Any]]:
    """Every method that a page can offer, with the schema of its settings."""
    return [
        {
            "name": name,
            "line": protect.get(name).summary,
            "guarantee": protect.get(name).provides,
            "forVideo": True,
            "default": name == protect.DEFAULT_METHOD,
            "takesCorrections": "import_boxes" in protect.get(name).accepted_settings(),
            "settings": protect.form_schema(name),
        }
        for name in protect.methods_with_forms()
    ]


def protect_recordings(arguments: Arguments, report: Report) -> dict[str, Any]:
    """Release recordings one by one, or a folder at once; what is finished is not done again."""
    library = Library(arguments["root"])
    if arguments["folder"] is not None:
        return _protect_folder(library, arguments)
    released, failures = [], []
    for item in track(arguments["items"], "recordings"):
        source = library.inside(item["name"])
        target = library.root / item["target"]
        try:
            if not target.is_file():
                _protect_one(library, source, target, item["name"], arguments)
        except SfumatoError as error:
            failures.append({"name": source.name, "reason": str(error)})
            continue
        library.note_release(target, source)
        released.append(library.id_of(target))
        report({"releases": released, "failed": failures})
    if failures and not released:
        raise SfumatoError(failures[0]["reason"])
    return {"releases": released, "failed": failures}


def _protect_one(
    library: Library, source: Path, target: Path, name: str, arguments: Arguments
) -> None:
    settings = dict(arguments["settings"])
    if people_path(library, name).is_file():
        file = people.PeopleFile(people_path(library, name))
        settings = protect.corrected_settings(
            arguments["method"], settings, file, write_sidecars(library, name)
        )
    _run(_request(arguments, source, target, settings), arguments)


def _protect_folder(library: Library, arguments: Arguments) -> dict[str, Any]:
    source = library.inside(arguments["folder"])
    target = library.root / arguments["target"]
    said = _run(_request(arguments, source, target, arguments["settings"]), arguments)
    return {
        "releases": [library.id_of(path) for path in said.outputs],
        "failed": said.payload["failures"],
    }


def _request(
    arguments: Arguments, source: Path, target: Path, settings: dict[str, Any]
) -> protect.Request:
    return protect.Request(
        source=source,
        target=target,
        method=arguments["method"],
        settings=settings,
        audio="keep" if arguments["keepAudio"] else "drop",
        names="keep" if arguments["keepNames"] else "random",
    )


def _run(request: protect.Request, arguments: Arguments) -> protect.CommandResult:
    from sfumato.ledger import spending

    asked = arguments["ledger"] or {}
    counted = spending(
        asked.get("path"), asked.get("dataset"), key=None,
        acknowledged=bool(asked.get("acknowledgeNoGuarantee")), verb="protect",
        operator=asked.get("operator"), purpose=asked.get("purpose"),
    )  # fmt: skip
    said = protect.run(request, counted, lambda sentence: None)
    if counted is not None:
        counted.record(said.outputs)
    return said


def release_name(source: Path, *, keep: bool) -> str:
    """Where a release of one recording goes: a random name tells nobody who is in it."""
    is_picture = source.suffix.lower() in IMAGE_SUFFIXES
    ending = image_suffix(source) if is_picture else video_suffix(source, "h264")
    stem = source.stem if keep else secrets.token_hex(8)
    return f"{RELEASED}/{stem}{ending}"


def preview(arguments: Arguments, report: Report) -> dict[str, Any]:
    """A few frames as they would be released, in the private folder; never a release."""
    library, name = Library(arguments["root"]), arguments["name"]
    path, first, last = library.inside(name), arguments["from"], arguments["to"]
    target = library.kept("previews", f"{arguments['preview']}.mkv")
    settings = dict(arguments["settings"])
    protect.check_form(arguments["method"], settings)
    with SeekableVideo(path) as video:
        last = min(last, len(video) - 1)
        if first > last:
            raise SfumatoError("Expected a part of the recording to preview, got none.")
        if people_path(library, name).is_file():
            settings = _part_of_corrections(library, arguments, first, last, settings)
        began = float(video.seconds(first))
        for edge in ("start", "end"):
            if settings.get(edge) is not None:
                settings[edge] = max(0.0, float(settings[edge]) - began)
        method = protect.make(
            arguments["method"], protect.with_defaults(arguments["method"], settings)[0]
        )
        count = last - first + 1

        def frames() -> Iterator[Frame]:
            for number in range(first, last + 1):
                yield Frame(video.frame(number), number - first, video.seconds(number))

        with VideoWriter(
            target, rate=video.info.rate, size=(video.info.width, video.info.height), codec="ffv1",
            force=True,
        ) as writer:  # fmt: skip
            for number, frame in enumerate(method.frames(frames(), count=count), start=1):
                writer.write(frame.image)
                tell("previewing", number, count)
    os.chmod(target, 0o600)
    return {"preview": arguments["preview"], "from": first, "to": last}


def _part_of_corrections(
    library: Library, arguments: Arguments, first: int, last: int, settings: dict[str, Any]
) -> dict[str, Any]:
    file = people.PeopleFile(people_path(library, arguments["name"]))
    part = library.kept("previews", f"{arguments['preview']}.part.db")
    people.PeopleFile.create(
        part, file.people(first, last), width=file.width, height=file.height, force=True
    )
    cut = people.PeopleFile(part)
    places = {
        each: library.kept("previews", f"{arguments['preview']}.{each}.json")
        for each in protect.CATEGORIES
    }
    for category, place in places.items():
        protect.write_boxes(cut, category, place)
    found = protect.corrected_settings(arguments["method"], settings, file, places)
    here = {row.person.track for row in cut.rows()}
    if "leave_open" in found:
        found["leave_open"] = [each for each in found["leave_open"] if each in here]
    part.unlink()
    return found


def audit(arguments: Arguments, report: Report) -> dict[str, Any]:
    """Attack a release: is anybody still found, or is its promise false?"""
    from sfumato.audit import audit_guarantee, audit_leaks, write_verdict

    library = Library(arguments["root"])
    output = library.inside(arguments["name"])
    if arguments["attack"] == "guarantee":
        verdict = audit_guarantee(output)
        write_verdict(verdict, output, force=True)
        return {"passed": not verdict.refuted, "words": [str(verdict)]}
    original = arguments["original"]
    pairs = [(output, None if original is None else library.inside(original))]
    found = audit_leaks(output, pairs, every=arguments["every"], force=True)
    return {"passed": found.passed, "words": found.report.words()}


def report_page(arguments: Arguments, report: Report) -> dict[str, str]:
    """The report of a release and the draft of an impact assessment, as text."""
    from sfumato.report import write_report

    library = Library(arguments["root"])
    output = library.inside(arguments["name"])
    runs = [output, *(library.inside(each) for each in arguments["beside"])]
    with tempfile.TemporaryDirectory() as scratch:
        page, draft = Path(scratch, "report.html"), Path(scratch, f"impact.{arguments['format']}")
        write_report(runs, page, impact=draft)
        return {"page": page.read_text("utf-8"), "impact": draft.read_text("utf-8")}


def review_sample(arguments: Arguments, report: Report) -> dict[str, Any]:
    """Frames of a release drawn by chance, to look at."""
    library = Library(arguments["root"])
    sample = protect.draw_review_sample(library.inside(arguments["name"]), arguments["frames"])
    return asdict(sample)
