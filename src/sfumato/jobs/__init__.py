"""Folders of files: what to do, what was done, in several processes, resumable, honest about failures."""

from __future__ import annotations

from sfumato.jobs._assistant import Assistant
from sfumato.jobs._items import Item, JobReport, Outcome, Standing, dataset_items
from sfumato.jobs._manifest import name_list, names_of, note_rewritten
from sfumato.jobs._queue import JobQueue, QueuedJob
from sfumato.jobs._release_folder import CLASSES_NOTE, NAMES_NOTE, Release, level_time, level_times
from sfumato.jobs._run import Start, run_job
from sfumato.jobs._worker import Worker, WorkerEndedError

__all__ = [
    "CLASSES_NOTE",
    "NAMES_NOTE",
    "Assistant",
    "Item",
    "JobQueue",
    "JobReport",
    "Outcome",
    "QueuedJob",
    "Release",
    "Standing",
    "Start",
    "Worker",
    "WorkerEndedError",
    "dataset_items",
    "level_time",
    "level_times",
    "name_list",
    "names_of",
    "note_rewritten",
    "run_job",
]
