"""Jobs: the list, cancel and resume, and their progress as it comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from sfumato.jobs import QueuedJob
from sfumato.studio._answers import answered, id_in
from sfumato.studio._library import NotThereError
from sfumato.studio._studio import Studio, studio_of

_PATIENCE = 1.0  # seconds after which it is seen that the browser or the server has gone
_SHOWN = 50  # recordings of a job that a page is told of


def routes() -> list[Route]:
    return [
        Route("/api/jobs", answered(jobs)),
        Route("/api/jobs/events", answered(events)),
        Route("/api/jobs/{id}/cancel", answered(partial(change, what="cancel")), methods=["POST"]),
        Route("/api/jobs/{id}/resume", answered(partial(change, what="resume")), methods=["POST"]),
    ]


def shown(studio: Studio, job: QueuedJob) -> dict[str, Any]:
    """A job for the browser: what it was asked names files, and stays here but for the ids of recordings."""
    library, asked = studio.library, job.arguments
    names = [each["name"] for each in asked.get("items", ())[:_SHOWN]] or [asked.get("name")]
    folder = asked.get("folder")
    return {
        "recordings": [library.id_of(library.root / name) for name in names if name],
        "folder": None if folder is None else library.id_of(library.root / folder, folder=True),
        "id": job.id,
        "kind": job.kind,
        "title": job.title,
        "state": job.state,
        "done": job.done,
        "total": job.total,
        "what": job.what,
        "secondsLeft": job.seconds_left,
        "error": None if job.error is None else library.without_root(job.error),
        "result": job.result,
    }


def _job(studio: Studio, id: str) -> QueuedJob:
    found = studio.queue.get(id)
    if found is None:
        raise NotThereError("Expected a job of this studio, got an unknown id.")
    return found


def jobs(request: Request) -> list[dict[str, Any]]:
    studio = studio_of(request)
    return [shown(studio, job) for job in studio.queue.all()]


def change(request: Request, *, what: str) -> dict[str, Any]:
    studio, id = studio_of(request), id_in(request)
    _job(studio, id)
    getattr(studio.queue, what)(id)
    return {"job": shown(studio, _job(studio, id))}


async def events(request: Request) -> Response:
    return StreamingResponse(_events(request), media_type="text/event-stream")


async def _events(request: Request) -> AsyncIterator[str]:
    studio, loop = studio_of(request), asyncio.get_running_loop()
    waiting: asyncio.Queue[QueuedJob] = asyncio.Queue()

    def hear(job: QueuedJob) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(waiting.put_nowait, job)

    stop = studio.queue.listen(hear)
    try:
        for job in reversed(studio.queue.all()):
            yield _event(studio, job)
        while not (studio.leaving.is_set() or await request.is_disconnected()):
            try:
                job = await asyncio.wait_for(waiting.get(), _PATIENCE)
            except TimeoutError:
                yield ": still here\n\n"
                continue
            latest = {job.id: job}
            while not waiting.empty():  # of a job that runs ahead of the browser the newest will do
                job = waiting.get_nowait()
                latest[job.id] = job
            for each in latest.values():
                yield _event(studio, each)
    finally:
        stop()


def _event(studio: Studio, job: QueuedJob) -> str:
    return f"event: job\ndata: {json.dumps(shown(studio, job))}\n\n"
