"""How much faster one recording is in spans, by local processes; the result is compared with that of one run.

    OMP_NUM_THREADS=1 python -m benchmarks.scale.spans VIDEO METHOD SECONDS [ROUNDS] [name=value ...]

Both ways take turns, and the best of each counts. Beside the clock, which on a shared machine says little, stands
processor time: of one run, and of the driver and the slower worker of every stage, what each process needs to start
included. That is what cores of their own would give, if one process used one of them.
"""

from __future__ import annotations

import heapq
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import yaml

from sfumato import protect
from sfumato.jobs import Answer, Processes
from sfumato.media import open_video
from sfumato.protect._spans import InSpans

WORKERS = 2


class MeasuredProcesses(Processes):
    """Local processes that tell how much processor time each task took."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.critical = 0.0

    def run(
        self, work: Callable[..., Any], count: int, task: Any, **more: Any
    ) -> Generator[list[Answer], None, None]:
        spent, before = [0.0] * count, _children()
        for batch in super().run(_timed, count, lambda n, a: (work, *task(n, a)), **more):
            answers = []
            for each in batch:
                value = each.value
                if not each.failure:
                    spent[each.number], value = value
                answers.append(Answer(each.number, value, each.failure, each.attempt))
            yield answers
        starting = (_children() - before - sum(spent)) / min(self.workers, count)
        self.critical += starting + _longest(spent, self.workers)


def _timed(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    began = time.process_time()
    value = work(*arguments)
    return time.process_time() - began, value


def _longest(spent: Sequence[float], workers: int) -> float:
    """When the last worker is done that takes the next task as soon as it is free."""
    busy = [0.0] * workers
    for each in spent:
        heapq.heapreplace(busy, busy[0] + each)
    return max(busy)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(source: Path, name: str, seconds: float, rounds: int, settings: dict[str, Any]) -> None:
    best = {"one": (float("inf"), float("inf")), "spans": (float("inf"), float("inf"))}
    output = protect.OutputSettings(codec="h264rgb")
    with tempfile.TemporaryDirectory() as folder:
        made = {how: Path(folder, f"{how}.mp4") for how in best}
        for _ in range(rounds):
            for how in best:
                engine = MeasuredProcesses(WORKERS)
                cut = InSpans(seconds, engine, name, settings) if how == "spans" else None
                clock, used = time.perf_counter(), time.process_time()
                method = protect.make(name, settings)
                protect.release(method, source, made[how], output=output, force=True, spans=cut)
                clock, used = time.perf_counter() - clock, time.process_time() - used
                used += engine.critical
                best[how] = min(best[how][0], clock), min(best[how][1], used)
        same = [
            [(frame.time, frame.image.tobytes()) for frame in open_video(path)]
            for path in made.values()
        ]
    clock, used = (best["one"][n] / best["spans"][n] for n in (0, 1))
    print(
        f"{name}, {len(same[0])} frames, spans of {seconds:g} s, {WORKERS} processes, best of {rounds}: "
        f"{best['one'][0]:.1f} s and {best['spans'][0]:.1f} s by the clock ({clock:.2f} times as fast), "
        f"{best['one'][1]:.1f} s and {best['spans'][1]:.1f} s of processor time ({used:.2f}); "
        f"pixels and times {'equal' if same[0] == same[1] else 'NOT equal'}; load {os.getloadavg()[0]:.0f}"
    )


if __name__ == "__main__":
    words = sys.argv[4:]
    given = dict(word.split("=", 1) for word in words if "=" in word)
    counts = [int(word) for word in words if "=" not in word]
    main(
        Path(sys.argv[1]),
        sys.argv[2],
        float(sys.argv[3]),
        counts[0] if counts else 3,
        {key: yaml.safe_load(value) for key, value in given.items()},
    )
