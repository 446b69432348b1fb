"""Folders of files: what to do, what was done, in several processes, resumable, honest about failures."""

from __future__ import annotations

from sfumato.jobs._assistant import Assistant
from sfumato.jobs._choose_engine import choose_engine
from sfumato.jobs._engine import Answer, Engine, InThisProcess, Needs, NodeTally, run_all
from sfumato.jobs._items import Item, JobReport, Outcome, Standing, dataset_items
from sfumato.jobs._manifest import name_list, names_of, note_rewritten
from sfumato.jobs._parts import Part, run_parts
from sfumato.jobs._processes import Processes
from sfumato.jobs._publish import Start
from sfumato.jobs._queue import JobQueue, QueuedJob
from sfumato.jobs._release_folder import NAMES_NOTE, Release, level_time, level_times
from sfumato.jobs._run import run_job
from sfumato.jobs._worker import Worker, WorkerEndedError

__all__ = [
    "NAMES_NOTE",
    "Answer",
    "Assistant",
    "Engine",
    "InThisProcess",
    "Item",
    "JobQueue",
    "JobReport",
    "Needs",
    "NodeTally",
    "Outcome",
    "Part",
    "Processes",
    "QueuedJob",
    "Release",
    "Standing",
    "Start",
    "Worker",
    "WorkerEndedError",
    "choose_engine",
    "dataset_items",
    "level_time",
    "level_times",
    "name_list",
    "names_of",
    "note_rewritten",
    "run_all",
    "run_job",
    "run_parts",
]
