"""``sfumato evaluate MODEL``: a trained pose model scored on annotated people, by the field's measures."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli._output import emit, ending
from sfumato.cli._verb import verb, verbs

app = verbs()


@verb(
    app,
    "sfumato evaluate runs/pose-lsp --kind lsp --data LSP --split test",
    "sfumato evaluate runs/pose-mpii --kind mpii --data MPII --split valid",
    "sfumato evaluate runs/pose-coco --kind coco --data COCO --split val2017",
)
def evaluate(
    model: Path = typer.Argument(help="The folder that sfumato train wrote (a pose model)."),
    data: Path = typer.Option(..., help="The folder of the data set."),
    kind: str = typer.Option(..., help="lsp, mpii, human-art or coco."),
    split: str = typer.Option(..., help="The part to score on; never the one it was trained on."),
    *,
    device: str | None,
    as_json: bool,
) -> None:
    """PCKh@0.5 and @0.1 where head sizes are known, OKS average precision on COCO's joints, PCK by torso."""
    from sfumato.cli.train import scored
    from sfumato.learn import evaluate_pose
    from sfumato.privacy import checked_card

    promise = checked_card(model / "model.safetensors").promise
    people, scores = evaluate_pose(model, kind, data, split)
    found = scores.to_json()
    emit(
        as_json,
        {"people": people, "split": split, "model": str(promise), **found},
        *scored(found),
        *ending(
            f"{people} people of {kind} {split}, each in the box that the annotation gives.",
            "scores are shown without noise: they say something about the people of that split.",
            f"sfumato predict photo.jpg -o skeletons.png --model {model}",
        ),
    )
