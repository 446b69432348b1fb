"""``sfumato protect``: recordings that may be released."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from sfumato.cli._help import ATTRIBUTES, BY_EYE, EXPERT, OUTPUT, PROMISE, WHERE
from sfumato.cli._output import emit, ending, not_safe, progress_bar, say
from sfumato.cli._verb import option, verb, verbs
from sfumato.errors import SfumatoError
from sfumato.settings import parse_pairs

if TYPE_CHECKING:
    from sfumato.attributes import AttributeRequest
    from sfumato.ledger import Spending

app = verbs()


@verb(
    app,
    "sfumato protect in.mp4 out.mp4",
    "sfumato protect patients/ released/ --method avatar --audio anonymize",
    "sfumato protect in.mp4 out.mp4 --method dprp --epsilon 8 --unit 'pixels(16, frames=1)'",
)
def protect(
    source: Path = typer.Argument(
        help="A video, a picture, a sound file, or a folder of them; for pass the folder of a data set."
    ),
    target: Path = typer.Argument(help="The output file, or the folder for the release."),
    method: str | None = option(
        PROMISE,
        None,
        help="One of sfumato methods; chain them with +. Without it: silhouette, whole people in one "
        "colour.",
    ),
    epsilon: float | None = option(
        PROMISE, None, help="How much may leak, for methods that prove it."
    ),
    delta: float | None = option(PROMISE, None, help="The small probability of more (1e-5)."),
    unit: str | None = option(
        PROMISE, None, help="What is protected: frame, clip, 'pixels(16, frames=1)'."
    ),
    settings: list[str] | None = option(
        PROMISE, None, "--set", help="Any other setting of the method, as name=value; repeat it."
    ),
    region: str | None = option(
        WHERE, None, help="faces, people, background, text, or a mask file."
    ),
    detector: str | None = option(
        WHERE, None, help="Detectors to unite, such as centerface+blazeface."
    ),
    on_miss: str | None = option(WHERE, None, help="hold, blank or fail when a person is lost."),
    import_boxes: Path | None = option(WHERE, None, help="Boxes or masks to use (COCO JSON)."),
    keep_text: bool | None = option(
        WHERE, None, "--keep-text", help="Leave captions, badges, plates and screens readable."
    ),
    cover: list[str] | None = option(
        WHERE,
        None,
        help="Cover this too: 'FRAMES:X,Y,WIDTH,HEIGHT', such as '0-9:370,110,60,60'; repeat it.",
    ),
    leave_open: list[int] | None = option(
        WHERE,
        None,
        "--except",
        help="Leave the person of this track open on purpose (see --preview); repeat it.",
    ),
    start: str | None = option(
        WHERE,
        None,
        "--from",
        help="Cover from this time on (12.5, 1:02); before it all is shown as recorded.",
    ),
    end: str | None = option(
        WHERE, None, "--to", help="Cover up to this time; from there on all is shown as recorded."
    ),
    public_mask: bool | None = option(
        EXPERT,
        None,
        "--public-mask",
        help="Declare that the mask file was made without the recording.",
    ),
    export_boxes: Path | None = option(EXPERT, None, help="Write what was found (COCO JSON)."),
    export_masks: Path | None = option(
        EXPERT, None, help="Write what was found (mask video, .mkv)."
    ),
    review: Path | None = option(BY_EYE, None, help="Write the list of doubtful frames (JSON)."),
    preview: Path | None = option(
        BY_EYE,
        None,
        help="Write a contact sheet of what was found, for your eyes only (PNG, JPEG; for a folder, a "
        "folder).",
    ),
    pairs: int | None = option(
        BY_EYE,
        None,
        help="Set this many random original/protected frame pairs aside (--pairs-to).",
        min=1,
        max=10**6,
    ),
    pairs_to: Path | None = option(
        BY_EYE,
        None,
        help="A new private folder for them: contains originals, internal review only.",
    ),
    private: list[str] | None = option(
        ATTRIBUTES, None, help="An attribute that must disappear; repeat it."
    ),
    useful: list[str] | None = option(
        ATTRIBUTES, None, help="An attribute that must survive; repeat it."
    ),
    donors_are: str | None = option(
        ATTRIBUTES,
        None,
        help="public, consenting or synthetic: why donors' recordings may be published.",
    ),
    donors: int | None = option(
        EXPERT, None, help="Number of donors (4096, or what there is).", min=2, max=10**7
    ),
    donors_from: Path | None = option(
        EXPERT, None, help="The donors' data set, if it is another one."
    ),
    fit_on: Path | None = option(
        EXPERT, None, help="Fit on this data set (other people, for a proof)."
    ),
    state: Path | None = option(
        ATTRIBUTES, None, help="Private folder that remembers draws between runs."
    ),
    codec: str | None = option(
        EXPERT, None, help="h264 (without it), or ffv1 / h264rgb for lossless output."
    ),
    quality: int | None = option(
        EXPERT, None, help="x264's constant rate factor, 0 to 51.", min=0, max=51
    ),
    audio: str = option(
        OUTPUT,
        "drop",
        help="The sound of a video: drop, anonymize (--set voice.algorithm=...), or keep: voices as "
        "they were.",
    ),
    tolerant: bool = option(EXPERT, False, help="Read damaged recordings as far as possible."),
    keep_names: bool = option(OUTPUT, False, help="Keep file names (they may identify people)."),
    workers: int | None = option(
        EXPERT, None, help="Processes for a folder or --span (default: all cores).", min=1, max=1024
    ),
    span: float | None = option(
        EXPERT,
        None,
        help="Cut recordings longer than this many seconds and work on all parts at once.",
        min=1.0,
        max=86_400.0,
    ),
    *,
    ledger: str | None,
    dataset: str | None,
    key: str | None,
    purpose: str | None,
    operator: str | None,
    acknowledge_no_guarantee: bool,
    engine: str,
    device: str | None,
    seed: int | None,
    force: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Protect SOURCE and write TARGET with its privacy card; fails if anything was left unprotected."""
    from sfumato import protect as releases

    for_sound = releases.is_sound(source)
    default = releases.SOUND_METHOD if for_sound else releases.DEFAULT_METHOD
    of_a_proof = _settings({}, epsilon=epsilon, delta=delta, unit=unit)
    releases.check_intention(source, target, method or default, of_a_proof)

    releases.check_options(
        source,
        method or default,
        {
            "codec": codec,
            "quality": quality,
            "tolerant": tolerant,
            "workers": workers,
            "span": span,
            "keep_names": keep_names,
            "audio": None if audio == "drop" else audio,
            "pairs": pairs,
        },
    )

    def spend() -> Spending | None:
        from sfumato.ledger import spending

        return spending(
            ledger, dataset, key=key, acknowledged=acknowledge_no_guarantee, verb="protect",
            operator=operator, purpose=purpose,
        )  # fmt: skip

    if method is not None and releases.works_on_datasets(method):
        beside = [region, detector, on_miss, import_boxes, export_boxes, export_masks, review,
                  preview, pairs_to, unit, delta, public_mask, cover, leave_open, start, end,
                  keep_text, device]  # fmt: skip
        if any(each is not None for each in beside) or engine != "local":
            raise SfumatoError(
                f"Expected no options for pictures with --method {method}, got some: it releases "
                "donors' records of a data set."
            )
        from sfumato.attributes import AttributeRequest

        asked = AttributeRequest(
            source=source, target=target, method=method, private=_names(private),
            useful=_names(useful), donors_are=donors_are, donors=donors, donors_from=donors_from,
            fit_on=fit_on, state=state, seed=seed, force=force,
            settings=_settings(parse_pairs(settings or []), epsilon=epsilon),
        )  # fmt: skip
        _release_records(asked, spend, dry=dry_run, as_json=as_json)
        return
    if private or useful or donors_are or donors or donors_from or fit_on or state:
        raise SfumatoError(
            f"Expected --method {' or '.join(releases.dataset_methods())} with --private, --useful, "
            f"--donors, --fit-on and --state, got {method or 'no method'}: other methods know no "
            "attributes."
        )
    if not dry_run:
        releases.check_files(source, target, force=force)
    if method is None:
        method = default
        say(releases.SOUND_GIVEN if for_sound else releases.NO_METHOD_GIVEN)
    if (pairs is None) != (pairs_to is None):
        raise SfumatoError(
            "Expected --pairs and --pairs-to together: pairs contain originals, so say how many and "
            "in which private folder."
        )
    own, voice = releases.sound_wishes(audio, parse_pairs(settings or []), method, seed)
    request = releases.Request(
        source=source,
        target=target,
        method=method,
        settings=_settings(
            own,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            region=region,
            detector=detector,
            on_miss=on_miss,
            public_mask=public_mask,
            import_boxes=None if import_boxes is None else str(import_boxes),
            keep_text=keep_text,
            cover=cover or None,
            leave_open=leave_open or None,
            start=None if start is None else releases.seconds_of(start),
            end=None if end is None else releases.seconds_of(end),
            seed=seed,
        ),
        codec=codec or "h264",
        quality=quality,
        audio=audio,  # type: ignore[arg-type]  # checked by sound_wishes
        voice=voice,
        tolerant=tolerant,
        names="keep" if keep_names else "random",
        workers=workers,
        engine=engine,
        span=span,
        device=device or "cpu",
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
    counted = spend()
    with progress_bar(hidden=as_json):
        report = releases.run(request, counted, say)
    if counted is not None:
        counted.record(report.outputs)
    _finish(report, source, target, as_json)


def _release_records(
    request: AttributeRequest, spend: Callable[[], Spending | None], *, dry: bool, as_json: bool
) -> None:
    """The methods that release donors' records of a data set."""
    from sfumato.attributes import dry_run, run
    from sfumato.privacy import new_run_id

    if dry:
        report = dry_run(request)
        emit(as_json, report.payload, *map(escape, report.lines))
    else:
        reserve = spend()
        counted = None if reserve is None else lambda promise: reserve(promise, new_run_id())
        with progress_bar(hidden=as_json):
            report = run(request, counted, say)
        if reserve is not None:
            reserve.record([request.target])
        _finish(report, request.source, request.target, as_json, pictures=False)


def _finish(
    report: Any, source: Path, target: Path, as_json: bool, *, pictures: bool = True
) -> None:
    """The notes of a run, then its last three lines; all of the promise stands on the card."""
    from sfumato.privacy import NoGuarantee, promise_from_json

    payload, failed = report.payload, getattr(report, "failed", 0)
    done, *notes = "\n".join(report.lines).splitlines()
    promises = payload.get("promises", [payload.get("promise")])
    open_questions, then = "nothing was released.", "fix what failed and run it again"
    if promises:
        promise = promise_from_json(promises[0])
        open_questions = not_safe(promise)
        by_eye = pictures and isinstance(promise, NoGuarantee) and promise.mechanism != "voice"
        check = f"review {target}" if by_eye else f"verify {target}"
        then = f"sfumato {check}"
    if "name_list" in payload:
        done += f" Which is which: {target.with_name(payload['name_list'])}, never to be shared."
        then = f"sfumato names {target}"
    if failed:
        then = "fix what failed and run it again: what is done is skipped."
    last = ending(done, open_questions, then)
    emit(as_json, payload, *map(escape, notes), *last, ok=not failed)


def _names(given: list[str] | None) -> list[str]:
    return [name.strip() for each in given or [] for name in each.split(",") if name.strip()]


def _settings(typed: Mapping[str, Any], **named: Any) -> dict[str, Any]:
    found = {name: value for name, value in named.items() if value is not None}
    if twice := sorted(found.keys() & typed.keys()):
        raise SfumatoError(
            f"Expected {twice[0]} once, got --{twice[0]} and --set {twice[0]}=...: leave one out."
        )
    return {**found, **typed}
