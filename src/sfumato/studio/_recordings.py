"""The library and its frames."""

from __future__ import annotations

import time
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato import __version__
from sfumato.media import VideoInfo
from sfumato.privacy import Card, Guarantee
from sfumato.studio._answers import answered, id_in, jpeg, number_in, query_number
from sfumato.studio._library import LibraryEntry, Listing
from sfumato.studio._studio import Studio, studio_of

_PATIENCE = 1.5  # seconds of opening files for one listing; the rest is said next time
_WIDEST = 8192


def routes() -> list[Route]:
    return [
        Route("/api/session", answered(session)),
        Route("/api/recordings", answered(recordings)),
        Route("/api/recordings/{id}", answered(recording)),
        Route("/api/recordings/{id}/frames/{number}", answered(original_frame)),
        Route("/api/releases/{id}/frames/{number}", answered(protected_frame)),
    ]


async def session(request: Request) -> dict[str, Any]:
    studio = studio_of(request)  # on the server's own thread, which alone changes its sessions
    return {
        "csrf": studio.doorkeeper.csrf_of(request.headers),
        "readOnly": studio.doorkeeper.read_only,
        "root": studio.library.root.name,
        "version": __version__,
        "locale": None,
    }


def recordings(request: Request) -> dict[str, Any]:
    studio = studio_of(request)
    listing, until = studio.library.scan(), time.monotonic() + _PATIENCE
    shown = [
        recording_json(studio, listing, each, look=time.monotonic() < until)
        for each in listing.recordings.values()
    ]
    shown += [
        recording_json(studio, listing, each, look=time.monotonic() < until)
        for id, each in listing.releases.items()
        if id not in listing.origins
    ]
    folders = [
        {
            "id": each.id,
            "name": each.name or studio.library.root.name,
            "parent": None if not each.name else _parent(listing, each),
            "recordings": [r.id for r in listing.recordings.values() if _below(r, each)],
        }
        for each in listing.folders.values()
    ]
    return {"recordings": shown, "folders": folders}


def _below(entry: LibraryEntry, folder: LibraryEntry) -> bool:
    return not folder.name or entry.name.startswith(f"{folder.name}/")


def _parent(listing: Listing, folder: LibraryEntry) -> str | None:
    return next((e.id for e in listing.folders.values() if e.name == folder.folder), None)


def recording(request: Request) -> dict[str, Any]:
    studio, id = studio_of(request), id_in(request)
    library, listing = studio.library, studio.library.scan()
    entry = library.recording(id) if id in listing.recordings else library.release(id)
    return recording_json(studio, listing, entry, look=True)


def recording_json(
    studio: Studio, listing: Listing, entry: LibraryEntry, *, look: bool
) -> dict[str, Any]:
    """A recording as the library shows it; a release whose recording is not here stands for itself."""
    alone = entry.id in listing.releases
    releases = [entry] if alone else listing.releases_of(entry.id)
    size = _size(studio, entry, look)
    people = (
        {"state": "new", "doubts": 0, "openTracks": 0} if alone else studio.people.standing(entry)
    )
    if releases:
        people = {**people, "state": "released"}
    middle = (size["frames"] or 1) // 2
    return {
        "id": entry.id,
        "name": entry.name.rpartition("/")[2],
        "folder": entry.folder,
        "kind": entry.kind,
        "bytes": entry.path.stat().st_size,
        **size,
        **people,
        "releasedOnly": alone,
        "thumbnail": f"api/releases/{releases[-1].id}/frames/{middle}?width=320"
        if releases and entry.kind != "sound"
        else None,
        "releases": [release_json(each, listing.cards[each.id]) for each in releases],
    }


def release_json(entry: LibraryEntry, card: Card) -> dict[str, Any]:
    promise, reviews = card.promise, card.reviews or ()
    return {
        "id": entry.id,
        "name": entry.name.rpartition("/")[2],
        "folder": entry.folder,
        "method": card.method,
        "guarantee": str(promise),
        "terms": promise.terms if isinstance(promise, Guarantee) else None,
        "made": card.created,
        "reviewed": {
            "who": reviews[-1].by,
            "when": reviews[-1].at,
            "words": reviews[-1].of_release,
            "misses": reviews[-1].misses + reviews[-1].unsure,
            "looked": reviews[-1].sampled,
        }
        if reviews
        else None,
    }


def _size(studio: Studio, entry: LibraryEntry, look: bool) -> dict[str, Any]:
    empty = dict.fromkeys(("width", "height", "frames", "seconds", "rate", "problem"))
    if entry.kind == "sound" or not (look or studio.videos.knows(entry.path)):
        return empty
    if entry.kind == "picture":
        return empty | {"frames": 1}
    info = studio.videos.info(entry.path)
    if not isinstance(info, VideoInfo):
        return empty | {"problem": studio.library.without_root(info)}
    frames = info.expected_frames
    seconds = info.duration or (frames / info.rate if frames else None)
    return empty | {
        "width": info.width,
        "height": info.height,
        "frames": frames,
        "seconds": None if seconds is None else float(seconds),
        "rate": float(info.rate),
    }


async def original_frame(request: Request) -> Response:
    studio = studio_of(request)
    return await _frame(request, studio, studio.library.recording)


async def protected_frame(request: Request) -> Response:
    studio = studio_of(request)
    return await _frame(request, studio, studio.library.release)


async def _frame(request: Request, studio: Studio, named: Any) -> Response:
    number = number_in(request.path_params["number"], "frame")
    width = query_number(request, "width", _WIDEST, least=16, most=_WIDEST)
    entry = await run_in_threadpool(named, id_in(request))
    if await request.is_disconnected():
        return Response(status_code=400)  # somebody who scrubs has gone on already
    picture: Response = await run_in_threadpool(
        lambda: jpeg(studio.videos.frame(entry.path, number), width)
    )
    await run_in_threadpool(named, entry.id)  # refused if a link took its place meanwhile
    return picture
