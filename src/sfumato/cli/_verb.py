"""How a verb is declared: options that several verbs have stand here once, and nowhere else."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import typer

from sfumato.cli._help import BUDGET, EXPERT, OUTPUT, Verb, Verbs


def option(panel: str, *default_and_names: Any, **more: Any) -> Any:
    """An option of one verb, in its panel of the help."""
    return typer.Option(*default_and_names, rich_help_panel=panel, **more)


# A verb asks for one of these by naming a keyword-only parameter without default.
SHARED: dict[str, Any] = {
    "as_json": option(OUTPUT, False, "--json", help="Print one JSON object instead of words."),
    "force": option(OUTPUT, False, "--force", help="Replace outputs that are already there."),
    "dry_run": option(
        OUTPUT,
        False,
        "--dry-run",
        help="Say what would be done and what it proves; read nothing private.",
    ),
    "out": option(
        OUTPUT,
        None,
        "--out",
        "-o",
        help="NAME.measures.json for the report; by default beside the release.",
    ),
    "offline": typer.Option(
        False, "--offline", help="Download nothing; fail if a model is not there."
    ),
    "engine": option(
        EXPERT, "local", help="Where a folder is worked on: local, ray, or ray://HOST:10001."
    ),
    "device": option(EXPERT, None, help="auto, cpu, cuda, cuda:N or mps (cpu)."),
    "seed": option(EXPERT, None, help="For tests only: the result is not private."),
    "ledger": option(BUDGET, None, help="Ledger file or URL (or SFUMATO_LEDGER)."),
    "dataset": option(BUDGET, None, help="The data set's name in the ledger."),
    "key": option(BUDGET, None, help="A name for this release in the ledger (else a random one)."),
    "purpose": option(BUDGET, None, help="What this release is for; stands in the ledger."),
    "operator": option(
        BUDGET, None, help="Who releases, for the ledger alone (else your user name; - for nobody)."
    ),
    "acknowledge_no_guarantee": option(
        BUDGET,
        False,
        "--acknowledge-no-guarantee",
        help="Release against a finite budget although nothing is proven.",
    ),
    "book": option(
        BUDGET,
        "sfumato-ledger.db",
        "--ledger",
        help="A file, or postgresql://user@host/name (password: ~/.pgpass).",
        envvar="SFUMATO_LEDGER",
    ),
}
Function = TypeVar("Function", bound=Callable[..., None])


def verbs(help: str = "", *examples: str, **more: Any) -> typer.Typer:
    """The place of one verb, or of the commands below it."""
    return typer.Typer(
        cls=Verbs,
        help=help,
        epilog="\n".join(examples),
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **more,
    )


def verb(
    app: typer.Typer,
    *examples: str,
    name: str | None = None,
    help: str | None = None,
    hidden: bool = False,
) -> Callable[[Function], Function]:
    """Register a command with examples for its help and the shared options that it names."""

    def register(function: Function) -> Function:
        given = function.__kwdefaults__ or {}
        wanted = [
            each.name
            for each in inspect.signature(function).parameters.values()
            if each.kind is each.KEYWORD_ONLY and each.name not in given
        ]
        function.__kwdefaults__ = given | {each: SHARED[each] for each in wanted}
        app.command(name, cls=Verb, help=help, epilog="\n".join(examples), hidden=hidden)(function)
        return function

    return register
