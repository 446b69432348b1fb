"""``sfumato verify``: do an output and its card still agree?"""

from __future__ import annotations

from pathlib import Path

import typer
from rich.markup import escape

from sfumato.cli._output import FORCE, JSON, emit
from sfumato.errors import SfumatoError

app = typer.Typer()


@app.command()
def verify(
    output: Path | None = typer.Argument(None, help="A released file or folder, or its card."),
    key: Path | None = typer.Option(None, help="Public key file the card must be signed with."),
    signed: bool = typer.Option(False, help="Demand a signature (by any key)."),
    sign_with: Path | None = typer.Option(None, "--sign", help="Sign the card with this key file."),
    make_key: Path | None = typer.Option(None, help="Write a new key pair and stop."),
    registry: bool = typer.Option(
        False, help="Print a draft entry for the OpenDP deployments registry."
    ),
    force: bool = FORCE,
    as_json: bool = JSON,
) -> None:
    """Check that OUTPUT and its privacy card still agree; exit code 1 if they do not."""
    from sfumato.privacy import _card, _signature

    if make_key is not None:
        public = _signature.make_key(make_key, force=force)
        emit(as_json, {"public_key": public.name}, f"Wrote a new key; its public half is {public}.")
        return
    if output is None:
        raise SfumatoError("Expected an OUTPUT to verify, got nothing: name a file or a folder.")
    card = _card.read_card(output)
    _card.check_outputs(card, output.parent)
    if sign_with is not None:
        card = _signature.sign(card, sign_with)
        named = output.name.removesuffix(".card.json")
        card.write(output.with_name(named), force=True)
    signer = None
    if key is not None or signed or card.signature is not None:
        signer = _signature.check_signature(card, key)
    if registry:
        from sfumato.privacy._registry import registry_entry

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
        {
            "agree": True,
            "outputs": [each.name for each in card.outputs],
            "promise": card.promise.to_json(),
            "signed_by": signer,
        },
        f"[green]{agree}[/]",
        f"Signed by {signer}." if signer else "Not signed.",
        escape(str(card.promise)),
    )
