"""Table ``pass``: private attributes on real recordings, by every method and every attacker.

    python -m benchmarks pass data=DATA --out benchmarks/results/pass.json

Every row is kept as soon as it is measured, so that a stopped table goes on. ``only=`` names parts
(speed, goals, baselines, pictures, more-data, combinations, full); ``minutes=`` begins no new row after that
many minutes, so that ``minutes=0`` shows what there is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.attributes.cases import (
    BOUNDED,
    COMBINATIONS,
    FULL,
    GOALS,
    MAIN,
    MORE_DATA,
    SEEDS,
    Case,
    settled,
)
from benchmarks.attributes.data import FOLDERS, SPLITS, Split, face_split, find_folders
from benchmarks.attributes.figures import figures
from benchmarks.attributes.measure import (
    Effort,
    Reference,
    baseline_row,
    bound_row,
    fit_row,
    floor_row,
    pass_row,
    released_row,
    rounded,
    validated_lambda,
)
from benchmarks.attributes.page import tables, terminal
from benchmarks.attributes.pictures import PICTURE_METHODS, released_faces
from benchmarks.harness.cells import Cells, Row
from sfumato.attributes.baselines import BASELINES, GameSettings
from sfumato.audit import ProbeSettings
from sfumato.data import chosen_rows
from sfumato.errors import SfumatoError
from sfumato.settings import Amount, Count

__all__ = ["figures", "run", "tables", "terminal"]

PARTS = ("speed", "goals", "baselines", "pictures", "more-data", "combinations", "full")
# enough donors for some of each class, enough records for every mixture of donors of the ablation, and
# an attack that beats guessing on unprotected records
QUICK = Effort(steps=10, game=GameSettings(steps=10), attack=ProbeSettings(epochs=4, batch=128),
               most_donors=512)  # fmt: skip
_QUICK_RECORDS, _QUICK_STEP = 2700, 8


@dataclass(frozen=True)
class Wanted:
    """One row of the table: a case, a method, a seed."""

    case: str
    method: str
    seed: int

    @property
    def key(self) -> str:
        return f"{self.method}/seed{self.seed}"


_SEED_COUNT = len(SEEDS)


def run(
    *,
    data: str | None = None,
    quick: bool = False,
    keep: str | None = None,
    only: str | None = None,
    seeds: Count = _SEED_COUNT,
    minutes: Amount | None = None,
) -> dict[str, Any]:
    """Measure, or read what was measured before; ``data`` is the root of the real recordings."""
    # many fits of the same kind: nothing that a quick run would show
    parts = only.split(",") if only else list(PARTS[:-1] if quick else PARTS)
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise SfumatoError(f"Expected parts out of {', '.join(PARTS)}, got {unknown[0]!r}.")
    table = TableRun(find_folders(data), quick=quick, keep=keep, minutes=minutes)
    if "speed" in parts:
        table.fit_only(MAIN["audio"], SEEDS[0])
    for wanted in _wanted(parts, SEEDS[: 1 if quick else seeds]):
        # other combinations are judged by the exact attacker, whom no trained one beats
        trained = wanted.case not in {*COMBINATIONS, *FULL}
        table.take(ALL_CASES[wanted.case], wanted, trained_attacker=trained)
    return table.result() | {"parts": parts, "quick": quick}


ALL_CASES: dict[str, Case] = {**MAIN, **MORE_DATA, **COMBINATIONS, **FULL}


def _wanted(parts: Sequence[str], seeds: Sequence[int]) -> Iterator[Wanted]:
    """Rows in the order of their worth: a table that is stopped early has the main ones."""
    for seed in seeds:
        if "goals" in parts:
            yield from (Wanted(case, "pass", seed) for case in MAIN)
    for seed in seeds:
        if "more-data" in parts:
            yield from (Wanted(case, "pass", seed) for case in MORE_DATA)
    if "combinations" in parts:
        yield from (Wanted(case, "pass", seeds[0]) for case in COMBINATIONS)
    if "baselines" in parts:
        yield from (Wanted("motion", method, seeds[0]) for method in BASELINES)
        yield from (Wanted("audio", method, seeds[0]) for method in BASELINES)
    if "pictures" in parts:
        yield from (Wanted("faces", method, seeds[0]) for method in PICTURE_METHODS)
    if "baselines" in parts:
        yield from (Wanted("motion-half", method, seeds[0]) for method in BASELINES)
        # their own adversary finds little with one seed and much with another
        for seed in seeds[1:]:
            yield from (Wanted("motion", method, seed) for method in BASELINES)
    if "full" in parts:
        yield from (Wanted(case, "pass", seed) for seed in seeds for case in FULL)


class TableRun:
    """The rows so far. Data are read when the first row needs them, and forgotten with the next."""

    def __init__(
        self, folders: dict[str, Path], *, quick: bool, keep: str | None, minutes: float | None
    ) -> None:
        self.folders, self.quick, self.keep = folders, quick, keep
        self.effort = QUICK if quick else Effort()
        self.cases: dict[str, Row] = {}
        self.missing = 0
        self._until = None if minutes is None else time.monotonic() + 60 * minutes
        self._loaded: tuple[str, Split] | None = None
        self._plain: tuple[tuple[str, tuple[str, ...]], Reference] | None = None

    def take(self, case: Case, wanted: Wanted, *, trained_attacker: bool = True) -> None:
        """Measure one row, or read it, or count it as missing."""
        if case.source not in self.folders:
            return
        late = self._until is not None and time.monotonic() >= self._until
        if case.lambdas:
            choice = self._cells(case)
            if late and not choice.path("lambda").is_file():
                self.missing += 1
                return
            open_case = case
            chosen = choice.done("lambda", lambda: validated_lambda(
                open_case, self._split(open_case)[0], self.effort))  # fmt: skip
            case = settled(case, chosen["lambda"])
        cells = self._cells(case)
        clear_cells = self._cells([case.source, sorted(case.attributes)])
        if late and not (clear_cells.path("clear").is_file() and cells.path(wanted.key).is_file()):
            self.missing += 1
            return
        clear = clear_cells.done("clear", lambda: self._sized(case))
        measure = self._measure(case, wanted, cells, clear["scores"], trained_attacker)
        row = cells.done(wanted.key, measure)
        if wanted.method == "pass":
            row = row | self._fit(case, cells, wanted.seed)[0]
            if wanted.seed != SEEDS[0]:
                # whole matrices are shown of one seed only
                row = {name: value for name, value in row.items() if name != "confusion"}
        floor = cells.done("floor", lambda: floor_row(case, self._split(case), clear["scores"]))
        entry = self.cases.setdefault(
            wanted.case, {"task": asdict(case), "clear": clear, "floor": floor, "rows": {}}
        )
        if case.source in BOUNDED:
            entry["bound"] = cells.done(
                "bound",
                lambda: bound_row(
                    case, self._reference(case), clear["scores"], BOUNDED[case.source]
                ),
            )
        entry["rows"].setdefault(wanted.method, {})[str(wanted.seed)] = row

    def _measure(
        self, case: Case, wanted: Wanted, cells: Cells, clear: Row, trained: bool
    ) -> Callable[[], Row]:
        seed, effort = wanted.seed, self.effort
        if wanted.method == "pass":
            plain = (lambda: self._reference(case)) if trained else None
            return lambda: pass_row(
                case, self._split(case), clear, seed, effort, self._fit(case, cells, seed)[1], plain
            )
        if wanted.method in PICTURE_METHODS:
            folder, step = self.folders[case.source], _QUICK_STEP if self.quick else 1
            return lambda: released_row(
                case, released_faces(folder, wanted.method, seed, step), clear, effort
            )
        return lambda: baseline_row(
            case,
            wanted.method,
            self._split(case),
            clear,
            seed,
            effort,
            lambda: self._reference(case),
        )

    def fit_only(self, case: Case, seed: int) -> None:
        """The longest part of a row by itself, to be timed on a quiet machine."""
        if case.source in self.folders:
            self._fit(case, self._cells(case), seed)

    def _fit(self, case: Case, cells: Cells, seed: int) -> tuple[Row, Path]:
        """What the fit took, and where the model is kept, so that attacks on it can come later."""
        kept = cells.folder / f"pass-seed{seed}.safetensors"
        cost = cells.done(
            f"fit/seed{seed}",
            lambda: fit_row(case, self._split(case)[0], seed, self.effort, kept),
        )
        return cost, kept

    def _cells(self, case: Case | list[Any]) -> Cells:
        stated = asdict(case) if isinstance(case, Case) else case
        if isinstance(stated, dict):
            # rows measured before there was such a thing stay valid
            stated = {k: v for k, v in stated.items() if v or k not in ("also", "lambdas")}
        settings = {"case": stated, "effort": asdict(self.effort), "quick": self.quick}
        return Cells("pass", settings, self.keep)

    def _split(self, case: Case) -> Split:
        if self._loaded is None or self._loaded[0] != case.source:
            read = SPLITS[case.source]
            if self.quick and case.source == "faces":
                read = partial(face_split, step=_QUICK_STEP)  # features take long
            train, test = read(self.folders[case.source])
            if self.quick:
                train, test = _few(train), _few(test)
            self._loaded = (case.source, (train, test))
        return self._loaded[1]

    def _reference(self, case: Case) -> Reference:
        """One a data set: every task on it attacks the same attributes."""
        names = tuple(sorted(case.attributes))
        if self._plain is None or self._plain[0] != (case.source, names):
            made = Reference(names, self._split(case), self.effort)
            self._plain = ((case.source, names), made)
        return self._plain[1]

    def _sized(self, case: Case) -> Row:
        train, test = self._split(case)
        scores = {name: rounded(score) for name, score in self._reference(case).on(None).items()}
        return {"scores": scores, "train": len(train), "test": len(test)}

    def result(self) -> dict[str, Any]:
        notes = [
            f"Not run: {name} (no folder {FOLDERS[name]} in data=)."
            for name in FOLDERS
            if name not in self.folders
        ]
        if self.missing:
            notes.append(f"Not run: {self.missing} rows, for want of time; run it again to go on.")
        return {"cases": self.cases, "notes": notes, "goals": _goals()}


def _few(records: Any) -> Any:
    step = max(1, len(records) // _QUICK_RECORDS)
    return chosen_rows(records, list(range(0, len(records), step)))


def _goals() -> dict[str, list[dict[str, Any]]]:
    return {case: [asdict(goal) for goal in goals] for case, goals in GOALS.items()}
