"""Table ``attacks``: how every protection fares against every attack, and what is still useful.

Staged people in staged rooms, so that everything about them is known. Cells are kept as they are
done: a run that was stopped resumes.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.attacks.people import real_lines, real_people
from benchmarks.attacks.pictures import still_found, undone
from benchmarks.attacks.stage import (
    QUICK,
    QUICK_WAYS,
    STAGING,
    WAYS,
    Clips,
    Truth,
    protected_clips,
    staged_clips,
)
from benchmarks.harness.cells import Cells
from benchmarks.harness.markdown import markdown
from sfumato.audit import Result
from sfumato.audit.attack import action_protocols, infer, views_of, visual_attack
from sfumato.audit.measure import ClassifierScores, Psnr, Ssim
from sfumato.errors import SfumatoError
from sfumato.files import write_json
from sfumato.jobs import choose_engine, run_all
from sfumato.settings import Count
from sfumato.store import cache_folder

RAW = "nothing"


class Shown:
    """Clips as an attacker has them; views are looked at once and shared by all attacks."""

    def __init__(self, clips: Clips, truth: Truth, way: str) -> None:
        self.clips, self.way, self._truth = clips, way, truth

    @cached_property
    def people(self) -> dict[str, npt.NDArray[np.float32]]:
        return views_of(self.clips, self._truth.masks, at="people", pictures=2)

    @cached_property
    def surroundings(self) -> dict[str, npt.NDArray[np.float32]]:
        return views_of(self.clips, self._truth.masks, at="surroundings", pictures=1)


@dataclass(frozen=True)
class Attack:
    """One column or more: what it gets from originals, protected clips and what is so in them."""

    name: str
    run: Callable[[Shown, Shown, Truth], list[Result]]


def _visual(originals: Shown, protected: Shown, truth: Truth) -> list[Result]:
    return visual_attack(originals.people, protected.people, truth.attributes).results()


def _identity(originals: Shown, protected: Shown, truth: Truth) -> list[Result]:
    guess = infer(protected.people, protected.people, truth.identity)
    return _named("identity", guess, truth.identity.codes)


def _rooms(originals: Shown, protected: Shown, truth: Truth) -> list[Result]:
    guess = infer(protected.surroundings, protected.surroundings, truth.rooms)
    return _named("room", guess, truth.rooms.codes)


def _named(target: str, guess: npt.NDArray[np.float64], codes: Any) -> list[Result]:
    measure = ClassifierScores(guess.shape[1])
    measure.update(guess, codes)
    return measure.results(target=target)


def _actions(originals: Shown, protected: Shown, truth: Truth) -> list[Result]:
    return action_protocols(originals.people, protected.people, truth.actions)


def _pixels(originals: Shown, protected: Shown, truth: Truth) -> list[Result]:
    rows = []
    for measure in (Ssim(), Psnr()):
        measure.update(protected.clips[:, ::4], originals.clips[:, ::4])
        rows += measure.results()
    return rows


def _leaks(originals: Shown, protected: Shown, truth: Truth) -> list[Result]:
    return still_found(protected.clips, truth)


def _undoing(originals: Shown, protected: Shown, truth: Truth) -> list[Result]:
    if protected.way == RAW:
        return []
    return undone(originals.clips, protected.clips, protected.way)


ATTACKS = (
    Attack("visual", _visual),
    Attack("identity", _identity),
    Attack("rooms", _rooms),
    Attack("actions", _actions),
    Attack("leaks", _leaks),
    Attack("undoing", _undoing),
    Attack("pixels", _pixels),
)


def run(
    *,
    data: str | None = None,
    quick: bool = False,
    only: str | None = None,
    keep: str | None = None,
    jobs: Count = 2,
    engine: str = "local",
) -> dict[str, Any]:
    """Every attack on every protection, and on real people in ``data``. ``only`` names rows by their beginnings, with semicolons
    between them; ``keep`` is the folder of what is done; ``jobs`` processes share the rows, or the nodes of an ``engine``
    (ray), which all see ``keep``."""
    staging = QUICK if quick else STAGING
    wanted = None if only is None else [each.strip() for each in only.split(";")]
    first = QUICK_WAYS if quick else tuple(WAYS)
    ways = [
        way for way in WAYS
        if (way in first if wanted is None else way.startswith(tuple(wanted)))
    ]  # fmt: skip
    if not ways:
        raise SfumatoError(f"Expected rows out of {'; '.join(WAYS)}, got {only!r}.")
    mark = hashlib.sha256(repr(asdict(staging)).encode()).hexdigest()[:12]
    folder = Path(keep) if keep else cache_folder().parent / "bench" / f"attacks-{mark}"
    folder.mkdir(parents=True, exist_ok=True)
    staged_clips(staging, folder)
    rows = [RAW, *ways]
    tasks = [(str(folder), way) for way in rows if not _finished(folder, way)]
    if jobs > 1 and len(tasks) > 1:
        rows_done = run_all(choose_engine(engine, jobs), _row, [(task,) for task in tasks])
        for failed in rows_done:
            if isinstance(failed, SfumatoError):
                raise failed
    else:
        for task in tasks:
            _row(task)
    real = None
    if data is not None:
        real = real_people(Cells("attacks-people", {"version": 1}, keep), data, quick=quick)
    return {
        "real": real,
        "staging": {k: v for k, v in asdict(staging).items() if k != "actions"}
        | {"actions": list(staging.actions)},
        "attack_seconds": round(sum(_kept(folder, way, "seconds") for way in rows)),
        "rows": {way: _kept(folder, way, "results") for way in rows},
    }


def _place(folder: Path, way: str, attack: str) -> Path:
    return folder / f"{hashlib.sha256(way.encode()).hexdigest()[:8]}-{attack}.json"


def _finished(folder: Path, way: str) -> bool:
    return all(_place(folder, way, attack.name).is_file() for attack in ATTACKS)


def _kept(folder: Path, way: str, part: str) -> Any:
    """Results, or seconds, of all attacks on one row."""
    cells = [
        json.loads(_place(folder, way, attack.name).read_text(encoding="utf-8"))[part]
        for attack in ATTACKS
    ]
    return [each for cell in cells for each in cell] if part == "results" else sum(cells)


def _row(task: tuple[str, str]) -> None:
    """One protection against all attacks, in a process of its own."""
    import cv2
    import torch

    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    folder, way = Path(task[0]), task[1]
    clips, truth = staged_clips(STAGING, folder)
    originals = Shown(clips, truth, RAW)
    protected = originals
    if way != RAW:
        protected = Shown(_released(folder, way, clips, truth), truth, way)
    if (stored := folder / "raw-views.npz").is_file():
        with np.load(stored, allow_pickle=False) as seen:
            originals.__dict__["people"] = {name: seen[name] for name in seen.files}
    for attack in ATTACKS:
        target = _place(folder, way, attack.name)
        if not target.is_file():
            began = time.monotonic()
            results = [each.to_json() for each in attack.run(originals, protected, truth)]
            write_json(target, {"results": results, "seconds": time.monotonic() - began})
    if not stored.is_file():
        part = folder / f"raw-views.{hashlib.sha256(way.encode()).hexdigest()[:8]}.npz"
        np.savez(part, **originals.people)  # type: ignore[arg-type]
        part.replace(stored)


def _released(folder: Path, way: str, clips: Clips, truth: Truth) -> Clips:
    file = folder / f"{hashlib.sha256(way.encode()).hexdigest()[:8]}.npz"
    if not file.is_file():
        part = file.with_suffix(".part.npz")
        np.savez_compressed(part, clips=protected_clips(way, clips, truth))
        part.replace(file)
    with np.load(file, allow_pickle=False) as stored:
        found: Clips = stored["clips"]
        return found


# column of the table -> (name of the measure, target)
COLUMNS: dict[str, tuple[str, str | None]] = {
    "cMAP": ("cMAP", None),
    **{name: ("balanced accuracy of an attribute", name)
       for name in ("face", "skin", "clothing", "sex", "build", "identity", "room")},
    "found": ("frames on which a person or face is still found", "person"),
    "undone": ("hidden pixels seen again", "reconstruction"),
    "action": ("top-1", "action, tested on protected"),
    "action on raw": ("top-1", "action, tested on raw"),
    "SSIM": ("SSIM", None),
}  # fmt: skip


def cell(row: Sequence[dict[str, Any]], column: str) -> dict[str, Any] | None:
    """The result of a column in a row: the headline, never the one under domain shift."""
    name, target = COLUMNS[column]
    for each in row:
        headline = not str(each.get("note", "")).startswith("trained on raw")
        if (each["name"], each.get("target")) == (name, target) and "value" in each and headline:
            return each
    return None


def text(found: dict[str, Any] | None) -> str:
    """A value in per cent; a star where the whole interval lies beyond guessing."""
    if found is None:
        return "-"
    low, chance = found.get("low"), found.get("chance")
    mark = "*" if low is not None and chance is not None and low > chance else ""
    return f"{round(100 * found['value'])}{mark}"


def tables(result: dict[str, Any]) -> dict[str, str]:
    """How every protection fares against every attack, in per cent; the same on real people."""
    rows, columns = result["rows"], list(COLUMNS)
    lines = [["*guessing*", *_guessing(rows[RAW])]]
    for way in in_order(rows):
        shown = (text(cell(rows[way], column)).replace("*", "\\*") for column in columns)
        lines.append([way, *shown])
    made = {"staged": markdown(["protection", *columns], lines)}
    if result.get("real"):
        made["real"] = "\n".join(real_lines(result["real"]))
    return made


def _guessing(raw: Sequence[dict[str, Any]]) -> list[str]:
    chances = [(cell(raw, column) or {}).get("chance") for column in COLUMNS]
    return ["" if chance is None else f"{100 * chance:.0f}" for chance in chances]


def terminal(result: dict[str, Any]) -> list[Any]:
    lines = [
        _line("in per cent", list(COLUMNS)),
        _line("(guessing)", _guessing(result["rows"][RAW])),
    ]
    lines += [
        _line(way, [text(cell(result["rows"][way], column)) for column in COLUMNS])
        for way in in_order(result["rows"])
    ]
    spent = f"{result['attack_seconds']} seconds of attacks, protecting not counted."
    real = real_lines(result["real"]) if result.get("real") else ["Real people: not run, no data="]
    return [*lines, "* the whole 95 % interval lies beyond guessing", spent, "", *real]


def in_order(rows: Mapping[str, Any]) -> list[str]:
    """The rows as the table lists them: nothing first, then from hiding to noise."""
    return [way for way in (RAW, *WAYS) if way in rows]


def _line(name: str, cells: Sequence[str]) -> str:
    widths = [max(len(column), 5) for column in COLUMNS]
    return f"{name:<30}" + "".join(f" {c:>{w}}" for c, w in zip(cells, widths, strict=True))
