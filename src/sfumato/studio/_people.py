"""Pages about the people of one recording: search, boxes, edits, undo, the COCO file."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from sfumato import people as finding
from sfumato import protect
from sfumato.errors import SfumatoError
from sfumato.files import parse_json
from sfumato.studio._answers import (
    WrongRequestError,
    answered,
    body_of,
    id_in,
    members,
    query_number,
)
from sfumato.studio._job_pages import shown
from sfumato.studio._library import LibraryEntry
from sfumato.studio._people_store import people_path
from sfumato.studio._studio import Studio, studio_of

_MOST_FRAMES = 2000
_NUMBER = (int, float)
_NONE = type(None)
_EDITS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "click": {"frame": int, "x": _NUMBER, "y": _NUMBER},
    "follow": {"frame": int, "track": int},
    "box": {"frame": int, "track": (int, _NONE), "box": list},
    "deleteBox": {"frame": int, "track": int},
    "deleteTrack": {"track": int},
    "open": {"track": int, "open": bool},
    "confirm": {"frame": int, "track": int},
    "review": {"done": bool},
}


def routes() -> list[Route]:
    at = "/api/recordings/{id}"
    return [
        Route(f"{at}/find", answered(find), methods=["POST"]),
        Route(f"{at}/people", answered(summary)),
        Route(f"{at}/people/boxes", answered(boxes)),
        Route(f"{at}/edits", answered(edit), methods=["POST"]),
        Route(f"{at}/undo", answered(partial(step_back_or_forth, which="undo")), methods=["POST"]),
        Route(f"{at}/redo", answered(partial(step_back_or_forth, which="redo")), methods=["POST"]),
        Route(f"{at}/coco", answered(coco), methods=["GET"]),
        Route(f"{at}/coco", answered(import_coco), methods=["POST"]),
    ]


def _asked_about(request: Request) -> tuple[Studio, LibraryEntry]:
    studio = studio_of(request)
    return studio, studio.library.recording(id_in(request))


def find(request: Request) -> dict[str, Any]:
    studio, entry = _asked_about(request)
    asked = body_of(request, settings=(dict, _NONE), again=(bool, _NONE))
    settings = members(
        asked["settings"] or {}, detector=(str, _NONE), every=(int, _NONE), onMiss=(str, _NONE)
    )
    if not asked["again"] and studio.people.has_edits(entry):
        raise SfumatoError(
            "Expected a recording without corrections, got one with some: a new search would lose them."
        )
    if entry.kind == "sound":
        raise SfumatoError("Expected pictures to search for people, got sound.")
    given = {
        "detector": settings["detector"],
        "every": settings["every"],
        "policy": settings["onMiss"],
    }
    checked = {name: value for name, value in given.items() if value is not None}
    job = studio.begin("find", f"Find people in {_last(entry)}", name=entry.name, settings=checked)
    return {"job": shown(studio, job)}


def _last(entry: LibraryEntry) -> str:
    return entry.name.rpartition("/")[2]


def summary(request: Request) -> dict[str, Any]:
    return _summary(*_asked_about(request))


def _summary(studio: Studio, entry: LibraryEntry) -> dict[str, Any]:
    return studio.people.summary(entry, studio.rate(entry))


def boxes(request: Request) -> dict[str, Any]:
    studio, entry = _asked_about(request)
    first = query_number(request, "from")
    last = query_number(request, "to", least=first, most=first + _MOST_FRAMES)
    return studio.people.boxes(entry, first, last)


def _edit_asked(request: Request) -> dict[str, Any]:
    every = {name: object for kinds in _EDITS.values() for name in kinds}
    given = body_of(request, do=str, revision=(int, _NONE), **every)
    given = {name: value for name, value in given.items() if value is not None or name == "track"}
    kinds = _EDITS.get(given["do"])
    if kinds is None:
        raise WrongRequestError(f"Expected an edit out of {', '.join(_EDITS)}.")
    if "track" not in kinds:
        given.pop("track", None)
    asked = members(given, do=str, revision=(int, _NONE), **kinds)
    if "box" in asked and (
        len(asked["box"]) != 4
        or not all(isinstance(e, _NUMBER) and not isinstance(e, bool) for e in asked["box"])
    ):
        raise WrongRequestError("Expected a box as [x, y, width, height].")
    if not all(
        -1e7 < e < 1e7 for e in (*asked.get("box", ()), asked.get("x", 0), asked.get("y", 0))
    ):
        raise WrongRequestError("Expected places inside the picture.")
    return asked


def edit(request: Request) -> dict[str, Any]:
    studio, entry = _asked_about(request)
    asked = _edit_asked(request)
    if asked["do"] in ("click", "follow"):
        frames = studio.people.found(entry).frames
        if not 0 <= asked["frame"] < frames:
            raise WrongRequestError(f"Expected a frame from 0 to {frames - 1}.")
        track = studio.ask(asked["do"], name=entry.name, **asked)
    else:
        track = studio.people.edit(entry, asked)
    studio.people.sidecars_later(entry)
    return {"track": track, **_summary(studio, entry)}


def step_back_or_forth(request: Request, *, which: str) -> dict[str, Any]:
    studio, entry = _asked_about(request)
    asked = body_of(request, revision=(int, _NONE))
    getattr(studio.people.found(entry), which)(revision=asked["revision"])
    studio.people.sidecars_later(entry)
    return _summary(studio, entry)


def coco(request: Request) -> Response:
    studio, entry = _asked_about(request)
    category = request.query_params.get("category", "person")
    if category not in protect.CATEGORIES:
        raise WrongRequestError(f"Expected a category out of {', '.join(protect.CATEGORIES)}.")
    if studio.library.read_only:
        raise SfumatoError("Expected a studio that may write, got one that only reads.")
    places = studio.people.sidecars(entry)
    return FileResponse(
        places[category],
        media_type="application/json",
        headers={"content-disposition": 'attachment; filename="boxes.json"'},
    )


def import_coco(request: Request) -> dict[str, Any]:
    studio, entry = _asked_about(request)
    body = request.state.body
    try:
        parse_json(body.decode("utf-8"))
    except ValueError:
        raise WrongRequestError("Expected JSON, got something else.") from None
    _replace_people(studio, entry, body)
    return _summary(studio, entry)


def _replace_people(studio: Studio, entry: LibraryEntry, body: bytes) -> None:
    """Take what a COCO file says in the place of what was found; the file must fit the recording."""
    place = studio.library.kept("imports", f"{entry.id}.json")
    place.unlink(missing_ok=True)
    try:
        with open(place, "xb", opener=_private) as file:
            file.write(body)
        given = finding.read_coco(place)
    finally:
        place.unlink(missing_ok=True)
    count = studio.videos.count(entry.path)
    height, width = studio.videos.frame(entry.path, 0).shape[:2]
    if (given.width, given.height, sorted(given.frames)) != (width, height, list(range(count))):
        raise SfumatoError(
            f"Expected boxes of {width} x {height} for each of {count} frames, got others: export them "
            "from this very recording."
        )
    finding.PeopleFile.create(
        people_path(studio.library, entry.name),
        finding.numbered(given.frames[number] for number in range(count)),
        width=width,
        height=height,
        force=True,
    )
    studio.people.sidecars(entry)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
