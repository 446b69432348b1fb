"""``sfumato studio``: see, correct and release in a browser."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path

import typer

from sfumato.cli._output import say
from sfumato.cli._verb import verb, verbs

app = verbs()


@verb(
    app,
    "sfumato studio --root recordings/",
    "sfumato studio --root released/ --read-only",
    "sfumato studio --port 8000 --no-browser",
)
def studio(
    root: Path = typer.Option(Path("."), help="The folder with recordings; nothing else is shown."),
    port: int = typer.Option(
        0, min=0, max=65535, help="The port on this machine (0: any free one)."
    ),
    read_only: bool = typer.Option(
        False, "--read-only", help="Look at everything, change nothing (for officers)."
    ),
    browser: bool = typer.Option(
        True, "--browser/--no-browser", help="Open the page in your browser."
    ),
) -> None:
    """See who was found, correct it, release and sign off, in a browser on this machine."""
    from sfumato.studio import serve

    opened = False

    def link(address: str) -> None:
        nonlocal opened
        if opened:
            say(f"For another browser: {address} (once; Ctrl-C ends the studio)")
            return
        opened = True
        say(f"The studio: {address} (opens once; Ctrl-C ends it)")
        if browser:
            webbrowser.open(_door(Path(scratch), address))

    with tempfile.TemporaryDirectory() as scratch:
        serve(root, port=port, read_only=read_only, say=link)


def _door(folder: Path, address: str) -> str:
    """A private file that leads to the link: other users can read the arguments of a browser."""
    door = folder / "studio.html"
    door.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={address}&amp;file=1">', "utf-8"
    )
    return door.as_uri()
