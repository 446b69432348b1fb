"""``sfumato protect``: recordings that may be released."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from sfumato.cli._output import DRY_RUN, FORCE, JSON, emit
from sfumato.cli._spending import ACKNOWLEDGE, DATASET, KEY, LEDGER, spending
from sfumato.errors import SfumatoError
from sfumato.settings import parse_pairs

app = typer.Typer()
_PASS = "Private attributes (pass, pass-ldp)"


@app.command()
def protect(
    source: Path = typer.Argument(
        help="A video, a picture, or a folder of them; for pass the folder of a data set."
    ),
    target: Path = typer.Argument(help="The output file, or the folder for the release."),
    method: str = typer.Option(..., help="One of sfumato methods; chain them with +."),
    epsilon: float | None = typer.Option(
        None, help="How much may leak, for methods that prove it."
    ),
    delta: float | None = typer.Option(None, help="The small probability of more (1e-5)."),
    unit: str | None = typer.Option(
        None, help="What is protected: frame, clip, 'pixels(16, frames=1)'"
    ),
    settings: list[str] | None = typer.Option(
        None, "--set", help="Any other setting of the method, as name=value; repeat it."
    ),
    region: str | None = typer.Option(None, help="faces, people, background, or a mask file."),
    detector: str | None = typer.Option(
        None, help="Detectors to unite, such as centerface+blazeface."
    ),
    on_miss: str | None = typer.Option(None, help="hold, blank or fail when a person is lost."),
    public_mask: bool | None = typer.Option(
        None, "--public-mask", help="Declare that the mask file was made without the recording."
    ),
    import_boxes: Path | None = typer.Option(None, help="Boxes or masks to use (COCO JSON)."),
    export_boxes: Path | None = typer.Option(None, help="Write what was found (COCO JSON)."),
    export_masks: Path | None = typer.Option(None, help="Write what was found (mask video, .mkv)."),
    review: Path | None = typer.Option(None, help="Write the list of doubtful frames (JSON)."),
    preview: Path | None = typer.Option(
        None, help="Write a contact sheet of what was found, for your eyes only (PNG, JPEG)."
    ),
    pairs: int | None = typer.Option(
        None,
        min=1,
        max=10**6,
        help="Set this many random original/protected frame pairs aside (--pairs-to).",
    ),
    pairs_to: Path | None = typer.Option(
        None, help="A new private folder for them: contains originals, internal review only."
    ),
    private: list[str] | None = typer.Option(
        None, help="pass: an attribute that must disappear; repeat it.", rich_help_panel=_PASS
    ),
    useful: list[str] | None = typer.Option(
        None, help="pass: an attribute that must survive; repeat it.", rich_help_panel=_PASS
    ),
    donors_are: str | None = typer.Option(
        None,
        help="public, consenting or synthetic: why donors' recordings may be published.",
        rich_help_panel=_PASS,
    ),
    donors: int | None = typer.Option(
        None,
        min=2,
        max=10**7,
        help="Number of donors (4096, or what there is).",
        rich_help_panel=_PASS,
    ),
    donors_from: Path | None = typer.Option(
        None, help="The donors' data set, if it is another one.", rich_help_panel=_PASS
    ),
    fit_on: Path | None = typer.Option(
        None, help="Fit on this data set (other people, for a proof).", rich_help_panel=_PASS
    ),
    state: Path | None = typer.Option(
        None, help="Private folder that remembers draws between runs.", rich_help_panel=_PASS
    ),
    codec: str = typer.Option("h264", help="h264, or ffv1 / h264rgb for lossless output."),
    quality: int | None = typer.Option(
        None, min=0, max=51, help="x264's constant rate factor, 0 to 51."
    ),
    keep_audio: bool = typer.Option(False, help="Keep the sound (narrows or voids the guarantee)."),
    tolerant: bool = typer.Option(False, help="Read damaged recordings as far as possible."),
    keep_names: bool = typer.Option(False, help="Keep file names (they may identify people)."),
    workers: int | None = typer.Option(
        None, min=1, max=1024, help="Processes for a folder (default: all cores)."
    ),
    ledger: str | None = LEDGER,
    dataset: str | None = DATASET,
    key: str | None = KEY,
    acknowledge_no_guarantee: bool = ACKNOWLEDGE,
    seed: int | None = typer.Option(None, help="For tests only: the result is not private."),
    force: bool = FORCE,
    dry_run: bool = DRY_RUN,
    as_json: bool = JSON,
) -> None:
    """Protect SOURCE and write TARGET with its privacy card; fails if anything was left unprotected."""
    from sfumato import protect as releases

    if releases.works_on_datasets(method):
        beside = [region, detector, on_miss, import_boxes, export_boxes, export_masks, review,
                  preview, pairs, unit, delta, quality, workers, public_mask]  # fmt: skip
        _attributes(
            source, target, method, private, useful, donors_are, donors, donors_from, fit_on, state,
            settings=_settings(settings or [], epsilon=epsilon), seed=seed, force=force,
            misplaced=any(each is not None for each in beside) or keep_audio or keep_names,
            spend=(ledger, dataset, key, acknowledge_no_guarantee), dry=dry_run, as_json=as_json,
        )  # fmt: skip
        return
    if private or useful or donors_are or donors or donors_from or fit_on or state:
        raise SfumatoError(
            "Expected a method of data sets (pass, pass-ldp) with --private, --useful, --donors, --fit-on and "
            f"--state, got {method!r}: other methods know no attributes."
        )
    if (pairs is None) != (pairs_to is None):
        raise SfumatoError(
            "Expected --pairs and --pairs-to together: pairs contain originals, so say how many and "
            "in which private folder."
        )
    request = releases.Request(
        source=source,
        target=target,
        method=method,
        settings=_settings(
            settings or [],
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            region=region,
            detector=detector,
            on_miss=on_miss,
            public_mask=public_mask,
            import_boxes=None if import_boxes is None else str(import_boxes),
            seed=seed,
        ),
        codec=codec,
        quality=quality,
        keep_audio=keep_audio,
        tolerant=tolerant,
        names="keep" if keep_names else "random",
        workers=workers,
        force=force,
        exports=releases.ReviewExports(preview, export_boxes, export_masks, review),
        pairs=None
        if pairs is None or pairs_to is None
        else releases.BeforeAfterPairs(pairs, pairs_to),
    )
    if dry_run:
        report = releases.dry_run(request)
        emit(as_json, report.payload, *map(escape, report.lines))
        return
    spend = spending(
        ledger, dataset, key=key, acknowledged=acknowledge_no_guarantee, verb="protect"
    )
    report = releases.run(request, spend, lambda sentence: print(sentence, file=sys.stderr))
    emit(as_json, report.payload, *map(escape, report.lines), ok=not report.failed)
    if report.failed:
        raise typer.Exit(1)


def _attributes(
    source: Path,
    target: Path,
    method: Any,
    private: list[str] | None,
    useful: list[str] | None,
    donors_are: str | None,
    donors: int | None,
    donors_from: Path | None,
    fit_on: Path | None,
    state: Path | None,
    *,
    settings: dict[str, Any],
    seed: int | None,
    force: bool,
    misplaced: bool,
    spend: tuple[str | None, str | None, str | None, bool],
    dry: bool,
    as_json: bool,
) -> None:
    from sfumato.attributes import AttributeRequest, dry_run, run
    from sfumato.privacy import new_run_id

    if misplaced:
        raise SfumatoError(
            f"Expected no options for pictures with --method {method}, got some: it releases donors' "
            "records of a data set."
        )
    request = AttributeRequest(
        source=source,
        target=target,
        method=method,
        private=_names(private),
        useful=_names(useful),
        donors_are=donors_are,
        donors=donors,
        donors_from=donors_from,
        fit_on=fit_on,
        state=state,
        settings=settings,
        seed=seed,
        force=force,
    )
    if dry:
        report = dry_run(request)
    else:
        ledger, dataset, key, acknowledged = spend
        reserve = spending(ledger, dataset, key=key, acknowledged=acknowledged, verb="protect")
        counted = None if reserve is None else lambda promise: reserve(promise, new_run_id())
        report = run(request, counted, lambda sentence: print(sentence, file=sys.stderr))
    emit(as_json, report.payload, *map(escape, report.lines))


def _names(given: list[str] | None) -> list[str]:
    return [name.strip() for each in given or [] for name in each.split(",") if name.strip()]


def _settings(pairs: list[str], **named: Any) -> dict[str, Any]:
    found = {name: value for name, value in named.items() if value is not None}
    return found | parse_pairs(pairs)
