"""The ledger's history as a page of its own; the report shows the same table."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato import __version__
from sfumato.ledger import HistoryRow
from sfumato.report._templates import environment


def history_page(rows: Sequence[HistoryRow]) -> str:
    """One self-contained HTML file; nothing that somebody typed into the ledger can run in it."""
    return environment().get_template("history.html").render(rows=rows, version=__version__)
