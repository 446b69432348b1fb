"""The entry point: finds the verb, runs it, and turns every error into one sentence."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import typer
import typer.core

from sfumato import __version__
from sfumato.errors import SfumatoError, refusal

# verb -> (module in this package, one line). A verb's module is imported only when it is used.
VERBS: dict[str, tuple[str, str]] = {
    "account": ("account", "Epsilon, noise or what a paper's setting really gives."),
    "audit": ("audit", "Attack a promise or an output, and show what it got."),
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
    """Run the command line."""
    run(app)


def run(command: Callable[[], Any]) -> None:
    """Run a command; no traceback reaches the user (SFUMATO_TRACEBACK=1 shows it)."""
    _prepare_streams()
    try:
        _refuse_empty_words(sys.argv[1:])
        try:
            with _ending_cleanly():
                command()
        finally:
            sys.stdout.flush()
    except _TerminatedError as ended:
        _fail("Terminated: nothing unfinished was left behind.", code=ended.code)
    except SfumatoError as error:
        if error.__cause__ is not None and os.environ.get("SFUMATO_TRACEBACK"):
            raise
        _fail(str(error))
    except KeyboardInterrupt:
        _fail("Interrupted: nothing unfinished was left behind.", code=130)
    except BrokenPipeError:
        _drop_output()
        raise SystemExit(FAILED) from None
    except Exception as error:
        if os.environ.get("SFUMATO_TRACEBACK"):
            raise
        if (refused := _refused(error)) is not None:
            _fail(refusal(refused, sys.argv[1:]))
        # The message may quote private content, so only the kind of error is shown.
        _fail(
            f"Unexpected {type(error).__name__}: this is a bug in sfumato. "
            "Set SFUMATO_TRACEBACK=1 to see where, and report it without private data."
        )


def _refused(error: Exception) -> OSError | MemoryError | None:
    """The error if it is the machine's, also where a library has no kind of its own for it."""
    if isinstance(error, OSError | MemoryError):
        return error
    if isinstance(error, RuntimeError) and "allocate memory" in str(error):  # torch
        return MemoryError()
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):  # pathlib
        return OSError(errno.ELOOP, "")
    return None


class _TerminatedError(SystemExit):
    """Ends the run like any error would, so that temporary folders and processes go first."""

    code: int


@contextmanager
def _ending_cleanly() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception; one that was ignored (nohup) stays ignored."""

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # what is being tidied up is not to be cut short
        raise _TerminatedError(128 + number)

    taken = [
        number
        for name in ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP
        if (number := getattr(signal, name, None)) is not None
        and signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _refuse_empty_words(words: list[str]) -> None:
    """An empty path would mean this folder; it comes from a variable that is not set."""
    for word in words:
        if not word or (word.startswith("--") and word.find("=") == len(word) - 1):
            raise SfumatoError(
                f"Expected every argument to say something, got an empty one ({word!r}): is a variable "
                "of your shell not set?"
            )


def _prepare_streams() -> None:
    """Printing never fails: a closed stream swallows, and what a terminal cannot show is escaped."""
    # None where the shell closed it, whatever the type says
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """What cannot be printed must not fail once more when the process ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(sentence: str, code: int = FAILED) -> None:
    words = f"sfumato: {sentence}"
    try:
        if "--json" in sys.argv[1:]:
            print(json.dumps({"ok": False, "error": sentence}), flush=True)
        else:
            print(words, file=sys.stderr)
    except OSError:  # a full disk under the output
        with suppress(OSError):
            print(words, file=sys.stderr)
    _drop_output()
    raise SystemExit(code)
