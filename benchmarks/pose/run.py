"""Table ``pose``: private pose estimation on Leeds Sports Pose after learning from staged people.

The paper's Tables 1 to 5 and its Figure 2. A model learns publicly from staged people with true
joints; then its head learns from LSP's first 1,000 pictures by every method, epsilon and clip norm,
on features that are computed once; LSP's last 1,000 are the test. PCK by torso at 0.2, because LSP
has no head boxes.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from benchmarks.harness.cells import Cells, Row
from benchmarks.pose.fit import SIZE, People, predict, prepared, score, with_mirror
from benchmarks.pose.grid import (
    DELTA,
    DP_METHODS,
    EPSILONS,
    EVERYTHING,
    LAST_STAGE,
    NORMS,
    PSI,
    SCRATCH,
    Setting,
    Task,
    grid,
    measure,
    some_public,
)
from benchmarks.pose.models import RECIPES, Cycle, leeds, public_model, staged, without_promise
from benchmarks.pose.noise import noises
from benchmarks.pose.page import HELPED, figures, tables, terminal
from benchmarks.pose.pictures import save_pictures
from benchmarks.pose.speed import speeds
from benchmarks.pose.subspace import captured
from sfumato.data import lsp
from sfumato.errors import SfumatoError
from sfumato.models import PoseNet
from sfumato.settings import Amount, Count

__all__ = ["figures", "run", "tables", "terminal"]

STRONG, PAPERS = "efficientnet-lite0", "tiny-vit-5m"
PARTS = ("baselines", "grid", "fine-tuned", "subspace", "helps", "strategies", "second", "speed")


@dataclass(frozen=True)
class Scale:
    """How much is done: the table, or a quick run."""

    staged: int = 4800
    share: float = 1.0
    records: int = 1000
    epochs: float = 25
    # training without a promise
    cycles: tuple[Cycle, ...] = (Cycle(48, 12), Cycle(24, 6, everything=True))
    batch: int = 250
    few: float = 1.0  # epochs of the strategies that cannot be cached


_QUICK = Scale(staged=24, share=0.5, records=24, epochs=2, cycles=(Cycle(1, 1),), batch=12, few=1.0)


def run(
    *,
    data: str | None = None,
    quick: bool = False,
    keep: str | None = None,
    seeds: Count = 3,
    epochs: Amount | None = None,
    minutes: Amount | None = None,
    parts: str | None = None,
    pictures: str | None = None,
) -> dict[str, Any]:
    """``data`` is LSP's folder. Every cell is kept as soon as it is done; ``parts`` names some of
    baselines, grid, fine-tuned, subspace, helps, strategies, second, speed; ``epochs`` may be fewer than the
    paper's 25; after ``minutes`` no further cell is begun; ``pictures`` is a folder for the paper's Figures 3 and 4f, which show people of LSP.
    """
    asked = parts.split(",") if parts else list(PARTS)
    unknown = [name for name in asked if name not in PARTS]
    if unknown:
        raise SfumatoError(f"Expected parts out of {', '.join(PARTS)}, got {unknown[0]!r}.")
    scale = _QUICK if quick else Scale(epochs=epochs or Scale.epochs)
    result: dict[str, Any] = {
        "scale": asdict(scale), "size": list(SIZE), "delta": DELTA, "psi": PSI.name,
        "psi_keeps": PSI.invertibility((*SIZE, 3)).sentence, "notes": [],
    }  # fmt: skip
    if data is None:
        result["notes"].append("Nothing was measured: pass data=FOLDER with Leeds Sports Pose.")
        return result
    # what the public model and the features follow from; the rest is in every cell's own name
    made_of = {"size": SIZE, "staged": scale.staged, "share": scale.share, "records": scale.records}
    cells = Cells("pose", made_of, keep)
    table = _Table(cells, scale, data, 1 if quick else seeds, quick)
    table.deadline = time.monotonic() + 60 * (math.inf if minutes is None else minutes)
    result |= {"records": table.size("train"), "test": table.size("test"), "noise": noises(scale)}
    for name in asked:
        found = table.part(name)
        if found:
            result[name.replace("-", "_")] = found
    if table.left_out:
        result["notes"].append(
            f"{table.left_out} cells are not measured yet: run the table again to go on."
        )
    if pictures is not None:
        save_pictures(pictures, table.task(STRONG), table.grid_settings())
    return result


class _Table:
    """The parts of the table, each a list of cells."""

    def __init__(self, cells: Cells, scale: Scale, data: str, seeds: int, quick: bool) -> None:
        self.cells, self.scale, self.seeds, self.quick = cells, scale, seeds, quick
        self.data = data
        self._tasks: dict[str, Task] = {}
        self.deadline, self.left_out = math.inf, 0

    # read when a cell is to be measured: a table whose cells are all kept needs none of them

    @cached_property
    def people(self) -> People:
        return staged(self.scale.staged, self.cells.folder)

    @cached_property
    def private(self) -> People:
        return _first(leeds(self.data, "train"), self.scale.records)

    @cached_property
    def test(self) -> People:
        return _first(leeds(self.data, "test"), self.scale.records)

    def size(self, part: str) -> int:
        return min(self.scale.records, len(lsp(self.data, part)))

    def task(self, backbone: str) -> Task:
        if backbone not in self._tasks:
            model = public_model(backbone, self.people, self.cells.folder, share=self.scale.share)
            self._tasks[backbone] = Task(
                model, backbone, self.private.crops(), some_public(self.people),
                self.test.crops(), self.cells.folder,
            )  # fmt: skip
        return self._tasks[backbone]

    def part(self, name: str) -> Any:
        match name:
            case "baselines":
                return self._baselines(STRONG)
            case "grid":
                return self._cells(self.grid_settings())
            case "fine-tuned":
                return self._fine_tuned()
            case "subspace":
                return self._done("subspace", lambda: captured(self.task(STRONG)))
            case "helps":
                return self._helps()
            case "strategies":
                return self._strategies()
            case "second":
                return self._second()
            case _:
                return self._done(
                    "speed of five cuts, one thread", lambda: speeds(self.task(STRONG), self.quick)
                )

    def _plain(self, method: str, **more: Any) -> Setting:
        return Setting(method, batch=self.scale.batch, epochs=self.scale.epochs, **more)

    def grid_settings(self) -> list[Setting]:
        whole = grid(self.seeds, batch=self.scale.batch, epochs=self.scale.epochs)
        if not self.quick:
            return whole
        return [one for one in whole if one.epsilon == EPSILONS[-1] and one.clip_norm == 0.1]

    def _done(self, key: str, measure: Callable[[], Row]) -> Row | None:
        """A cell that is there, or measured now while there is time."""
        if time.monotonic() > self.deadline and not self.cells.path(key).is_file():
            self.left_out += 1
            return None
        return self.cells.done(key, measure)

    def _cell(self, setting: Setting, backbone: str = STRONG) -> Row | None:
        key = f"{backbone}/{setting.key}"
        return self._done(key, lambda: measure(setting, self.task(backbone)))

    def _cells(self, settings: Iterable[Setting], backbone: str = STRONG) -> list[Row]:
        rows = [self._cell(setting, backbone) for setting in settings]
        return [row for row in rows if row is not None]

    def _before(self, backbone: str) -> list[Row]:
        def measure() -> Row:
            task = self.task(backbone)
            seen = RECIPES[backbone].epochs * self.scale.share * self.scale.staged
            return {"method": "before", "backbone": backbone, "seed": 0, "seen": round(seen),
                    "pck": task.score(copy.deepcopy(task.model))}  # fmt: skip

        row = self._done(f"{backbone}/before", measure)
        return [] if row is None else [row]

    def _baselines(self, backbone: str) -> list[Row]:
        """Before any private picture; the public view alone; no privacy: three seeds each."""
        settings = [
            self._plain(method, seed=seed)
            for method in ("public-only", "sgd")
            for seed in range(self.seeds)
        ]
        return [*self._before(backbone), *self._cells(settings, backbone)]

    def _fine_tuned(self) -> list[Row]:
        """What the private pictures give a model that promises nothing: a row a part of a cycle."""
        steps = [(number, part) for number, cycle in enumerate(self.scale.cycles)
                 for part in range(1, cycle.parts + 1)]  # fmt: skip
        found: list[Row] = []
        for number, part in steps:
            row = self._part_of_cycle(number, part)
            if row is None:
                break
            found.append(row)
        if found:
            number, part = steps[len(found) - 1]
            row = self._done(f"{self._named(number)}/part {part} with mirror images",
                             lambda: {"pck": self._with_mirror(number, part)})  # fmt: skip
            found[-1]["with_mirror"] = row and row["pck"]
        return found

    def _named(self, number: int) -> str:
        cycles = self.scale.cycles[: number + 1]
        told = ", then everything ".join(f"{cycle.epochs:g} in one cycle" for cycle in cycles)
        return f"{STRONG}/fine-tuned/{told}"

    def _part_of_cycle(self, number: int, part: int) -> Row | None:
        cycle = self.scale.cycles[number]
        before = sum(each.epochs for each in self.scale.cycles[:number])

        def measure() -> Row:
            began = time.process_time()
            model = self._after(number, part)
            seconds = time.process_time() - began
            return {"backbone": STRONG, "epochs": before + cycle.epochs * part / cycle.parts,
                    "everything": cycle.everything, "seconds_of_processor": seconds,
                    "pck": self.task(STRONG).score(model)}  # fmt: skip

        return self._done(f"{self._named(number)}/part {part}", measure)

    def _after(self, number: int, part: int) -> PoseNet:
        """The model after a part of a cycle."""
        model = copy.deepcopy(self.task(STRONG).model)
        for each in self.scale.cycles[:number]:
            without_promise(model, self.private, self.cells.folder, each, part=each.parts)
        without_promise(
            model, self.private, self.cells.folder, self.scale.cycles[number], part=part
        )
        model.requires_grad_(True)  # nothing of it is the public model's: score all of it
        return model

    def _with_mirror(self, number: int, part: int) -> dict[str, float]:
        test = self.test.crops()
        model = with_mirror(self._after(number, part))
        return score(predict(model, prepared(test.x)), test.y)

    def _helps(self) -> list[Row]:
        """One thing changed at a time, at the largest clip norm, where noise weighs most."""
        rows = []
        for epsilon in (EPSILONS[-1], EPSILONS[0]):
            for method in HELPED:
                base = self._plain(method, epsilon=epsilon, clip_norm=1.0)
                for name, setting in _changes(base, self.scale).items():
                    rows += [{"change": name, **row} for row in self._cells([setting])]
        return rows

    def _strategies(self) -> list[Row]:
        """What trains more than the head, at one clip norm: the last stage on cached features, and
        what cannot be cached whole, for few epochs."""
        epochs = dict.fromkeys((NORMS, EVERYTHING, SCRATCH), self.scale.few)
        return self._cells(
            replace(self._plain(method, epsilon=epsilon, clip_norm=0.01),
                    strategy=strategy, epochs=many)
            # the two ends of what projection and features do first
            for methods in (("dp-sgd", "feature-projective"), ("projected", "feature"))
            for strategy, many in {**epochs, LAST_STAGE: self.scale.epochs}.items()
            for epsilon in ((EPSILONS[-1],) if self.quick else (EPSILONS[-1], EPSILONS[0]))
            for method in methods
        )  # fmt: skip

    def _second(self) -> list[Row]:
        """The paper's own backbone, which no package index has weights for."""
        private = [
            self._plain(method, epsilon=epsilon, clip_norm=clip_norm)
            for clip_norm in (0.1, 0.01)
            for epsilon in (EPSILONS[0], EPSILONS[-1])
            for method in DP_METHODS
        ]
        free = [self._plain(method) for method in ("public-only", "sgd")]
        return [*self._before(PAPERS), *self._cells([*free, *private], PAPERS)]


def _changes(base: Setting, scale: Scale) -> dict[str, Setting]:
    largest = max(1, scale.records)
    return {
        "as in the grid": base,
        "rate x 4": replace(base, rate=4 * base.rate),
        "rate x 16": replace(base, rate=16 * base.rate),
        "rate x clip held fixed, C = 0.01": replace(base, clip_norm=0.01, rate=100 * base.rate),
        "rate x 4, average of weights": replace(base, rate=4 * base.rate, averaged=0.9),
        "momentum 0.9, rate x 0.4": replace(base, momentum=0.9, rate=0.4 * base.rate),
        "batch 64, rate / 4": replace(base, batch=min(64, largest), rate=base.rate / 4),
        "whole batch, rate x 4": replace(base, batch=largest, rate=4 * base.rate, refresh=2),
    }


def _first(people: People, count: int) -> People:
    return People(people.pictures[:count], people.joints[:count])
