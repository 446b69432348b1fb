"""Budgets: the ledgers under the root, and the one that the operator named in the environment."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from sfumato.errors import SfumatoError
from sfumato.studio._answers import answered
from sfumato.studio._studio import studio_of


def routes() -> list[Route]:
    return [Route("/api/ledger", answered(ledger))]


def ledger(request: Request) -> list[dict[str, Any]]:
    from sfumato.ledger import Ledger

    found = []
    for id, place in studio_of(request).library.ledgers():
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
