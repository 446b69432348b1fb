"""``sfumato ledger``: budgets of data sets, and everything ever released about them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sfumato import files
from sfumato.cli._output import emit
from sfumato.cli._verb import verb, verbs
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.ledger import Export, HistoryRow, Ledger, Statement
    from sfumato.privacy import Guarantee, NoGuarantee

app = verbs(
    "Budgets of data sets: what may still be learned about them, and what has been.",
    "sfumato ledger create films --owner 'gait lab' --epsilon 8 --delta 1e-5 "
    "--unit 'pixels(16, frames=1)' --relation replace",
    "sfumato ledger show films",
    "sfumato protect in.mp4 out.mp4 --ledger book.db --dataset films",
    no_args_is_help=True,
)

DATASET = typer.Argument(help="The data set's name.", metavar="DATASET")
_OUTPUTS_SHOWN = 3
KEY = typer.Option(..., "--key", help="The job's own name: the same job resumed uses it again.")
GUARANTEE = typer.Option(
    ...,
    "--guarantee",
    "--card",
    help="JSON file with what the release promises: a guarantee, or a privacy card with one.",
)


@verb(
    app,
    "sfumato ledger create films --owner lab --epsilon 8 --delta 1e-5 --unit record "
    "--relation replace",
)
def create(
    dataset: str = DATASET,
    owner: str = typer.Option(..., help="Who answers for the data."),
    epsilon: float = typer.Option(..., help="Limit for everything together; inf only counts."),
    delta: float = typer.Option(..., help="The delta at which epsilon is meant."),
    unit: str = typer.Option(..., help="What is protected: person, record, clip, ..."),
    relation: str = typer.Option(..., help="add-remove, replace or zero-out."),
    shard: list[str] = typer.Option(
        [], help="A part of the data; no unit may have data in two of them. Repeat for each."
    ),
    *,
    book: str,
    as_json: bool,
) -> None:
    """Enter DATASET with its owner and budget; neither can be changed later."""
    statement = _open(book).create(
        dataset,
        owner=owner,
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        relation=relation,
        shards=tuple(shard),
    )
    _emit_statement(as_json, statement)


@verb(
    app,
    "sfumato ledger show films --ledger book.db",
)
def show(dataset: str = DATASET, *, book: str, as_json: bool) -> None:
    """What DATASET's budget was, what is spent and what is left."""
    _emit_statement(as_json, _open(book).show(dataset))


@verb(
    app,
    "sfumato ledger reserve films --card out.mp4.card.json --key spring --dry-run",
)
def reserve(
    dataset: str = DATASET,
    guarantee: Path = GUARANTEE,
    key: str = KEY,
    records: list[str] = typer.Option(
        ["all"], help="The declared shard that is touched, or all. Repeat for several."
    ),
    *,
    purpose: str | None,
    operator: str | None,
    acknowledge_no_guarantee: bool,
    book: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Count a release against DATASET's budget before any noise is drawn, or refuse it."""
    from sfumato.ledger import operator_name

    opened, promise = _open(book), _read_promise(guarantee)
    if dry_run:
        preview = opened.preview(
            dataset,
            promise,
            records=records,
            acknowledge_no_guarantee=acknowledge_no_guarantee,
        )
        if preview.refusal is not None:
            raise SfumatoError(preview.refusal)
        payload = {"dry_run": True, "fits": True}
        emit(as_json, payload, "[green]It fits.[/] Nothing was recorded (--dry-run).")
        return
    held = opened.reserve(
        dataset,
        promise,
        key=key,
        records=records,
        acknowledge_no_guarantee=acknowledge_no_guarantee,
        operator=operator_name(operator),
        purpose=purpose,
    )
    outside = "" if held.guaranteed else " [red]It has no guarantee: no budget covers it.[/]"
    _emit_statement(
        as_json,
        opened.show(dataset),
        f"[green]Reserved[/] {escape(held.mechanism)} as {escape(key)} "
        f"(entry {held.entry}).{outside} Commit it when the output is released.",
        reservation=held.to_json(),
    )


@verb(
    app,
    "sfumato ledger commit films --key spring --output out.mp4",
)
def commit(
    dataset: str = DATASET,
    key: str = KEY,
    output: Path | None = typer.Option(
        None, help="What was released; name and digest are recorded."
    ),
    *,
    book: str,
    as_json: bool,
) -> None:
    """Record that the release reserved under KEY was released, and which file that was."""
    from sfumato.privacy import Output

    named = None if output is None else Output.of(output)
    opened = _open(book)
    held = opened.commit(
        key, dataset=dataset, output_digest=None if named is None else named.sha256
    )
    if named is not None:
        held = opened.record_outputs(key, [(named.name, named.sha256)], dataset=dataset)
    words = f"[green]Committed[/] {escape(held.mechanism)} ({escape(key)} of {escape(dataset)})."
    emit(as_json, {"reservation": held.to_json()}, words)


@verb(app, "sfumato ledger list --ledger book.db", name="list")
def list_(*, book: str, as_json: bool) -> None:
    """All data sets with what is left of their budgets."""
    from sfumato.ledger import ACCOUNTANT

    statements = _open(book).list()
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("data set", "spent of epsilon", "", "for"):
        table.add_column(title, overflow="fold")
    for each in statements:
        budget = each.budget
        table.add_row(
            f"[bold]{escape(each.dataset)}[/]\n[dim]{escape(budget.owner)}[/]",
            f"{_epsilon(each.spent_epsilon)} of {_epsilon(budget.epsilon)}\n"
            f"[dim]delta {budget.delta:g}[/]",
            _bar(each, 8),
            f"{escape(str(budget.unit))}\n[dim]{budget.relation.value}, {ACCOUNTANT}[/]",
        )
    emit(as_json, {"datasets": [each.to_json() for each in statements]}, table)


@verb(
    app,
    "sfumato ledger history films",
    "sfumato ledger history -o history.html",
    "sfumato ledger history -o history.csv",
)
def history(
    dataset: str | None = typer.Argument(None, help="One data set; else all.", metavar="DATASET"),
    output: Path | None = typer.Option(
        None, "-o", "--output", help="Write it there instead: .html, .csv or .json."
    ),
    *,
    book: str,
    force: bool,
    as_json: bool,
) -> None:
    """Every release: when, by whom, what for, at what price, and which files went out."""
    rows = _open(book).history(dataset)
    payload = {"releases": [row.to_json() for row in rows]}
    if output is not None:
        _write_history(output, rows, payload, force=force)
        emit(
            as_json,
            {"history": output.name, "count": len(rows)},
            f"Wrote {escape(str(output))}: {len(rows)} releases, with the names of their operators.",
        )
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("release", "epsilon", "what for, by whom", "outputs"):
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*_history_cells(row))
        table.add_row()
    terms = Table.grid()
    for line in dict.fromkeys(
        f"Epsilons of {each.release.dataset}: {each.terms}." for each in rows
    ):
        terms.add_row(escape(line))
    emit(as_json, payload, *([table, terms] if rows else ["Nothing was released yet."]))


def _history_cells(row: HistoryRow) -> tuple[str, ...]:
    """Four narrow columns: what a terminal has room for. The files have every column."""
    held = row.release
    alone = "[red]no guarantee[/]" if row.alone is None else _epsilon(row.alone)
    shown = [
        f"{escape(each.name or '(not named)')} [dim]{each.sha256[:8]}[/]"
        for each in held.outputs[:_OUTPUTS_SHOWN]
    ]
    if (more := len(held.outputs) - _OUTPUTS_SHOWN) > 0:
        shown.append(f"and {more} more")
    return (
        f"[bold]{escape(held.dataset)}[/] {held.at[:10]}\n{escape(held.mechanism)}\n"
        f"[dim]{escape(held.key)}[/]",
        f"{alone}\n[dim]total {_epsilon(row.total)}[/]",
        f"{escape(held.purpose or '(not said)')}\n[dim]{escape(held.operator or '(not said)')}[/]",
        "\n".join(shown)
        or ("(not named)" if held.committed else "[cyan]reserved, not released[/]"),
    )


def _write_history(output: Path, rows: Any, payload: Any, *, force: bool) -> None:
    from sfumato.ledger import history_as_csv

    match output.suffix.lower():
        case ".csv":
            files.write_text(output, history_as_csv(rows), force=force)
        case ".json":
            files.write_json(output, payload, force=force)
        case ".html":
            from sfumato.report import history_page

            files.write_text(output, history_page(rows), force=force)
        case other:
            raise SfumatoError(
                f"Expected a history as .html, .csv or .json, got {other or 'no ending'}: rename it."
            )


@verb(
    app,
    "sfumato ledger export -o chain.json",
)
def export(
    output: Path | None = typer.Option(
        None, "-o", "--output", help="Write the chain to this file."
    ),
    *,
    book: str,
    force: bool,
    as_json: bool,
) -> None:
    """Every entry as JSON with count and head; without -o, only these two."""
    chain = _open(book).export()
    if output is not None:
        files.write_json(output, chain.to_json(), force=force)
    payload = {"count": chain.count, "head": chain.head}
    if output is None and as_json:
        payload = chain.to_json()
    emit(
        as_json,
        payload,
        f"{chain.count} entries, head {chain.head}",
        "Keep both where whoever writes to the ledger cannot reach: they show if it was cut.",
    )


@verb(
    app,
    "sfumato ledger verify --against chain.json",
)
def verify(
    against: Path | None = typer.Option(None, help="An earlier export that must still be there."),
    count: int | None = typer.Option(None, help="An earlier count, with --head."),
    head: str | None = typer.Option(None, help="An earlier head, with --count."),
    *,
    book: str,
    as_json: bool,
) -> None:
    """Check every link of the chain, and that nothing noted earlier is gone."""
    if against is not None:
        if count is not None or head is not None:
            raise SfumatoError("Expected --against or --count and --head, got both.")
        earlier = _read_export(against)
        count, head = earlier.count, earlier.head
    chain = _open(book).verify(count=count, head=head)
    words = f"[green]Sound:[/] {chain.count} entries, head {chain.head}."
    if count is None:
        words += " Whether the end was cut off only an earlier export can show (--against)."
    else:
        words += f" The {count} entries noted earlier are all there, unchanged."
    emit(as_json, {"sound": True, "count": chain.count, "head": chain.head}, words)


def _open(target: str) -> Ledger:
    from sfumato.ledger import Ledger

    return Ledger.open(target)


def _emit_statement(as_json: bool, statement: Statement, *first: str, **more: Any) -> None:
    emit(
        as_json,
        {**statement.to_json(), **more},
        *first,
        _bar(statement, 40),
        *map(escape, statement.sentences()),
    )


def _bar(statement: Statement, width: int) -> Text:
    committed, pending, left = statement.segments(width)
    bar = Text()
    bar.append("█" * committed, style="red" if statement.used >= 0.9 else "yellow")
    bar.append("▒" * pending, style="cyan")
    bar.append("░" * left, style="green")
    used = math.ceil(100 * statement.used - 1e-9)
    bar.append(f" {used} %" if statement.budget.finite else " no limit")
    if statement.without_guarantee:
        bar.append(f" + {len(statement.without_guarantee)} without guarantee", style="bold red")
    return bar


def _epsilon(value: float) -> str:
    from sfumato.privacy import format_epsilon

    return "no limit" if math.isinf(value) else format_epsilon(value)


def _read_json(path: Path, what: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise SfumatoError(f"Expected {what} at {str(path)!r}, which cannot be read.") from None
    except (ValueError, RecursionError):
        raise SfumatoError(f"Expected {what} at {str(path)!r}, got no JSON.") from None


def _read_promise(path: Path) -> Guarantee | NoGuarantee:
    """A guarantee, or whatever JSON object carries one (a card, the output of ``account``)."""
    from sfumato.privacy import promise_from_json

    value = _read_json(path, "a guarantee or a privacy card")
    for name in ("promise", "guarantee"):
        if isinstance(value, dict) and isinstance(value.get(name), dict):
            value = value[name]
    return promise_from_json(value)


def _read_export(path: Path) -> Export:
    from sfumato.ledger import Export

    return Export.from_json(_read_json(path, "an export of a ledger"))
