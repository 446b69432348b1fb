"""The entry point: finds the verb, runs it, and turns every error into one sentence."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any

import typer
import typer.core

from sfumato import __version__
from sfumato.errors import SfumatoError

# verb -> (module in this package, one line). A verb's module is imported only when it is used.
VERBS: dict[str, tuple[str, str]] = {
    "account": ("account", "Epsilon, noise or what a paper's setting really gives."),
    "audit": ("audit", "Attack a promise or an output, and show what it got."),
    "bench": ("bench", "The papers' tables and the speed tables."),
    "demo": ("demo", "The main job end to end, on data it makes itself."),
    "ledger": ("ledger", "Budgets of data sets: create, show, reserve, commit, list, export."),
    "methods": ("methods", "Every method with its guarantee and its cost."),
    "models": ("models", "The model store: list and pull."),
    "stage": ("stage", "Synthetic recordings with full ground truth: make."),
    "predict": ("predict", "Draw the skeletons that a trained pose model finds."),
    "protect": ("protect", "Recordings that may be released, each with its privacy card."),
    "report": ("report", "One HTML page: promises, attacks, usefulness, gaps."),
    "train": ("train", "Train a model under a privacy plan."),
    "verify": ("verify", "Check that an output and its privacy card still agree."),
}

FAILED = 1
USAGE = 2


class _Verbs(typer.core.TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            return None
        module, summary = VERBS[cmd_name]
        if ctx.resilient_parsing or _only_listing():
            return typer.core.TyperCommand(cmd_name, help=summary)
        command = typer.main.get_command(import_module(f"sfumato.cli.{module}").app)
        command.name = cmd_name
        return command


def _only_listing() -> bool:
    """The top-level help needs summaries, not the modules behind them."""
    return len(sys.argv) <= 1 or sys.argv[1] in {"--help", "-h"}


app = typer.Typer(
    cls=_Verbs,
    name="sfumato",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Share recordings of people, or models trained on them, without giving the people away.",
)


def _show_version(value: bool) -> None:
    if value:
        print(f"sfumato {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", help="Show the version.", callback=_show_version, is_eager=True
    ),
) -> None:
    pass


def main() -> None:
    """Run the command line; no traceback reaches the user (SFUMATO_TRACEBACK=1 shows it)."""
    try:
        app()
    except SfumatoError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _fail("Interrupted: nothing unfinished was left behind.", code=130)
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(FAILED) from None
    except Exception as error:
        if os.environ.get("SFUMATO_TRACEBACK"):
            raise
        # The message may quote private content, so only the kind of error is shown.
        _fail(
            f"Unexpected {type(error).__name__}: this is a bug in sfumato. "
            "Set SFUMATO_TRACEBACK=1 to see where, and report it without private data."
        )


def _fail(sentence: str, code: int = FAILED) -> None:
    if "--json" in sys.argv[1:]:
        print(json.dumps({"ok": False, "error": sentence}))
    else:
        print(f"sfumato: {sentence}", file=sys.stderr)
    raise SystemExit(code)
