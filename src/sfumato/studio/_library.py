"""What lies under the root folder, by ids that are no paths: recordings, releases, folders, trainings."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.errors import SfumatoError
from sfumato.files import OutputExistsError, lock_file, make_private_folder, write_text
from sfumato.jobs import name_list, names_of
from sfumato.media import MediaError, survey
from sfumato.privacy import Card, CardError, card_path, read_card, says_private
from sfumato.store import cache_folder

STATE = ".sfumato-studio"
RELEASED = "released"
_SQLITE = b"SQLite format 3\0"
_KINDS = ("video", "image", "audio")
_KIND_WORDS = {"video": "video", "image": "picture", "audio": "sound"}


class NotThereError(SfumatoError):
    """Nothing under the root has this id (any more)."""


@dataclass(frozen=True)
class LibraryEntry:
    """One thing under the root; ``name`` is its path there, for people to read."""

    id: str
    name: str
    kind: str
    path: Path = field(repr=False)

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]


@dataclass(frozen=True)
class Listing:
    """Everything by id. ``origins`` says of which recording a release is, where that is known."""

    recordings: dict[str, LibraryEntry]
    releases: dict[str, LibraryEntry]
    folders: dict[str, LibraryEntry]
    cards: dict[str, Card]
    origins: dict[str, str]

    def releases_of(self, recording: str) -> list[LibraryEntry]:
        return [self.releases[id] for id, origin in self.origins.items() if origin == recording]


class Library:
    """The root folder. Nothing outside it can be named, and no link is followed."""

    def __init__(self, root: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.root = Path(root).resolve()
        self.read_only = read_only
        self._lock: int | None = None
        self._last: Listing | None = None
        if not self.root.is_dir():
            raise SfumatoError("Expected a folder with recordings (--root), found none there.")

    @property
    def state(self) -> Path:
        """The private folder of the studio: what was found, corrected, asked and begun."""
        return self.root / STATE

    def prepare(self) -> None:
        """Make the private folder and hold it; what earlier previews left in it goes."""
        if self.state.is_symlink():
            raise SfumatoError(f"Expected a folder of the studio's own ({STATE}), got a link.")
        make_private_folder(self.state)
        if hasattr(os, "getuid") and self.state.stat().st_uid != os.getuid():
            raise SfumatoError(f"Expected a folder of your own ({STATE}), got somebody else's.")
        self.state.chmod(0o700)
        for place, folders, files in os.walk(self.state):
            if any(Path(place, name).is_symlink() for name in (*folders, *files)):
                raise SfumatoError(
                    f"Expected no link in the studio's own folder ({STATE}), got one."
                )
        self._lock = os.open(self.state / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock_file(self._lock)
        except BlockingIOError:
            os.close(self._lock)
            raise SfumatoError(
                "Expected a folder that no other studio has open, got one: use its window, or --read-only."
            ) from None
        self.forget_previews()

    @property
    def is_own(self) -> bool:
        """Whether this user's studio wrote here before: a folder from elsewhere may ask for work that nobody began."""
        note = self.state / "made"
        return note.is_file() and hmac.compare_digest(note.read_bytes(), self._seal().encode())

    def make_own(self) -> None:
        with suppress(
            OSError
        ):  # without it, work that was cut off waits for a click instead of going on
            write_text(self.state / "made", self._seal(), force=True, private=True)

    def _seal(self) -> str:
        """Only this user can write it, and it fits this very folder."""
        key = cache_folder() / "studio.key"
        known = secrets.token_bytes(32)  # good for this once, where the cache is somebody else's
        with suppress(OSError):
            with suppress(OutputExistsError):
                write_text(key, secrets.token_hex(32), private=True)
            known = key.read_bytes()
        place = f"{self.state.stat().st_ino} {self.state}".encode("utf-8", "surrogateescape")
        return hmac.new(known, place, "sha256").hexdigest()

    def forget_previews(self) -> None:
        shutil.rmtree(self.state / "previews", ignore_errors=True)

    def close(self) -> None:
        """Let another studio open the folder."""
        if self._lock is not None:
            self.forget_previews()
            os.close(self._lock)
            self._lock = None

    def kept(self, *parts: str) -> Path:
        """A place in the private folder, whose folders are made for the owner only."""
        place = self.state.joinpath(*parts)
        if not self.read_only:
            make_private_folder(place.parent)
        return place

    def id_of(self, path: Path, *, folder: bool = False) -> str:
        return _id(path.relative_to(self.root).as_posix() + ("/" if folder else ""))

    def inside(self, name: str) -> Path:
        """The file of that name under the root; refused if any part of its path is a link."""
        path = self.root / name
        if path.resolve() != path or (name and self.root not in path.parents):
            raise NotThereError("Expected a file under the studio's folder, got a link or none.")
        return path

    def output(self, name: str) -> Path:
        """Where an output of that name goes under the root; refused if a link leads elsewhere."""
        path = self.root / name
        first, _, rest = name.partition("/")
        if first != RELEASED or not rest or path.is_symlink() or path.resolve() != path:
            raise SfumatoError(
                f"Expected {RELEASED} to be a folder of its own, got a link or another."
            )
        return path

    def without_root(self, said: str) -> str:
        """A sentence that names no place outside the root: names below it stay."""
        return said.replace(f"{self.root}{os.sep}", "").replace(str(self.root), self.root.name)

    def scan(self) -> Listing:
        recordings: dict[str, LibraryEntry] = {}
        releases: dict[str, LibraryEntry] = {}
        cards: dict[str, Card] = {}
        for kind in _KINDS:
            for path in survey(self.root, kinds=(kind,))[0]:
                entry = self._entry(path, _KIND_WORDS[kind])
                if entry is None or (kind == "image" and says_private(path)):
                    continue
                card = _card(path)
                if card is None:
                    recordings[entry.id] = entry
                else:
                    releases[entry.id], cards[entry.id] = entry, card
        beside = {  # masks and other companions that a card names are no recordings
            releases[id].path.parent / output.name
            for id, card in cards.items()
            for output in card.outputs
        }
        recordings = {id: each for id, each in recordings.items() if each.path not in beside}
        folders = self._folders([*recordings.values(), *releases.values()])
        origins = self._origins(releases.values(), recordings)
        self._last = Listing(recordings, releases, folders, cards, origins)
        return self._last

    def recording(self, id: str) -> LibraryEntry:
        return self._listed("recordings", id)

    def release(self, id: str) -> LibraryEntry:
        return self._listed("releases", id)

    def folder(self, id: str) -> LibraryEntry:
        return self._listed("folders", id)

    def _listed(self, kind: str, id: str) -> LibraryEntry:
        """By the last look at the folder, or a new one; where it leads is looked at every time."""
        known: dict[str, LibraryEntry] = {} if self._last is None else getattr(self._last, kind)
        return self._found(known if id in known else getattr(self.scan(), kind), id)

    def config(self, id: str) -> LibraryEntry:
        return self._found({each.id: each for each in self.configs()}, id)

    def configs(self) -> list[LibraryEntry]:
        """Training files: every YAML file under the root."""
        found = []
        for place, folders, files in os.walk(self.root):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            for name in sorted(files):
                path = Path(place, name)
                if name.endswith((".yaml", ".yml")) and path.is_file():
                    entry = self._entry(path, "config")
                    found += [] if entry is None else [entry]
        return found

    def ledgers(self) -> Iterator[tuple[str, str]]:
        """Id and place of the ledger that the operator named in the environment, and of those under the root."""
        if named := os.environ.get("SFUMATO_LEDGER"):
            yield _id(named), named
        for place, folders, files in os.walk(self.root):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            for path in (Path(place, name) for name in sorted(files)):
                regular = path.is_file() and not path.is_symlink()
                if path.suffix in (".db", ".sqlite") and regular and _is_sqlite(path):
                    yield self.id_of(path), str(path)

    def ledger(self, id: str) -> str:
        for known, place in self.ledgers():
            if known == id:
                return place
        raise NotThereError("Expected a ledger that the studio shows, got an unknown id.")

    def note_release(self, release: Path, recording: Path) -> None:
        """Remember, for the owner only, of which recording a release was made."""
        write_text(
            self.kept("origins", self.id_of(release)),
            f"{self.id_of(recording)}\n",
            force=True,
            private=True,
        )

    def _found(self, known: dict[str, LibraryEntry], id: str) -> LibraryEntry:
        if id not in known:
            raise NotThereError("Expected something that the library shows, got an unknown id.")
        if not self.inside(known[id].name).exists():
            raise NotThereError("Expected a file that is still there, found it gone.")
        return known[id]

    def _entry(self, path: Path, kind: str) -> LibraryEntry | None:
        name = path.relative_to(self.root).as_posix()
        try:
            self.inside(name)
            name.encode()
        except (NotThereError, UnicodeEncodeError, OSError):
            return None
        return LibraryEntry(_id(name), name, kind, path)

    def _folders(self, entries: Iterable[LibraryEntry]) -> dict[str, LibraryEntry]:
        names = {each.folder for each in entries}
        names |= {above for name in names for above in _above(name)}
        made = (
            LibraryEntry(_id(f"{name}/"), name, "folder", self.root / name)
            for name in sorted(names)
        )
        return {each.id: each for each in made}

    def _origins(
        self, releases: Iterable[LibraryEntry], recordings: dict[str, LibraryEntry]
    ) -> dict[str, str]:
        by_path = {str(each.path): id for id, each in recordings.items()}
        named: dict[Path, dict[str, str]] = {}
        found = {}
        for release in releases:
            note = self.state / "origins" / release.id
            origin = note.read_text().strip() if note.is_file() else ""
            folder = release.path.parent
            if not origin and name_list(folder).is_file():
                if folder not in named:
                    named[folder] = names_of(folder)
                origin = by_path.get(named[folder].get(release.path.name, ""), "")
            if origin in recordings:
                found[release.id] = origin
        return found


def _id(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:24]


def _is_sqlite(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _above(name: str) -> Iterator[str]:
    while name:
        name = name.rpartition("/")[0]
        yield name


def _card(path: Path) -> Card | None:
    if not card_path(path).is_file():
        return None
    try:
        return read_card(path)
    except (CardError, MediaError):
        return None
