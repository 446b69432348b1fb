"""Help that reads at 80 columns: panels by what a person wants, whole names, examples that work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer.core
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sfumato.cli._output import console
from sfumato.devices import using
from sfumato.errors import UsageMistakeError, did_you_mean

PROMISE, WHERE, BY_EYE, ATTRIBUTES = "Promise", "Where", "By eye", "Attributes (pass, pass-ldp)"
OUTPUT, BUDGET, EXPERT = "Output", "Budget", "Expert"
_OTHERS = "Options"
_ORDER = (PROMISE, WHERE, BY_EYE, ATTRIBUTES, _OTHERS, OUTPUT, BUDGET, EXPERT)
_HELP_ALL = "--help-all"
_WIDEST = 100


class Verb(typer.core.TyperCommand):
    """One command; its epilog holds examples, a line each."""

    def invoke(self, ctx: Any) -> Any:
        """All of a command with ``--device`` runs there, on the CPU without it; ``emit`` says what did.

        One with an engine chooses for itself: its nodes may have what this machine has not.
        """
        if "device" not in ctx.params or "engine" in ctx.params:
            return super().invoke(ctx)
        with using(ctx.params["device"] or "cpu"):
            return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if _HELP_ALL in args[: args.index("--") if "--" in args else None]:
            _show(self, ctx, experts=True)
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _show(self, ctx, experts=False)


class Verbs(typer.core.TyperGroup):
    """Commands below one name; a word that is none of them gets the likely one."""

    def listed(self, ctx: Any) -> list[tuple[str, str, str]]:
        """Panel, name and one line of every command that is shown."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [
            ("Commands", name, (below.help or "").partition("\n\n")[0].replace("\n", " "))
            for name, below in found
            if below is not None and not below.hidden
        ]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--help"] if args[:1] == [_HELP_ALL] else args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _show(self, ctx, experts=True)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = [*self.list_commands(ctx)]
        if args and not args[0].startswith("-") and args[0] not in known:
            shown = [name for _, name, _ in self.listed(ctx)]
            raise UsageMistakeError(
                f"Expected a command of {ctx.command_path}, got {args[0]!r}"
                f"{did_you_mean(args[0], shown)}"
            )
        return super().resolve_command(ctx, args)


def _show(command: Any, ctx: Any, *, experts: bool) -> None:
    out = console()
    out.soft_wrap, out.width = False, min(out.width, _WIDEST)
    out.print()
    out.print(Text(f"Usage: {ctx.command_path} {' '.join(_usage(command, ctx))}", style="bold"))
    out.print()
    out.print(_words(command.help or ""))
    out.print()
    options: dict[str, list[Any]] = {}
    arguments = []
    for parameter in command.get_params(ctx):
        if parameter.param_type_name == "argument":
            arguments.append(parameter)
        elif not parameter.hidden and (parameter.name != "help" or ctx.parent is None):
            panel = getattr(parameter, "rich_help_panel", None) or _OTHERS
            options.setdefault(panel, []).append(parameter)
    if arguments:
        out.print(_panel("Arguments", [(argument_name(each), _about(each)) for each in arguments]))
    commands: dict[str, list[tuple[str, str]]] = {}
    for panel, name, summary in command.listed(ctx) if isinstance(command, Verbs) else ():
        commands.setdefault(panel, []).append((name, summary))
    for panel, names in commands.items():
        out.print(_panel(panel, names))
    left_out = [] if experts else [each.opts[0] for each in options.pop(EXPERT, [])]
    for panel in sorted(options, key=_ORDER.index):
        out.print(_panel(panel, [(_option(each), _about(each)) for each in options[panel]]))
    if left_out:
        out.print(_words(f"{_HELP_ALL} also shows {', '.join(left_out)}."))
    if command.epilog:
        lines: list[RenderableType] = [
            Text(line, overflow="fold", style="cyan") for line in command.epilog.splitlines()
        ]
        out.print(_box("Examples", Stack(*lines)))


def _usage(command: Any, ctx: Any) -> Sequence[str]:
    arguments = [each for each in command.get_params(ctx) if each.param_type_name == "argument"]
    below = ["COMMAND ..."] if isinstance(command, Verbs) else []
    return [*map(argument_name, arguments), *below, "[OPTIONS]"]


def argument_name(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).strip("{}").upper()
    if parameter.nargs == -1 and not name.endswith("..."):
        name += "..."
    return name if parameter.required else f"[{name}]"


def _option(parameter: Any) -> str:
    """Every name that switches something on; of a switch that is on, the one that puts it off."""
    names = parameter.opts
    if parameter.secondary_opts and parameter.default is not False:
        names = (
            parameter.secondary_opts if parameter.default else [*names, *parameter.secondary_opts]
        )
    return ", ".join(sorted(names, key=len, reverse=True))


def _about(parameter: Any) -> str:
    words = parameter.help or ""
    if parameter.required and parameter.param_type_name == "option":
        return f"{words} [required]"
    default = parameter.default
    if default in (None, False, True, "", ()) or callable(default) or isinstance(default, list):
        return words
    return f"{words} [default: {default}]" if getattr(parameter, "show_default", True) else words


def _words(text: str) -> Text:
    paragraphs = [" ".join(each.split()) for each in text.split("\n\n")]
    return Text("\n\n".join(paragraphs))


def _panel(title: str, rows: Sequence[tuple[str, str]]) -> Panel:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True, style="bold cyan")
    table.add_column(ratio=1, overflow="fold")
    for name, words in rows:
        table.add_row(name, escape(words))
    return _box(title, table)


def _box(title: str, content: RenderableType) -> Panel:
    return Panel(content, title=title, title_align="left", border_style="dim")
