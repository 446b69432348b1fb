"""Jobs: the list, cancel and resume, and their progress as it comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sfumato.jobs import QueuedJob
from sfumato.studio._answers import answered, id_in, in_thread
from sfumato.studio._library import NotThereError
from sfumato.studio._studio import Studio, studio_of

_PATIENCE = 15.0


def routes() -> list[Route]:
    return [
        Route("/api/jobs", answered(jobs)),
        Route("/api/jobs/events", answered(events)),
        Route("/api/jobs/{id}/cancel", answered(cancel), methods=["POST"]),
        Route("/api/jobs/{id}/resume", answered(resume), methods=["POST"]),
    ]


def shown(job: QueuedJob) -> dict[str, Any]:
    """A job for the browser: what it was asked names files, and stays here."""
    return {
        "id": job.id,
        "kind": job.kind,
        "title": job.title,
        "state": job.state,
        "done": job.done,
        "total": job.total,
        "what": job.what,
        "secondsLeft": job.seconds_left,
        "error": job.error,
        "result": job.result,
    }


def _job(studio: Studio, id: str) -> QueuedJob:
    found = studio.queue.get(id)
    if found is None:
        raise NotThereError("Expected a job of this studio, got an unknown id.")
    return found


async def jobs(request: Request) -> Response:
    return JSONResponse([shown(job) for job in studio_of(request).queue.all()])


async def cancel(request: Request) -> Response:
    return await _told(request, "cancel")


async def resume(request: Request) -> Response:
    return await _told(request, "resume")


async def _told(request: Request, what: str) -> Response:
    studio, id = studio_of(request), id_in(request)
    _job(studio, id)
    await in_thread(getattr(studio.queue, what), id)
    return JSONResponse({"job": shown(_job(studio, id))})


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
            yield _event(job)
        while not await request.is_disconnected():
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
                yield _event(each)
    finally:
        stop()


def _event(job: QueuedJob) -> str:
    return f"event: job\ndata: {json.dumps(shown(job))}\n\n"
