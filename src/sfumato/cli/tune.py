"""``sfumato tune CONFIG.yaml``: the best of several trainings, with a promise that covers the choice."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli._output import emit, ending, not_safe, progress_bar
from sfumato.cli._verb import verb, verbs

app = verbs()


@verb(
    app,
    "sfumato examples tune.yaml > tune.yaml",
    "sfumato tune tune.yaml --dry-run",
    "sfumato tune tune.yaml --ledger book.db --dataset gait",
)
def tune(
    config: Path = typer.Argument(..., help="The training file (YAML) with a section tune."),
    changes: list[str] = typer.Argument(None, help="Changes to it, as key=value."),
    *,
    ledger: str | None,
    dataset: str | None,
    key: str | None,
    purpose: str | None,
    operator: str | None,
    acknowledge_no_guarantee: bool,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Try settings of CONFIG a secret number of times and write the best model; epsilon covers the choice."""
    from sfumato.learn import keep_freed_memory, make_tuning, read_config, run_tuning
    from sfumato.ledger import spending
    from sfumato.progress import tell

    tuning = make_tuning(read_config(config, list(changes or [])))
    if dry_run:
        payload = {
            "dry_run": True,
            "promise": tuning.promise.to_json(),
            "choices": list(tuning.choices),
            "expected_trials": tuning.runs.expected_runs,
            "noise_multiplier": tuning.jobs[0].plan.noise_multiplier,
        }
        lines = (
            str(tuning.promise),
            f"{len(tuning.choices)} combinations; {tuning.runs.expected_runs:.3g} trials are expected, the "
            "true number stays secret.",
        )
        emit(as_json, payload, *lines)
        return
    spend = spending(
        ledger, dataset, key=key, acknowledged=acknowledge_no_guarantee, verb="tune",
        operator=operator, purpose=purpose,
    )  # fmt: skip
    keep_freed_memory()
    with progress_bar(hidden=as_json):
        tell("tuning (how many trials there are stays secret)", 0, None)
        run, chosen, card = run_tuning(tuning, force=force, spend=spend)
    if spend is not None:
        spend.record([card])
    last = run.history[-1]
    emit(
        as_json,
        {
            "promise": run.guarantee.to_json(),
            "chosen": chosen,
            "history": run.history,
            "card": card.name,
        },
        f"Chosen: {', '.join(f'{name}={value}' for name, value in chosen.items())}; held-out accuracy "
        f"{100 * last['held_out_accuracy']:.1f} %.",
        *ending(
            f"model and card are in {tuning.config.out}.",
            not_safe(run.guarantee),
            f"sfumato verify {tuning.config.out / 'model.safetensors'}",
        ),
    )
