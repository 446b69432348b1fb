"""``sfumato schema``: JSON schemas of training files and of methods' settings, for editors."""

from __future__ import annotations

import json

import typer

from sfumato.cli._verb import verb, verbs
from sfumato.errors import UsageMistakeError, did_you_mean

app = verbs()
_KINDS = ("train", "protect")


@verb(
    app,
    "sfumato schema train > train.schema.json",
    "sfumato schema protect > protect.schema.json",
    "sfumato schema protect | less",
)
def schema(
    kind: str = typer.Argument(help="train or protect."),
) -> None:
    """Print the JSON schema of a training file, or of every method's settings.

    An editor that knows YAML takes it by a first line: # yaml-language-server: $schema=train.schema.json
    """
    if kind not in _KINDS:
        raise UsageMistakeError(
            f"Expected a kind of file, got {kind!r}{did_you_mean(kind, _KINDS)}"
        )
    if kind == "train":
        from sfumato.learn import TrainConfig

        found = TrainConfig.model_json_schema()
    else:
        from sfumato.protect import methods
        from sfumato.settings import one_of_schemas

        found = one_of_schemas(
            "method", {name: each.settings_schema() for name, each in methods().items()}
        )
    print(
        json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **found}, indent=2)
    )
