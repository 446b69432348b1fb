"""Who was found in one recording, and what a person corrected: one private file, every step undoable.

A SQLite file: an edit is one transaction, so that a killed program loses nothing, and an hour of people
is read in pieces. Every edit keeps the rows it changed as they were before and after.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.files import atomic_output
from sfumato.people._boxes import Box, hull
from sfumato.people._person import BRIDGED, BY_HAND, HELD, LEFT_OPEN, People, Person
from sfumato.people.track._status import DoubtfulSpan

CARRIED = "carried"
_ABOUT = "sfumato people 2"
# of a track as a whole and of the recording, beside the rows of frames
_OPEN, _LOOKED = -1, -2
_COLUMNS = "frame, track, x0, y0, x1, y1, score, source, evidence, head, joints, mask, place, key, confirmed"
_ROW = """frame INTEGER, track INTEGER, x0 REAL, y0 REAL, x1 REAL, y1 REAL, score REAL, source TEXT,
    evidence TEXT, head TEXT, joints BLOB, mask BLOB, place TEXT, key INTEGER, confirmed INTEGER"""
_SCHEMA = f"""
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE person ({_ROW}, PRIMARY KEY (frame, track));
CREATE INDEX by_track ON person (track, frame, evidence);
CREATE TABLE blank (frame INTEGER PRIMARY KEY);
CREATE TABLE doubt (first INTEGER, last INTEGER, reason TEXT, track INTEGER);
CREATE TABLE edit (id INTEGER PRIMARY KEY, undone INTEGER);
CREATE TABLE touched (edit INTEGER, frame INTEGER, track INTEGER, PRIMARY KEY (edit, frame, track));
CREATE TABLE change (edit INTEGER, after INTEGER, {_ROW});
CREATE INDEX by_edit ON change (edit, after);
CREATE TABLE revised (revision INTEGER, track INTEGER);
"""


class StaleEditError(SfumatoError):
    """An edit of a state that somebody changed meanwhile."""


@dataclass(frozen=True, slots=True)
class TrackSpan:
    """Frames in a row (both ends included) on which a track is known in the same way."""

    track: int
    first: int
    last: int
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class PersonRow:
    """Somebody on a frame; ``key`` boxes were drawn, ``confirmed`` ones looked at."""

    frame: int
    person: Person
    key: bool = False
    confirmed: bool = False


class PeopleFile:
    """What was found in a recording of ``frames`` frames, with its corrections."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        about = self._about()
        self.width, self.height = int(about["width"]), int(about["height"])
        self.frames = int(about["frames"])
        self.shape = self.height, self.width

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        found: Iterable[People],
        *,
        width: int,
        height: int,
        doubts: Callable[[], Iterable[DoubtfulSpan]] = tuple,
        force: bool = False,
    ) -> Self:
        """Write what was found, frame by frame; ``doubts`` are asked for when all frames have come."""
        with (
            atomic_output(path, force=force, private=True) as temporary,
            _connected(temporary) as book,
        ):
            book.executescript(_SCHEMA)
            book.execute("BEGIN")
            count = 0
            for people in found:
                rows = [PersonRow(people.number, person) for person in people]
                _insert(book, "person", map(_packed, rows))
                if people.blank:
                    book.execute("INSERT INTO blank VALUES (?)", (people.number,))
                count += 1
            book.executemany(
                "INSERT INTO doubt VALUES (?, ?, ?, ?)",
                [(e.first, e.last, e.reason, e.track) for e in doubts()],
            )
            about = {
                "about": _ABOUT,
                "width": width,
                "height": height,
                "frames": count,
                "revision": 1,
            }
            book.executemany(
                "INSERT INTO about VALUES (?, ?)", [(k, str(v)) for k, v in about.items()]
            )
            book.execute("COMMIT")
        return cls(path)

    @property
    def revision(self) -> int:
        return int(self._about()["revision"])

    def note(self, name: str, value: str) -> None:
        """Keep a word beside the people; it is no edit."""
        with self._book() as book:
            book.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (f"note {name}", value))

    def noted(self, name: str) -> str | None:
        return self._about().get(f"note {name}")

    @property
    def edits(self) -> tuple[int, int]:
        """How many edits can be undone, and how many done again."""
        with self._book() as book:
            rows = book.execute("SELECT undone, COUNT(*) FROM edit GROUP BY undone").fetchall()
        counts = dict(rows)
        return counts.get(0, 0), counts.get(1, 0)

    @property
    def open_tracks(self) -> list[int]:
        """Those who are left open on purpose."""
        with self._book() as book:
            found = book.execute(
                "SELECT track FROM person WHERE frame = ? ORDER BY track", (_OPEN,)
            )
            return [int(track) for (track,) in found]

    @property
    def looked_at(self) -> bool:
        """Whether somebody said that the recording is reviewed."""
        with self._book() as book:
            return bool(
                book.execute("SELECT COUNT(*) FROM person WHERE frame = ?", (_LOOKED,)).fetchone()[
                    0
                ]
            )

    def rows(self, first: int = 0, last: int | None = None) -> list[PersonRow]:
        """Everybody on the frames from ``first`` to ``last``, both included."""
        until = self.frames - 1 if last is None else last
        with self._book() as book:
            found = book.execute(
                f"SELECT {_COLUMNS} FROM person WHERE frame BETWEEN ? AND ? ORDER BY frame, track",
                (max(0, first), until),
            )
            return [self._row(each) for each in found]

    def of_track(self, track: int, *, only_keys: bool = False, most: int = -1) -> list[PersonRow]:
        """One track, frame by frame; or its drawn boxes only, or the first few."""
        some = "AND key = 1" if only_keys else ""
        with self._book() as book:
            found = book.execute(
                f"SELECT {_COLUMNS} FROM person WHERE track = ? AND frame >= 0 {some} "
                "ORDER BY frame LIMIT ?",
                (track, most),
            )
            return [self._row(each) for each in found]

    def row(self, frame: int, track: int) -> PersonRow:
        """Somebody on a frame; refused if nobody of that track is there."""
        self._require_frame(frame)
        for row in self.rows(frame, frame):
            if row.person.track == track:
                return row
        raise SfumatoError("Expected somebody of that track on that frame, there is nobody.")

    def people(self, first: int = 0, last: int | None = None) -> Iterator[People]:
        """Everybody on each frame as a release takes them, numbered from 0; those left open say so."""
        until = self.frames - 1 if last is None else last
        open_tracks = set(self.open_tracks)
        with self._book() as book:
            blank = {number for (number,) in book.execute("SELECT frame FROM blank")}
            found = book.execute(
                f"SELECT {_COLUMNS} FROM person WHERE frame BETWEEN ? AND ? ORDER BY frame, track",
                (max(0, first), until),
            )
            waiting = found.fetchone()
            for number in range(first, until + 1):
                here = []
                while waiting is not None and waiting[0] == number:
                    row = self._row(waiting)
                    person = row.person
                    if person.track in open_tracks:
                        person = replace(person, evidence=LEFT_OPEN)
                    elif person.evidence == CARRIED:
                        person = replace(person, evidence=BY_HAND)
                        person = person if row.confirmed else _whole(person)
                    here.append(person)
                    waiting = found.fetchone()
                yield People(here, number - first, number in blank)

    def spans(
        self, tracks: Iterable[int] | None = None, *, looks_every: int = 1
    ) -> list[TrackSpan]:
        """Every track (or some) in spans of one kind: seen, bridged, held, by hand or left open.

        Frames between two sightings that no detector was to look at (``looks_every``) count as seen.
        """
        some = "" if tracks is None else f"AND track IN ({', '.join(str(int(t)) for t in tracks)})"
        open_tracks, kinds = set(self.open_tracks), dict[str, str]()
        runs: list[list[Any]] = [[None, 0, -2, ""]] * 2
        with self._book() as book:
            for track, frame, evidence in book.execute(
                f"SELECT track, frame, evidence FROM person WHERE frame >= 0 {some} ORDER BY track, frame"
            ):
                kind = kinds.get(evidence) or kinds.setdefault(evidence, _kind(evidence))
                if track in open_tracks:
                    kind = LEFT_OPEN
                before, gap = runs[-2:]
                goes_on = gap[0] == track and gap[2] == frame - 1
                if goes_on and gap[3] == kind:
                    gap[2] = frame
                    continue
                short = gap[3] == BRIDGED and gap[2] - gap[1] + 1 < looks_every
                if goes_on and short and before[0] == track and before[3] == kind == "seen":
                    runs.pop()
                    before[2] = frame
                else:
                    runs.append([track, frame, frame, kind])
        return [TrackSpan(*run) for run in runs[2:]]

    def changed_since(self, revision: int) -> set[int]:
        """The tracks that edits changed after that revision."""
        with self._book() as book:
            found = book.execute(
                "SELECT DISTINCT track FROM revised WHERE revision > ?", (revision,)
            )
            return {track for (track,) in found}

    def doubts(self) -> list[DoubtfulSpan]:
        """What to look at: doubts of the search, and people carried from a click, until confirmed."""
        with self._book() as book:
            found = [
                DoubtfulSpan(*row)
                for row in book.execute(
                    "SELECT first, last, reason, track FROM doubt AS d WHERE d.track < 0 OR (EXISTS "
                    "(SELECT 1 FROM person WHERE track = d.track AND frame BETWEEN d.first AND d.last) "
                    "AND NOT EXISTS (SELECT 1 FROM person WHERE track = d.track AND confirmed = 1 "
                    "AND frame BETWEEN d.first AND d.last) AND NOT EXISTS "
                    f"(SELECT 1 FROM person WHERE track = d.track AND frame = {_OPEN}))"
                )
            ]
            carried = book.execute(
                "SELECT c.track, c.frame FROM person AS c WHERE c.evidence = ? AND NOT ("
                "EXISTS (SELECT 1 FROM person WHERE track = c.track AND confirmed = 1 "
                "AND frame >= c.frame) AND "
                "EXISTS (SELECT 1 FROM person WHERE track = c.track AND confirmed = 1 "
                "AND frame BETWEEN 0 AND c.frame)) ORDER BY c.track, c.frame",
                (CARRIED,),
            ).fetchall()
        for track, frame in carried:
            last = found[-1] if found else None
            if last and (last.reason, last.track, last.last) == (CARRIED, track, frame - 1):
                found[-1] = replace(last, last=frame)
            else:
                found.append(DoubtfulSpan(frame, frame, CARRIED, track))
        return found

    def new_track(self) -> int:
        """A number that nobody has, or had before an undo."""
        with self._book() as book:
            rows = "SELECT track FROM person UNION SELECT track FROM touched"
            return 1 + int(
                book.execute(f"SELECT COALESCE(MAX(track), -1) FROM ({rows})").fetchone()[0]
            )

    def draw(self, frame: int, track: int | None, box: Box, *, revision: int | None = None) -> int:
        """Put a box there; between two drawn boxes of a track it moves evenly. Gives the track."""
        whose = self.new_track() if track is None else track
        self._require_frame(frame)
        inside = box.clip(self.width, self.height)
        if inside.width < 1 or inside.height < 1:
            raise SfumatoError("Expected a box of at least a pixel inside the picture, got less.")
        if track is not None and not self.of_track(track, most=1):
            raise SfumatoError("Expected a track of this recording, got an unknown one.")
        keys = {row.frame: row.person.box for row in self.of_track(whose, only_keys=True)}
        before = max((number for number in keys if number < frame), default=None)
        after = min((number for number in keys if number > frame), default=None)
        new = [self._drawn(frame, whose, inside, key=True)]
        for other in (before, after):
            if other is not None:
                new += self._between(whose, frame, inside, other, keys[other])
        self._edit(new, [], revision)
        return whose

    def add(self, rows: Sequence[PersonRow], *, revision: int | None = None) -> None:
        """Add people who were found another way, all in one edit."""
        self._edit(rows, [], revision)

    def delete_box(self, frame: int, track: int, *, revision: int | None = None) -> None:
        self.row(frame, track)
        self._edit([], [(frame, track)], revision)

    def delete_track(self, track: int, *, revision: int | None = None) -> None:
        rows = self.of_track(track)
        if not rows:
            raise SfumatoError("Expected a track of this recording, got an unknown one.")
        gone = [(row.frame, track) for row in rows]
        self._edit([], [*gone, (_OPEN, track)], revision)

    def leave_open(self, track: int, left: bool, *, revision: int | None = None) -> None:
        """Leave somebody open on purpose, or cover them again."""
        if not self.of_track(track, most=1):
            raise SfumatoError("Expected a track of this recording, got an unknown one.")
        note = self._note(_OPEN, track)
        self._edit([note] if left else [], [] if left else [(_OPEN, track)], revision)

    def confirm(self, frame: int, track: int, *, revision: int | None = None) -> None:
        """Somebody looked: this box is right."""
        row = self.row(frame, track)
        self._edit([replace(row, confirmed=True)], [], revision)

    def mark_looked_at(self, looked: bool, *, revision: int | None = None) -> None:
        note = self._note(_LOOKED, -1)
        self._edit([note] if looked else [], [] if looked else [(_LOOKED, -1)], revision)

    def undo(self, *, revision: int | None = None) -> None:
        """Take the last edit back."""
        with self._change(revision) as (book, tracks):
            edit = book.execute("SELECT MAX(id) FROM edit WHERE undone = 0").fetchone()[0]
            if edit is None:
                raise SfumatoError("Expected an edit to undo, there is none.")
            tracks |= self._restore(book, edit, after=False)

    def redo(self, *, revision: int | None = None) -> None:
        """Do the edit again that was taken back last."""
        with self._change(revision) as (book, tracks):
            edit = book.execute("SELECT MIN(id) FROM edit WHERE undone = 1").fetchone()[0]
            if edit is None:
                raise SfumatoError("Expected an edit to do again, there is none.")
            tracks |= self._restore(book, edit, after=True)

    def _restore(self, book: sqlite3.Connection, edit: int, *, after: bool) -> set[int]:
        book.execute(
            "DELETE FROM person WHERE (frame, track) IN "
            "(SELECT frame, track FROM touched WHERE edit = ?)",
            (edit,),
        )
        book.execute(
            f"INSERT INTO person ({_COLUMNS}) SELECT {_COLUMNS} FROM change "
            "WHERE edit = ? AND after = ?",
            (edit, after),
        )
        book.execute("UPDATE edit SET undone = ? WHERE id = ?", (not after, edit))
        return {t for (t,) in book.execute("SELECT track FROM touched WHERE edit = ?", (edit,))}

    def _edit(
        self,
        new: Iterable[PersonRow],
        gone: Iterable[tuple[int, int]],
        revision: int | None,
    ) -> None:
        rows = [_packed(row) for row in new]
        places = [*((row[0], row[1]) for row in rows), *gone]
        with self._change(revision) as (book, tracks):
            tracks |= {track for _, track in places}
            for table in ("change", "touched"):  # what was undone cannot come back after a new edit
                book.execute(
                    f"DELETE FROM {table} WHERE edit IN (SELECT id FROM edit WHERE undone = 1)"
                )
            book.execute("DELETE FROM edit WHERE undone = 1")
            edit = book.execute("INSERT INTO edit (undone) VALUES (0)").lastrowid
            book.executemany(
                "INSERT OR IGNORE INTO touched VALUES (?, ?, ?)",
                [(edit, *place) for place in places],
            )
            for after in (0, 1):
                if after:
                    book.executemany("DELETE FROM person WHERE frame = ? AND track = ?", places)
                    _insert(book, "person", rows)
                book.execute(
                    f"INSERT INTO change (edit, after, {_COLUMNS}) SELECT ?, ?, {_COLUMNS} "
                    "FROM person WHERE (frame, track) IN "
                    "(SELECT frame, track FROM touched WHERE edit = ?)",
                    (edit, after, edit),
                )

    @contextmanager
    def _change(self, revision: int | None) -> Iterator[tuple[sqlite3.Connection, set[int]]]:
        """One transaction on the newest state; the tracks that it changes are to be put into the set."""
        with self._book() as book:
            book.execute("BEGIN IMMEDIATE")
            now = int(book.execute("SELECT value FROM about WHERE name = 'revision'").fetchone()[0])
            if revision is not None and revision != now:
                raise StaleEditError(
                    "Expected an edit of the newest state, but it was changed meanwhile: look again."
                )
            tracks = set[int]()
            yield book, tracks
            book.execute("UPDATE about SET value = ? WHERE name = 'revision'", (str(now + 1),))
            book.executemany("INSERT INTO revised VALUES (?, ?)", [(now + 1, t) for t in tracks])
            book.execute("COMMIT")

    def _between(
        self, track: int, frame: int, box: Box, other: int, its: Box
    ) -> Iterator[PersonRow]:
        step = 1 if other > frame else -1
        for number in range(frame + step, other, step):
            part = (number - frame) / (other - frame)
            sides = [a + (b - a) * part for a, b in zip(_sides(box), _sides(its), strict=True)]
            mixed = Box(sides[0], sides[1], sides[2], sides[3])
            yield self._drawn(number, track, mixed, key=False)

    def _drawn(self, frame: int, track: int, box: Box, *, key: bool) -> PersonRow:
        """A box by hand: all of it is covered. Its head is known if the one before lies in it."""
        old = next((row for row in self.rows(frame, frame) if row.person.track == track), None)
        head = None if old is None else old.person.head
        if head is not None and box.covers(head) < 1:
            head = None
        drawn = replace(box, score=1.0, source=BY_HAND)
        joints = np.zeros((17, 3), np.float32)
        person = Person(track, drawn, joints, head, BY_HAND, self.shape)
        return PersonRow(frame, person, key=key, confirmed=key)

    def _note(self, kind: int, track: int) -> PersonRow:
        nobody = np.zeros((17, 3), np.float32)
        return PersonRow(kind, Person(track, Box(0, 0, 0, 0), nobody, None, LEFT_OPEN, self.shape))

    def _require_frame(self, frame: int) -> None:
        if not 0 <= frame < self.frames:
            raise SfumatoError(f"Expected a frame from 0 to {self.frames - 1}, got {frame}.")

    def _row(self, found: Sequence[Any]) -> PersonRow:
        frame, track, x0, y0, x1, y1, score, source, evidence, head, joints, mask, place = found[
            :13
        ]
        cut = window = None
        if mask is not None:
            top, left, rows, columns = json.loads(place)
            bits = np.frombuffer(zlib.decompress(mask), np.uint8)
            cut = np.unpackbits(bits, count=rows * columns).reshape(rows, columns).astype(bool)
            window = slice(top, top + rows), slice(left, left + columns)
        person = Person(
            track,
            Box(x0, y0, x1, y1, score, source),
            np.frombuffer(joints, np.float32).reshape(17, 3).copy(),
            None if head is None else Box(*json.loads(head)),
            evidence,
            self.shape,
            cut,
            window,
        )
        return PersonRow(frame, person, bool(found[13]), bool(found[14]))

    def _about(self) -> dict[str, str]:
        with self._book() as book:
            found = dict(book.execute("SELECT name, value FROM about").fetchall())
        if found.get("about") != _ABOUT:
            raise SfumatoError("Expected people as this version keeps them, got another file.")
        return found

    @contextmanager
    def _book(self) -> Iterator[sqlite3.Connection]:
        if not self._path.is_file():
            raise SfumatoError("Expected people who were found, there are none yet: search first.")
        try:
            with _connected(self._path) as book:
                yield book
        except sqlite3.DatabaseError:
            raise SfumatoError(
                "Expected people as they were kept, got a damaged or busy file: search again."
            ) from None


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    book = sqlite3.connect(path, timeout=10, isolation_level=None)
    try:
        yield book
    finally:
        book.close()  # whatever was not committed never was


def _insert(book: sqlite3.Connection, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    marks = ", ".join("?" * 15)
    book.executemany(f"INSERT OR REPLACE INTO {table} ({_COLUMNS}) VALUES ({marks})", rows)


def _packed(row: PersonRow) -> tuple[Any, ...]:
    person, box = row.person, row.person.box
    mask = place = None
    if person.cut is not None and person.window is not None:
        mask = zlib.compress(np.packbits(person.cut).tobytes(), 1)
        rows, columns = person.window
        place = json.dumps([rows.start, columns.start, *person.cut.shape])
    head = None if person.head is None else json.dumps([*_sides(person.head), person.head.score])
    return (
        row.frame, person.track, *map(float, _sides(box)), float(box.score), box.source, person.evidence,
        head, np.asarray(person.joints, np.float32).tobytes(), mask, place, int(row.key),
        int(row.confirmed),
    )  # fmt: skip


def _whole(person: Person) -> Person:
    """All of the box: nobody has looked yet whether the mask of somebody who was followed has every limb."""
    if person.window is None:
        return person
    rows, columns = person.window
    around = Box(columns.start, rows.start, columns.stop, rows.stop, person.box.score)
    box = replace(hull([person.box, around]), source=person.box.source)
    return replace(person, box=box, cut=None, window=None)


def _sides(box: Box) -> tuple[float, float, float, float]:
    return float(box.x0), float(box.y0), float(box.x1), float(box.y1)


def _kind(evidence: str) -> str:
    if evidence == CARRIED:
        return BY_HAND
    return evidence if evidence in (BRIDGED, HELD, BY_HAND) else "seen"


def numbered(found: Iterable[People]) -> Iterator[People]:
    """The same people, each with a track: whoever has none, or one twice on a frame, gets a new one."""
    frames = list(found)
    spare = 1 + max((person.track for people in frames for person in people), default=-1)
    for people in frames:
        seen: set[int] = set()
        here = []
        for person in people:
            if person.track < 0 or person.track in seen:
                person, spare = replace(person, track=spare), spare + 1
            seen.add(person.track)
            here.append(person)
        yield People(here, people.number, people.blank)
