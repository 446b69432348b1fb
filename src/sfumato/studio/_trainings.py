"""Trainings: files under the root, started as jobs and watched while they run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from sfumato.errors import SfumatoError
from sfumato.progress import tell
from sfumato.studio._answers import answered, body_of, checked_id
from sfumato.studio._job_pages import shown
from sfumato.studio._library import Library
from sfumato.studio._studio import studio_of

_MOST_POINTS = 400


def routes() -> list[Route]:
    return [
        Route("/api/trainings", answered(trainings)),
        Route("/api/train", answered(start), methods=["POST"]),
    ]


def trainings(request: Request) -> dict[str, Any]:
    studio = studio_of(request)
    runs = [shown(studio, job) for job in studio.queue.all() if job.kind == "train"]
    found = studio.library.configs()
    return {
        "configs": [{"id": each.id, "name": each.name} for each in found],
        "runs": runs,
    }


def start(request: Request) -> dict[str, Any]:
    studio = studio_of(request)
    entry = studio.library.config(checked_id(body_of(request, config=str)["config"]))
    job = studio.begin("train", f"Train {entry.name}", name=entry.name)
    return {"job": shown(studio, job)}


def train(arguments: dict[str, Any], report: Any) -> dict[str, Any]:
    """A job: the training of one file, whose paths must lie under the root. Resumes where it stopped."""
    from sfumato.learn import make_job, read_config, run_job
    from sfumato.ledger import spending
    from sfumato.privacy import format_epsilon

    library = Library(arguments["root"])
    os.chdir(library.root)  # what a file names is meant from there
    config = read_config(library.inside(arguments["name"]), [])
    require_inside(library, config)
    job = make_job(config)
    history: list[dict[str, Any]] = []
    terms = job.plan.terms if job.plan.is_private else None

    def show(now: Any) -> None:
        words = None
        if now.epsilon is not None and terms is not None:
            words = f"epsilon {format_epsilon(now.epsilon)} ({terms})"
        point = {"step": now.step, "epsilonWords": words, "heldOut": now.held_out_accuracy}
        if now.held_out_accuracy is not None or not history or words != history[-1]["epsilonWords"]:
            history.append(point)
        del history[:-_MOST_POINTS]
        held_out = next((e["heldOut"] for e in reversed(history) if e["heldOut"] is not None), None)
        report({**point, "steps": now.steps, "heldOut": held_out, "history": history})
        tell("training", now.step, now.steps)

    begun = (job.folder / "checkpoint.safetensors").exists()
    counted = spending(None, None, key=None, acknowledged=False, verb="train")
    run, card = run_job(job, resume=begun, progress=show, spend=counted)
    if counted is not None and card is not None:
        counted.record([card])
    return {
        "step": job.plan.steps,
        "steps": job.plan.steps,
        "words": str(run.guarantee),
        "epsilonWords": history[-1]["epsilonWords"] if history else None,
        "heldOut": next(
            (e["heldOut"] for e in reversed(history) if e["heldOut"] is not None), None
        ),
        "history": history,
        "folder": job.folder.as_posix() if not job.folder.is_absolute() else job.folder.name,
    }


def require_inside(library: Library, config: Any) -> None:
    """Raise unless everything that a training file names lies under the root."""
    if config.model.import_ is not None:
        raise SfumatoError(
            "Expected a model of sfumato, got model.import, which runs other code: use sfumato train."
        )
    for named in config.named_files():
        place = Path(os.path.abspath(library.root / named))
        if library.root not in place.resolve().parents:
            raise SfumatoError(
                "Expected a training file that names places under the studio's folder, got one outside: "
                "use sfumato train."
            )
