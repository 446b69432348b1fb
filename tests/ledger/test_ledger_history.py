"""Every release with who, when, why and what; and ledgers that were written before there was one."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sfumato.ledger import Export, KeyConflictError, Ledger, LedgerError, history_as_csv
from sfumato.privacy import Guarantee, NoGuarantee
from sfumato.report import history_page

BEFORE = Path(__file__).parent / "ledgers_written_before"
DIGEST = "ab" * 32
Promise = Callable[..., Guarantee]


def test_a_release_tells_who_when_why_and_what(ledger: Ledger, promise: Promise) -> None:
    ledger.reserve("gym", promise(), key="k", operator="ada", purpose="gait study")
    (open_,) = ledger.history("gym")
    assert (open_.state, open_.release.outputs) == ("reserved, not released", ())
    ledger.commit("k")
    ledger.record_outputs("k", [("b.mp4", DIGEST), ("a.mp4", DIGEST)])
    (row,) = ledger.history()
    held = row.release
    assert (held.operator, held.purpose, row.state) == ("ada", "gait study", "released")
    assert [each.name for each in held.outputs] == ["a.mp4", "b.mp4"]
    assert held.committed_at is not None
    assert held.at <= held.committed_at
    assert row.to_json()["outputs"][0] == {"name": "a.mp4", "sha256": DIGEST}
    assert ledger.verify().count == 4


def test_the_total_grows_by_composition_and_not_by_addition(
    ledger: Ledger, promise: Promise
) -> None:
    for number in range(3):
        ledger.reserve("gym", promise(), key=f"k{number}")
    blur = NoGuarantee(mechanism="blur", reason="A blur can be undone.")
    ledger.reserve("gym", blur, key="blur", acknowledge_no_guarantee=True)
    rows = ledger.history("gym")
    assert [row.release.key for row in rows] == ["k0", "k1", "k2", "blur"]
    alone, *_, last = (row.alone for row in rows)
    assert last is None
    assert alone is not None
    totals = [row.total for row in rows]
    assert alone == totals[0] < totals[1] < totals[2] == totals[3]
    assert totals[2] < 3 * alone
    assert totals[-1] == ledger.show("gym").spent_epsilon


def test_outputs_are_named_once_and_only_of_what_was_let_go(
    ledger: Ledger, promise: Promise
) -> None:
    ledger.reserve("gym", promise(), key="k")
    with pytest.raises(LedgerError, match="only reserved"):
        ledger.record_outputs("k", [("a.mp4", DIGEST)])
    ledger.commit("k", output_digest=DIGEST)
    ledger.record_outputs("k", [("a.mp4", DIGEST)])
    count = ledger.export().count
    ledger.record_outputs("k", [("a.mp4", DIGEST)])
    assert ledger.export().count == count
    with pytest.raises(KeyConflictError, match="already names other outputs"):
        ledger.record_outputs("k", [("b.mp4", DIGEST)])
    for wrong in (("patients/a.mp4", DIGEST), ("a.mp4", "no digest"), ("a\x1b[2J", DIGEST)):
        with pytest.raises(LedgerError, match="Expected"):
            ledger.record_outputs("k", [wrong])


def test_a_ledger_written_before_opens_verifies_and_goes_on(
    tmp_path: Path, promise: Promise
) -> None:
    book = shutil.copy(BEFORE / "7afca3e.db", tmp_path / "old.db")
    earlier = Export.from_json(json.loads((BEFORE / "7afca3e.export.json").read_text()))
    ledger = Ledger.open(book)
    assert ledger.verify(count=earlier.count, head=earlier.head) == earlier
    rows = ledger.history("gym")
    assert [row.release.key for row in rows] == ["week 1", "open", "blurred"]
    assert {(row.release.operator, row.release.purpose) for row in rows} == {(None, None)}
    assert [(each.name, each.sha256) for each in rows[0].release.outputs] == [(None, DIGEST)]
    assert all(row.release.at.startswith("2026-") for row in rows)
    # it goes on: what was open is released, what is new says more, and nothing old has changed
    ledger.commit("open")
    ledger.record_outputs("week 1", [("mean.csv", DIGEST)])
    ledger.reserve("gym", promise(20.0), key="new", records="b", operator="ada", purpose="more")
    assert ledger.verify(count=earlier.count, head=earlier.head).count == earlier.count + 3
    assert ledger.history("gym")[0].release.outputs[0].name == "mean.csv"


def test_an_export_is_json_throughout_and_reads_back(ledger: Ledger, promise: Promise) -> None:
    ledger.reserve("gym", promise(), key="k", purpose="größe = 3")
    chain = json.loads(json.dumps(ledger.export().to_json()))
    assert chain["version"] == 2
    body = chain["entries"][1]["body"]
    assert (body["purpose"], body["promise"]["mechanism"]) == ("größe = 3", "a noisy sum")
    assert Export.from_json(chain) == ledger.export()


def test_a_spreadsheet_gets_no_formulas(ledger: Ledger, promise: Promise) -> None:
    ledger.reserve("gym", promise(), key="k", purpose='=HYPERLINK("x","y")', operator="+ada")
    ledger.commit("k")
    ledger.record_outputs("k", [("a, b.mp4", DIGEST)])
    head, row = csv.reader(io.StringIO(history_as_csv(ledger.history())))
    told = dict(zip(head, row, strict=True))
    assert told["purpose"] == '\'=HYPERLINK("x","y")'
    assert told["operator"] == "'+ada"
    assert (told["outputs"], told["sha256"]) == ("a, b.mp4", DIGEST)
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)


def test_the_page_loads_nothing_and_runs_nothing(ledger: Ledger, promise: Promise) -> None:
    evil = "<script>alert(1)</script>"
    ledger.reserve("gym", promise(mechanism=evil), key=evil, operator=evil, purpose=evil)
    page = history_page(ledger.history())
    assert evil not in page
    assert page.count("&lt;script&gt;") == 4
    for loads in ("<script", "http:", "https:", "url(", "@import", "<link", " src="):
        assert loads not in page
    assert "default-src 'none'" in page


def test_no_epsilon_of_the_history_stands_without_its_terms(
    ledger: Ledger, promise: Promise
) -> None:
    ledger.reserve("gym", promise(), key="k")
    (row,) = ledger.history()
    budget = ledger.show("gym").budget
    for part in (str(budget.unit), budget.relation.value, f"delta {budget.delta:g}", "pld"):
        assert part in row.terms
    assert row.to_json()["terms"] == row.terms
    assert row.terms in history_as_csv([row])
    assert row.terms in history_page([row])
