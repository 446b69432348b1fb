"""The application: routes behind the doorkeeper."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from sfumato.studio import _recordings
from sfumato.studio._answers import answered, error_answer
from sfumato.studio._frames import OpenVideos
from sfumato.studio._library import Library
from sfumato.studio._security import Doorkeeper, Guarded
from sfumato.studio._studio import Studio

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
) -> Guarded:
    """The studio on ``root`` as an ASGI application; ``say`` hears each new one-time link."""
    library = Library(root, read_only=read_only)
    studio = Studio(
        library,
        Doorkeeper(port, read_only, say),
        OpenVideos(None if read_only else library.kept("index", "x").parent),
    )

    async def failed(request: Request, error: Exception) -> Response:
        return error_answer(error)

    app = Starlette(
        routes=[
            Route("/", answered(_index)),
            *_recordings.routes(),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        exception_handlers={404: failed, 405: failed, Exception: failed},
    )
    app.state.studio = studio
    return Guarded(app, studio.doorkeeper)


async def _index(request: Request) -> Response:
    return FileResponse(STATIC / "index.html")
