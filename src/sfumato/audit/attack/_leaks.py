"""Residual people: detectors search the output, and say on which frames and where.

Thumbnails show the *protected* output with what was found in it, never the original: whoever checks
a release must not have to handle what it hides. A finding counts as a leak where the original shows
somebody in the same place, or, without originals, wherever a detector finds somebody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np

from sfumato import people
from sfumato.audit._released import HidingScope, hiding_scope
from sfumato.audit.certify._epsilon import AuditError
from sfumato.audit.measure._measure import Estimate, Measure, MeasureError, Result
from sfumato.errors import SfumatoError
from sfumato.jobs import Engine, run_all
from sfumato.media import IMAGE_SUFFIXES, Image, open_video, read_image
from sfumato.privacy.clopper_pearson import at_least, at_most
from sfumato.progress import tell, track
from sfumato.protect.hide import is_one_of, still_shows

FACES, BODIES = "centerface+blazeface", "movenet+centernet+nanodet"
_THUMBNAIL = 240
_MIDDLE = 0.5  # of the box of a whole person
_KINDS = {"face": "faces", "person": "whole people"}
_FRAME_COLOUR = (255, 60, 0)


@dataclass(frozen=True)
class Leak:
    """One person or face that is still found: which file, which frame, where, and of what kind."""

    output: str
    frame: int
    kind: str
    box: tuple[float, float, float, float]
    score: float
    there_before: bool | None

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self)) | {"box": [round(side, 1) for side in self.box]}


class Residual(Measure):
    """Share of frames on which somebody is still found who was there before."""

    name: ClassVar[str] = "frames on which a person or face is still found"
    higher_is_better: ClassVar[bool] = False
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.hit = self.seen = 0

    def update(self, hit: bool, seen: int = 1) -> None:
        """One frame (or ``seen`` of them, all alike)."""
        self.hit += seen * bool(hit)
        self.seen += seen

    def compute(self) -> Estimate:
        if not self.seen:
            raise MeasureError("Expected frames to look at, got none: check the output.")
        low, high = at_least(self.hit, self.seen, 0.025), at_most(self.hit, self.seen, 0.025)
        return Estimate(self.hit / self.seen, float(low), float(high), 0.95)


@dataclass
class LeakReport:
    """Everything that was found, frames looked at, and small pictures of the protected output."""

    leaks: list[Leak]
    frames: int
    residual: Residual
    thumbnails: list[Image]
    compared: bool
    looked_for: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def leaking(self) -> bool:
        return any(leak.there_before is not False for leak in self.leaks)

    def to_json(self) -> dict[str, Any]:
        return {
            "leaking": self.leaking,
            "frames": self.frames,
            "compared_with_originals": self.compared,
            "looked_for": list(self.looked_for),
            "share": self.residual.compute().value,
            "leaks": [leak.to_json() for leak in self.leaks],
        }

    def results(self) -> list[Result]:
        """For a measures file. Whoever hides people means nobody to be found: guessing is 0."""
        note = (
            "counted where the original shows somebody"
            if self.compared
            else "without the originals, so that a detector's false alarms count too"
        )
        target = " and ".join(_KINDS[kind] for kind in self.looked_for)
        return [
            each.about(chance=0.0, target=target, note=note) for each in self.residual.results()
        ]

    def summary_lines(self, most: int = 20) -> list[str]:
        looked_for = " and ".join(_KINDS[kind] for kind in self.looked_for)
        looked = f"Looked for {looked_for}: {'; '.join(self.reasons)}."
        return [looked, *self._found(most)]

    def _found(self, most: int) -> list[str]:
        real = [leak for leak in self.leaks if leak.there_before is not False]
        if not self.leaks:
            return [
                f"Nobody was found on {self.frames} frames. A detector that finds nobody is no proof."
            ]
        said = [
            f"{leak.output}, frame {leak.frame}: {leak.kind} at "
            f"{', '.join(f'{side:.0f}' for side in leak.box)} (score {leak.score:.2f})"
            for leak in real[:most]
        ]
        if len(real) > most:
            said.append(f"and {len(real) - most} more.")
        if not self.compared:
            return [
                *said,
                f"{len(real)} findings on {self.residual.hit} of {self.frames} frames, false alarms and "
                "outlines of covered people among them: --originals tells them apart.",
            ]
        other = len(self.leaks) - len(real)
        return [
            *said,
            f"{len(real)} findings that show somebody of the original, on {self.residual.hit} of "
            f"{self.frames} frames; {other} that show nothing of it (outlines, false alarms) do not count.",
        ]

    def sheet(self, columns: int = 4) -> Image | None:
        """All thumbnails on one picture; None where nothing was found."""
        if not self.thumbnails:
            return None
        sheet = people.ContactSheet(len(self.thumbnails), columns, _THUMBNAIL)
        for thumbnail in self.thumbnails:
            sheet.add(thumbnail)
        return sheet.image()


def find_leaks(
    output: str | Path,
    original: str | Path | None = None,
    *,
    faces: Any = None,
    bodies: Any = None,
    why: str = "as asked for",
    every: int = 1,
    most_thumbnails: int = 12,
) -> LeakReport:
    """Look for faces and whole people in one protected video or picture.

    ``faces`` and ``bodies`` are detectors (objects with ``detect``), True for the bundled ones, or
    False. By default the output's card decides: where only faces were covered, or avatars stand for
    people, bodies are meant to be seen and only faces are leaks (``hiding_scope``). ``why`` is said in the
    report.
    """
    if bodies is None:
        cover = hiding_scope(output)
        bodies, why = cover.bodies, cover.why
    finders = _finders(faces, bodies)
    if not finders or every < 1:
        raise AuditError("Expected at least one detector and every >= 1 to look for people.")
    leaks: list[Leak] = []
    thumbnails: list[Image] = []
    residual, name, looked = Residual(), Path(output).name, 0
    for number, (picture, before) in enumerate(_pairs(output, original)):
        if number % every:
            continue
        looked += 1
        found = list(_on_frame(name, number, picture, before, finders))
        leaks += found
        real = [leak for leak in found if leak.there_before is not False]
        residual.update(bool(real))
        if real and len(thumbnails) < most_thumbnails:
            thumbnails.append(_thumbnail(picture, real))
    return LeakReport(
        leaks, looked, residual, thumbnails, original is not None, tuple(finders), (why,)
    )


@dataclass(frozen=True)
class ClipVerdict:
    """What was found in one clip of a folder; ``report`` is None where it could not be looked at."""

    clip: str
    report: LeakReport | None
    reason: str = ""

    @property
    def frames_hit(self) -> int:
        return 0 if self.report is None else self.report.residual.hit

    @property
    def passed(self) -> bool:
        return self.report is not None and not self.report.leaking

    def to_json(self) -> dict[str, Any]:
        looked = {} if self.report is None else self.report.to_json()
        return {"clip": self.clip, "passed": self.passed, "reason": self.reason} | looked

    def __str__(self) -> str:
        if self.report is None:
            return f"NOT LOOKED AT: {self.reason}"
        if self.passed:
            return "nobody found"
        return f"STILL FOUND on {self.frames_hit} of {self.report.frames} frames"


def leaks_by_clip(
    pairs: Iterable[tuple[Path, Path | None]],
    *,
    root: Path | None = None,
    faces_only: bool | None = None,
    every: int = 1,
    engine: Engine | None = None,
) -> list[ClipVerdict]:
    """One verdict for each output, with its original or None; names are those below ``root``.

    Each output's card says whether bodies count, unless ``faces_only`` does. A clip that cannot be
    looked at has a verdict too: it did not pass. With ``engine`` the clips are looked at elsewhere.
    """
    tasks = [(output, original, faces_only, every) for output, original in pairs]
    found: list[LeakReport | SfumatoError]
    if engine is not None:
        tell("outputs", 0, len(tasks))
        found = run_all(
            engine, _leaks_on_worker, tasks, answered=lambda done: tell("outputs", done, len(tasks))
        )
    else:
        found, detectors = [], _detectors()
        for task in track(tasks, "outputs"):
            try:
                found.append(_leaks_of_clip(*task, detectors))
            except SfumatoError as error:
                found.append(error)
    verdicts = []
    for (output, *_), each in zip(tasks, found, strict=True):
        name = output.name if root is None else output.relative_to(root).as_posix()
        if isinstance(each, SfumatoError):
            verdicts.append(ClipVerdict(name, None, str(each)))
        else:
            verdicts.append(ClipVerdict(name, each))
    return verdicts


def _detectors() -> tuple[Any, Callable[[], Any]]:
    """Of faces, and of people once they are asked for."""
    return people.face_detector(FACES), cache(lambda: people.person_detector(BODIES))


_worker_detectors = cache(_detectors)  # of a process that looks at one clip after the other


def _leaks_on_worker(
    output: Path, original: Path | None, faces_only: bool | None, every: int
) -> LeakReport:
    return _leaks_of_clip(output, original, faces_only, every, _worker_detectors())


def _leaks_of_clip(
    output: Path,
    original: Path | None,
    faces_only: bool | None,
    every: int,
    detectors: tuple[Any, Callable[[], Any]],
) -> LeakReport:
    faces, bodies = detectors
    cover = HidingScope(not faces_only, "as asked for")
    if faces_only is None:
        cover = hiding_scope(output)
    return find_leaks(
        output, original, faces=faces, bodies=bodies() if cover.bodies else False,
        why=cover.why, every=every,
    )  # fmt: skip


def joined(reports: Iterable[LeakReport]) -> LeakReport:
    """Several outputs as one report."""
    every = list(reports)
    if not every:
        raise AuditError("Expected at least one output to look at, got none.")
    total = Residual()
    for report in every:
        total.update(True, report.residual.hit)
        total.update(False, report.residual.seen - report.residual.hit)
    return LeakReport(
        [leak for report in every for leak in report.leaks],
        sum(report.frames for report in every), total,
        [picture for report in every for picture in report.thumbnails],
        all(report.compared for report in every),
        tuple(dict.fromkeys(kind for report in every for kind in report.looked_for)),
        tuple(dict.fromkeys(reason for report in every for reason in report.reasons)),
    )  # fmt: skip


def _finders(faces: Any, bodies: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if faces is not False:
        made["face"] = people.face_detector(FACES) if faces in (None, True) else faces
    if bodies is not False:
        made["person"] = people.person_detector(BODIES) if bodies is True else bodies
    return made


def _on_frame(
    name: str, number: int, picture: Image, before: Image | None, finders: dict[str, Any]
) -> Iterator[Leak]:
    for kind, finder in finders.items():
        boxes = finder.detect(picture)
        there = finder.detect(before) if boxes and before is not None else []
        for box in boxes:
            known = None if before is None else is_one_of(box, there)
            if known and kind == "person" and before is not None:
                # a silhouette looks like somebody on purpose: it is one who is seen as before that leaks
                known = still_shows(before, picture, box.scale(_MIDDLE))
            yield Leak(name, number, kind, (box.x0, box.y0, box.x1, box.y1), box.score, known)


def _thumbnail(picture: Image, leaks: list[Leak]) -> Image:
    shown = picture.copy()
    thick = max(1, round(max(picture.shape) / 200))
    for leak in leaks:
        x0, y0, x1, y1 = (round(side) for side in leak.box)
        cv2.rectangle(shown, (x0, y0), (x1, y1), _FRAME_COLOUR, thick)
    height = max(1, round(shown.shape[0] * _THUMBNAIL / shown.shape[1]))
    small = cv2.resize(shown, (_THUMBNAIL, height), interpolation=cv2.INTER_AREA)
    return np.asarray(small, dtype=np.uint8)


def _pairs(output: str | Path, original: str | Path | None) -> Iterator[tuple[Image, Image | None]]:
    if Path(output).suffix.lower() in IMAGE_SUFFIXES:
        yield read_image(output), None if original is None else read_image(original)
        return
    if original is None:
        with open_video(output) as frames:
            for frame in track(frames, "frames", frames.info.expected_frames):
                yield frame.image, None
        return
    with open_video(output) as frames, open_video(original) as sources:
        try:
            both = zip(frames, sources, strict=True)
            for frame, source in track(both, "frames", frames.info.expected_frames):
                yield frame.image, source.image
        except ValueError:
            raise AuditError(
                "Expected as many frames in the original as in the output, got another number: "
                "name the recording that was protected."
            ) from None
