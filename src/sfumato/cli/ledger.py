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
    from sfumato.ledger import Export, Ledger, Statement
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
    acknowledge_no_guarantee: bool,
    book: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Count a release against DATASET's budget before any noise is drawn, or refuse it."""
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
    )
    outside = "" if held.guaranteed else " [red]It has no guarantee: no budget covers it.[/]"
    _emit_statement(
        as_json,
        opened.show(dataset),
        f"[green]Reserved[/] {escape(held.mechanism)} as {escape(key)} "
        f"(entry {held.entry}).{outside} Commit it when the output is let go.",
        reservation=held.to_json(),
    )


@verb(
    app,
    "sfumato ledger commit films --key spring --output out.mp4",
)
def commit(
    dataset: str = DATASET,
    key: str = KEY,
    output: Path | None = typer.Option(None, help="The released file; its digest is recorded."),
    *,
    book: str,
    as_json: bool,
) -> None:
    """Record that the release reserved under KEY was let go."""
    if output is not None and not output.is_file():
        raise SfumatoError(f"Expected a released file, found none at {str(output)!r}.")
    digest = None if output is None else files.sha256(output)
    held = _open(book).commit(key, dataset=dataset, output_digest=digest)
    words = f"[green]Committed[/] {escape(held.mechanism)} ({escape(key)} of {escape(dataset)})."
    emit(as_json, {"reservation": held.to_json()}, words)


@verb(app, "sfumato ledger list --ledger book.db", name="list")
def list_(*, book: str, as_json: bool) -> None:
    """All data sets with what is left of their budgets."""
    statements = _open(book).list()
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("data set", "owner", "epsilon", "delta", "unit", "relation", "spent"):
        table.add_column(title, no_wrap=True)
    for each in statements:
        budget = each.budget
        table.add_row(
            escape(each.dataset),
            escape(budget.owner),
            f"{_epsilon(each.spent_epsilon)} of {_epsilon(budget.epsilon)}",
            f"{budget.delta:g}",
            escape(str(budget.unit)),
            budget.relation.value,
            _bar(each, 12),
        )
    emit(as_json, {"datasets": [each.to_json() for each in statements]}, table)


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
    """Every entry with count and head; without -o, only these two."""
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
