"""``sfumato audit probe``: attributes that can still be read off a protected data set."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.markup import escape
from rich.table import Table

from sfumato.cli._output import FORCE, JSON, emit, finite


def probe(
    data: Path = typer.Argument(..., help="The folder of the data set, in its published layout."),
    state: Path | None = typer.Option(
        None, help="The private folder of sfumato protect --method pass --state."
    ),
    method: str | None = typer.Option(
        None, help="Or a method to fit and attack: adv, gap, msda, bdq, ppdar, mass, spact."
    ),
    private: list[str] | None = typer.Option(
        None, help="With --method: what must disappear; repeat it."
    ),
    useful: list[str] | None = typer.Option(
        None, help="With --method: what must survive; repeat it."
    ),
    hidden: list[str] | None = typer.Option(None, help="Further attributes to attack; repeat it."),
    epochs: int = typer.Option(30, min=1, max=10**5, help="How long the attacker trains at most."),
    most: float | None = typer.Option(
        None,
        min=0,
        callback=finite,
        help="Exit code 1 if a private attribute's NAG is above this (per cent).",
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Where to write NAME.measures.json for the report."
    ),
    force: bool = FORCE,
    as_json: bool = JSON,
) -> None:
    """Train fresh attackers on what a protector releases: NAG of every attribute (100: unprotected)."""
    from sfumato.audit import ProbeSettings, measures_path, write_measures
    from sfumato.audit.attack import probe_dataset
    from sfumato.files import refuse_overwrite

    target = None if out is None else measures_path(out)
    if target is not None:
        refuse_overwrite(target, force=force)
    report = probe_dataset(
        data, state=state, method=method, private=private or (), useful=useful or (),
        hidden=hidden or (), settings=ProbeSettings(epochs=epochs),
        say=lambda line: typer.echo(line, err=True),
    )  # fmt: skip
    table = Table(
        "attribute", "", "NAG trained", "NAG exact", "balanced", "guessing", "unprotected"
    )
    for row in report.rows:
        exact = "" if row.exact is None else f"{row.nag(row.exact):.1f}"
        low, high = row.worst.balanced_interval
        table.add_row(
            row.name, row.role, f"{row.nag(row.trained):.1f}", exact,
            f"{100 * row.worst.balanced_accuracy:.1f} ({100 * low:.1f}-{100 * high:.1f})",
            f"{100 / row.worst.classes:.1f}", f"{100 * row.clear.balanced_accuracy:.1f}",
        )  # fmt: skip
    words = [f"mNAG {report.mnag:.1f} on {report.records} records; an estimate, not a bound."]
    if target is not None:
        write_measures(
            target, report.results, title="Private attributes",
            commands=[f"sfumato audit probe DATA ({report.method})"], force=force,
        )  # fmt: skip
        words.append(f"Written to {target.name}.")
    failed = most is not None and report.worst_private > most
    emit(as_json, report.to_json(), table, *map(escape, words), ok=not failed)
    if failed:
        raise typer.Exit(1)
