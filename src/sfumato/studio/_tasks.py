"""The work of the studio's jobs, each in a process of its own: calls of the rooms that do it.

Arguments are JSON that the server wrote: names below the root, never paths of the browser's.
"""

from __future__ import annotations

import re
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sfumato import people, protect
from sfumato.errors import SfumatoError
from sfumato.media import IMAGE_SUFFIXES, image_suffix, sound_suffix, video_suffix
from sfumato.privacy import Guarantee, promise_from_json
from sfumato.progress import track
from sfumato.studio._library import RELEASED, Library
from sfumato.studio._people_store import boxes_path, people_path, write_sidecars

Arguments = dict[str, Any]
Report = Callable[[dict[str, Any]], None]
KINDS = {
    "find": ("sfumato.studio._tasks:find", "long"),
    "protect": ("sfumato.studio._tasks:protect_recordings", "long"),
    "train": ("sfumato.studio._trainings:train", "long"),
    "audit": ("sfumato.studio._tasks:audit", "long"),
    "preview": ("sfumato.studio._tasks:preview", "short"),
}
_ID = re.compile(r"[0-9a-f]{24}")
_PREVIEWS = 4  # that are kept while the studio is open


def find(arguments: Arguments, report: Report) -> dict[str, Any]:
    """Search one recording for people."""
    library, name = Library(arguments["root"]), arguments["name"]
    path = library.inside(name)
    people.search_recording(path, people_path(library, name), **arguments["settings"])
    for category in protect.CATEGORIES:
        boxes_path(library, name, category).unlink(missing_ok=True)
    write_sidecars(library, name)
    return {"recording": library.id_of(path)}


def click(arguments: Arguments, report: Report) -> int:
    """Somebody who was missed: found at a point, and carried both ways."""
    path, file = _corrections(arguments)
    return people.add_person_at(
        file,
        path,
        arguments["frame"],
        arguments["x"],
        arguments["y"],
        revision=arguments["revision"],
    )


def follow(arguments: Arguments, report: Report) -> int:
    """Somebody is right here: carry them further."""
    path, file = _corrections(arguments)
    return people.follow_person(
        file, path, arguments["frame"], arguments["track"], revision=arguments["revision"]
    )


def _corrections(arguments: Arguments) -> tuple[Path, people.PeopleFile]:
    library, name = Library(arguments["root"]), arguments["name"]
    return library.inside(name), people.PeopleFile(people_path(library, name))


def promise(arguments: Arguments, report: Report) -> dict[str, Any]:
    """What a release would prove, in words; nothing is read of the recording."""
    height, width = arguments["height"], arguments["width"]
    source = Path(arguments["source"])
    protect.check_form(arguments["method"], arguments["settings"])
    target = Path("any").with_suffix(source.suffix)
    protect.check_intention(source, target, arguments["method"], arguments["settings"])
    request = _request(arguments, source, target, arguments["settings"])
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
            "medium": protect.get(name).medium,
            "default": name in (protect.DEFAULT_METHOD, protect.SOUND_METHOD),
            "takesCorrections": "import_boxes" in protect.get(name).accepted_settings(),
            "settings": protect.form_schema(name),
        }
        for name in protect.methods_with_forms()
    ]


def protect_recordings(arguments: Arguments, report: Report) -> dict[str, Any]:
    """Release recordings one by one, or a folder at once; what is finished is not done again."""
    library = Library(arguments["root"])
    protect.check_form(arguments["method"], arguments["settings"])
    if arguments["folder"] is not None:
        return _protect_folder(library, arguments)
    released, failures = [], []
    for item in track(arguments["items"], "recordings"):
        source = library.inside(item["name"])
        target = library.output(item["target"])
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
    _run(library, _request(arguments, source, target, settings), arguments)


def _protect_folder(library: Library, arguments: Arguments) -> dict[str, Any]:
    source = library.inside(arguments["folder"])
    target = library.output(arguments["target"])
    said = _run(library, _request(arguments, source, target, arguments["settings"]), arguments)
    return {
        "releases": [library.id_of(path) for path in said.outputs],
        "failed": said.payload["failures"],
    }


def _request(
    arguments: Arguments, source: Path, target: Path, settings: dict[str, Any]
) -> protect.Request:
    protect.sound_wishes(arguments["audio"], settings, arguments["method"], None)
    return protect.Request(
        source=source,
        target=target,
        method=arguments["method"],
        settings=settings,
        audio=arguments["audio"],
        names="keep" if arguments.get("keepNames") else "random",
    )


def _run(library: Library, request: protect.Request, arguments: Arguments) -> protect.CommandResult:
    from sfumato.ledger import spending

    asked = arguments["ledger"] or {}
    counted = spending(
        library.ledger(asked["id"]) if asked else None, asked.get("dataset"), key=None,
        acknowledged=bool(asked.get("acknowledgeNoGuarantee")), verb="protect",
        operator=asked.get("operator"), purpose=asked.get("purpose"),
    )  # fmt: skip
    said = protect.run(request, counted, lambda sentence: None)
    if counted is not None:
        counted.record(said.outputs)
    return said


def release_name(source: Path, *, keep: bool) -> str:
    """Where a release of one recording goes: a random name tells nobody who is in it."""
    if protect.is_sound(source):
        ending = sound_suffix(source)
    elif source.suffix.lower() in IMAGE_SUFFIXES:
        ending = image_suffix(source)
    else:
        ending = video_suffix(source, "h264")
    stem = source.stem if keep else secrets.token_hex(8)
    return f"{RELEASED}/{stem}{ending}"


def preview(arguments: Arguments, report: Report) -> dict[str, Any]:
    """A few frames as they would be released, in the private folder; never a release."""
    library, name, id = Library(arguments["root"]), arguments["name"], arguments["preview"]
    method, settings = arguments["method"], arguments["settings"]
    protect.check_form(method, settings)
    if not _ID.fullmatch(id):
        raise SfumatoError("Expected the id of a preview, got something else.")
    corrected = people_path(library, name)
    file = people.PeopleFile(corrected) if corrected.is_file() else None
    place = library.kept("previews", f"{id}.mkv")
    first, last = arguments["from"], arguments["to"]
    first, last = protect.preview(method, settings, library.inside(name), place, first, last, file)
    for old in sorted(place.parent.glob("*.mkv"), key=lambda path: path.stat().st_mtime)[
        :-_PREVIEWS
    ]:
        old.unlink()
    return {"preview": id, "from": first, "to": last}


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
    return {"passed": found.passed, "words": found.report.summary_lines()}


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
