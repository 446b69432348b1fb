"""One long recording in spans, on any engine: the driver reads, follows, joins and publishes.

The driver reads the recording once from its beginning to its end and tells every worker which frames its
span has and what they look like. Each span is coded into a closed piece of its own; the pieces are joined
without coding them again, with the times of the recording. One promise, one card, one entry of a ledger: noise
is drawn block by block, and whole blocks are drawn by one worker (R11). A span that fails fails the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from sfumato import people
from sfumato.devices import using
from sfumato.jobs import Engine, Needs, Part, run_parts
from sfumato.media import (
    Frame,
    FrameTimeline,
    Image,
    Stretch,
    TimelineReader,
    VideoInfo,
    VideoWriter,
    ahead,
    open_video,
    read_stretch,
)
from sfumato.progress import tell
from sfumato.protect._method import Method, ProtectError, Shape
from sfumato.protect._registry import make
from sfumato.protect._searched import CoveredSpan, FoundFrame, Left, SearchedMethod

_LOOKS, _TEXT, _PIECE = "looks.jsonl", "text.jsonl", "piece"
SEARCH_FILES = "where people and text were found, in private files beside the output that are removed at the end"


@dataclass(frozen=True)
class InSpans:
    """How a recording is cut and who works on its spans. A worker makes the method again from its name
    and settings."""

    seconds: float
    engine: Engine
    method: str
    settings: Mapping[str, Any]
    device: str = "cpu"
    needs: Needs = Needs()  # noqa: RUF009 - frozen
    warm: Callable[[], Any] | None = None
    repeatable: bool = False

    def longest(self, info: VideoInfo) -> int:
        """Frames of a span, at most."""
        return max(1, int(self.seconds * info.rate))


def require_spans(method: Method, shape: Shape) -> None:
    """Raise unless a recording can be cut for this method."""
    if method.spans(shape) is None:
        raise ProtectError(
            f"Expected a method and settings that can work on a part of a recording (--span), got {method.name}, "
            "which needs all of it at once: leave --span out."
        )


@dataclass(frozen=True)
class SpanJob:
    """What a worker needs to know beside its span."""

    source: Path
    method: str
    settings: dict[str, Any]
    device: str
    shape: Shape
    info: VideoInfo
    suffix: str
    codec: str
    quality: int | None

    def made(self) -> Method:
        return make(self.method, self.settings)


@dataclass
class SpanRun:
    """One recording on its way. ``place`` is a private folder that every worker sees."""

    spans: InSpans
    method: Method
    source: Path
    shape: Shape
    place: Path
    codec: str
    quality: int | None
    suffix: str
    timeline: FrameTimeline = field(init=False)
    cuts: list[tuple[int, int]] = field(init=False)
    _turns: list[people.LookTurn] = field(init=False, default_factory=list)
    _found: list[Path] = field(init=False, default_factory=list)
    _pieces: dict[int, Part] = field(init=False, default_factory=dict)
    _left: dict[int, Left] = field(init=False, default_factory=dict)
    _known_left: dict[int, Any] = field(init=False, default_factory=dict)

    @property
    def searches(self) -> bool:
        return isinstance(self.method, SearchedMethod)

    def read(self, see: Callable[[Frame], None]) -> FrameTimeline:
        """Read the recording once; ``see`` is shown every frame."""
        with TimelineReader(self.source) as reader:
            expected = reader.info.expected_frames
            with closing(ahead(_shown(reader, see))) as frames:
                wanted = self.method.span_looks if isinstance(self.method, SearchedMethod) else None
                turns: Iterator[people.LookTurn | None] = (None for _ in frames)
                if wanted is not None and wanted.searches:
                    turns = people.look_schedule(frames, wanted.every)
                for number, turn in enumerate(turns, start=1):
                    self._turns += () if turn is None else (turn,)
                    tell("reading", number, expected)
            self.timeline = reader.timeline
        rule = self.method.spans(self.shape)
        assert rule is not None, "it was asked for before"
        count = len(self.timeline)
        self.cuts = rule.cuts(count, self.spans.longest(self.timeline.info))
        return self.timeline

    def make(self, info: VideoInfo) -> list[tuple[Path, int]]:
        """The pieces with their numbers of frames; what a former try left open is covered."""
        self.spans.engine.prepare(self.place, self.spans.warm, self.spans.needs)
        job = SpanJob(
            self.source, self.spans.method, dict(self.spans.settings), self.spans.device,
            self.shape, info, self.suffix, self.codec, self.quality,
        )  # fmt: skip
        if isinstance(self.method, SearchedMethod):
            if not self._found:
                self._search(job, self.method)
            self._cover(job, self.method)
        else:
            arguments = [(job, self.timeline.frames.part(*cut)) for cut in self.cuts]
            self._pieces = dict(enumerate(self._run(noise_on_span, arguments, "protecting")))
        for part in self._pieces.values():
            part.require_as_written()
        return [
            (self._pieces[number].folder / f"{_PIECE}{self.suffix}", stop - first)
            for number, (first, stop) in enumerate(self.cuts)
        ]

    def check(self) -> None:
        """Let the method judge what workers found in the pieces they made."""
        if isinstance(self.method, SearchedMethod):
            found = [self._left[number] for number in range(len(self.cuts))]
            faces, bodies, text = (list(chain(*each)) for each in zip(*found, strict=True))
            self.method.cover_more((faces, bodies, text))

    def _run(
        self, work: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], what: str
    ) -> list[Part]:
        done = 0

        def answered(number: int) -> None:
            nonlocal done
            done += 1
            tell(what, done, len(arguments))

        return run_parts(
            self.spans.engine, work, arguments, self.place,
            repeatable=self.spans.repeatable, needs=self.spans.needs, answered=answered,
        )  # fmt: skip

    def _search(self, job: SpanJob, method: SearchedMethod) -> None:
        """Looks in spans and text in one piece; then everybody is followed here, from first to last."""
        wanted, whole = method.span_looks, self.timeline.frames
        tasks: list[tuple[Any, ...]] = []
        if wanted.text:
            tasks.append(("text", job, whole, []))
        if wanted.searches:
            tasks += [
                ("looks", job, whole.part(*cut), self._turns[slice(*cut)]) for cut in self.cuts
            ]
        parts = self._run(search_span, tasks, "searching")
        text_part = parts.pop(0) if wanted.text else None
        book = _LookBook([part.folder / _LOOKS for part in parts])
        with ExitStack() as stack:
            text: Iterator[tuple[people.TextLine, ...]] = iter(repeat((), len(whole.pts)))
            text_stream = None
            if text_part is not None:
                lines = stack.enter_context(open(text_part.folder / _TEXT, encoding="utf-8"))
                text = (people.people_of_line(line)[1] for line in lines)
                text_stream = people.TextFound(people.DetectorStatus(**text_part.value))
            read = stack.enter_context(closing(ahead(read_stretch(self.source, whole))))
            self._write_found(method.follow(_told(read, len(whole.pts)), book, text, text_stream))
        for part in parts:
            part.remove()

    def _write_found(self, followed: Iterator[FoundFrame]) -> None:
        """One file a span, with what the frames around it have as well."""
        room = self.method.span_looks.around if isinstance(self.method, SearchedMethod) else 0
        for number in range(len(self.cuts)):
            self._found.append(self.place / f"found-{number}.jsonl")
        with ExitStack() as stack:
            files = [stack.enter_context(open(path, "x", encoding="utf-8")) for path in self._found]
            current, came = 0, 0
            for (_, found), text in followed:
                if found.number != came:
                    raise ProtectError(f"Expected frame {came} to be followed, got {found.number}.")
                line = people.line_of_people(found, text) + "\n"
                while self.cuts[current][1] + room <= came:
                    current += 1
                for near in range(current, len(self.cuts)):
                    if self.cuts[near][0] - room > came:
                        break
                    files[near].write(line)
                came += 1
        if came != len(self.timeline):
            raise ProtectError(
                f"Expected {len(self.timeline)} frames to be followed, got {came}: nothing was released."
            )

    def _cover(self, job: SpanJob, method: SearchedMethod) -> None:
        """Every span, or those of which a check asked for more."""
        room, whole = method.span_looks.around, self.timeline.frames
        origin = whole.pts[0] * whole.time_base
        todo, tasks = [], []
        for number, (first, stop) in enumerate(self.cuts):
            left = method.to_cover_more(first, stop)
            if number in self._pieces and left == self._known_left.get(number, ({}, {})):
                continue
            self._known_left[number] = left
            todo.append(number)
            around = whole.part(first - room, stop + room)
            tasks.append(
                (job, around, self._found[number], CoveredSpan(first, stop, origin, *left))
            )
        for number in todo:
            if number in self._pieces:
                self._pieces.pop(number).remove()
        for number, part in zip(todo, self._run(cover_span, tasks, "protecting"), strict=True):
            self._pieces[number] = part
            self._left[number] = part.value


class _LookBook:
    """The looks that workers wrote down: where each stands, so that memory holds no more than that."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._places: dict[int, tuple[int, int]] = {}
        for number, path in enumerate(files):
            at = 0
            with open(path, "rb") as lines:
                for line in lines:
                    self._places[json.loads(line)[0]] = number, at
                    at += len(line)

    def __call__(self, number: int) -> tuple[people.LookTurn, list[people.Sighting]] | None:
        if number not in self._places:
            return None
        file, at = self._places[number]
        with open(self._files[file], "rb") as lines:
            lines.seek(at)
            _, whom, quarters, found = json.loads(lines.readline())
        return people.LookTurn(people.LookFor(whom), tuple(quarters)), people.sightings_of_line(
            found
        )


def _shown(frames: Iterable[Frame], see: Callable[[Frame], None]) -> Iterator[Frame]:
    for frame in frames:
        see(frame)
        yield frame


def _told(frames: Iterator[Frame], total: int) -> Iterator[Frame]:
    for number, frame in enumerate(frames, start=1):
        tell("following", number, total)
        yield frame


def search_span(
    folder: Path, what: str, job: SpanJob, stretch: Stretch, turns: Sequence[people.LookTurn]
) -> dict[str, Any] | None:
    """In a worker: the looks at the frames of a span, or the text of a whole recording."""
    method = job.made()
    assert isinstance(method, SearchedMethod)
    with using(job.device), closing(ahead(read_stretch(job.source, stretch))) as frames:
        if what == "text":
            return _search_text(folder / _TEXT, frames, method.span_looks.text)
        look, _ = people.searchers(method.span_looks.detector, masks=method.span_looks.masks)
        at = (
            (number, frame, turn)
            for number, (frame, turn) in enumerate(zip(frames, turns, strict=True), stretch.first)
            if turn.whom is not people.LookFor.NONE
        )
        workers = people.threads() if look.at_once else 1
        with open(folder / _LOOKS, "x", encoding="utf-8") as lines:
            for (number, _, turn), found in people.in_parallel(
                at, lambda each: people.look_at(look, each[1].image, each[2]), workers
            ):
                line = [number, turn.whom.value, turn.quarters, people.line_of_sightings(found)]
                lines.write(json.dumps(line) + "\n")
    return None


def _search_text(path: Path, frames: Iterator[Frame], every: int) -> dict[str, Any]:
    stream = people.find_text(frames, people.text_detector(), every=every)
    with open(path, "x", encoding="utf-8") as lines:
        for number, (_, text) in enumerate(stream):
            lines.write(people.line_of_people(people.People(number=number), text) + "\n")
    return stream.status.to_json()


def noise_on_span(folder: Path, job: SpanJob, stretch: Stretch) -> None:
    """In a worker: whole blocks, each with noise of its own."""
    with using(job.device), closing(ahead(read_stretch(job.source, stretch))) as frames:
        made = job.made().transform_from(stretch.first, frames, job.shape)
        _write(folder, job, made, len(stretch.pts))


def cover_span(folder: Path, job: SpanJob, around: Stretch, found: Path, span: CoveredSpan) -> Left:
    """In a worker: the frames of a span, masked, covered and written; then what was written is checked."""
    method = job.made()
    assert isinstance(method, SearchedMethod)
    with (
        using(job.device),
        open(found, encoding="utf-8") as lines,
        closing(ahead(read_stretch(job.source, around))) as frames,
    ):
        with_people = _with_people(frames, lines, around)
        made = method.transform_found(span, with_people, job.shape)
        piece = _write(folder, job, made, span.stop - span.first)
        return method.left_in_span(span, _pairs(job, around.part(span.first, span.stop), piece))


def _with_people(
    frames: Iterator[Frame], lines: Iterator[str], around: Stretch
) -> Iterator[FoundFrame]:
    for number, (frame, line) in enumerate(zip(frames, lines, strict=True), around.first):
        found, text = people.people_of_line(line)
        if found.number != number:
            raise ProtectError(
                f"Expected the people of frame {number}, got those of {found.number}."
            )
        yield (frame, found), text


def _write(folder: Path, job: SpanJob, made: Iterator[Frame], count: int) -> Path:
    """One closed piece; the times of its frames are the driver's to set."""
    piece = folder / f"{_PIECE}{job.suffix}"
    with VideoWriter(piece, job.info, codec=job.codec, quality=job.quality) as writer:
        for frame in made:
            writer.write(frame.image)
        if writer.frames_written != count:
            raise ProtectError(
                f"Expected {count} protected frames, got {writer.frames_written}: nothing was released."
            )
    return piece


def _pairs(job: SpanJob, stretch: Stretch, piece: Path) -> Iterator[tuple[Image, Image]]:
    with open_video(piece) as outputs:
        for original, output in zip(read_stretch(job.source, stretch), outputs, strict=True):
            yield original.image, output.image
