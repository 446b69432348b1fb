"""Budgets: the ledgers under the root, and the one that the operator named in the environment."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sfumato.errors import SfumatoError
from sfumato.studio._answers import answered, in_thread
from sfumato.studio._library import Library, NotThereError
from sfumato.studio._studio import studio_of

_SQLITE = b"SQLite format 3\0"


def routes() -> list[Route]:
    return [Route("/api/ledger", answered(ledger))]


async def ledger(request: Request) -> Response:
    return JSONResponse(await in_thread(_statements, studio_of(request).library))


def ledger_path(library: Library, id: str) -> str:
    for known, place in _ledgers(library):
        if known == id:
            return place
    raise NotThereError("Expected a ledger that the studio shows, got an unknown id.")


def _ledgers(library: Library) -> Iterator[tuple[str, str]]:
    named = os.environ.get("SFUMATO_LEDGER")
    if named:
        yield hashlib.sha256(named.encode()).hexdigest()[:24], named
    for place, folders, files in os.walk(library.root):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(files):
            path = Path(place, name)
            if path.suffix in (".db", ".sqlite") and not path.is_symlink() and _is_sqlite(path):
                yield library.id_of(path), str(path)


def _is_sqlite(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _statements(library: Library) -> list[dict[str, Any]]:
    from sfumato.ledger import Ledger

    found = []
    for id, place in _ledgers(library):
        try:
            book = Ledger.open(place)
            statements = book.list()
            histories = {each.dataset: book.history(each.dataset) for each in statements}
        except SfumatoError:
            continue  # a database of something else
        found += [
            {
                "id": id,
                "dataset": each.dataset,
                "owner": each.budget.owner,
                "unit": str(each.budget.unit),
                "relation": each.budget.relation.value,
                "terms": each.budget.terms,
                "words": str(each),
                "sentences": list(each.sentences()),
                "share": each.used,
                "withoutGuarantee": len(each.without_guarantee),
                "history": [row.in_words() for row in histories[each.dataset]],
            }
            for each in statements
        ]
    return found
