"""``sfumato demo``: the main job end to end, on data it makes itself."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer
from rich.markup import escape

from sfumato.cli._output import emit, ending, progress_bar
from sfumato.cli._verb import verb, verbs

app = verbs()


@verb(app, "sfumato demo", "sfumato demo --out somewhere", "sfumato demo --clip walk.mp4 --force")
def demo(
    out: Path = typer.Option(Path("demo-out"), help="The folder to write."),
    clip: Path | None = typer.Option(None, help="A real clip to protect instead of a staged one."),
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Stage people, protect them four ways, count the budget, train two ways, and say what is proven."""
    from sfumato.cli import _demo as steps
    from sfumato.report import write_report

    def say(sentence: str) -> None:
        if not as_json:
            print(sentence, flush=True)

    with progress_bar(hidden=as_json):
        summary = steps.run(out, clip=clip, force=force, say=say)
    say("5. Report: report.html, for an officer and an engineer.")
    write_report([out / name for name in summary.files], out / "report.html", force=force)
    last = ending(
        f"everything is in {out}/; report.html shows it.",
        "what is not proven hides what was found, and nobody can say what was missed.",
        f"sfumato studio --root {out}   (look at it in a browser; yours: sfumato protect YOUR.mp4 out.mp4)",
    )
    emit(as_json, asdict(summary), *map(escape, steps.closing_lines(summary, out)), *last)
