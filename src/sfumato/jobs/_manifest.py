"""What a folder job has published, so that it can go on after a stop.

A line is written before the outputs of an item are moved into place and names their digests. What
counts as finished is then judged by the files themselves: a crash at any point leaves either all of
an item or something that is seen to be incomplete. The first line holds the random id of the run,
under which a ledger reserves (R20). The manifest names inputs and their digests, so it is for the
owner only (mode 0600) and never lies in the release (R14).

In memory there is only where each item's last line begins: a job may have millions of items.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

from sfumato.files import NO_FOLLOW, for_owner_only, lock_file, sha256
from sfumato.jobs._release_folder import beside
from sfumato.media import MediaError
from sfumato.privacy import new_run_id

_VERSION = 2
_KIND = "sfumato job manifest"


@dataclass(frozen=True, slots=True)
class Published:
    """One item: digests of its source, of the settings and of every output (relative names).

    ``staged`` is where its outputs lay before they were moved, seen from beside the release.
    """

    source: str
    digest: str
    settings: str
    outputs: dict[str, str] = field(default_factory=dict)
    main: str = ""
    result: Any = None
    staged: str = ""

    def state(self, out_dir: Path) -> str:
        """``whole``, ``missing`` (some output is not there) or ``changed`` (not as we wrote it)."""
        missing = False
        for name, digest in self.outputs.items():
            file = out_dir / name
            if not file.is_file():
                missing = True
            elif sha256(file) != digest:
                return "changed"
        return "missing" if missing or not self.outputs else "whole"

    def to_json(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def content(self) -> str | None:
        """The digest of the decoded recording, where the work gave one."""
        return self.result.get("content") if isinstance(self.result, dict) else None


def name_list(release: Path) -> Path:
    """Where a folder job keeps, for its owner alone, which output is which source."""
    return beside(release, ".job.jsonl")


def names_of(release: Path) -> dict[str, str]:
    """Output -> source of everything that a folder job released into ``release``, by output."""
    path = name_list(release)
    if not path.is_file():
        raise MediaError(
            f"Expected the private name list {path.name!r} beside the released folder, found none: "
            "name a folder that sfumato protect FOLDER OUT wrote, where it wrote it."
        )
    manifest = Manifest(path)
    manifest.read()
    return dict(sorted((item.main, item.source) for item in manifest.published()))


def note_rewritten(release: Path, paths: Iterable[Path]) -> None:
    """Cards of a released folder say more now: a job that goes on must take them for its own.

    Does nothing where no job keeps a list.
    """
    record = name_list(release)
    if not record.is_file():
        return
    names = {os.path.relpath(path, release).replace(os.sep, "/"): path for path in paths}
    with Manifest(record) as manifest:
        for item in list(manifest.published()):
            changed = {name: sha256(names[name]) for name in item.outputs if name in names}
            if changed:
                manifest.add([replace(item, outputs=item.outputs | changed)])


class Manifest:
    """The open manifest of one job; a second job on the same folder is refused.

    A file of somebody else at its place is refused and left as it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: dict[int, int] = {}  # of a source, the beginning of its line
        self._by_digest: dict[int, int] = {}
        self._contents: dict[str, str] = {}
        self._file: int | None = None
        self._end = 0
        self.run = ""
        self.kept: Any = None
        self.closed = False

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | NO_FOLLOW
        try:
            self._file = os.open(self.path, flags, 0o600)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EISDIR):  # a link or a folder in its place
                raise
            raise self._unreadable() from None
        try:
            lock_file(self._file)
            self._load()
            for_owner_only(self._file)
        except BlockingIOError:
            self._close()
            raise MediaError(
                "Expected one job at a time for this output folder, another one is running: "
                "wait for it or choose another folder."
            ) from None
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *raised: Any) -> None:
        self._close()

    def _close(self) -> None:
        assert self._file is not None
        os.close(self._file)
        self._file = None

    def __len__(self) -> int:
        return len(self._lines)

    def get(self, source: str) -> Published | None:
        """What was published of a source."""
        place = self._lines.get(_short(source))
        return None if place is None else self._at(place)

    def published(self) -> Iterator[Published]:
        """Everything that was published, read from the file as it is asked for."""
        return map(self._at, list(self._lines.values()))

    def add(self, items: Sequence[Published]) -> None:
        """Record items, durably and by one write, before any of their outputs is moved."""
        places = self._append(*({"item": item.to_json()} for item in items))
        for item, place in zip(items, places, strict=True):
            self._remember(item, place)

    def withdraw(self, source: str) -> None:
        """Take back an item whose output could not be moved: nobody has seen it."""
        self._append({"withdrawn": source})
        del self._lines[_short(source)]

    def twin(self, source: str, digest: str, content: str | None) -> Published | None:
        """An item published from another source with the same bytes or the same decoded content."""
        for known in (digest, self._contents.get(digest), content):
            place = self._by_digest.get(_short(known or ""))
            other = None if place is None else self.get(self._at(place).source)
            if (
                other is not None
                and other.source != source
                and known in (other.digest, other.content)
            ):
                return other
        return None

    def note_content(self, digest: str, content: str) -> None:
        """Record what a file that was left out holds, so that it is not decoded, nor paid for, again."""
        if self._contents.get(digest) != content:
            self._append({"content": content, "digest": digest})
            self._contents[digest] = content

    def _remember(self, item: Published, place: int) -> None:
        self._lines[_short(item.source)] = place
        for digest in (item.digest, item.content):
            if digest:
                self._by_digest[_short(digest)] = place

    def close_run(self) -> None:
        """Record that everything of this run was let go and its reservation committed."""
        if not self.closed:
            self._append({"closed": self.run})
            self.closed = True

    def keep(self, note: Any) -> None:
        """Record, durably, what this run reserves, before it does."""
        self._append({"kept": note})
        self.kept = note

    def begin_run(self) -> None:
        """A run with an id of its own: what it draws is reserved anew."""
        run = new_run_id()
        self._append({"sfumato": _KIND, "version": _VERSION, "run": run})
        self.run, self.kept, self.closed = run, None, False

    def _append(self, *lines: dict[str, Any]) -> list[int]:
        """Write lines and wait until they are on the disk; where each begins."""
        assert self._file is not None
        texts = [_text(line) for line in lines]
        places = [self._end + each for each in accumulate(map(len, texts), initial=0)]
        data = b"".join(texts)
        try:
            while data:
                data = data[os.write(self._file, data) :]
            os.fsync(self._file)
        except OSError:  # half a line would join the next one
            os.ftruncate(self._file, self._end)
            raise
        self._end = places.pop()
        return places

    def _load(self) -> None:
        assert self._file is not None
        self._end = self.read()
        if not self._end:
            self.begin_run()
        else:
            # after a stop in the middle of a write: that item was not moved yet
            os.ftruncate(self._file, self._end)

    def read(self) -> int:
        """Take in what is written, without a lock and without a change; the bytes of whole lines."""
        whole = 0
        with open(self.path, "rb") as lines:
            for line in lines:
                if whole and not line.endswith(b"\n"):
                    break
                self._read_line(line, whole)
                if not self.run:
                    raise self._unreadable()
                whole += len(line)
        return whole

    def _at(self, place: int) -> Published:
        with open(self.path, "rb") as lines:
            lines.seek(place)
            return Published(**json.loads(lines.readline())["item"])

    def _read_line(self, text: bytes, place: int) -> None:
        try:
            match json.loads(text):
                case {"sfumato": kind, "version": version, "run": str(run)}:
                    if (kind, version) != (_KIND, _VERSION):
                        raise self._unreadable()
                    self.run, self.kept, self.closed = run, None, False
                case {"kept": note} if self.run:
                    self.kept = note
                case {"item": dict(entry)} if self.run:
                    self._remember(Published(**entry), place)
                case {"withdrawn": str(source)} if self.run:
                    del self._lines[_short(source)]
                case {"content": str(content), "digest": str(digest)} if self.run:
                    self._contents[digest] = content
                case {"closed": str(run)} if run == self.run:
                    self.closed = True
                case _:
                    raise self._unreadable()
        except (ValueError, TypeError, KeyError):
            raise self._unreadable() from None

    def _unreadable(self) -> MediaError:
        return MediaError(
            f"Expected a job manifest of version {_VERSION} beside the output folder, got "
            "something else at its place, which was left as it is: move it away, or choose another "
            "output folder."
        )


def _text(line: dict[str, Any]) -> bytes:
    return json.dumps(line, sort_keys=True, allow_nan=False).encode() + b"\n"


def _short(text: str) -> int:
    """Sixteen bytes that stand for a path or a digest: two of them are never the same by chance."""
    whole = hashlib.blake2b(os.fsencode(text), digest_size=16).digest()
    return int.from_bytes(whole, "little")
