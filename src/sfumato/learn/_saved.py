"""A trained model on disk, never without its card."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from sfumato.files import atomic_output, refuse_overwrite, sha256
from sfumato.learn._plan import Plan, verified
from sfumato.learn._starting_weights import header
from sfumato.learn._trainer import Run
from sfumato.models import device_of
from sfumato.privacy import BestOf, Card, Guarantee, Output, card_path, versions_of


def save_model(
    run: Run,
    plan: Plan,
    target: str | os.PathLike[str],
    *,
    method: str | None = None,
    done: str | None = None,
    settings: Mapping[str, Any] | None = None,
    temporary_files: tuple[str, ...] = (),
    force: bool = False,
) -> Path:
    """Write the model of a finished run as safetensors with its card; returns the card's path.

    The card is there before the model is: a model is never seen without it. The trainings behind the
    model stand in its own header too, so that a copy without the card carries them. ``method``, ``done``
    and further ``settings`` are what the card says besides the plan.
    """
    final, plan = Path(target), verified(plan)
    refuse_overwrite(card_path(final), force=force)
    with atomic_output(final, force=force) as temporary:
        tensors = {n: t.cpu().contiguous() for n, t in run.model.state_dict().items()}
        save_file(tensors, str(temporary), metadata=header(run.trainings))
        card = Card(
            method=method or plan.mechanism,
            done=done or f"A model was trained with {plan.mechanism}.",
            promise=run.guarantee,
            outputs=(
                Output(name=final.name, sha256=sha256(temporary), size=temporary.stat().st_size),
            ),
            settings={
                "batch": plan.batch, "steps": plan.steps, "records": plan.records, "clips": plan.clips,
                "clip_norm": plan.clip_norm if math.isfinite(plan.clip_norm) else "none",
                "noise_multiplier": plan.noise_multiplier, "sampling_rate": plan.sampling_rate,
                **(settings or {}),
            },
            temporary_files=temporary_files,
            tuning=_tuning(run),
            versions=versions_of("torch", "safetensors"),
            device=str(device_of(run.model)),
        )  # fmt: skip
        card.write(final, force=force)
    return card_path(final)


def _tuning(run: Run) -> str:
    """What the card says of choices, where the last training paid for them (R27)."""
    own = run.trainings[-1].promise if run.trainings else None
    if not (isinstance(own, Guarantee) and isinstance(own.event, BestOf)):
        return Card.tuning
    return (
        "Covered: the settings named tuned are those of the best of a secret number of trainings, scored "
        "on held-out records. Choices made beforehand by looking at the private data are not."
    )
