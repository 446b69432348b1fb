"""Running the studio: on the loopback alone, until it is interrupted."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from sfumato.errors import SfumatoError, needs_extra


def serve(
    root: str | os.PathLike[str],
    *,
    port: int = 0,
    read_only: bool = False,
    say: Callable[[str], None],
) -> None:
    """Serve the studio on 127.0.0.1; ``say`` hears the one-time link, and a new one when it was used."""
    with needs_extra("starlette", "studio", "The studio"):
        import starlette  # noqa: F401
    with needs_extra("uvicorn", "studio", "The studio"):
        import uvicorn
    from sfumato.studio._app import make_app

    listening = _listen(port)
    app = make_app(root, port=listening.getsockname()[1], read_only=read_only, say=say, warm=True)
    say(app.doorkeeper.link)
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,  # ids and times of what somebody looked at are nobody's business
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=3,
    )
    server = uvicorn.Server(config)
    end = server.handle_exit

    def leave(*signal: Any) -> None:
        app.leave()  # streams end by themselves, so that nothing has to be cut off
        end(*signal)

    server.handle_exit = leave  # type: ignore[method-assign, assignment]
    server.run(sockets=[listening])


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen()  # who follows the link at once waits for the server to be ready
    except OSError:
        listening.close()
        raise SfumatoError(
            f"Expected the port {port} to be free on this machine, but something uses it: choose another "
            "(--port), or leave it out."
        ) from None
    return listening
