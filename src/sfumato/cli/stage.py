"""``sfumato stage``: synthetic recordings with full ground truth."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli._output import emit, ending, progress_bar
from sfumato.cli._verb import verb, verbs

app = verbs(
    "Synthetic recordings with full ground truth.",
    "sfumato stage make staged",
    "sfumato stage make staged --clips 12 --size 320x240 --frames 48",
    "sfumato stage make staged --actions wave,sit --dry-run",
    no_args_is_help=True,
)


@app.callback()
def _stage() -> None:
    pass


@verb(app, "sfumato stage make staged --clips 12 --size 320x240")
def make(
    target: Path = typer.Argument(..., help="The folder to write."),
    clips: int = typer.Option(96, help="How many clips."),
    actors: int = typer.Option(8, help="How many different people."),
    rooms: int = typer.Option(12, help="How many different rooms."),
    actions: str = typer.Option("", help="Actions, separated by commas; default: twelve."),
    frames: int = typer.Option(16, help="Frames in a clip."),
    fps: float = typer.Option(10.0, help="Frames a second."),
    size: str = typer.Option("64x64", help="WIDTHxHEIGHT in pixels."),
    habit: float = typer.Option(0.5, help="How often an action is in its usual room, 0 to 1."),
    motion: list[Path] = typer.Option(
        [], help="Real motion: a folder of UTD-MHAD skeletons, or a packed .npz (UTD, CMU)."
    ),
    seed: int = typer.Option(0, help="The same seed gives the same recordings."),
    *,
    engine: str,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write a data set: split/action/clip.mkv, its truth beside it, and metadata.jsonl."""
    from sfumato import stage
    from sfumato.jobs import choose_engine

    width, height = stage.parse_size(size)
    chosen = tuple(actions.split(",")) if actions else stage.Staging().actions
    plan = stage.Staging(
        clips=clips, actors=actors, rooms=rooms, actions=chosen, frames=frames, fps=fps,
        width=width, height=height, habit=habit, seed=seed,
    )  # fmt: skip
    payload = {"target": str(target), "clips": clips, "frames": clips * frames,
               "actions": list(chosen), "size": [width, height], "seed": seed}  # fmt: skip
    words = (
        f"{clips} clips of {frames} frames, {width}x{height}, {len(chosen)} actions, seed {seed}"
    )
    if dry_run:
        emit(as_json, {**payload, "dry_run": True}, f"Would write {words} to {target}")
        return
    with progress_bar(hidden=as_json):
        moves = [each for path in motion for each in stage.performances(path)]
        elsewhere = None if engine == "local" else choose_engine(engine)
        stage.write(target, plan, performances=moves, force=force, engine=elsewhere)
    last = ending(
        f"wrote {words} to {target}.",
        "nobody: the people are synthetic.",
        f"sfumato protect {target} protected",
    )
    emit(as_json, payload, *last)
