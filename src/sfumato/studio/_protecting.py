"""Methods, the promise in words, previews, and the release itself."""

from __future__ import annotations

import secrets
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.errors import SfumatoError
from sfumato.studio._answers import (
    WrongRequestError,
    answered,
    body_of,
    checked_id,
    id_in,
    jpeg,
    members,
    number_in,
    query_number,
)
from sfumato.studio._job_pages import shown
from sfumato.studio._library import RELEASED, LibraryEntry, NotThereError
from sfumato.studio._studio import Studio, studio_of
from sfumato.studio._tasks import release_name

_LONGEST_PREVIEW = 300
_MOST_RECORDINGS = 10_000
_NONE = type(None)
_CHOICE: dict[str, type | tuple[type, ...]] = {
    "recordings": (list, _NONE),
    "folder": (str, _NONE),
    "method": str,
    "settings": (dict, _NONE),
    "audio": (str, _NONE),
}


def routes() -> list[Route]:
    return [
        Route("/api/methods", answered(methods)),
        Route("/api/promise", answered(promise), methods=["POST"]),
        Route("/api/preview", answered(preview), methods=["POST"]),
        Route("/api/previews/{id}", answered(preview_of)),
        Route("/api/previews/{id}/frames/{number}", answered(preview_frame)),
        Route("/api/protect", answered(protect), methods=["POST"]),
    ]


def methods(request: Request) -> list[dict[str, Any]]:
    return studio_of(request).methods


def _chosen(
    studio: Studio, asked: dict[str, Any]
) -> tuple[list[LibraryEntry], LibraryEntry | None]:
    """The recordings that are meant, and the folder if it was one."""
    if (asked["recordings"] is None) == (asked["folder"] is None):
        raise WrongRequestError("Expected recordings or a folder, got both or neither.")
    listing = studio.library.scan()
    for_sound = any(e["name"] == asked["method"] and e["medium"] == "sound" for e in studio.methods)
    if asked["folder"] is not None:
        folder = studio.library.folder(checked_id(asked["folder"]))
        inside = [
            each
            for each in listing.recordings.values()
            if not folder.name or each.name.startswith(f"{folder.name}/")
        ]
        return [each for each in inside if (each.kind == "sound") == for_sound], folder
    if not 0 < len(asked["recordings"]) <= _MOST_RECORDINGS:
        raise WrongRequestError("Expected at least one recording, got none or far too many.")
    found = [
        studio.library.recording(checked_id(each)) for each in dict.fromkeys(asked["recordings"])
    ]
    if len({each.kind == "sound" for each in found}) > 1:
        raise SfumatoError(
            "Expected sound files or pictures, got both: protect them one after the other."
        )
    return found, None


def promise(request: Request) -> dict[str, Any]:
    return _promise(studio_of(request), body_of(request, **_CHOICE, measure=(bool, _NONE)))


def _promise(studio: Studio, asked: dict[str, Any]) -> dict[str, Any]:
    entries, folder = _chosen(studio, asked)
    sizes = [_size(studio, each) for each in entries[:100]]
    width, height, _ = max(sizes, default=(320, 240, 1), key=lambda size: size[0] * size[1])
    frames = sum(count for *_, count in sizes)
    try:
        said = studio.ask(
            "promise",
            source=str(folder.path if folder is not None else entries[0].path),
            method=asked["method"],
            settings=asked["settings"] or {},
            audio=asked["audio"] or "drop",
            measure=bool(asked["measure"]) and entries[:1] != [] and entries[0].kind != "sound",
            width=width,
            height=height,
            frames=sizes[0][2] if len(sizes) == 1 else None,
        )
    except SfumatoError as error:
        unknown = dict.fromkeys(("terms", "seconds", "megabytes"))
        return {**unknown, "words": "", "refused": studio.library.without_root(str(error))}
    seconds, memory = said["seconds_per_frame"], said["bytes"]
    return {
        "words": said["words"],
        "terms": said["terms"],
        "lines": said["lines"],
        "settings": said["settings"],
        "remarks": said["remarks"],
        "seconds": None if seconds is None else seconds * frames,
        "megabytes": None if memory is None else memory / 2**20,
        "refused": None,
    }


def _size(studio: Studio, entry: LibraryEntry) -> tuple[int, int, int]:
    if entry.kind != "video":
        return 1920, 1080, 1
    info = studio.videos.info(entry.path)
    if isinstance(info, str):
        return 320, 240, 1
    return info.width, info.height, info.expected_frames or 1


def preview(request: Request) -> dict[str, Any]:
    studio = studio_of(request)
    kinds: dict[str, Any] = {"from": int, "to": int}
    asked = body_of(request, recording=str, method=str, settings=(dict, _NONE), **kinds)
    first, last = asked["from"], asked["to"]
    if not 0 <= first <= last < first + _LONGEST_PREVIEW:
        raise WrongRequestError(f"Expected at most {_LONGEST_PREVIEW} frames in order to preview.")
    entry = studio.library.recording(checked_id(asked["recording"]))
    if entry.kind != "video":
        raise SfumatoError("Expected a video to preview, got another kind of file.")
    job = studio.begin(
        "preview",
        f"Preview {entry.name.rpartition('/')[2]}",
        name=entry.name,
        method=asked["method"],
        settings=asked["settings"] or {},
        preview=secrets.token_hex(12),
        **{"from": first, "to": last},
    )
    return {"job": shown(studio, job), "preview": job.arguments["preview"]}


def _finished_preview(studio: Studio, id: str) -> dict[str, Any]:
    for job in studio.queue.all():
        if job.kind == "preview" and job.state == "done" and job.arguments["preview"] == id:
            result: dict[str, Any] = job.result
            return result
    raise NotThereError("Expected a preview that is finished, got an unknown one.")


def preview_of(request: Request) -> dict[str, Any]:
    found = _finished_preview(studio_of(request), id_in(request))
    return {"from": found["from"], "to": found["to"]}


def preview_frame(request: Request) -> Response:
    studio, id = studio_of(request), id_in(request)
    found = _finished_preview(studio, id)
    number = number_in(request.path_params["number"], "frame", found["from"], found["to"])
    width = query_number(request, "width", 8192, least=16, most=8192)
    path = studio.library.state / "previews" / f"{id}.mkv"
    return jpeg(studio.videos.frame(path, number - found["from"]), width)


def protect(request: Request) -> dict[str, Any]:
    studio = studio_of(request)
    asked = body_of(
        request, **_CHOICE, keepNames=(bool, _NONE), ledger=(dict, _NONE), measure=(bool, _NONE)
    )
    entries, folder = _chosen(studio, asked)
    refused = _promise(studio, {**asked, "measure": False})["refused"]
    if refused is not None:
        raise SfumatoError(refused)
    if not entries:
        raise SfumatoError("Expected a folder with recordings, found none in it.")
    keep, taken = bool(asked["keepNames"]), set[str]()
    corrected = any(studio.people.file(each) is not None for each in entries)
    # a folder whose people were looked at goes one by one: each recording with its own corrections
    whole = folder is not None and folder.name != "" and not corrected
    items = [
        {"name": each.name, "target": _free_name(studio, each, keep, taken)} for each in entries
    ]
    title = folder.name if folder is not None else ", ".join(_names(entries))
    job = studio.begin(
        "protect",
        f"Protect {title or studio.library.root.name} ({asked['method']})",
        items=[] if whole else items,
        folder=folder.name if whole and folder is not None else None,
        target=f"{RELEASED}/{secrets.token_hex(8)}",
        method=asked["method"],
        settings=asked["settings"] or {},
        audio=asked["audio"] or "drop",
        keepNames=keep,
        ledger=_ledger(studio, asked["ledger"]),
    )
    return {"job": shown(studio, job)}


def _names(entries: list[LibraryEntry]) -> list[str]:
    names = [each.name.rpartition("/")[2] for each in entries[:3]]
    return names if len(entries) <= 3 else [*names, f"and {len(entries) - 3} more"]


def _free_name(studio: Studio, entry: LibraryEntry, keep: bool, taken: set[str]) -> str:
    name = release_name(entry.path, keep=keep)
    stem, dot, ending = name.rpartition(".")
    number = 1
    while (studio.library.root / name).exists() or name in taken:
        number += 1
        name = f"{stem}-{number}{dot}{ending}"
    taken.add(name)
    return name


def _ledger(studio: Studio, asked: dict[str, Any] | None) -> dict[str, Any] | None:
    if asked is None:
        return None
    given = members(
        asked,
        id=str,
        dataset=str,
        purpose=(str, _NONE),
        operator=(str, _NONE),
        acknowledgeNoGuarantee=(bool, _NONE),
    )
    studio.library.ledger(checked_id(given["id"]))
    return given
