"""``sfumato train CONFIG.yaml``: a model that may be released, with its card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
    ledger: str | None = LEDGER,
    dataset: str | None = DATASET,
    key: str | None = KEY,
    acknowledge_no_guarantee: bool = ACKNOWLEDGE,
    dry_run: bool = DRY_RUN,
    force: bool = FORCE,
    as_json: bool = JSON,
) -> None:
    """Train as CONFIG says; writes model.safetensors, its card, the history and the settings."""
    from sfumato.learn import describe, make_job, read_config, run_job, together, words

    job = make_job(read_config(config, changes or []))
    if dry_run:
        said = describe(job)
        emit(as_json, {"dry_run": True, **said}, *words(job, said))
        return
    together()
    with _Bar(job.plan.steps, hidden=as_json) as bar:
        spend = spending(ledger, dataset, key=key or job.key, acknowledged=acknowledge_no_guarantee)
        run, card = run_job(job, resume=resume, force=force, progress=bar, spend=spend)
    if card is None:
        return
    last = run.history[-1] if run.history else {}
    emit(
        as_json,
        {"promise": run.guarantee.to_json(), "history": run.history, "card": card.name},
        str(run.guarantee),
        f"Held-out accuracy: {_percent(last.get('held_out_accuracy'))}. "
        f"Model and card are in {job.folder}.",
    )


def _percent(value: float | None) -> str:
    return "not measured" if value is None else f"{100 * value:.1f} %"


class _Bar:
    """Steps, epsilon spent, held-out accuracy and time left: nothing private."""

    def __init__(self, steps: int, *, hidden: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as TimeLeft

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeLeft())
        self._progress = Progress(*columns, console=Console(stderr=True), disable=hidden)
        self._task = self._progress.add_task("training", total=steps)
        self._said = "training"

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, shown: Shown) -> None:
        if shown.epsilon is not None or shown.held_out_accuracy is not None:
            parts = []
            if shown.epsilon is not None:
                parts.append(f"epsilon {shown.epsilon:.3g}")
            if shown.held_out_accuracy is not None:
                parts.append(f"held-out {100 * shown.held_out_accuracy:.1f} %")
            self._said = ", ".join(parts)
        self._progress.update(self._task, completed=shown.step, description=self._said)
