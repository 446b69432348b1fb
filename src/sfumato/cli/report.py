"""``sfumato report``: one HTML page about releases, for officers and for engineers."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli._output import emit, ending, progress_bar
from sfumato.cli._verb import verb, verbs

app = verbs()


@verb(
    app,
    "sfumato report out.mp4",
    "sfumato report released/ -o report.html --force",
    "sfumato report released/ ledger.db --dpia assessment.md",
)
def report(
    runs: list[Path] = typer.Argument(
        ..., help="Releases or folders with cards; ledgers, measures, results or pictures."
    ),
    output: Path = typer.Option(Path("report.html"), "--output", "-o", help="The page to write."),
    dpia: Path | None = typer.Option(
        None, help="Also draft a data-protection impact assessment there (.md or .html)."
    ),
    with_originals: bool = typer.Option(
        False, help="Also show pictures that are named as originals: readers see the people."
    ),
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Write one self-contained HTML page about RUNS: promises, attacks, usefulness and gaps."""
    from sfumato.report import write_report

    with progress_bar(hidden=as_json):
        made = write_report(runs, output, with_originals=with_originals, impact=dpia, force=force)
    counts = made.summary()
    problems = [
        f"[red]{words}: {counts[key]}.[/]"
        for key, words in (
            ("changed", "Releases that changed since their card was written"),
            ("forged", "Cards whose signature does not fit: changed after signing"),
            ("refuted", "Promises that an audit refuted"),
            ("leaking", "Attacks that did better than guessing"),
            ("unjudged", "Attacks that could not be judged"),
            ("private", "Private previews or exports among the files, to be moved away"),
            ("without_card", "Recordings, models or archives without a card"),
        )
        if counts[key]
    ]
    emit(
        as_json,
        {"report": output.name, **counts},
        *problems,
        *ending(
            f"wrote {output}; releases: {counts['releases']}, with a proven guarantee: "
            f"{counts['proven']}, measurements: {counts['measures']}, figures: {counts['figures']}.",
            "the page names gaps and attacks; what was never attacked is not safe because of that.",
            f"open {output} in a browser."
            + ("" if dpia is None else f" Fill the blanks of {dpia}: it decides nothing."),
        ),
    )
