"""The application: routes behind the doorkeeper."""

from __future__ import annotations

import mimetypes
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from sfumato.studio import (
    _job_pages,
    _ledgers,
    _people,
    _protecting,
    _recordings,
    _releases,
    _trainings,
)
from sfumato.studio._answers import answered, error_answer
from sfumato.studio._security import Doorkeeper, Guarded
from sfumato.studio._studio import Studio

_PAGES = (_recordings, _people, _protecting, _job_pages, _releases, _ledgers, _trainings)
STATIC = Path(__file__).with_name("static")
# whatever the machine's own table says: a script of another type would not run
for ending, kind in ((".js", "text/javascript"), (".css", "text/css"), (".svg", "image/svg+xml")):
    mimetypes.add_type(kind, ending)


def make_app(
    root: str | os.PathLike[str],
    *,
    port: int,
    read_only: bool = False,
    say: Callable[[str], None] = lambda link: None,
    warm: bool = False,
) -> Guarded:
    """The studio on ``root`` as an ASGI application; ``say`` hears each new one-time link.

    ``warm`` loads what the forms need while the first page is being looked at.
    """
    studio = Studio.open(Path(root), Doorkeeper(port, read_only, say))

    async def failed(request: Request, error: Exception) -> Response:
        return error_answer(error)

    app = Starlette(
        routes=[
            Route("/", answered(_index)),
            *(route for page in _PAGES for route in page.routes()),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        lifespan=_lifespan,
        exception_handlers={404: failed, 405: failed, Exception: failed},
    )
    app.state.studio = studio
    if warm:
        threading.Thread(target=lambda: studio.methods, daemon=True).start()
    return Guarded(app, studio.doorkeeper, studio.leaving.set)


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    yield
    app.state.studio.close()


def _index(request: Request) -> Response:
    return FileResponse(STATIC / "index.html")
