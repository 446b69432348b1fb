"""``sfumato verify``: do an output and its card still agree?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.table import Table

from sfumato.cli._output import emit, ending, not_safe
from sfumato.cli._verb import verb, verbs
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.privacy import Guarantee, NoGuarantee, VerifiedFolder

app = verbs()


@verb(
    app,
    "sfumato verify out.mp4",
    "sfumato verify released/ --key lab.pub",
    "sfumato verify --make-key lab",
)
def verify(
    output: Path | None = typer.Argument(None, help="A released file or folder, or its card."),
    key: Path | None = typer.Option(None, help="Public key file the card must be signed with."),
    signed: bool = typer.Option(False, help="Demand a signature (by any key)."),
    sign_with: Path | None = typer.Option(None, "--sign", help="Sign the card with this key file."),
    make_key: Path | None = typer.Option(None, help="Write a new key pair and stop."),
    registry: bool = typer.Option(
        False, help="Print a draft entry for the OpenDP deployments registry."
    ),
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Check that OUTPUT and its privacy card still agree; exit code 1 if they do not."""
    from sfumato.privacy import _signature, has_card_of_its_own, verify_folder, verify_output

    if make_key is not None:
        if output is not None or key is not None or signed or sign_with is not None or registry:
            raise SfumatoError(
                "Expected --make-key by itself, got it with something to verify or to sign: make the key "
                "first, then run sfumato verify OUTPUT --sign KEY."
            )
        public = _signature.make_key(make_key, force=force)
        emit(as_json, {"public_key": public.name}, f"Wrote a new key; its public half is {public}.")
        return
    if registry and as_json:
        raise SfumatoError(
            "Expected --registry or --json, got both: the draft of an entry is text to be filled in."
        )
    if output is None:
        raise SfumatoError("Expected an OUTPUT to verify, got nothing: name a file or a folder.")
    if output.is_dir() and not has_card_of_its_own(output):
        if registry:
            raise SfumatoError("Expected one output for a registry entry, got a folder: name one.")
        checked = verify_folder(output, key=key, signed=signed, sign_with=sign_with)
        _say_folder(checked, output, as_json)
        return
    verified = verify_output(output, key=key, signed=signed, sign_with=sign_with)
    card = verified.card
    if registry:
        from sfumato.privacy import registry_entry

        print(
            registry_entry(
                card,
                name=card.method,
                curator="(to be filled in)",
                intended_use="(to be filled in)",
            )
        )
        return
    count = len(card.outputs)
    agree = (
        "The output and its card agree."
        if count == 1
        else f"All {count} outputs and the card agree."
    )
    emit(
        as_json,
        verified.to_json(),
        *map(escape, (*verified.remarks, *verified.who_looked)),
        *ending(
            f"{agree} {f'Signed by {verified.signer}.' if verified.signer else 'Not signed.'}",
            not_safe(card.promise),
            f"sfumato report {output}",
        ),
    )


def _say_folder(folder: VerifiedFolder, output: Path, as_json: bool) -> None:
    outputs = sum(len(each.card.outputs) for each in folder.cards)
    signers = {each.signer for each in folder.cards}
    remarks = dict.fromkeys(remark for each in folder.cards for remark in each.remarks)
    remarks |= dict.fromkeys(folder.who_looked)
    if folder.agree:
        named = ", ".join(sorted(each or "nobody" for each in signers))
        signed = "Not signed." if signers == {None} else f"Signed by {named}."
        last = ending(
            f"All {outputs} outputs and their {len(folder.cards)} cards agree. {signed}",
            " ".join(dict.fromkeys(not_safe(each.card.promise) for each in folder.cards)),
            f"sfumato report {output}",
        )
    else:
        last = ending(
            f"{len(folder.problems)} files of the folder are not covered by a card.",
            "what no card covers may be an original.",
            "move these files away, or protect them; then run this again.",
        )
    wrong = [f"  {name}: {reason}" for name, reason in folder.problems.items()]
    words = map(escape, (*wrong, *_terms(folder), *remarks))
    emit(as_json, folder.to_json(), _table(folder), *words, *last, ok=folder.agree)


def _table(folder: VerifiedFolder) -> Table:
    """One line a file: what its card proves, or that it has none; what is wrong comes first."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("file", "method", "proven", "signed", "card"):
        table.add_column(title, overflow="fold")
    for name in folder.problems:
        table.add_row(f"[red]{escape(name)}[/]", "", "", "", "[red]NO[/]")
    for each in folder.cards:
        for output in each.card.outputs:
            table.add_row(
                escape(output.name),
                escape(each.card.method),
                escape(_proven(each.card.promise)),
                "no" if each.signer is None else escape(each.signer[:8]),
                "[green]agrees[/]",
            )
    return table


def _terms(folder: VerifiedFolder) -> dict[str, None]:
    """What the epsilons of the table are about, each once."""
    from sfumato.privacy import Guarantee, format_epsilon

    promises = [each.card.promise for each in folder.cards]
    return dict.fromkeys(
        f"epsilon {format_epsilon(each.epsilon)}: {each.terms}."
        for each in promises
        if isinstance(each, Guarantee)
    )


def _proven(promise: Guarantee | NoGuarantee) -> str:
    from sfumato.privacy import NoGuarantee, format_epsilon

    if isinstance(promise, NoGuarantee):
        return "nothing"
    if not promise.is_private:
        return "NOT PRIVATE (a seed)"
    return f"epsilon {format_epsilon(promise.epsilon)}, {promise.unit}"
