"""Table ``pose-tiny-vit``: the pose paper's own architecture with weights that were really trained.

TinyViT-5M as MobileSAM's encoder has it is frozen. A small head on its map learns where staged people's
joints are; then its last layer learns from LSP's first 1,000 pictures; every second of the last 1,000 is the test.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.harness.cells import Cells, Row
from benchmarks.harness.markdown import markdown
from benchmarks.pose.fit import prepared, score
from benchmarks.pose.grid import DELTA, EPSILONS
from benchmarks.pose.orders import chosen, number
from benchmarks.pose.page import JOINTS
from sfumato.data import LSP, ArrayRecords, PersonCrops, lsp, staged_people
from sfumato.files import atomic_output
from sfumato.learn import Arrays, Plan, Sgd, Speed, plan_for, train
from sfumato.models import mobile_sam_trunk
from sfumato.privacy import Guarantee, Randomness
from sfumato.settings import Count

SIZE = (256, 192)
STRIDE, WIDTH, HIDDEN = 16, 320, 64
STAGED = 500  # four fifths teach the head, the others choose rate and steps
TEST_STEP = 2  # every second test picture
CLIP_NORM = 0.1
_SPREAD = 12.0  # pixels: how wide the target around a joint is
_GRID = ((10, 30), (0.3, 1.0, 3.0, 10.0))  # steps; rate times clip norm
_EPOCHS = 15
ZERO_SHOT, LAST, WHOLE = "staged people only", "no privacy, last layer", "no privacy, whole head"
PRIVATE = "dp-sgd, last layer"


class Head(nn.Module):
    """MobileSAM's map (records, 320, h, w) to one heat map a joint; ``last`` is what private pictures teach."""

    mean: Tensor
    deviation: Tensor
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)  # the first weights are public
        for name, value in (("mean", 0.0), ("deviation", 1.0)):
            self.register_buffer(name, torch.full((1, WIDTH, 1, 1), value))
        self.register_buffer("scale", torch.ones(1, HIDDEN, 1, 1))
        self.reduce = nn.Conv2d(WIDTH, HIDDEN, 1)
        self.around = nn.Conv2d(HIDDEN, HIDDEN, 5, padding=2)
        self.last = nn.Conv2d(HIDDEN, len(LSP), 1)

    def hidden(self, x: Tensor) -> Tensor:
        reduced = functional.gelu(self.reduce((x - self.mean) / self.deviation))
        return functional.gelu(self.around(reduced)) / self.scale

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.hidden(x))  # type: ignore[no-any-return]


def centres() -> tuple[Tensor, Tensor]:
    """Where the cells of the map are, in pixels of the crop: x and y."""
    rows, columns = (torch.arange(side // STRIDE) * STRIDE + (STRIDE - 1) / 2 for side in SIZE)
    return columns, rows


def heat_loss(maps: Tensor, y: Tensor) -> Tensor:
    """One value a record: cross-entropy with a Gaussian around each annotated joint."""
    columns, rows = centres()
    apart = (columns - y[..., 0, None, None]).square() + (
        rows[:, None] - y[..., 1, None, None]
    ).square()
    target = (-apart / (2 * _SPREAD**2)).flatten(2).softmax(-1)
    each = -(target * maps.flatten(2).log_softmax(-1)).sum(-1)
    return (each * y[..., 2]).sum(1) / y[..., 2].sum(1).clamp(min=1)


def places(maps: Tensor) -> npt.NDArray[np.float32]:
    """Joints (records, joints, 2): the mean of the best cell and its neighbours."""
    columns, rows = centres()
    share = maps.flatten(2).softmax(-1).view(maps.shape)
    best = share.flatten(2).argmax(-1)[..., None, None]
    down, across = best // maps.shape[3], best % maps.shape[3]
    near = (torch.arange(maps.shape[2])[:, None] - down).abs().le(1)
    near = near & (torch.arange(maps.shape[3]) - across).abs().le(1)
    share = share * near / (share * near).sum((2, 3), keepdim=True)
    return torch.stack(
        ((share.sum(2) * columns).sum(-1), (share.sum(3) * rows).sum(-1)), -1
    ).numpy()


def described(part: str, data: str, folder: Path, count: int) -> ArrayRecords:
    """The trunk's maps of crops and their joints, looked at once and kept."""
    path = folder / f"maps-{part}-{count}.npz"
    if not path.is_file():
        found = staged_people(count, seed=0) if part == "staged" else lsp(data, part)
        crops = PersonCrops(found, SIZE)
        step = TEST_STEP if part == "test" else 1
        rows = [crops[i] for i in range(0, min(count, len(crops)), step)]
        net = mobile_sam_trunk(pretrained=True)
        net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        maps = []
        with torch.no_grad():
            for start in range(0, len(rows), 8):
                x = prepared(np.stack([row.x for row in rows[start : start + 8]]))
                maps.append(net(x.contiguous(memory_format=torch.channels_last)).half().numpy())
        with atomic_output(path, force=True) as temporary, open(temporary, "wb") as stream:
            np.savez(stream, x=np.concatenate(maps), y=np.stack([row.y for row in rows]))
    with np.load(path, allow_pickle=False) as kept:
        return ArrayRecords(kept["x"], kept["y"])


def teach(head: Head, people: ArrayRecords, part: nn.Module, *, seed: int = 0) -> None:
    """``part`` of the head learns from these people, without any promise to them."""
    x, y = torch.from_numpy(people.x), torch.from_numpy(people.y)
    head.requires_grad_(False)
    part.requires_grad_(True)
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(part.parameters(), 2e-3, weight_decay=0.05)
    steps = _EPOCHS * -(-len(x) // 50)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 2e-3, total_steps=steps, pct_start=0.1
    )
    for _ in range(_EPOCHS):
        for some in torch.split(torch.randperm(len(x), generator=draw), 50):
            loss = heat_loss(head(x[some].float()), y[some]).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()


def public_head(staged: ArrayRecords) -> Head:
    """A head that has seen staged people alone; its hidden map has deviation 1 on them."""
    first = 4 * len(staged) // 5
    x = torch.from_numpy(staged.x[:first]).float()
    head = Head()
    head.mean.copy_(x.mean((0, 2, 3), keepdim=True))
    head.deviation.copy_(x.std((0, 2, 3), keepdim=True))
    teach(head, ArrayRecords(staged.x[:first], staged.y[:first]), head)
    with torch.no_grad():
        seen = torch.cat([head.hidden(part) for part in torch.split(x, 50)])
        head.scale.copy_(seen.std((0, 2, 3), keepdim=True).clamp_min(1e-3))
        head.last.weight.mul_(head.scale)
    return head


def hidden(head: Head, people: ArrayRecords) -> ArrayRecords:
    """What the last layer sees; all before it is public and does not train."""
    with torch.no_grad():
        maps = [head.hidden(part.float()) for part in torch.split(torch.from_numpy(people.x), 50)]
    return ArrayRecords(torch.cat(maps).numpy(), people.y)


def plan_of(count: int, steps: int, epsilon: float) -> Plan:
    """Unit one picture, relation replace, every picture in every step."""
    return plan_for("dp-sgd", records=count, batch=count, steps=steps, epsilon=epsilon, delta=DELTA,
                    clip_norm=CLIP_NORM, relation="replace", unit="record")  # fmt: skip


def learnt(start: nn.Conv2d, people: ArrayRecords, plan: Plan, rate: float, seed: int) -> tuple[nn.Conv2d, str]:  # fmt: skip
    """The last layer after training, and its promise. A seeded run is labelled not private."""
    last = nn.Conv2d(HIDDEN, len(LSP), 1)
    last.load_state_dict(start.state_dict())
    done = train(
        last, people, plan, optimizer=Sgd(rate), loss=heat_loss, prepare=Arrays(people.x.shape[1:]),
        speed=Speed(trunk_cache=False), randomness=Randomness(1000 + seed),
    )  # fmt: skip
    return last, done.guarantee.terms if isinstance(done.guarantee, Guarantee) else "none"


def scored(last: nn.Conv2d, people: ArrayRecords) -> dict[str, float]:
    with torch.no_grad():
        return score(places(last(torch.from_numpy(people.x))), people.y)


def choose(staged: ArrayRecords, epsilon: float, count: int) -> Row:
    """Steps and rate that teach the last layer most from nothing, on staged people, with the noise that
    ``count`` private pictures would get."""
    first = 4 * len(staged) // 5
    some, others = (
        ArrayRecords(staged.x[part], staged.y[part]) for part in (slice(first), slice(first, None))
    )
    best: Row = {"pck": -1.0}
    x, y = torch.from_numpy(some.x), torch.from_numpy(some.y)
    for steps in _GRID[0]:
        noise = plan_of(count, steps, epsilon).noise_multiplier * CLIP_NORM / count
        for product in _GRID[1]:
            draw = torch.Generator().manual_seed(0)
            weight, bias = torch.zeros(len(LSP), HIDDEN), torch.zeros(len(LSP))
            for _ in range(steps):
                turned = _clipped_mean(weight, bias, x, y)
                for value, mean in zip((weight, bias), turned):
                    value -= (
                        product
                        / CLIP_NORM
                        * (mean + noise * torch.randn(mean.shape, generator=draw))
                    )
            maps = (
                torch.einsum("jc,nchw->njhw", weight, torch.from_numpy(others.x))
                + bias[:, None, None]
            )
            found = score(places(maps), others.y)["mean"]
            if found > best["pck"]:
                best = {"pck": found, "steps": steps, "rate": product / CLIP_NORM}
    return best


def _clipped_mean(weight: Tensor, bias: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of clipped gradients of a 1x1 layer, for public people alone."""
    maps = (torch.einsum("jc,nchw->njhw", weight, x) + bias[:, None, None]).requires_grad_()
    heat_loss(maps, y).sum().backward()  # type: ignore[no-untyped-call]
    assert maps.grad is not None
    own = torch.einsum("njhw,nchw->njc", maps.grad, x)
    flat = maps.grad.sum((2, 3))
    length = (own.square().sum((1, 2)) + flat.square().sum(1)).sqrt()
    factor = (CLIP_NORM / length.clamp_min(1e-12)).clamp(max=1)
    return torch.einsum("n,njc->jc", factor, own) / len(x), (factor[:, None] * flat).mean(0)


def run(
    *, data: str | None = None, quick: bool = False, keep: str | None = None, seeds: Count = 3
) -> dict[str, Any]:
    """``data`` is LSP's folder. Every cell and every part's maps are kept as soon as they are done."""
    result: dict[str, Any] = {"delta": DELTA, "clip_norm": CLIP_NORM, "cells": [], "notes": []}
    if data is None:
        result["notes"].append("Nothing was measured: pass data=FOLDER with Leeds Sports Pose.")
        return result
    count, repeats = (24, 1) if quick else (1000, int(seeds))
    cells = Cells("pose-tiny-vit", {"records": count, "staged": STAGED, "version": 1}, keep)
    staged = min(count, STAGED)
    maps = cache(
        lambda part: described(part, data, cells.folder, staged if part == "staged" else count)
    )
    head = cache(lambda: public_head(maps("staged")))
    shown = cache(lambda part: hidden(head(), maps(part)))

    def cell(method: str, epsilon: float | None, seed: int) -> Row:
        if epsilon is not None:
            settings = cells.done(
                f"settings/{epsilon}", partial(choose, shown("staged"), epsilon, count)
            )
            plan = plan_of(count, settings["steps"], epsilon)
            last, promise = learnt(head().last, shown("train"), plan, settings["rate"], seed)
            return {"pck": scored(last, shown("test")), "promise": promise, "settings": settings}
        own = copy.deepcopy(head())
        if method != ZERO_SHOT:
            teach(own, maps("train"), own if method == WHOLE else own.last, seed=seed)
        return {"pck": scored(own.last, hidden(own, maps("test"))), "promise": "none"}

    every: list[tuple[str, float | None, int]] = [(ZERO_SHOT, None, 0)]
    every += [(PRIVATE, e, s) for e in (EPSILONS[-1], EPSILONS[0]) for s in range(repeats)]
    every += [(method, None, 0) for method in (WHOLE, LAST)]
    for method, epsilon, seed in every:
        row = cells.done(f"{method}/{epsilon}/{seed}", partial(cell, method, epsilon, seed))
        result["cells"].append({"method": method, "epsilon": epsilon, "seed": seed} | row)
    return result


def _lines(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    lines = []
    for method in (ZERO_SHOT, PRIVATE, LAST, WHOLE):
        for epsilon in EPSILONS if method == PRIVATE else (None,):
            scores = chosen(result["cells"], method=method, epsilon=epsilon)
            if scores:
                asked = "-" if epsilon is None else f"{epsilon:g}"
                lines.append([method, asked, *(number(scores, joint) for joint in JOINTS)])
    return ["what trains", "epsilon", *JOINTS.values()], lines


def terminal(result: dict[str, Any]) -> Sequence[Any]:
    head, lines = _lines(result)
    table = Table(*head, box=None, pad_edge=False)
    for line in lines:
        table.add_row(*line)
    promises = sorted({cell["promise"] for cell in result["cells"] if cell["epsilon"]})
    return [table, *promises, *result["notes"]]


def tables(result: dict[str, Any]) -> dict[str, str]:
    return {"grid": markdown(*_lines(result), left=1)}
