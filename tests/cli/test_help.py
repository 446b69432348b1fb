"""Help reads at 80 columns, names everything whole, and its examples are commands that exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import typer
from command import DONE, Run

from sfumato.cli import main as entry
from sfumato.cli._help import EXPERT, Verbs
from sfumato.cli._verb import SHARED
from sfumato.privacy import PUBLISHED
from sfumato.privacy.accounting._accountant import ACCOUNTANTS


def commands() -> Iterator[tuple[list[str], Any]]:
    """Every command of the command line, groups included, with the words that lead to it."""
    for verb in entry.VERBS:
        found: Any = typer.main.get_command(import_module(f"sfumato.cli.{verb}").app)
        yield [verb], found
        for name, below in found.commands.items() if isinstance(found, Verbs) else ():
            if not below.hidden:
                yield [verb, name], below


ALL = {" ".join(words): command for words, command in commands()}


@pytest.mark.parametrize("words", ALL)
def test_help_fits_80_columns_and_names_every_option_whole(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, said, _ = run(*words.split(), "--help-all")
    assert code == DONE
    assert max(map(len, said.splitlines())) <= 80
    assert "…" not in said
    assert f"Usage: sfumato {words}" in said
    shown = re.findall(r"--[a-z][a-z-]*", said)
    for parameter in ALL[words].params:
        if parameter.param_type_name == "option" and parameter.name != "help":
            # of a switch, the name that changes something
            assert {*parameter.opts, *parameter.secondary_opts} & set(shown), parameter.name
    for absent in ("--install-completion", "--show-completion"):
        assert absent not in shown


def test_completion_is_offered_at_the_top_only(run: Run) -> None:
    assert "--install-completion" in run("--help")[1]


@pytest.mark.parametrize("words", ALL)
def test_expert_options_wait_for_help_all(run: Run, words: str) -> None:
    plain, whole = run(*words.split(), "--help")[1], run(*words.split(), "--help-all")[1]
    hidden = [
        each.opts[0] for each in ALL[words].params if getattr(each, "rich_help_panel", "") == EXPERT
    ]
    assert (EXPERT in whole) == bool(hidden)
    assert EXPERT not in plain
    assert ("--help-all" in plain) == bool(hidden)


def test_the_options_of_protect_stand_in_their_panels(run: Run) -> None:
    said = run("protect", "--help-all")[1]
    titles = re.findall(r"─ ([A-Z][a-z]+(?: [a-z]+)*)", said)
    assert titles == ["Arguments", "Promise", "Where", "By eye", "Attributes", "Output", "Budget",
                      "Expert", "Examples"]  # fmt: skip


@pytest.mark.parametrize("verb", entry.VERBS)
def test_a_verb_shows_three_examples(verb: str) -> None:
    assert len(ALL[verb].epilog.splitlines()) == 3


@pytest.mark.parametrize("words", ALL)
def test_examples_can_be_parsed(words: str) -> None:
    """Each names a command with options that it has and values that they take."""
    assert ALL[words].epilog
    for line in ALL[words].epilog.splitlines():
        name, *rest = shlex.split(re.sub(r"[>|].*", "", line), comments=True)
        assert name == "sfumato"
        path = " ".join(rest[:2]) if " ".join(rest[:2]) in ALL else rest[0]
        context = ALL[path].make_context(path, rest[len(path.split()) :])
        assert context.params is not None


def test_help_names_every_accountant_and_every_paper(run: Run) -> None:
    said = " ".join(run("account", "--help-all")[1].replace("│", " ").split())
    for name in (*PUBLISHED, *ACCOUNTANTS):
        assert name in said


def test_shared_options_are_declared_once() -> None:
    """A verb that declares ``--json`` by itself would drift from the others."""
    names = {option for each in SHARED.values() for option in each.param_decls or ()}
    for words, command in ALL.items():
        for parameter in command.params:
            for option in parameter.opts:
                if option in {"--json", "--force", "--dry-run", "--acknowledge-no-guarantee"}:
                    assert option in names
                    assert parameter.help == next(
                        each.help for each in SHARED.values() if option in (each.param_decls or ())
                    ), words


@pytest.mark.parametrize("words", [[], ["--help"], ["protect", "--help"], ["train", "--help-all"],
                                   ["account", "--help"], ["audit", "leaks", "--help"]])  # fmt: skip
def test_help_imports_no_numerical_library(words: list[str]) -> None:
    code = (
        "import sys\n"
        "from sfumato.cli.main import main\n"
        f"sys.argv = ['sfumato', *{words!r}]\n"
        "try:\n    main()\n"
        "except SystemExit:\n    pass\n"
        "heavy = ('numpy', 'scipy', 'torch', 'cv2', 'av', 'matplotlib', 'sqlalchemy')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: sfumato" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
