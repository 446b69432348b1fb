"""The people of one recording in a file: searched for, added at a point, followed further."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.media import IMAGE_SUFFIXES, Frame, Image, SeekableVideo, open_video, read_image
from sfumato.people._boxes import Box
from sfumato.people._corrections import CARRIED, PeopleFile, PersonRow
from sfumato.people._person import People, Person
from sfumato.people.detect._search import search, searchers
from sfumato.people.detect._sightings import Look
from sfumato.people.track._find import LOOKAHEAD, find
from sfumato.people.track._point import STRETCH, carried, person_at
from sfumato.people.track._status import OnMiss
from sfumato.progress import tell


def search_recording(
    source: str | os.PathLike[str], target: str | os.PathLike[str], **settings: Any
) -> PeopleFile:
    """Search a video or a picture for people and write who was found; ``settings`` are those of :func:`find`."""
    if not 1 <= settings.get("every", 1) <= LOOKAHEAD:
        raise SfumatoError(f"Expected to look at every n-th frame, n from 1 to {LOOKAHEAD}.")
    if settings.get("policy", "hold") not in set(OnMiss):
        raise SfumatoError("Expected hold, blank or fail for a missed person.")
    with _in_order(Path(source)) as (frames, width, height, count):
        stream = find(frames, **settings)

        def found() -> Iterator[People]:
            for number, (_, everybody) in enumerate(stream, start=1):
                yield everybody
                tell("searching", number, count)

        return PeopleFile.create(
            target,
            found(),
            width=width,
            height=height,
            doubts=lambda: stream.review.spans,
            force=True,
        )


def add_person_at(
    file: PeopleFile,
    source: str | os.PathLike[str],
    frame: int,
    x: float,
    y: float,
    *,
    revision: int | None = None,
) -> int:
    """Somebody who was missed: found at a point and carried both ways, as one edit. Gives the track."""
    look, _, segment = _finders()
    with _by_number(Path(source)) as frame_at:
        person = person_at(frame_at(frame), x, y, file.new_track(), look, segment)
        rows = [PersonRow(frame, person, key=True, confirmed=True)]
        rows += _both_ways(file, frame_at, frame, person)
    file.add(rows, revision=revision)
    return person.track


def follow_person(
    file: PeopleFile,
    source: str | os.PathLike[str],
    frame: int,
    track: int,
    *,
    revision: int | None = None,
) -> int:
    """Confirm somebody on a frame and carry them further from there, as one edit. Gives the track."""
    with _by_number(Path(source)) as frame_at:
        row = file.row(frame, track)
        rows = [replace(row, confirmed=True), *_both_ways(file, frame_at, frame, row.person)]
    file.add(rows, revision=revision)
    return track


@cache
def _finders() -> tuple[Look, Look, Any]:
    """The whole search for a point, one quick detector to follow, and who makes masks."""
    look, segment = searchers(None, masks=True)
    return look, search("centernet"), segment


def _both_ways(
    file: PeopleFile, frame_at: Callable[[int], Image], start: int, person: Person
) -> list[PersonRow]:
    """Up to :data:`STRETCH` frames on either side of those on which the track is known already."""
    _, quick, segment = _finders()
    known = {row.frame: row.person for row in file.of_track(person.track)}
    rows = []
    for step, end in ((1, file.frames - 1), (-1, 0)):
        edge = start
        while edge + step in known:
            edge += step
        whom = known.get(edge, person)
        last = max(end, edge - STRETCH) if step < 0 else min(end, edge + STRETCH)
        if edge == last:
            continue
        taken = _boxes(file, min(edge, last), max(edge, last), person.track)
        for number, each in carried(frame_at, whom, edge, last, quick, segment, taken):
            rows.append(PersonRow(number, replace(each, evidence=CARRIED)))
    return rows


def _boxes(file: PeopleFile, first: int, last: int, track: int) -> Callable[[int], list[Box]]:
    boxes: dict[int, list[Box]] = {}
    for row in file.rows(first, last):
        if row.person.track != track:
            boxes.setdefault(row.frame, []).append(row.person.box)
    return lambda number: boxes.get(number, [])


@contextmanager
def _in_order(path: Path) -> Iterator[tuple[Iterator[Frame], int, int, int | None]]:
    if path.suffix.lower() in IMAGE_SUFFIXES:
        image = read_image(path)
        yield iter([Frame(image, 0, Fraction(0))]), image.shape[1], image.shape[0], 1
        return
    with open_video(path) as video:
        yield iter(video), video.info.width, video.info.height, video.info.expected_frames


@contextmanager
def _by_number(path: Path) -> Iterator[Callable[[int], Image]]:
    if path.suffix.lower() in IMAGE_SUFFIXES:
        image = read_image(path)
        yield lambda number: image
        return
    with SeekableVideo(path) as video:
        yield video.frame
