"""``sfumato train CONFIG.yaml``: a model that may be released, with its card."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli._help import EXPERT
from sfumato.cli._output import emit, ending, not_safe, progress_bar, say
from sfumato.cli._verb import option, verb, verbs
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.learn import Progress as Shown

app = verbs()


@verb(
    app,
    "sfumato train first.yaml --dry-run",
    "sfumato train first.yaml privacy.epsilon=2 out=runs/second",
    "sfumato train first.yaml --ledger book.db --dataset gait",
)
def train(
    config: Path = typer.Argument(..., help="The training file (YAML)."),
    changes: list[str] = typer.Argument(None, help="Changes to it, as key=value."),
    resume: bool = typer.Option(False, "--resume", help="Continue a run that was stopped."),
    show_private_loss: bool = option(
        EXPERT,
        False,
        "--show-private-loss",
        help="Show the loss on private records to you. It is not accounted; the card names it.",
    ),
    as_published: bool = option(
        EXPERT,
        False,
        "--as-published",
        help="One batch for both streams, as MaskDP was published; the card has its true epsilon.",
    ),
    *,
    ledger: str | None,
    dataset: str | None,
    key: str | None,
    purpose: str | None,
    operator: str | None,
    acknowledge_no_guarantee: bool,
    device: str | None,
    dry_run: bool,
    force: bool,
    as_json: bool,
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
    from sfumato.ledger import spending

    if resume and force:
        raise SfumatoError(
            "Expected --resume or --force, got both: continue the run that was stopped, or throw it away "
            "and begin anew."
        )
    changes = list(changes or [])
    if show_private_loss:
        changes.append("private_loss=shown")
    if device is not None:
        changes.append(f"device={device}")
    if as_published:
        changes.append("privacy.as_published=true")
    job = make_job(read_config(config, changes))
    if dry_run:
        said = describe(job)
        emit(as_json, {"dry_run": True, **said}, *format_plan(job, said))
        return
    spend = spending(
        ledger, dataset, key=key, acknowledged=acknowledge_no_guarantee, verb="train",
        operator=operator, purpose=purpose,
    )  # fmt: skip
    rank = init_distributed()
    keep_freed_memory()
    if job.plan.is_private and rank == 0 and not as_json:
        say(f"Epsilons below: {job.plan.terms}.")
    with progress_bar(hidden=as_json):
        run, card = run_job(
            job,
            resume=resume,
            force=force,
            progress=_shown(job.plan.steps),
            spend=spend,
            tell=_annotations,
        )
    if card is None:
        return
    if spend is not None:
        spend.record([card])
    last = run.history[-1] if run.history else {}
    emit(
        as_json,
        {"promise": run.guarantee.to_json(), "history": run.history, "card": card.name},
        *scored(last),
        *ending(
            f"model, card and TensorBoard files are in {job.folder}.",
            not_safe(run.guarantee),
            f"sfumato audit membership {job.folder}",
        ),
    )


def _annotations(wrong: str) -> None:
    say(f"Annotations that could not be used:\n{wrong}")


def scored(last: dict[str, Any]) -> list[str]:
    """Top-1, mean per-class accuracy and a bar for each class; for pose, PCK and its joints."""
    if "held_out_accuracy" not in last:
        return ["Held-out accuracy: not measured (name held_out in the file)."]
    if "held_out_measure" in last:
        lines = [f"Held-out {last['held_out_measure']}: {100 * last['held_out_accuracy']:.1f} %."]
        lines += [f"{n}: {100 * v:.1f} %." for n, v in last.get("held_out_others", {}).items()]
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


def _shown(steps: int) -> Callable[[Shown], None]:
    """Steps, epsilon spent and held-out scores for the bar; private loss if the operator asked."""
    from sfumato.privacy import format_epsilon
    from sfumato.progress import tell

    # in this order, as soon as each is known
    said = dict.fromkeys(("private", "epsilon", "held-out"), "")

    def show(shown: Shown) -> None:
        if shown.epsilon is not None:
            said["epsilon"] = f"epsilon {format_epsilon(shown.epsilon)}"
        if shown.scores is not None:
            accuracy, loss = 100 * shown.scores.accuracy, shown.scores.loss
            said["held-out"] = f"held-out {accuracy:.1f} % loss {loss:.2f}"
        if shown.private_loss is not None:
            said["private"] = f"PRIVATE loss {shown.private_loss:.2f}"
        steps_done = f"{shown.step}/{steps} steps"
        tell(", ".join(filter(None, (steps_done, *said.values()))), shown.step, steps)

    return show
