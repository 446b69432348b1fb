"""``sfumato audit``: attacks on a promise or an output, and what they got."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from sfumato.cli._audit_datasets import cross_data, probe, reid, visual
from sfumato.cli._output import emit, ending, finite, progress_bar, shown_path
from sfumato.cli._verb import verb, verbs
from sfumato.errors import SfumatoError

_MOST_PUBLIC = 500
_FEW = 5  # findings shown before the table of a folder; the measures and the sheet have them all

app = verbs(
    "Attack a promise or an output; show what it got.",
    "sfumato audit leaks out.mp4",
    "sfumato audit guarantee out.mp4",
    "sfumato audit membership runs/first",
    no_args_is_help=True,
)


@app.callback()
def _audit() -> None:
    pass


@verb(app, "sfumato audit guarantee out.mp4", "sfumato audit guarantee out.mp4 --trials 100000")
def guarantee(
    card: Path = typer.Argument(..., help="A privacy card, or the output that it stands beside."),
    trials: int = typer.Option(
        20_000, min=1000, max=10**7, help="Simulated runs on each of two neighbours."
    ),
    confidence: float = typer.Option(
        0.95,
        min=0.6,
        max=0.9999,
        callback=finite,
        help="Of the certified lower limit; 99 % is shown beside it.",
    ),
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Try to refute the promise on CARD; the verdict is written beside it. Exit code 1 if refuted."""
    from sfumato.audit import audit_guarantee, verdict_paths, write_verdict
    from sfumato.files import refuse_overwrite
    from sfumato.privacy import NoGuarantee

    for path in verdict_paths(card):
        refuse_overwrite(path, force=force)
    with progress_bar(hidden=as_json):
        verdict = audit_guarantee(card, trials=trials, confidence=confidence)
    machine, words = write_verdict(verdict, card, force=force)
    found = "the promise is REFUTED" if verdict.refuted else "the promise is not refuted"
    unsafe = "an audit can refute a promise, never prove it; the card says what is not covered."
    if isinstance(verdict.promise, NoGuarantee):
        found, unsafe = "nothing is promised, so nothing was tried", "nothing is proven."
    elif verdict.refuted:
        unsafe = "do not release it: its promise is wrong."
    last = ending(
        f"{found}; written to {machine.name} and {words.name}.", unsafe, f"sfumato report {card}"
    )
    emit(as_json, verdict.to_json(), escape(str(verdict)), *last, ok=not verdict.refuted)


@verb(app, "sfumato audit strength --seeds 2")
def strength(
    seeds: int = typer.Option(8, min=1, max=1000, help="Repetitions that are averaged."),
    *,
    as_json: bool,
) -> None:
    """How much of a known epsilon the audits of guarantees certify, on simulated mechanisms."""
    from rich.table import Table

    from sfumato.audit import strengths

    with progress_bar(hidden=as_json):
        rows = list(strengths(seeds))
    table = Table("audit", "target", "trials", "certified share", "soundness notes")
    for row in rows:
        table.add_row(
            row.audit, row.target, row.trials, f"{row.fraction:.2f}", f"{row.reference:.2f}"
        )
    emit(as_json, {"strengths": [vars(row) for row in rows]}, table)


@verb(app, name="members", hidden=True)
@verb(app, "sfumato audit membership runs/first", "sfumato audit membership runs/first --shadows 0")
def membership(
    run: Path = typer.Argument(..., help="The folder that sfumato train wrote."),
    shadows: int = typer.Option(
        8, min=0, max=1000, help="Shadow models for LiRA, 3 or more; 0: loss threshold alone."
    ),
    most: int = typer.Option(2000, min=4, max=10**7, help="Records looked at of each side."),
    *,
    device: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Can the model tell who was in its training set? Exit code 1 if that refutes its promise."""
    from sfumato.audit import audit_members, measures_path, write_measures
    from sfumato.files import refuse_overwrite

    target = measures_path(run / "membership")
    refuse_overwrite(target, force=force)
    with progress_bar(hidden=as_json):
        report = audit_members(run, shadows=shadows, most=most)
    write_measures(
        target, report.measures, title="Membership inference", settings={"shadows": shadows},
        commands=[f"sfumato audit membership RUN --shadows {shadows}"], force=force,
    )  # fmt: skip
    last = ending(
        f"attacked; written to {target.name}.",
        "do not release the model: an attack does better than its promise allows."
        if report.refuted
        else "this is what these attacks got; stronger ones may get more, up to the promise.",
        f"sfumato report {run}",
    )
    emit(
        as_json,
        report.to_json(),
        *map(escape, report.summary_lines()),
        *last,
        ok=not report.refuted,
    )


@verb(
    app,
    "sfumato audit leaks out.mp4 --originals in.mp4",
    "sfumato audit leaks released/ --originals patients/",
    "sfumato audit leaks released/ --everybody",
)
def leaks(
    output: Path = typer.Argument(..., help="A protected file or folder."),
    originals: Path | None = typer.Option(
        None,
        help="The recordings that were protected; of a folder, found by its private name list.",
    ),
    faces_only: bool | None = typer.Option(
        None,
        "--faces-only/--everybody",
        help="Look for faces alone, or for bodies too; by default as the card says what was covered.",
    ),
    every: int = typer.Option(1, min=1, help="Look at every n-th frame."),
    *,
    engine: str,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Is anybody still found in OUTPUT? One verdict a clip; exit code 1 if anybody is."""
    from sfumato.audit import audit_leaks
    from sfumato.jobs import choose_engine

    folder = output if output.is_dir() else None
    pairs = _paired_files(output, originals)
    with progress_bar(hidden=as_json):
        # one process looks at one clip after the other, with one pair of detectors
        chosen = None if engine == "local" else choose_engine(engine)
        found = audit_leaks(
            output, pairs, out=out, faces_only=faces_only, every=every, force=force, engine=chosen
        )
    report, verdicts, unseen = found.report, found.verdicts, found.unseen
    written = f"looked; written to {shown_path(found.measures)}."
    if found.sheet is not None:
        written = (
            f"looked; written to {shown_path(found.measures)} and {shown_path(found.sheet)} (protected "
            "frames, with the people who are still found in them: not for release)."
        )
    words: list[Any] = [escape(line) for line in report.summary_lines(_FEW if folder else 20)]
    if folder is not None:
        words.append(_verdict_table(verdicts))
    open_questions = "a detector that finds nobody is no proof; look at the output yourself."
    if report.leaking:
        open_questions = "somebody is still found: do not release it."
        if not report.compared:
            open_questions = (
                "somebody, or what looks like somebody, is found: do not release it unseen."
            )
    elif unseen:
        open_questions = f"{len(unseen)} clips could not be looked at: do not release them."
    last = ending(written, open_questions, f"sfumato report {output}")
    clips = [each.to_json() for each in verdicts]
    emit(as_json, report.to_json() | {"clips": clips}, *words, *last, ok=found.passed)


def _verdict_table(verdicts: Any) -> Any:
    from rich.table import Table

    table = Table("clip", "frames", "verdict", box=None, pad_edge=False)
    for each in sorted(verdicts, key=lambda each: each.passed):
        frames = "" if each.report is None else str(each.report.frames)
        colour = "green" if each.passed else "red"
        table.add_row(escape(each.clip), frames, f"[{colour}]{escape(str(each))}[/]")
    return table


def _paired_files(output: Path, originals: Path | None) -> list[tuple[Path, Path | None]]:
    """Outputs with their originals: by the private name list beside a folder, else by their names."""
    from sfumato.audit import recordings_in
    from sfumato.jobs import name_list, names_of

    if not output.is_dir():
        source = originals / output.name if originals and originals.is_dir() else originals
        return [(output, source)]
    made = recordings_in(output)
    if originals is None:
        return [(path, None) for path in made]
    there = recordings_in(originals)
    by_stem = {path.stem: path for path in there}
    pairs: list[tuple[Path, Path | None]] = [(path, by_stem.get(path.stem)) for path in made]
    if name_list(output).is_file():
        sources = names_of(output)
        pairs = [
            (path, _original(sources.get(path.relative_to(output).as_posix()), there))
            for path in made
        ]
    if missing := sum(original is None for _, original in pairs):
        raise SfumatoError(
            f"Expected an original for every output, by the private name list beside the folder or by "
            f"its name, but {missing} have none: name the folder that was protected, or leave "
            "--originals out."
        )
    return pairs


def _original(source: str | None, there: list[Path]) -> Path | None:
    """The recording that the name list speaks of; if the folder has moved, the one of that name."""
    if source is None:
        return None
    same = [path for path in there if path.resolve() == Path(source).resolve()]
    named = [path for path in there if path.name == Path(source).name]
    return next(iter(same), named[0] if len(named) == 1 else None)


@verb(
    app,
    "sfumato audit reconstruct in.mp4 out.mp4",
    "sfumato audit reconstruct in.mp4 out.mp4 --faces",
)
def reconstruct(
    original: Path = typer.Argument(..., help="The recording that was protected."),
    protected: Path = typer.Argument(..., help="What was made of it, with its card beside it."),
    method: list[str] = typer.Option(
        ["deblur", "smooth", "learned", "average", "halo"], help="Attacks; those that fit are run."
    ),
    faces: bool = typer.Option(False, help="Also look whether faces are recognised again."),
    public: Path | None = typer.Option(
        None,
        help="Pictures that the learned attack may know, each one face or person; else staged.",
    ),
    start: int = typer.Option(0, min=0, help="The first frame looked at."),
    most: int = typer.Option(32, min=1, max=10**6, help="Frames looked at."),
    *,
    device: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Try to undo a protection: how much of ORIGINAL comes back from PROTECTED?"""
    from sfumato.audit import (
        Result,
        audit_output_path,
        measures_path,
        undo_release,
        write_measures,
    )
    from sfumato.files import refuse_overwrite
    from sfumato.people import face_detector, face_embedder
    from sfumato.privacy import checked_card
    from sfumato.protect import from_card

    if public is not None and "learned" not in method:
        raise SfumatoError(
            "Expected --method learned with --public, got other attacks alone: no other one learns from "
            "pictures. Leave --public out."
        )
    target = measures_path(audit_output_path(protected, "reconstruct"))
    refuse_overwrite(target, force=force)
    with progress_bar(hidden=as_json):
        found, outline = undo_release(
            original, protected, from_card(checked_card(protected)), attacks=method,
            public=_public_pictures(public) if "learned" in method else (), start=start, most=most,
            detector=face_detector() if faces else None,
            embedder=face_embedder() if faces else None,
        )  # fmt: skip
    results = [result for each in found for result in each.results(release=protected.name)]
    words = [str(each) for each in found]
    if outline is not None:
        words.append(f"The changed places stand out with AUC {outline:.2f} (0.5: not at all).")
        results.append(
            Result("outline of the changed places", "privacy", False, (0.0, 1.0), value=outline,
                   chance=0.5, release=protected.name)
        )  # fmt: skip
    if results:
        write_measures(
            target, results, title="Reconstruction", force=force,
            commands=["sfumato audit reconstruct ORIGINAL PROTECTED"],
        )  # fmt: skip
    written = f"written to {shown_path(target)}" if results else "no attack fits this method"
    last = ending(
        f"attacked; {written}.",
        "what came back above can be had from the release; stronger attackers may get more.",
        f"sfumato report {protected}",
    )
    payload = {"attacks": [each.to_json() for each in found], "outline_auc": outline}
    emit(as_json, payload, *map(escape, words), *last)


def _public_pictures(folder: Path | None) -> list[tuple[Any, Any]]:
    """What the learned attack trains on, with the places that a cover would hide."""
    import numpy as np

    from sfumato import stage
    from sfumato.media import list_media, read_image

    if folder is not None:
        pictures = [read_image(path) for path in list_media(folder)[:_MOST_PUBLIC]]
        return [(each, np.ones(each.shape[:2], dtype=bool)) for each in pictures]
    staging = stage.Staging(clips=16, actors=8, rooms=4, frames=2, width=160, height=120)
    made = stage.clips(staging)
    return [pair for clip in made for pair in zip(clip.frames, clip.alpha > 0, strict=True)]


verb(app, "sfumato audit visual originals/ protected/")(visual)
verb(app, "sfumato audit reid originals/ protected/ --by gait")(reid)
verb(app, "sfumato audit cross-data VISPR HMDB51 annotations --method blur", name="cross-data")(
    cross_data
)
verb(app, "sfumato audit probe AudioMNIST --state private-state")(probe)
