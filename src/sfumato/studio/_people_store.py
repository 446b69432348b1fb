"""Who was found in a recording, in the private folder: the file, its sidecars, and edits of it."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from sfumato import protect
from sfumato.errors import SfumatoError
from sfumato.jobs import Assistant
from sfumato.people import BY_HAND, EVERY, LEFT_OPEN, Box, PeopleFile, PersonRow
from sfumato.studio._library import Library, LibraryEntry

_QUIET, _IDLE = 1.0, 20.0  # seconds
_WORDS = {LEFT_OPEN: "open", BY_HAND: "by hand", "seen": "found"}


def people_path(library: Library, name: str) -> Path:
    return library.kept("people", f"{name}.people.db")


def boxes_path(library: Library, name: str, category: str) -> Path:
    """The COCO file beside it: what ``sfumato protect --import-boxes`` reads."""
    return library.kept("people", f"{name}.{category}.json")


def write_sidecars(library: Library, name: str) -> dict[str, Path]:
    """The COCO files of the newest state, written if they are older; by category."""
    found = PeopleFile(people_path(library, name))
    places = {each: boxes_path(library, name, each) for each in protect.CATEGORIES}
    for category, path in places.items():
        revision = found.revision
        if not path.is_file() or found.noted(category) != str(revision):
            protect.write_boxes(found, category, path)
            found.note(category, str(revision))
    return places


class PeopleStore:
    """Corrections of the recordings under one root; sidecars follow the edits, in a process of their own."""

    def __init__(self, library: Library) -> None:
        self._library, self._writer = library, Assistant(idle=_IDLE)
        self._soon: dict[str, threading.Timer] = {}
        self._standings: dict[tuple[str, int, int], dict[str, Any]] = {}
        self._lanes: dict[tuple[str, int], tuple[int, dict[int, list[dict[str, Any]]]]] = {}

    def file(self, entry: LibraryEntry) -> PeopleFile | None:
        path = people_path(self._library, entry.name)
        return PeopleFile(path) if path.is_file() else None

    def has_edits(self, entry: LibraryEntry) -> bool:
        """Whether a new search would lose corrections; one that cannot be read has none left."""
        with suppress(SfumatoError):
            return PeopleFile(people_path(self._library, entry.name)).edits[0] > 0
        return False

    def found(self, entry: LibraryEntry) -> PeopleFile:
        file = self.file(entry)
        if file is None:
            raise SfumatoError(
                "Expected a recording that was searched for people, got another one."
            )
        return file

    def standing(self, entry: LibraryEntry) -> dict[str, Any]:
        """How far a recording is, for the library."""
        path = people_path(self._library, entry.name)
        try:
            file = PeopleFile(path)
        except SfumatoError:  # none yet, or one that cannot be read: to be searched (again)
            return {"state": "new", "doubts": 0, "openTracks": 0}
        key = entry.name, path.stat().st_ino, file.revision
        if key not in self._standings:
            doubts = len(protect.ranked(file.doubts()))
            self._standings[key] = {
                "state": "reviewed" if file.looked_at else "found",
                "doubts": doubts,
                "openTracks": len(file.open_tracks),
            }
        return self._standings[key]

    def summary(self, entry: LibraryEntry, rate: float) -> dict[str, Any]:
        """The lanes of the timeline, and what to look at, the most doubtful first."""
        file = self.found(entry)
        undoable, redoable = file.edits
        tracks = self._lanes_of(entry, file)
        open_tracks = set(file.open_tracks)
        doubts = protect.ranked(file.doubts())
        return {
            "frames": file.frames,
            "width": file.width,
            "height": file.height,
            "rate": rate,
            "revision": file.revision,
            "canUndo": undoable > 0,
            "canRedo": redoable > 0,
            "reviewed": file.looked_at,
            "doubts": [
                {
                    "frame": each.first,
                    "to": each.last,
                    "reason": each.reason,
                    "track": each.track if each.track >= 0 else None,
                    "score": (each.last - each.first + 1) / file.frames,
                }
                for each in doubts
            ],
            "tracks": [
                {
                    "id": track,
                    "label": f"Person {track}",
                    "open": track in open_tracks,
                    "byHand": all(each["kind"] in ("by hand", "open") for each in spans),
                    "spans": spans,
                }
                for track, spans in sorted(tracks.items())
            ],
        }

    def _lanes_of(self, entry: LibraryEntry, file: PeopleFile) -> dict[int, list[dict[str, Any]]]:
        """The spans of each track; of an hour only those that were changed are read again."""
        key = entry.name, people_path(self._library, entry.name).stat().st_ino
        revision, changed, lanes = file.revision, None, dict[int, list[dict[str, Any]]]()
        if key in self._lanes:
            before, lanes = self._lanes[key]
            changed = file.changed_since(before)
            lanes = {track: spans for track, spans in lanes.items() if track not in changed}
        if changed is None or changed:
            for span in file.spans(changed, looks_every=EVERY):
                kind = _WORDS.get(span.kind, span.kind)
                shown = {"from": span.first, "to": span.last, "kind": kind}
                lanes.setdefault(span.track, []).append(shown)
        self._lanes = {key: (revision, lanes)}  # of the recording that is open
        return lanes

    def boxes(self, entry: LibraryEntry, first: int, last: int) -> dict[str, Any]:
        file = self.found(entry)
        open_tracks = set(file.open_tracks)
        frames: dict[str, list[dict[str, Any]]] = {
            str(number): [] for number in range(first, min(last, file.frames - 1) + 1)
        }
        for row in file.rows(first, last):
            frames[str(row.frame)].append(_shown(row, row.person.track in open_tracks))
        return {"frames": frames, "revision": file.revision}

    def edit(self, entry: LibraryEntry, asked: dict[str, Any]) -> int | None:
        """One edit; gives the track that it made."""
        file, revision = self.found(entry), asked.get("revision")
        match asked["do"]:
            case "box":
                x, y, wide, high = asked["box"]
                box = Box(x, y, x + wide, y + high)
                return file.draw(asked["frame"], asked["track"], box, revision=revision)
            case "deleteBox":
                file.delete_box(asked["frame"], asked["track"], revision=revision)
            case "deleteTrack":
                file.delete_track(asked["track"], revision=revision)
            case "open":
                file.leave_open(asked["track"], asked["open"], revision=revision)
            case "confirm":
                file.confirm(asked["frame"], asked["track"], revision=revision)
            case "review":
                file.mark_looked_at(asked["done"], revision=revision)
        return None

    def sidecars_later(self, entry: LibraryEntry) -> None:
        """Bring the COCO files up to date once nothing was edited for a moment."""
        before = self._soon.pop(entry.name, None)
        if before is not None:
            before.cancel()
        timer = self._soon[entry.name] = threading.Timer(_QUIET, self._write, [entry])
        timer.daemon = True
        timer.start()

    def sidecars(self, entry: LibraryEntry) -> dict[str, Path]:
        """The COCO files of the newest state, by category."""
        self.found(entry)
        asked = {"root": str(self._library.root), "name": entry.name}
        self._writer.ask("sfumato.studio._people_store:sidecars_task", asked)
        return {each: boxes_path(self._library, entry.name, each) for each in protect.CATEGORIES}

    def close(self) -> None:
        """What was edited last is written now: the command line must find it."""
        for name, timer in list(self._soon.items()):
            if timer.is_alive():
                timer.cancel()
                write_sidecars(self._library, name)
        self._writer.close()

    def _write(self, entry: LibraryEntry) -> None:
        with suppress(SfumatoError, OSError):  # written again before anything reads them
            self.sidecars(entry)


def sidecars_task(arguments: dict[str, Any], report: object) -> None:
    """In the writer's process."""
    write_sidecars(Library(arguments["root"]), arguments["name"])


def _shown(row: PersonRow, left_open: bool) -> dict[str, Any]:
    person = row.person
    kind = "open" if left_open else _WORDS.get(person.state, person.state)
    if row.person.evidence == "carried":
        kind = "by hand"
    return {
        "track": person.track,
        "box": _corner_and_size(person.box),
        "joints": person.joints.round(2).tolist() if person.joints[:, 2].any() else None,
        "head": None if person.head is None else _corner_and_size(person.head),
        "kind": kind,
        "key": row.key,
        "confirmed": row.confirmed,
    }


def _corner_and_size(box: Box) -> list[float]:
    return [round(each, 2) for each in (box.x0, box.y0, box.width, box.height)]
