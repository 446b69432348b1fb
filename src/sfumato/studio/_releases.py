"""Releases: cards, verification, sign-off by looking, audits, reports and impact assessments."""

from __future__ import annotations

import re
import secrets
import threading
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from sfumato import protect
from sfumato.errors import SfumatoError
from sfumato.files import parse_json, write_json
from sfumato.privacy import officer_view, read_card, verify_output
from sfumato.studio._answers import (
    WrongRequestError,
    answered,
    body_of,
    id_in,
)
from sfumato.studio._job_pages import shown
from sfumato.studio._library import LibraryEntry, NotThereError
from sfumato.studio._security import REPORT_POLICY
from sfumato.studio._studio import Studio, studio_of

_NONE = type(None)
_MOST_FRAMES = 10_000
_ID = re.compile(r"[0-9a-f]{24}")
_signing = threading.Lock()  # two windows on one sample: one signature
_ANSWERS = {True: "yes", False: "no", "yes": "yes", "no": "no", "unsure": "unsure"}


def routes() -> list[Route]:
    at = "/api/releases/{id}"
    return [
        Route(f"{at}/card", answered(card)),
        Route(f"{at}/sound", answered(sound)),
        Route(f"{at}/review", answered(begun_review), methods=["GET"]),
        Route(f"{at}/review", answered(review), methods=["POST"]),
        Route("/api/reviews/{id}/answers", answered(keep_answers), methods=["POST"]),
        Route("/api/reviews/{id}", answered(sign_off), methods=["POST"]),
        Route(f"{at}/audit", answered(audit), methods=["POST"]),
        Route(f"{at}/report", answered(report)),
        Route(f"{at}/impact", answered(impact)),
    ]


def _entry(request: Request) -> LibraryEntry:
    return studio_of(request).library.release(id_in(request))


def card(request: Request) -> dict[str, Any]:
    entry = _entry(request)
    found = read_card(entry.path)
    return {
        "json": found.to_json(),
        "words": found.page,
        "promise": str(found.promise),
        "officer": officer_view(found.promise),
        "verdict": _verdict(entry),
    }


def _verdict(entry: LibraryEntry) -> dict[str, Any]:
    try:
        verified = verify_output(entry.path)
    except SfumatoError as error:
        return {"agree": False, "words": str(error), "signedBy": None, "remarks": []}
    return {
        "agree": True,
        "words": "The output and its card agree.",
        "signedBy": verified.signer,
        "remarks": [*verified.remarks, *verified.who_looked],
    }


def sound(request: Request) -> Response:
    """A protected sound file, to listen to."""
    entry = _entry(request)
    if entry.kind != "sound":
        raise SfumatoError("Expected a sound file to listen to, got another kind of file.")
    return FileResponse(entry.path)


def begun_review(request: Request) -> dict[str, Any] | None:
    """The sample that was drawn and not signed off yet: a window that was closed loses no answer."""
    return _begun(studio_of(request), _entry(request))


def _begun(studio: Studio, entry: LibraryEntry) -> dict[str, Any] | None:
    for path in sorted((studio.library.state / "reviews").glob("*.json")):
        kept = parse_json(path.read_bytes())
        if not _ID.fullmatch(path.stem) or kept["release"] != entry.name:
            continue
        if kept["identity"] == _identity(entry):
            return _sample(path.stem, kept)
        if not studio.library.read_only:
            path.unlink()  # drawn of another file of that name
    return None


def _identity(entry: LibraryEntry) -> list[int]:
    found = entry.path.stat()
    return [found.st_size, found.st_mtime_ns]


def _sample(id: str, kept: dict[str, Any]) -> dict[str, Any]:
    drawn = [frame for _, frame in kept["sample"]["drawn"]]
    of = sum(each["frames"] for each in kept["sample"]["recordings"])
    return {"review": id, "frames": drawn, "of": of, "answers": kept.get("answers", {})}


def review(request: Request) -> dict[str, Any]:
    studio, entry = studio_of(request), _entry(request)
    asked = body_of(request, frames=(int, _NONE))
    if entry.kind == "sound":
        raise SfumatoError(
            "Expected pictures to look at, got sound: listen to it under Understand."
        )
    frames = protect.USUAL_SAMPLE if asked["frames"] is None else asked["frames"]
    if not 1 <= frames <= _MOST_FRAMES:
        raise WrongRequestError(f"Expected from 1 to {_MOST_FRAMES} frames to look at.")
    if (begun := _begun(studio, entry)) is not None:
        return begun  # nobody draws again until the frames are kind
    sample = studio.ask("review_sample", name=entry.name, frames=frames)
    id = secrets.token_hex(12)
    kept = {"release": entry.name, "identity": _identity(entry), "sample": sample}
    write_json(studio.library.kept("reviews", f"{id}.json"), kept, private=True)
    return _sample(id, kept)


def keep_answers(request: Request) -> dict[str, Any]:
    studio, id = studio_of(request), id_in(request)
    given = body_of(request, answers=dict)["answers"]
    with _signing:
        path, kept = _kept(studio, id)
        drawn = {str(frame) for _, frame in kept["sample"]["drawn"]}
        if not set(given) <= drawn or not all(map(_is_answer, given.values())):
            raise WrongRequestError("Expected answers for frames that were drawn, got others.")
        write_json(path, {**kept, "answers": given}, force=True, private=True)
        return _sample(id, {**kept, "answers": given})


def _kept(studio: Studio, id: str) -> tuple[Path, dict[str, Any]]:
    path = studio.library.state / "reviews" / f"{id}.json"
    if not path.is_file():
        raise NotThereError("Expected a sample that was drawn here, got an unknown one.")
    kept: dict[str, Any] = parse_json(path.read_bytes())
    return path, kept


def sign_off(request: Request) -> dict[str, Any]:
    studio, id = studio_of(request), id_in(request)
    asked = body_of(request, who=str, answers=dict)
    with _signing:
        return _sign_off(studio, id, asked)


def _sign_off(studio: Studio, id: str, asked: dict[str, Any]) -> dict[str, Any]:
    path, kept = _kept(studio, id)
    release = studio.library.inside(kept["release"])
    sample = protect.ReviewSample.from_json(kept["sample"])
    drawn = [str(frame) for _, frame in sample.drawn]
    answers = asked["answers"]
    if set(answers) != set(drawn) or not all(_is_answer(each) for each in answers.values()):
        raise WrongRequestError(
            'Expected an answer (true: somebody is left; false; "unsure") for each frame that was drawn.'
        )
    given = sample.answers([_ANSWERS[answers[frame]] for frame in drawn])
    recorded = protect.record_review(release, given, by=asked["who"])
    path.unlink()
    seen = recorded.first
    return {
        "misses": seen.misses + seen.unsure,
        "looked": seen.sampled,
        "bound95": seen.share_at_most,
        "words": seen.of_release,
        "left": [frame for _, frame in recorded.left],
    }


def _is_answer(value: object) -> bool:
    return isinstance(value, (bool, str)) and value in _ANSWERS


def audit(request: Request) -> dict[str, Any]:
    studio, entry = studio_of(request), _entry(request)
    asked = body_of(request, kind=str, every=(int, _NONE))
    if asked["kind"] not in ("leaks", "guarantee"):
        raise WrongRequestError("Expected an audit of leaks or guarantee.")
    every = asked["every"] or 1
    if not 1 <= every <= 1000:
        raise WrongRequestError("Expected to look at every n-th frame, n from 1 to 1000.")
    listing = studio.library.scan()
    origin = listing.origins.get(entry.id)
    job = studio.begin(
        "audit",
        f"Audit {entry.name.rpartition('/')[2]} ({asked['kind']})",
        name=entry.name,
        attack=asked["kind"],
        every=every,
        original=None if origin is None else listing.recordings[origin].name,
    )
    return {"job": shown(studio, job)}


def report(request: Request) -> Response:
    return _page(_report(request, "html")["page"])


def _page(text: str) -> Response:
    policy = {"content-security-policy": REPORT_POLICY}
    return Response(text, media_type="text/html", headers=policy)


def impact(request: Request) -> Response:
    form = request.query_params.get("format", "md")
    if form not in ("md", "html"):
        raise WrongRequestError("Expected the format md or html.")
    made = _report(request, form)
    if form == "html":
        return _page(made["impact"])
    named = {"content-disposition": 'attachment; filename="impact-assessment.md"'}
    return PlainTextResponse(made["impact"], media_type="text/markdown", headers=named)


def _report(request: Request, form: str) -> dict[str, str]:
    studio, entry = studio_of(request), _entry(request)
    beside = [
        path.relative_to(studio.library.root).as_posix()
        for path in sorted(entry.path.parent.iterdir())
        if path.name.startswith(entry.path.name)
        and path.name.endswith((".measures.json", ".audit.json"))
        and not path.is_symlink()
    ]
    made: dict[str, str] = studio.ask("report_page", name=entry.name, beside=beside, format=form)
    return made
