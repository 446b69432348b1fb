"""What ``sfumato protect`` does: one file or a folder, all or nothing for each of them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.media import Frame, MediaError, Outcome, list_media, run_job
from sfumato.privacy import Guarantee, Unit, UnitKind
from sfumato.protect._method import Method, Promise, ProtectError, Shape
from sfumato.protect._notes import Notes, noting, region_of
from sfumato.protect._pairs import Pairs
from sfumato.protect._registry import accepts, make
from sfumato.protect._release import OutputSettings, Spend, narrowed_by_sound, release, shape_of

DEFAULT_DELTA = 1e-5
# What a dry run speaks of: it may not open the recording to learn its size.
NOMINAL = Shape(height=240, width=320, frames=64)
_FEW = 8  # made-up frames that tell what a frame costs


@dataclass(frozen=True, kw_only=True)
class Order:
    """One call of the command."""

    source: Path
    target: Path
    method: str
    settings: dict[str, Any]
    codec: str = "h264"
    quality: int | None = None
    keep_audio: bool = False
    tolerant: bool = False
    names: Literal["random", "keep"] = "random"
    workers: int | None = None
    force: bool = False
    ledger_key: str | None = None
    notes: Notes = field(default_factory=Notes)
    pairs: Pairs | None = None

    @property
    def output(self) -> OutputSettings:
        return OutputSettings(self.codec, self.quality, self.keep_audio, self.tolerant)

    @property
    def key(self) -> str:
        """The ledger's idempotency key: the same job, resumed, finds its reservation again."""
        if self.ledger_key is not None:
            return self.ledger_key
        parts = [self.method, self.settings, asdict(self.output), str(self.target.absolute())]
        text = json.dumps(parts, sort_keys=True, default=str)
        return f"protect-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


@dataclass
class Report:
    """What came of an order, for a person (lines) and for a machine (payload)."""

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


def dry_run_report(order: Order) -> Report:
    """What would be done and proven, with expected time and memory; opens no recording."""
    settings, said = with_defaults(order.method, order.settings)
    method = make(order.method, settings)
    promise = method.promise(NOMINAL)
    if order.keep_audio:
        promise = narrowed_by_sound(promise)
    lines = [
        *said,
        f"Method {method.name}: {method.summary}. Nothing was read or written.",
        str(promise),
    ]
    seconds, memory = None, None
    try:
        seconds, memory = estimate(method, NOMINAL)
        lines.append(
            f"Expected for {NOMINAL.width} x {NOMINAL.height}: {1 / seconds:.0f} frames a second "
            f"(without decoding and encoding), about {memory / 2**20:.0f} MB beside the decoder."
        )
    except SfumatoError as error:
        lines.append(f"Time and memory could not be measured beforehand: {error}")
    lines += method.remarks(NOMINAL)
    payload = {
        "dry_run": True,
        "method": method.name,
        "settings": method.settings,
        "promise": promise.to_json(),
        "seconds_per_frame": seconds,
        "bytes": memory,
        "remarks": method.remarks(NOMINAL),
    }
    return Report(payload, lines)


def estimate(method: Method, shape: Shape) -> tuple[float, int]:
    """Seconds a frame and bytes of working memory, measured on frames made up here."""
    # a detector costs the same on every frame; blocks of noise must be measured whole
    by_frame = region_of(method) is not None
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


def carry_out(order: Order, spend: Spend | None, say: Callable[[str], None]) -> Report:
    """Protect a file or every file of a folder; the report says what failed and why.

    ``say`` hears what was chosen and what to expect before anything private is read.
    """
    settings, said = with_defaults(order.method, order.settings)
    for sentence in (*said, *make(order.method, settings).remarks(NOMINAL)):
        say(sentence)
    if order.source.is_dir():
        return _folder(order, settings, spend)
    return _file(order, settings, spend)


def _file(order: Order, settings: dict[str, Any], spend: Spend | None) -> Report:
    method = make(order.method, settings)
    with noting(method, order.notes, order.source, order.output, force=order.force) as written:
        promise = release(
            method,
            order.source,
            order.target,
            output=order.output,
            force=order.force,
            spend=spend,
            pairs=order.pairs,
        )
    if order.pairs is not None:
        written.words.append(
            f"Pairs for internal review are in {order.pairs.folder}: they contain originals, do not "
            "share them and delete them afterwards."
        )
    lines = [f"Wrote {order.target} and its card.", str(promise), *written.words]
    payload = {"outputs": [order.target.name], "failed": 0, "promise": promise.to_json()}
    return Report(payload | written.payload, lines, outputs=[order.target])


class _UnfinishedError(Exception):
    """Leaves the reservation open, so that the next run finds it again."""


def _folder(order: Order, settings: dict[str, Any], spend: Spend | None) -> Report:
    if order.notes.wanted or order.pairs is not None:
        raise ProtectError(
            "Expected one recording for a preview, an export, a review or pairs, got a folder: "
            "protect the recording in question by itself."
        )
    job_settings = {"method": order.method, "settings": settings, "output": asdict(order.output)}
    with suppress(_UnfinishedError), _spent_for_all(order, settings, spend):
        done = run_job(
            order.source,
            order.target,
            release_item,
            settings=job_settings,
            workers=order.workers,
            force=order.force,
            names=order.names,
            suffix=".mkv" if order.codec == "ffv1" else None,
        )
        if done.failed:
            raise _UnfinishedError
    finished: list[Outcome] = [*done.done, *done.skipped]
    outputs = [each.output for each in finished if each.output is not None]
    promises = {json.dumps(each.result["promise"], sort_keys=True) for each in done.done}
    payload = {
        "outputs": sorted(path.name for path in outputs),
        "failed": len(done.failed),
        "promises": [json.loads(each) for each in sorted(promises)],
    }
    words = sorted({each.result["words"] for each in done.done})
    return Report(payload, [done.summary(), *words], failed=len(done.failed), outputs=outputs)


def release_item(source: Path, target: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """One file of a folder job, in a process of its own."""
    promise = release(
        make(settings["method"], settings["settings"]),
        source,
        target,
        output=OutputSettings(**settings["output"]),
    )
    return {"promise": promise.to_json(), "words": str(promise)}


def _spent_for_all(
    order: Order, settings: dict[str, Any], spend: Spend | None
) -> AbstractContextManager[object]:
    """One reservation for the folder: its recordings are disjoint, so the weakest promise counts.

    That holds for units inside one recording; a person may be in several, so it is not offered.
    """
    if spend is None:
        return nullcontext()
    if order.force:
        raise ProtectError(
            "Expected a folder to be released once under one entry of the ledger, got --force: "
            "what was let go already would be released again uncounted. Give a new --key and target."
        )
    method = make(order.method, settings)
    promises: list[Promise] = []
    for source in list_media(order.source):
        try:
            shape = shape_of(source, count=method.needs_length, tolerant=order.tolerant)
        except MediaError:
            continue  # the job will say why; nothing of it is released
        promise = method.promise(shape)
        promises.append(narrowed_by_sound(promise) if order.keep_audio else promise)
    if not promises:
        raise ProtectError("Expected readable recordings in the folder, found none.")
    return spend(max(promises, key=_weakness))


def _weakness(promise: Promise) -> float:
    if not isinstance(promise, Guarantee):
        return float("inf")
    if promise.unit.kind is UnitKind.PERSON:
        raise ProtectError("A folder of recordings cannot be counted for a person: use train.")
    return promise.epsilon
