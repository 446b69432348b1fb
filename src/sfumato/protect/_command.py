"""What ``sfumato protect`` does: one file or a folder, all or nothing for each of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import partial
from heapq import nsmallest
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sfumato.devices import using
from sfumato.errors import SfumatoError
from sfumato.files import refuse_overwrite
from sfumato.jobs import Needs, Outcome, Start, choose_engine, name_list, run_job
from sfumato.media import (
    AUDIO_SUFFIXES,
    IMAGE_SUFFIXES,
    Frame,
    MediaError,
    image_suffix,
    require_video_name,
    sound_suffix,
    stated_seconds,
    video_suffix,
)
from sfumato.privacy import NoGuarantee, Unit, counted_under, new_run_id, promise_from_json
from sfumato.protect._before_after import BeforeAfterPairs
from sfumato.protect._covering import covering, covers
from sfumato.protect._method import Method, Promise, ProtectError, Shape
from sfumato.protect._registry import accepts, get, make
from sfumato.protect._release import (
    Audio,
    OutputSettings,
    Reading,
    promise_of_release,
    release,
    shape_of,
)
from sfumato.protect._review_exports import (
    ReviewExports,
    nothing_to_show,
    require_preview_folder,
    review_exports,
)
from sfumato.protect._spans import InSpans, require_spans

DEFAULT_DELTA = 1e-5
# Entered with a promise and the random id of the run before any noise is drawn (R20).
Spend = Callable[[Promise, str], AbstractContextManager[object]]
# What a dry run speaks of: it may not open the recording to learn its size.
NOMINAL = Shape(height=240, width=320, frames=64)
_FEW = 8  # made-up frames that tell what a frame costs
_WORST = 3  # outputs of a folder to look at first
_OF_ONE_RECORDING = {
    "leave_open": "--except",
    "cover": "--cover",
    "import_boxes": "--import-boxes",
}
_OF_OTHER_TOOLS = frozenset({"poses", "masks", "inpainting"})
_SMALL = Shape(height=64, width=64, frames=_FEW)


@dataclass(frozen=True, kw_only=True)
class Request:
    """One call of the command."""

    source: Path
    target: Path
    method: str
    settings: dict[str, Any]
    codec: str = "h264"
    quality: int | None = None
    audio: Audio = "drop"
    voice: dict[str, Any] = field(default_factory=dict)
    tolerant: bool = False
    names: Literal["random", "keep"] = "random"
    workers: int | None = None
    engine: str = "local"
    span: float | None = None
    device: str = "cpu"
    force: bool = False
    exports: ReviewExports = field(default_factory=ReviewExports)
    pairs: BeforeAfterPairs | None = None

    @property
    def output(self) -> OutputSettings:
        of_folder = self.source.is_dir()
        return OutputSettings(
            self.codec,
            self.quality,
            self.audio,
            self.tolerant,
            keep_names=of_folder and self.names == "keep",
            of_folder=of_folder,
            voice=self.voice,
        )


@dataclass
class CommandResult:
    """What came of a request, for a person (lines) and for a machine (payload)."""

    payload: dict[str, Any]
    lines: list[str]
    failed: int = 0
    outputs: list[Path] = field(default_factory=list)


def with_defaults(name: str, settings: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The strictest unit and a small delta where the method needs them, and what was chosen."""
    chosen, said = dict(settings), []
    if accepts(name, "unit") and "unit" not in chosen:
        chosen["unit"] = str(Unit.video())
        said.append("No unit was given: taking the strictest, the whole recording (--unit video).")
    if accepts(name, "delta") and "delta" not in chosen:
        chosen["delta"] = DEFAULT_DELTA
        said.append(f"No delta was given: taking {DEFAULT_DELTA:g}.")
    return chosen, said


def dry_run(request: Request, *, shape: Shape = NOMINAL, measure: bool = True) -> CommandResult:
    """What would be done and proven, with expected time and memory; opens no recording.

    ``shape`` is the recording that is assumed; without ``measure`` time and memory stay unknown, which is quick.
    """
    settings, said = with_defaults(request.method, request.settings)
    method = make(request.method, settings)
    _require_span(request, method)
    promise = promise_of_release(method, request.source, shape, request.output)
    lines = [
        *said,
        f"Method {method.name}: {method.summary}. Nothing was read or written.",
        str(promise),
    ]
    seconds, memory = None, None
    try:
        if measure:
            by_hand = {"cover", "leave_open"}  # boxes and tracks of a recording that is not opened
            plain = {name: value for name, value in settings.items() if name not in by_hand}
            seconds, memory = estimate(make(request.method, plain), shape)
            lines.append(
                f"Expected for {shape.width} x {shape.height}: {1 / seconds:.0f} frames a second "
                f"(without decoding and encoding), about {memory / 2**20:.0f} MB beside the decoder."
            )
    except SfumatoError as error:
        lines.append(f"Time and memory could not be measured beforehand: {error}")
    lines += method.remarks(shape)
    payload = {
        "dry_run": True,
        "method": method.name,
        "settings": method.settings,
        "promise": promise.to_json(),
        "seconds_per_frame": seconds,
        "bytes": memory,
        "remarks": method.remarks(shape),
    }
    return CommandResult(payload, lines)


def estimate(method: Method, shape: Shape) -> tuple[float, int]:
    """Seconds a frame and bytes of working memory, measured on frames made up here."""
    # a detector costs the same on every frame; blocks of noise must be measured whole
    by_frame = method.region is not None
    count = _FEW if by_frame else min(max(2 * method.lookahead, _FEW), 128)
    generator = np.random.default_rng(0)
    picture = generator.integers(0, 256, (shape.height, shape.width, 3)).astype(np.uint8)

    def made_up() -> Iterator[Frame]:
        for number in range(count):
            yield Frame(np.roll(picture, number, axis=1), number, Fraction(number, 25))

    start = time.perf_counter()
    for _ in method.frames(made_up(), count=count):
        pass
    seconds = (time.perf_counter() - start) / count
    floats = 3 * 4 * shape.height * shape.width * 3 * max(method.lookahead, 1)
    return seconds, floats


def run(request: Request, spend: Spend | None, say: Callable[[str], None]) -> CommandResult:
    """Protect a file or every file of a folder; the report says what failed and why.

    ``say`` is told what was chosen and what to expect before anything private is read.
    """
    settings, said = with_defaults(request.method, request.settings)
    method = make(request.method, settings)
    if not method.draws_at_random and any(name.rpartition(".")[2] == "seed" for name in settings):
        said.append(f"The seed has no effect: {method.name} draws nothing at random.")
    _require_span(request, method)
    if request.engine == "local":
        with using(request.device):
            pass  # a device that is not there is said before anything is read; a cluster's nodes look themselves
    for sentence in (*said, *method.remarks(NOMINAL)):
        say(sentence)
    if request.source.is_dir():
        return _folder(request, settings, spend)
    if request.engine != "local" and request.span is None:
        raise ProtectError(
            f"Expected a folder for --engine {request.engine}, got one recording, which is worked on by one "
            "node: cut it (--span SECONDS), or protect it without --engine."
        )
    return _file(request, settings, spend)


def _file(request: Request, settings: dict[str, Any], spend: Spend | None) -> CommandResult:
    method = make(request.method, settings)
    reading = Reading()
    with (
        using(request.device) as used,
        review_exports(
            method, request.exports, request.source, request.target, request.output,
            force=request.force,
        ) as written,
    ):  # fmt: skip
        promise = release(
            method,
            request.source,
            request.target,
            output=request.output,
            force=request.force,
            # one file is one run: a fresh start, which nothing resumes
            spend=None if spend is None else lambda promise: spend(promise, new_run_id()),
            pairs=request.pairs,
            reading=reading,
            spans=_in_spans(_span_settings(request), request.source, request.method, settings),
        )
    if request.pairs is not None:
        written.words.append(
            f"Pairs for internal review are in {request.pairs.folder}: they contain originals, do not "
            "share them and delete them afterwards."
        )
    ran_on = _ran_on(used, method)
    lines = [f"Wrote {request.target} and its card.", *written.words, *_on_devices(request, ran_on)]
    payload = {"outputs": [request.target.name], "failed": 0, "promise": promise.to_json(),
               "ran_on": ran_on}  # fmt: skip
    if reading.damage:
        lines.append(_damaged(request.source.name, reading.damage))
        payload["damage"] = reading.damage
    return CommandResult(payload | written.payload, lines, outputs=[request.target])


def _require_span(request: Request, method: Method) -> None:
    """Raise where a recording cannot be cut as it was asked for; reads nothing of it."""
    if request.span is None:
        return
    require_spans(method, NOMINAL)
    if request.tolerant:
        raise ProtectError(
            "Expected sound recordings where they are cut, got --tolerant with --span: which frame of a "
            "damaged one is which depends on all before it. Leave one of them out."
        )
    if request.exports.wanted:
        raise ProtectError(
            "Expected no preview, export or review with --span, got one: make it by a run without --span, "
            "which gives everybody the same track numbers."
        )


def _span_settings(request: Request) -> dict[str, Any] | None:
    """What cuts long recordings, as a work is told of it beside its settings."""
    if request.span is None:
        return None
    return {
        "seconds": request.span,
        "engine": request.engine,
        "workers": request.workers,
        "device": request.device,
    }


def _in_spans(
    cut: Mapping[str, Any] | None, source: Path, name: str, settings: dict[str, Any]
) -> InSpans | None:
    """Who works on the spans of a recording; None where it is too short for two."""
    if cut is None or not _is_long(source, cut["seconds"]):
        return None
    method = make(name, settings)
    return InSpans(
        cut["seconds"],
        choose_engine(cut["engine"], cut["workers"]),
        name,
        settings,
        cut["device"],
        _needs(method, cut["device"]),
        partial(get_ready, name, settings, cut["device"]),
        repeatable=not _draws_noise(method),
    )


def _is_long(source: Path, seconds: float) -> bool:
    """Whether a recording is longer than a span, as far as its header tells."""
    if source.suffix.lower() in (*IMAGE_SUFFIXES, *AUDIO_SUFFIXES):
        return False
    try:
        stated = stated_seconds(source)
    except MediaError:
        return False  # whoever works on it says why it cannot be read
    return stated is None or stated > seconds


def _ran_on(used: Mapping[str, str], method: Method) -> list[str]:
    """Every part with what it really ran on: networks, then detectors."""
    return [f"{part} on {device}" for part, device in (*used.items(), *method.detectors_used)]


def _on_devices(request: Request, ran_on: Iterable[str]) -> list[str]:
    """What is said of it where another device than the CPU was asked for."""
    if request.device == "cpu":
        return []
    said = "; ".join(ran_on)
    return [f"Asked for {request.device}. Ran on: {said or 'the CPU, it has no network'}."]


def _damaged(name: str, damage: str) -> str:
    return f"{name} is damaged ({damage}): what is left of it was protected."


def _folder(request: Request, settings: dict[str, Any], spend: Spend | None) -> CommandResult:
    previews = request.exports.preview
    if len(request.exports.wanted) > (previews is not None) or request.pairs is not None:
        raise ProtectError(
            "Expected one recording for an export, a review or pairs, got a folder: protect the "
            "recording in question by itself. Previews of a folder go into one (--preview FOLDER)."
        )
    if previews is not None:
        require_preview_folder(previews, request.source, request.target)
        if make(request.method, settings).watchers is None:
            raise nothing_to_show(request.method)
    if (given := _about_one_recording(settings)) is not None:
        raise ProtectError(
            f"Expected one recording with {given}, got a folder: tracks, boxes and masks are those of one "
            "recording, and show the people of another. Protect it by itself."
        )
    if request.target.is_file():
        refuse_overwrite(request.target, force=False)
    nominal = Path(f"any{video_suffix(request.source, request.codec)}")
    require_video_name(nominal, request.codec, request.quality)
    job_settings = {
        "method": request.method,
        "settings": settings,
        "output": asdict(request.output),
    }
    method = make(request.method, settings)
    done = run_job(
        request.source,
        request.target,
        release_item,
        engine=choose_engine(request.engine, request.workers),
        needs=_needs(method, request.device),
        warm=partial(get_ready, request.method, settings, request.device),
        repeatable=not _draws_noise(method),
        settings=job_settings,
        force=request.force,
        names=request.names,
        suffix=_suffix(request),
        kinds=("audio",) if get(request.method.split("+")[0]).medium == "sound" else None,
        guard=None if spend is None else _Reservation(request, settings, spend),
        in_turn=None if request.span is None else partial(_is_long, seconds=request.span),
        aside={"device": request.device}
        | {"span": _span_settings(request)}
        | (
            {}
            if previews is None
            else {
                "previews": str(previews.absolute()),
                "root": str(request.source),
                "force": request.force,
            }
        ),
    )
    outputs, promises, damaged = [], set(), []
    ran_on: dict[str, None] = {}
    for each in chain(done.outcomes.of("done"), done.outcomes.of("skipped")):
        assert each.output is not None
        outputs.append(each.output)
        promises.add(json.dumps(each.result["promise"], sort_keys=True))
        ran_on |= dict.fromkeys(each.result.get("ran_on", ()))
        if each.state == "done" and each.result["damage"]:
            damaged.append({"name": each.source.name, "reason": each.result["damage"]})
    payload: dict[str, Any] = {
        "outputs": sorted(path.name for path in outputs),
        "failed": len(done.failed),
        "failures": _named(done.failed),
        "left_out": _named(done.left_out),
        "damaged": damaged,
        "promises": [json.loads(each) for each in sorted(promises)],
        "name_list": name_list(request.target).name,
        "ran_on": list(ran_on),
    }
    if done.nodes:
        payload["nodes"] = [asdict(each) for each in done.nodes]
        payload["repeated"] = done.repeated
    words = [_damaged(each["name"], each["reason"]) for each in payload["damaged"]]
    words += [*_most_doubtful(done.outcomes.of("done")), *_on_devices(request, ran_on)]
    if previews is not None:
        words.append(
            f"Previews of what was protected now are in {previews}, named as the outputs: they show the "
            "original people, do not share them."
        )
    return CommandResult(
        payload, [done.summary(), *words], failed=len(done.failed), outputs=outputs
    )


def _about_one_recording(settings: Mapping[str, Any]) -> str | None:
    """The option that says where somebody is in one recording: in another nobody is there."""
    for setting, value in settings.items():
        name = setting.rpartition(".")[2]
        if name in _OF_ONE_RECORDING and value:
            return _OF_ONE_RECORDING[name]
        if name in _OF_OTHER_TOOLS and not str(value).startswith("command:"):
            return f"--set {setting}=FILE"
        if name == "region" and not _serves_all(str(value), settings):
            return "a mask video as --region"
    return None


def _serves_all(region: str, settings: Mapping[str, Any]) -> bool:
    """A picture is the mask of a camera that stands still; a public one was made without any recording."""
    if region in ("faces", "people", "background", "text"):
        return True
    return Path(region).suffix.lower() in IMAGE_SUFFIXES or bool(settings.get("public_mask"))


def _most_doubtful(outcomes: Iterable[Outcome]) -> list[str]:
    """Where to look first in a folder: the few outputs with the most doubtful frames."""
    worst = nsmallest(
        _WORST,
        (
            (-each.result["doubtful_frames"], each.output.name, each.result["look_first"][0])
            for each in outcomes
            if each.output is not None and each.result.get("doubtful_frames")
        ),
    )
    named = [f"{name}, {-count} doubtful frames: {first}" for count, name, first in worst]
    return [f"Look first at {'; '.join(named)}."] if named else []


def _suffix(request: Request) -> Callable[[Path], str]:
    """The ending of each output: a format that is written here, whatever the source's is."""

    def ending(source: Path) -> str:
        if source.suffix.lower() in IMAGE_SUFFIXES:
            return image_suffix(source)
        if source.suffix.lower() in AUDIO_SUFFIXES:
            return sound_suffix(source)
        return video_suffix(source, request.codec)

    return ending


def _named(outcomes: Sequence[Outcome]) -> list[dict[str, str]]:
    return [{"name": each.source.name, "reason": each.reason} for each in outcomes]


def _draws_noise(method: Method) -> bool:
    """A second draw, of which the first was lost with its worker, is for the operator to ask for."""
    try:
        return not isinstance(method.promise(NOMINAL), NoGuarantee)
    except SfumatoError:  # no promise for a recording of that size: it has one for others
        return True


def _needs(method: Method, device: str) -> Needs:
    """What the method declares, and a GPU for each item where one was asked for by name."""
    on_gpu = device.startswith("cuda")
    return replace(method.needs, gpus=max(method.needs.gpus, 1.0)) if on_gpu else method.needs


def get_ready(method: str, settings: dict[str, Any], device: str = "cpu") -> None:
    """On a node, once: pull and open what the method works with, by a few frames made up here."""
    # it needs a file, or a longer video: nothing to pull
    with using(device), suppress(ProtectError):
        estimate(make(method, settings), _SMALL)


def release_item(source: Path, target: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """One file of a folder job, in a process of its own."""
    reading = Reading()
    output = OutputSettings(**settings["output"])
    method = make(settings["method"], settings["settings"])
    exports = ReviewExports(_preview_place(source, target, settings))
    force, counted = bool(settings.get("force")), settings.get("counted")
    with (
        using(settings.get("device")) as used,
        review_exports(method, exports, source, target, output, force=force) as written,
    ):
        promise = release(
            method,
            source,
            target,
            output=output,
            reading=reading,
            counted=counted,
            spans=_in_spans(settings.get("span"), source, settings["method"], settings["settings"]),
        )
    doubtful = {name: written.payload.get(name) for name in ("doubtful_frames", "look_first")}
    ran_on = _ran_on(used, method)
    return {"promise": promise.to_json(), **asdict(reading), **doubtful, "ran_on": ran_on}


def _preview_place(source: Path, target: Path, settings: dict[str, Any]) -> Path | None:
    """The sheet of one recording of a folder: where its source lies, under the name of its output."""
    if "previews" not in settings:
        return None
    within = source.absolute().relative_to(Path(settings["root"]).absolute()).parent
    return Path(settings["previews"], within, f"{target.stem}.png")


class _Reservation:
    """One reservation for a folder: its recordings are disjoint, so the weakest promise counts.

    That holds for units inside one recording, because equal recordings are released once; a person
    may be in several, so it is not offered. The run's id and what was reserved for it stand in the
    job's manifest: a resumed job finds its reservation again, and any other job makes its own. What
    turns out weaker than was reserved is not published under it.
    """

    def __init__(self, request: Request, settings: dict[str, Any], spend: Spend) -> None:
        self._request, self._settings, self._spend = request, settings, spend
        self._promise: Promise | None = None

    @contextmanager
    def __call__(self, start: Start) -> Iterator[dict[str, Any]]:
        if start.kept is None:
            self._promise = self._weakest(start.sources)
            start.keep(self._promise.to_json())
        else:
            self._promise = promise_from_json(start.kept)
        with self._spend(self._promise, start.run) as held:
            yield {"counted": counted_under(held)}

    def check(self, result: Any) -> None:
        """Raise unless an item of the job is covered by what was reserved."""
        assert self._promise is not None
        if not covers(self._promise, promise_from_json(result["promise"])):
            raise ProtectError(
                "Expected a recording whose promise the folder's entry in the ledger covers, got a "
                "weaker one: it was not readable, or not there, when the entry was made. Release it "
                "by itself, which is counted by itself."
            )

    def _weakest(self, sources: Sequence[Path]) -> Promise:
        request, method = self._request, make(self._request.method, self._settings)
        promises: dict[tuple[bool, Shape], Promise] = {}
        for source in sources:
            try:
                shape = shape_of(source, count=method.needs_length, tolerant=request.tolerant)
            except MediaError:
                continue  # the job will say why; nothing of it is released
            kind = (source.suffix.lower() in IMAGE_SUFFIXES, shape)
            if kind not in promises:
                promises[kind] = promise_of_release(method, source, shape, request.output)
        if not promises:
            raise ProtectError("Expected readable recordings in the folder, found none.")
        return covering(list(promises.values()))
