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
from functools import cache
from importlib import import_module
from typing import Any

import typer
import typer.core

from sfumato import __version__
from sfumato.cli._help import Verbs, argument_name
from sfumato.errors import SfumatoError, UsageMistakeError, did_you_mean, refusal

_SHARE, _TRAIN, _JUDGE = "Share recordings", "Train models", "Judge a release"
_LOOK = "Look around"
# verb -> (where it stands in the help, one line). A verb's module is imported only when it is used.
VERBS: dict[str, tuple[str, str]] = {
    "protect": (_SHARE, "Recordings that may be released, each with its privacy card."),
    "names": (_SHARE, "Which output of a folder is which source: for you alone."),
    "review": (_SHARE, "Look at frames of a release; its card says what was seen."),
    "verify": (_SHARE, "Check that an output and its privacy card still agree."),
    "studio": (_SHARE, "See, correct, release and sign off, in a browser."),
    "train": (_TRAIN, "Train a model under a privacy plan."),
    "tune": (_TRAIN, "The best of several trainings; epsilon covers the choice."),
    "account": (_TRAIN, "Epsilon, noise or what a paper's setting really gives."),
    "predict": (_TRAIN, "Draw the skeletons that a trained pose model finds."),
    "evaluate": (_TRAIN, "Score a trained pose model by its data set's measures."),
    "audit": (_JUDGE, "Attack a promise or an output, and show what it got."),
    "ledger": (_JUDGE, "Budgets of data sets: create, show, reserve, commit, list, export."),
    "report": (_JUDGE, "One HTML page: promises, attacks, usefulness, gaps."),
    "demo": (_LOOK, "The main job end to end, on data it makes itself."),
    "methods": (_LOOK, "Every method with its guarantee and its settings."),
    "models": (_LOOK, "The model store: list and pull."),
    "examples": (_LOOK, "Files to begin with, as they ship."),
    "schema": (_LOOK, "JSON schemas of training files and settings, for editors."),
    "stage": (_LOOK, "Synthetic recordings with full ground truth: make."),
}

FAILED = 1
USAGE = 2


@cache
def _command(verb: str) -> Any:
    """Built once a process: typer makes a validator of every option, and the tests call verbs often."""
    command = typer.main.get_command(import_module(f"sfumato.cli.{verb}").app)
    command.name = verb
    return command


class _Top(Verbs):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def listed(self, ctx: Any) -> list[tuple[str, str, str]]:
        return [(panel, name, summary) for name, (panel, summary) in VERBS.items()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _command(cmd_name) if cmd_name in VERBS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in VERBS and args[0].isidentifier():
            from sfumato.protect import names

            if args[0] in names():
                raise UsageMistakeError(
                    f"Expected a command of sfumato, got the method {args[0]}: did you mean sfumato "
                    f"protect in.mp4 out.mp4 --method {args[0]}?"
                )
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **more: Any) -> Any:
        """As typer runs it, but mistakes in the words become sentences like all others."""
        try:
            code = super().main(*args, **{**more, "prog_name": "sfumato", "standalone_mode": False})
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise
            raise UsageMistakeError(_mistake(error)) from None
        raise SystemExit(code if isinstance(code, int) else 0)


def _mistake(error: Any) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "sfumato"
    option = getattr(error, "option_name", None)
    if option and context is not None:
        known = [name for each in context.command.get_params(context) for name in each.opts]
        near = did_you_mean(option, [name for name in known if name.startswith("--")])
        return f"Expected an option of {path}, got {option}{near}"
    missing = getattr(error, "param", None)
    if context and missing is not None and type(error).__name__ == "MissingParameter":
        example = (context.command.epilog or path).splitlines()[0]
        return f"Expected {argument_name(missing)}, got none: such as {example}"
    words = " ".join(error.format_message().split()).rstrip(".")
    return f"{words}{'' if words.endswith('?') else '.'} See {path} --help."


app = typer.Typer(
    cls=_Top,
    name="sfumato",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="sfumato protect in.mp4 out.mp4\nsfumato review out.mp4\nsfumato VERB --help",
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
    verbose: bool = typer.Option(
        False, "--verbose", help="Say on standard error what the library logs."
    ),
) -> None:
    if verbose:
        import logging

        logging.basicConfig(format="%(name)s: %(message)s", stream=sys.stderr)
        logging.getLogger("sfumato").setLevel(logging.DEBUG)


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
    except UsageMistakeError as mistake:
        _fail(str(mistake), code=USAGE)
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
