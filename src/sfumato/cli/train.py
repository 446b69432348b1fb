"""``sfumato train CONFIG.yaml``: a model that may be released, with its card."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli._output import DRY_RUN, FORCE, JSON, emit
from sfumato.cli._spending import ACKNOWLEDGE, DATASET, KEY, LEDGER, spending

if TYPE_CHECKING:
    from sfumato.learn import Progress as Shown

app = typer.Typer(help="Train a model under a privacy plan.")


@app.command()
def train(
    config: Path = typer.Argument(..., help="The training file (YAML)."),
    changes: list[str] = typer.Argument(None, help="Changes to it, as key=value."),
    resume: bool = typer.Option(False, "--resume", help="Continue a run that was stopped."),
    show_private_loss: bool = typer.Option(
        False,
        "--show-private-loss",
        help="Show the loss on private records to you. It is not accounted; the card names it.",
    ),
    as_published: bool = typer.Option(
        False,
        "--as-published",
        help="One batch for both streams, as MaskDP was published; the card has its true epsilon.",
    ),
    ledger: str | None = LEDGER,
    dataset: str | None = DATASET,
    key: str | None = KEY,
    acknowledge_no_guarantee: bool = ACKNOWLEDGE,
    dry_run: bool = DRY_RUN,
    force: bool = FORCE,
    as_json: bool = JSON,
) -> None:
    """Train as CONFIG says; writes model.safetensors, its card, the history and the settings."""
    from sfumato.learn import (
        describe,
        format_plan,
        init_distributed,
        keep_freed_memory,
        make_job,
        read_config,
        run_job,
    )

    changes = list(changes or [])
    if show_private_loss:
        changes.append("private_loss=shown")
    if as_published:
        changes.append("privacy.as_published=true")
    job = make_job(read_config(config, changes))
    if dry_run:
        said = describe(job)
        emit(as_json, {"dry_run": True, **said}, *format_plan(job, said))
        return
    spend = spending(ledger, dataset, key=key, acknowledged=acknowledge_no_guarantee, verb="train")
    init_distributed()
    keep_freed_memory()
    if job.plan.is_private and not as_json:
        print(f"Epsilons below: {job.plan.terms}.", file=sys.stderr)
    with _Bar(job.plan.steps, hidden=as_json) as bar:
        run, card = run_job(
            job, resume=resume, force=force, progress=bar, spend=spend, tell=_annotations
        )
    if card is None:
        return
    last = run.history[-1] if run.history else {}
    emit(
        as_json,
        {"promise": run.guarantee.to_json(), "history": run.history, "card": card.name},
        str(run.guarantee),
        *_scored(last),
        f"Model, card and TensorBoard files are in {job.folder}.",
    )


def _annotations(wrong: str) -> None:
    print(f"Annotations that could not be used:\n{wrong}", file=sys.stderr)


def _scored(last: dict[str, Any]) -> list[str]:
    """Top-1, mean per-class accuracy and a bar for each class; for pose, PCK and its joints."""
    if "held_out_accuracy" not in last:
        return ["Held-out accuracy: not measured (name held_out in the file)."]
    if "held_out_measure" in last:
        lines = [f"Held-out {last['held_out_measure']}: {100 * last['held_out_accuracy']:.1f} %."]
    else:
        lines = [
            f"Held-out accuracy: {100 * last['held_out_accuracy']:.1f} %, mean over classes "
            f"{100 * last['held_out_mean_class_accuracy']:.1f} %."
        ]
    per_class = last["held_out_per_class"]
    width = max(map(len, per_class))
    for name, value in per_class.items():
        lines.append(f"  {name:<{width}}  {'█' * round(24 * value):<24}  {100 * value:5.1f} %")
    return lines


class _Bar:
    """Steps, epsilon spent, held-out scores and time left; private loss if the operator asked."""

    def __init__(self, steps: int, *, hidden: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as TimeLeft
        from rich.table import Column

        # in a narrow terminal the bar and the last words give way, never the counts
        columns = (
            MofNCompleteColumn(table_column=Column(min_width=2 * len(str(steps)) + 1)),
            BarColumn(bar_width=10),
            TimeLeft(table_column=Column(min_width=7)),
            TextColumn("left, {task.description}", table_column=Column(no_wrap=True, ratio=1)),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), disable=hidden)
        self._task = self._progress.add_task("", total=steps)
        # in this order, as soon as each is known
        self._said = dict.fromkeys(("private", "epsilon", "held-out"), "")

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, shown: Shown) -> None:
        from sfumato.privacy import format_epsilon

        if shown.epsilon is not None:
            self._said["epsilon"] = f"epsilon {format_epsilon(shown.epsilon)}"
        if shown.scores is not None:
            accuracy, loss = 100 * shown.scores.accuracy, shown.scores.loss
            self._said["held-out"] = f"held-out {accuracy:.1f} % loss {loss:.2f}"
        if shown.private_loss is not None:
            self._said["private"] = f"PRIVATE loss {shown.private_loss:.2f}"
        format_plan = ", ".join(filter(None, self._said.values()))
        self._progress.update(self._task, completed=shown.step, description=format_plan)
