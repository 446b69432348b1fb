"""``sfumato audit``: attacks on a promise or an output, and what they got."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.markup import escape

from sfumato.cli._output import FORCE, JSON, emit

app = typer.Typer(no_args_is_help=True, help="Attack a promise or an output; show what it got.")


@app.callback()
def _audit() -> None:
    pass


@app.command()
def guarantee(
    card: Path = typer.Argument(..., help="A privacy card, or the output that it stands beside."),
    trials: int = typer.Option(20_000, min=1000, help="Simulated runs on each of two neighbours."),
    confidence: float = typer.Option(
        0.95, min=0.6, max=0.9999, help="Of the certified lower limit; 99 % is shown beside it."
    ),
    force: bool = FORCE,
    as_json: bool = JSON,
) -> None:
    """Try to refute the promise on CARD; the verdict is written beside it. Exit code 1 if refuted."""
    from sfumato.audit import audit_guarantee, verdict_paths, write_verdict
    from sfumato.files import refuse_overwrite

    for path in verdict_paths(card):
        refuse_overwrite(path, force=force)
    verdict = audit_guarantee(card, trials=trials, confidence=confidence)
    machine, words = write_verdict(verdict, card, force=force)
    written = f"Written to {machine.name} and {words.name}."
    emit(as_json, verdict.to_json(), escape(str(verdict)), escape(written))
    if verdict.refuted:
        raise typer.Exit(1)


@app.command()
def strength(
    seeds: int = typer.Option(8, min=1, help="Repetitions that are averaged."),
    as_json: bool = JSON,
) -> None:
    """How much of a known epsilon the audits of guarantees certify, on simulated mechanisms."""
    from rich.table import Table

    from sfumato.audit import strengths

    rows = list(strengths(seeds))
    table = Table("audit", "target", "trials", "certified share", "soundness notes")
    for row in rows:
        table.add_row(
            row.audit, row.target, row.trials, f"{row.fraction:.2f}", f"{row.reference:.2f}"
        )
    emit(as_json, {"strengths": [vars(row) for row in rows]}, table)


@app.command("members", hidden=True)
@app.command("membership")
def membership(
    run: Path = typer.Argument(..., help="The folder that sfumato train wrote."),
    shadows: int = typer.Option(
        8, min=0, help="Shadow models for LiRA, 3 or more; 0: loss threshold alone."
    ),
    most: int = typer.Option(2000, min=4, help="Records looked at of each side."),
    force: bool = FORCE,
    as_json: bool = JSON,
) -> None:
    """Can the model tell who was in its training set? Exit code 1 if that refutes its promise."""
    from sfumato.audit import audit_members, measures_path, write_measures
    from sfumato.files import refuse_overwrite

    target = measures_path(run / "membership")
    refuse_overwrite(target, force=force)
    report = audit_members(run, shadows=shadows, most=most)
    write_measures(
        target, report.measures, title="Membership inference", settings={"shadows": shadows},
        commands=[f"sfumato audit membership RUN --shadows {shadows}"], force=force,
    )  # fmt: skip
    emit(as_json, report.to_json(), *map(escape, report.words()), f"Written to {target.name}.")
    if report.refuted:
        raise typer.Exit(1)
