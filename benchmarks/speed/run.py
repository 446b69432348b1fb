"""Table ``speed``: what privacy costs in time, side by side in one run.

All contenders take turns, and the best of several rounds counts: on a busy machine single timings
swing by factors, ratios of interleaved bests do not. Opacus is a peer, measured if it is installed.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from torch import Tensor, nn

from benchmarks.harness.figures import Curve, curves
from benchmarks.harness.markdown import markdown
from benchmarks.speed.peers import opacus_fine_tuning, opacus_steps
from sfumato.learn import (
    Route,
    Sgd,
    Speed,
    clipped_gradient,
    cross_entropy,
    keep_freed_memory,
    route_of,
)
from sfumato.learn.engine._clipped import clipped_rows, lay_out
from sfumato.learn.engine._noise import GaussianNoise, flatten, unflatten
from sfumato.learn.engine._persons import mean_gradient
from sfumato.learn.engine._validate import trainable
from sfumato.models import VideoViT, mvit_v2_s, select
from sfumato.privacy import Randomness
from sfumato.settings import Count

CLIP = (3, 8, 64, 64)
BATCH = 32
GROWTH = (16, 32, 64, 128, 256)  # records
CLASSES = 10
NOISE = 1.0
RATE = 0.01
_STEPS_A_TURN = 3
MEMORY = 256 << 20
_FINE_TUNED_CLIPS, _FINE_TUNED_EPOCHS = 200, 30

Step = Callable[[], object]


@dataclass
class Contender:
    """One way to take a training step."""

    name: str
    step: Step
    best: float = float("inf")


def run(*, rounds: Count = 7, threads: Count = 2, quick: bool = False) -> dict[str, Any]:
    """All measurements as plain values; ``quick`` takes one round of fewer records and leaves fine-tuning out."""
    rounds = 1 if quick else rounds
    keep_freed_memory()  # as a training does; for all contenders alike
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        result: dict[str, Any] = {"machine": machine(), "threads": threads, "rounds": rounds}
        result |= _steps(rounds)
        result["growth"] = _growth(GROWTH[:3:2] if quick else GROWTH, max(1, rounds // 3), threads)
        result["fine_tuning"] = [] if quick else _fine_tuning(threads)
    finally:
        torch.set_num_threads(before)
    return result


def machine() -> str:
    """What the numbers were measured on."""
    described = Path("/proc/cpuinfo")
    names = (
        re.findall(r"model name\s*: (.+)", described.read_text(encoding="utf-8"))
        if described.exists()
        else []
    )
    cores = os.cpu_count()
    return f"{names[0] if names else platform.machine()}, {cores} cores, torch {torch.__version__}"


def _steps(rounds: int) -> dict[str, Any]:
    torch.manual_seed(0)
    x, y = torch.randn(BATCH, *CLIP), torch.randint(CLASSES, (BATCH,))
    model = VideoViT(CLASSES, clip=CLIP)
    public = torch.zeros(BATCH, model.tokens, dtype=torch.bool)
    public[:, ::2] = True
    contenders = [
        Contender("plain SGD", lambda: _plain_step(model, x, y)),
        Contender("DP-SGD", lambda: _private_step(model, x, y)),
        Contender("MaskDP, half of the tokens public", lambda: _masked_step(model, x, y, public)),
    ]
    notes = []
    peers = opacus_steps(CLIP, CLASSES, x, y, NOISE, RATE)
    if peers is None:
        notes.append("Opacus is not installed, so it was not measured: pip install opacus.")
    else:
        contenders += [Contender(name, step) for name, step in peers.items()]
    error = _largest_error(model, x, y)
    _private_step(model, x, y)
    choice = route_of(model)
    race(contenders, rounds)
    plain = contenders[0].best
    rows = [{"name": c.name, "milliseconds": 1e3 * c.best, "ratio": c.best / plain}
            for c in contenders]  # fmt: skip
    answer: dict[str, Any] = {
        "steps": rows, "largest_error": error, "notes": notes,
        "route": None if choice is None else choice.route.value,
    }  # fmt: skip
    if peers is not None:
        fastest = min(c.best for c in contenders[3:])
        answer["faster_than_opacus"] = fastest / contenders[1].best
    return answer


def reference(rounds: int) -> dict[str, Any]:
    """One race on the reference model, in the form of ``others``."""
    found = _steps(rounds)
    taken = {row["name"]: row["milliseconds"] for row in found["steps"]}
    private = next(row["ratio"] for row in found["steps"] if row["name"] == "DP-SGD")
    faster = {key: found[key] for key in ("faster_than_opacus",) if key in found}
    return {"milliseconds": taken, "ratio": private, "route": found["route"], **faster}


def race(contenders: list[Contender], rounds: int, steps: int = _STEPS_A_TURN) -> None:
    """Interleaved rounds of a few steps each; the best step of each contender counts.

    A contender's first step in its turn finds the memory as another one left it, which no training
    meets: the steps after it count as much.
    """
    for contender in contenders:
        contender.step()
    for _ in range(rounds):
        for contender in contenders:
            for _ in range(steps):
                start = time.perf_counter()
                contender.step()
                contender.best = min(contender.best, time.perf_counter() - start)


def _plain_step(model: nn.Module, x: Tensor, y: Tensor) -> None:
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(cross_entropy(model(x), y).mean(), parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients):
            parameter.sub_(gradient, alpha=RATE)


_NOISE_SOURCE = GaussianNoise(Randomness())


def _private_step(model: nn.Module, x: Tensor, y: Tensor) -> None:
    sums, _ = clipped_gradient(model, cross_entropy, (x, y), 1.0)
    _move(model, _noised(sums))


def _masked_step(model: nn.Module, x: Tensor, y: Tensor, public: Tensor) -> None:
    """Each view drops the tokens that it does not see."""
    sums, _ = clipped_rows(model, cross_entropy, lay_out(((x, ~public), y), 1), 1.0, Speed())
    shown = mean_gradient(model, cross_entropy, lay_out(((x, public), y), 1), Speed())
    _move(model, _noised(sums).add_(flatten(shown)))


def _noised(sums: dict[str, Tensor]) -> Tensor:
    flat = flatten(sums)
    return flat.add_(_NOISE_SOURCE.draw(flat.numel()), alpha=NOISE).div_(BATCH)


def _move(model: nn.Module, flat: Tensor) -> None:
    parameters = {name: p.data for name, p in trainable(model).items()}
    Sgd(RATE).update(parameters, unflatten(flat, parameters), {}, RATE, {})


def _largest_error(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Against a loop over records, relative to the largest entry of the sum."""
    found, _ = clipped_gradient(model, cross_entropy, (x, y), 1.0)
    exact, _ = clipped_gradient(model, cross_entropy, (x, y), 1.0, speed=Speed(route=Route.LOOP))
    scale = max(float(total.abs().max()) for total in exact.values())
    return max(float((found[name] - exact[name]).abs().max()) for name in exact) / scale


def _growth(sizes: Sequence[int], rounds: int, threads: int) -> list[dict[str, float]]:
    """Time and memory against the number of records, under one memory bound.

    Each number of records has a process of its own: a peak says little where others peaked before.
    """
    fresh = multiprocessing.get_context("spawn")
    found = []
    for records in sizes:
        with ProcessPoolExecutor(1, mp_context=fresh) as process:
            found.append(process.submit(_growth_of, records, rounds, threads).result())
    return found


def _growth_of(records: int, rounds: int, threads: int) -> dict[str, float]:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = VideoViT(CLASSES, clip=CLIP)
    speed = Speed(memory=MEMORY)
    x, y = torch.randn(records, *CLIP), torch.randint(CLASSES, (records,))
    # one record first: the look at the model and the libraries' own memory are not the step's
    clipped_gradient(model, cross_entropy, (x[:1], y[:1]), 1.0, speed=speed)
    base = _reset_peak()
    step = Contender("", lambda: clipped_gradient(model, cross_entropy, (x, y), 1.0, speed=speed))
    race([step], rounds)
    return {"records": records, "milliseconds": 1e3 * step.best,
            "peak_megabytes": (_peak() - base) / 1e6}  # fmt: skip


def _reset_peak() -> float:
    """Resident bytes now, with the kernel's high-water mark set back (Linux; else 0)."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    except OSError:
        return 0.0
    return _status("VmRSS")


def _peak() -> float:
    return _status("VmHWM")


def _status(name: str) -> float:
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith(name))


def _fine_tuning(threads: int) -> list[dict[str, Any]]:
    """MViTv2-S with few trainable layers: a cached trunk against Opacus on the whole model.

    Two clips are measured, in one batch; the sums for 200 clips and 30 epochs follow, as every part
    costs the same for each clip. Set-up that is done once (the engine's look at the model) is left out
    of both. The same tail trained without privacy bounds what a cache can give: no exact gradient is
    cheaper than one forward and one backward pass.
    """
    fresh = multiprocessing.get_context("spawn")
    rows = []
    for preset in ("last-norms", "head"):
        with ProcessPoolExecutor(1, mp_context=fresh) as process:
            row = process.submit(_cached_fine_tuning, preset, threads).result()
        with ProcessPoolExecutor(1, mp_context=fresh) as process:
            peer = process.submit(_peer_fine_tuning, preset, threads).result()
        if peer is not None:
            row |= {"opacus_epoch_seconds_a_clip": peer[0], "opacus_peak_megabytes": peer[1]}
            row["opacus_seconds"] = _FINE_TUNED_CLIPS * _FINE_TUNED_EPOCHS * peer[0]
            row["faster_than_opacus"] = row["opacus_seconds"] / row["seconds"]
            row["without_privacy_faster"] = row["opacus_seconds"] / row["plain_seconds"]
        rows.append(row)
    return rows


def _cached_fine_tuning(preset: str, threads: int) -> dict[str, Any]:
    from sfumato.learn.engine._trunk import Tail
    from sfumato.models import cut

    model, x, y, count = _to_fine_tune(preset, threads)
    trunk, rest = cut(model)
    tail = Tail(model, rest)

    def first_pass() -> Tensor:
        kept = []
        with torch.no_grad():
            for clip in x:
                state = clip[None]
                for step in trunk:
                    state = step.run(state)
                kept.append(state)
        return torch.cat(kept)

    base = _reset_peak()
    features = first_pass()
    parameters = list(trainable(tail).values())

    def plain() -> object:
        return torch.autograd.grad(cross_entropy(tail(features), y).mean(), parameters)

    passes = [
        Contender("first pass", first_pass),
        Contender("step", lambda: clipped_gradient(tail, cross_entropy, (features, y), 1.0)),
        Contender("without privacy", plain),
    ]
    race(passes, 2)
    first, each, least = (one.best / len(x) for one in passes)
    return {
        "preset": preset, "trainable": count, "clips_measured": len(x),
        "first_pass_seconds_a_clip": first, "epoch_seconds_a_clip": each,
        "seconds": _FINE_TUNED_CLIPS * (first + _FINE_TUNED_EPOCHS * each),
        "plain_seconds": _FINE_TUNED_CLIPS * (first + _FINE_TUNED_EPOCHS * least),
        "peak_megabytes": (_peak() - base) / 1e6,
    }  # fmt: skip


def _peer_fine_tuning(preset: str, threads: int) -> tuple[float, float] | None:
    """Seconds a clip and peak megabytes of Opacus' step, or None when it is not installed."""
    model, x, y, _ = _to_fine_tune(preset, threads)
    step = opacus_fine_tuning(model, x, y, NOISE, RATE)
    if step is None:
        return None
    base = _reset_peak()
    peer = Contender("Opacus", step)
    race([peer], 2)
    return peer.best / len(x), (_peak() - base) / 1e6


def _to_fine_tune(preset: str, threads: int) -> tuple[nn.Module, Tensor, Tensor, int]:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = mvit_v2_s(CLASSES)
    count = select(model, preset)
    return model, torch.randn(2, 3, 16, 224, 224), torch.randint(CLASSES, (2,)), count


def terminal(result: dict[str, Any]) -> Iterable[Any]:
    """Tables for a person."""
    table = Table(title=f"One training step, {result['threads']} threads, best of "
                        f"{result['rounds']} interleaved rounds")  # fmt: skip
    for column in ("step", "ms", "x plain"):
        table.add_column(column, justify="left" if column == "step" else "right")
    for row in result["steps"]:
        table.add_row(row["name"], f"{row['milliseconds']:.0f}", f"{row['ratio']:.2f}")
    yield table
    yield (f"Route {result['route']}; largest error against a loop over records "
           f"{result['largest_error']:.1e}.")  # fmt: skip
    if "faster_than_opacus" in result:
        yield f"DP-SGD is {result['faster_than_opacus']:.2f}x faster than the faster Opacus mode."
    yield from result["notes"]
    growth = Table(title=f"Growth with the number of records (memory bound {MEMORY / 1e6:.0f} MB)")
    for column in ("records", "ms", "peak MB"):
        growth.add_column(column, justify="right")
    for row in result["growth"]:
        growth.add_row(f"{row['records']:.0f}", f"{row['milliseconds']:.0f}",
                       f"{row['peak_megabytes']:.0f}")  # fmt: skip
    yield growth
    yield from _fine_tuning_lines(result["fine_tuning"])


def tables(result: dict[str, Any]) -> dict[str, str]:
    steps = [[row["name"], f"{row['ratio']:.2f}"] for row in result["steps"]]
    growth = [
        [f"{row['records']:.0f}", f"{row['milliseconds']:.0f}", f"{row['peak_megabytes']:.0f}"]
        for row in result["growth"]
    ]
    tuning = [
        [f"{row['preset']}, {_FINE_TUNED_EPOCHS} epochs of {_FINE_TUNED_CLIPS} clips",
         f"{row['seconds']:.0f} s", f"{row['opacus_seconds']:.0f} s",
         f"{row['faster_than_opacus']:.1f} x", f"{row['without_privacy_faster']:.1f} x",
         f"{row['peak_megabytes']:.0f}",
         f"{row['opacus_peak_megabytes']:.0f}"]
        for row in result["fine_tuning"] if "faster_than_opacus" in row
    ]  # fmt: skip
    head = [
        "fine-tuning MViTv2-S",
        "trunk cache",
        "Opacus",
        "faster",
        "at most",
        "peak MB",
        "Opacus",
    ]
    return {
        "steps": markdown(["step", "x plain"], steps),
        "growth": markdown(["records", "milliseconds", "peak MB"], growth),
        "fine-tuning": markdown(head, tuning),
    }


def figures(result: dict[str, Any]) -> dict[str, str]:
    x = [row["records"] for row in result["growth"]]
    time_curve = Curve("milliseconds a step", x, [row["milliseconds"] for row in result["growth"]])
    memory = Curve("peak MB", x, [row["peak_megabytes"] for row in result["growth"]])
    return {"growth": curves("Growth with the batch", "records", "", [time_curve, memory])}


def _fine_tuning_lines(rows: list[dict[str, Any]]) -> Iterable[Any]:
    for row in rows:
        yield (f"Fine-tuning MViTv2-S ({row['preset']}, {row['trainable']} parameters), "
               f"{_FINE_TUNED_EPOCHS} epochs of {_FINE_TUNED_CLIPS} clips: trunk cache "
               f"{row['seconds']:.0f} s, of which the first pass "
               f"{_FINE_TUNED_CLIPS * row['first_pass_seconds_a_clip']:.0f} s; peak "
               f"{row['peak_megabytes']:.0f} MB.")  # fmt: skip
        if "faster_than_opacus" in row:
            yield (f"  Opacus {row['opacus_seconds']:.0f} s, {row['faster_than_opacus']:.1f}x as "
                   f"long (without privacy the cached tail would be {row['without_privacy_faster']:.1f}x "
                   f"faster); peak {row['opacus_peak_megabytes']:.0f} MB.")  # fmt: skip
