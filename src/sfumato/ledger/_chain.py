"""Entries that only grow: each carries the SHA-256 of itself and of everything before it.

Whoever can write to the database can also rewrite the whole chain. What they cannot do is arrive at
a head that somebody else noted down: keep exports (or just count and head) where the writer cannot
reach them, and compare with :meth:`Export.check_holds`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from sfumato.ledger._errors import LedgerError, TamperedError

GENESIS = "0" * 64
EXPORT_TYPE = "sfumato-ledger"
EXPORT_VERSION = 2  # version 1 held each body as text inside the JSON


def canonical(value: Any) -> str:
    """The one spelling of a JSON value that is hashed: sorted keys, no blanks, ASCII, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. ``body`` is canonical JSON text; ``key`` is empty for ``create``."""

    number: int
    dataset: str
    kind: str
    key: str
    body: str
    previous: str
    digest: str

    @classmethod
    def after(
        cls, count: int, head: str, *, dataset: str, kind: str, key: str, body: Mapping[str, Any]
    ) -> Entry:
        """The entry that follows ``count`` entries ending in the digest ``head``."""
        text = canonical(body)
        made = cls(count + 1, dataset, kind, key, text, head, "")
        return cls(count + 1, dataset, kind, key, text, head, made.expected_digest())

    def expected_digest(self) -> str:
        content = {name: value for name, value in vars(self).items() if name != "digest"}
        return hashlib.sha256(canonical(content).encode("ascii")).hexdigest()

    def content(self) -> dict[str, Any]:
        """The body as JSON values."""
        try:
            value = json.loads(self.body)
        except ValueError:
            value = None
        if not isinstance(value, dict) or canonical(value) != self.body:
            raise TamperedError(
                f"Expected canonical JSON in entry {self.number} of the ledger, got something "
                "else: the entry was not written by sfumato."
            )
        return value


def check_follows(entry: Entry, count: int, head: str) -> None:
    """Raise unless ``entry`` is exactly the one after ``count`` entries ending in ``head``."""
    if entry.number != count + 1:
        raise TamperedError(
            f"Expected entry {count + 1} of the ledger, got entry {entry.number}: entries were "
            "removed, inserted or moved. Restore the ledger from a copy and compare exports."
        )
    if entry.previous != head:
        raise TamperedError(
            f"Entry {entry.number} of the ledger does not follow the entry before it: the history "
            "was changed. Restore the ledger from a copy and compare exports."
        )
    if entry.digest != entry.expected_digest():
        raise TamperedError(
            f"Entry {entry.number} of the ledger does not match its own digest: it was changed "
            "after it was written. Restore the ledger from a copy and compare exports."
        )


@dataclass(frozen=True)
class Export:
    """A whole chain with its count and head. Building one checks every link."""

    count: int
    head: str
    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        count, head = 0, GENESIS
        for entry in self.entries:
            check_follows(entry, count, head)
            count, head = entry.number, entry.digest
        if (count, head) != (self.count, self.head):
            raise TamperedError(
                f"Expected {self.count} entries ending in {self.head[:12]}..., got {count} ending "
                f"in {head[:12]}...: the end of the chain was cut off or replaced."
            )

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Export:
        held = tuple(entries)
        return cls(len(held), held[-1].digest if held else GENESIS, held)

    def check_holds(self, count: int, head: str) -> None:
        """Raise unless the first ``count`` entries end in ``head``.

        This is what shows a cut-off tail or a rewritten history to whoever noted both earlier.
        """
        if self.count < count:
            raise TamperedError(
                f"Expected at least {count} entries, got {self.count}: entries that were noted "
                "earlier are gone. Restore the ledger from a copy."
            )
        found = self.entries[count - 1].digest if count else GENESIS
        if found != head:
            raise TamperedError(
                f"Expected entry {count} to have the digest {head[:12]}... that was noted earlier, "
                f"got {found[:12]}...: the history was rewritten. Restore the ledger from a copy."
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "type": EXPORT_TYPE,
            "version": EXPORT_VERSION,
            "count": self.count,
            "head": self.head,
            "entries": [{**vars(entry), "body": entry.content()} for entry in self.entries],
        }

    @classmethod
    def from_json(cls, value: Any) -> Export:
        """Read an exported chain, of this version or the one before, and check every link."""
        expected = {"type", "version", "count", "head", "entries"}
        if not isinstance(value, Mapping) or value.get("type") != EXPORT_TYPE:
            raise LedgerError("Expected a file written by sfumato ledger export, got another one.")
        if set(value) != expected or value["version"] not in (1, EXPORT_VERSION):
            raise LedgerError(
                f"Expected an export of version 1 or {EXPORT_VERSION} with the fields "
                f"{sorted(expected)}, got version {value.get('version')!r} with {sorted(value)}."
            )
        names = {field.name for field in fields(Entry)}
        for entry in value["entries"]:
            if not isinstance(entry, Mapping) or set(entry) != names:
                raise TamperedError("An exported entry has missing or additional fields.")
        # what is hashed is the body's canonical text, whichever way the export spells it
        spelled = str if value["version"] == 1 else canonical
        try:
            entries = [
                Entry(**{**each, "body": spelled(each["body"])}) for each in value["entries"]
            ]
        except (TypeError, ValueError):  # not a number, or nested without end
            raise TamperedError("An exported entry holds what no ledger can hold.") from None
        return cls(value["count"], value["head"], tuple(entries))
