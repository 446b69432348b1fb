"""Table ``speed-others``: models that nobody tuned the engine for, and a whole epoch: plain, private, and
Opacus, side by side. Each race is kept in ``work`` as soon as it is measured, and a second start goes on
from there.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table
from torch import Tensor, nn

from benchmarks.harness.markdown import markdown
from benchmarks.speed import run as speed
from benchmarks.speed.peers import opacus_modes
from sfumato.data import ArrayRecords
from sfumato.learn import Plan, Sgd, keep_freed_memory, route_of, train
from sfumato.models import VideoViT, mvit_v2_s
from sfumato.settings import Count

CLASSES, BATCH = 10, 32
_EPOCH = 1024  # records


class _ResidualBlock(nn.Module):
    def __init__(self, wide: int, tall: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(wide, tall, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(tall, tall, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.GroupNorm(8, tall) for _ in range(2))
        same = wide == tall and stride == 1
        self.skip = nn.Identity() if same else nn.Conv2d(wide, tall, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(inner)) + self.skip(x)).relu()  # type: ignore[no-any-return]


def residual_network() -> nn.Module:
    """Ten layers of 32 to 256 channels with GroupNorm, for pictures of 32 x 32."""
    wide = [(32, 32, 1), (32, 64, 2), (64, 128, 2), (128, 256, 2)]
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.GroupNorm(8, 32), nn.ReLU(),
        *(_ResidualBlock(*each) for each in wide), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(256, CLASSES),
    )  # fmt: skip


class _Recurrent(nn.Module):
    """Two layers of 128, over 32 steps of 64 values."""

    def __init__(self, layer: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.inner = layer(64, 128, num_layers=2, batch_first=True)
        self.head = nn.Linear(128, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x)[0][:, -1])  # type: ignore[no-any-return]


def _fine_tuned() -> nn.Module:
    """MViTv2-S; its last two blocks and its head are trained, but for relative positions.

    Opacus has no rule for those: bare parameters.
    """
    model = mvit_v2_s(CLASSES).requires_grad_(False)
    for name, parameter in model.named_parameters():
        last = name.startswith(("blocks.14.", "blocks.15.", "norm.", "head."))
        parameter.requires_grad_(last and "rel_pos" not in name)
    return model


def _models() -> dict[str, tuple[nn.Module, nn.Module | None, tuple[int, ...]]]:
    """Ours, the same for Opacus, and the shape of a batch."""
    try:
        from opacus.layers import DPGRU
    except ImportError:
        DPGRU = None
    residual, tuned = residual_network(), _fine_tuned()
    return {
        "ResNet-like, GroupNorm": (residual, copy.deepcopy(residual), (BATCH, 3, 32, 32)),
        "GRU": (_Recurrent(nn.GRU), None if DPGRU is None else _Recurrent(DPGRU), (BATCH, 32, 64)),
        "MViTv2-S, last two blocks": (tuned, copy.deepcopy(tuned), (2, 3, 16, 224, 224)),
    }


def steps(name: str, rounds: int) -> dict[str, Any]:
    """One race of plain, private and Opacus' steps on one of the models."""
    torch.manual_seed(0)
    model, peer, shape = _models()[name]
    x, y = torch.randn(*shape), torch.randint(CLASSES, shape[:1])
    contenders = [
        speed.Contender("plain SGD", lambda: speed._plain_step(model, x, y)),
        speed.Contender("DP-SGD", lambda: speed._private_step(model, x, y)),
    ]
    if peer is not None:
        contenders += [
            speed.Contender(mode, step) for mode, step in opacus_modes(peer, x, y).items()
        ]
    speed.race(contenders, rounds)
    choice = route_of(model)
    return _ratios(contenders) | {"route": None if choice is None else choice.route.value}


def epoch(rounds: int) -> dict[str, Any]:
    """An epoch of the reference model over records in files, sampling, loading and noise included."""
    from torch.utils.data import DataLoader, Dataset

    with tempfile.TemporaryDirectory(prefix="sfumato-speed-") as place:
        values = np.lib.format.open_memmap(
            Path(place, "x.npy"), "w+", np.float32, (_EPOCH, *speed.CLIP)
        )
        values[:] = np.random.default_rng(0).normal(size=values.shape)
        labels = np.random.default_rng(1).integers(0, CLASSES, _EPOCH)
        plan = Plan.for_(ArrayRecords(values, labels), epsilon=8.0, epochs=1, batch=BATCH)

        class Clips(Dataset[Any]):
            def __len__(self) -> int:
                return _EPOCH

            def __getitem__(self, index: int) -> tuple[Tensor, int]:
                return torch.from_numpy(values[index].copy()), int(labels[index])

        def private() -> None:
            fresh = VideoViT(CLASSES, clip=speed.CLIP)
            train(fresh, ArrayRecords(values, labels), plan, optimizer=Sgd(speed.RATE))

        contenders = [speed.Contender("DP-SGD", private)]
        for mode, step in opacus_modes(None, *next(iter(DataLoader(Clips(), BATCH)))).items():
            contenders.append(speed.Contender(mode, _peer_epoch(step, DataLoader, Clips())))
        speed.race(contenders, max(1, rounds // 3), steps=1)
    return _ratios(contenders, plain=False)


def _peer_epoch(step: Any, loader: Any, data: Any) -> Callable[[], None]:
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

    def run() -> None:
        sampler = UniformWithReplacementSampler(num_samples=_EPOCH, sample_rate=BATCH / _EPOCH)
        for x, y in loader(data, batch_sampler=sampler):
            step(x, y)

    return run


def _ratios(contenders: list[speed.Contender], plain: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {"milliseconds": {each.name: 1e3 * each.best for each in contenders}}
    private = next(each for each in contenders if each.name == "DP-SGD")
    peers = [each.best for each in contenders if each.name.startswith("Opacus")]
    if plain:
        found["ratio"] = private.best / contenders[0].best
    if peers:
        found["faster_than_opacus"] = min(peers) / private.best
    return found


def run(
    *,
    runs: Count = 5,
    rounds: Count = 4,
    threads: Count = 2,
    work: str | None = None,
    quick: bool = False,
) -> dict[str, Any]:
    """``runs`` races of each model, ``rounds`` turns each."""
    keep_freed_memory()
    torch.set_num_threads(threads)
    kept = None if work is None else Path(work)
    names = ("VideoViT (reference)", *_models(), "epoch of VideoViT")
    races: dict[str, list[dict[str, Any]]] = {}
    for number in range(1 if quick else runs):
        for name in names[1:3] if quick else names:
            note = None if kept is None else kept / f"{name.partition(' ')[0]}-{number}.json"
            if note is not None and note.exists():
                one = json.loads(note.read_text(encoding="utf-8"))
            else:
                one = _race(name, 1 if quick else rounds)
                if note is not None:
                    note.parent.mkdir(parents=True, exist_ok=True)
                    note.write_text(json.dumps(one), encoding="utf-8")
            races.setdefault(name, []).append(one)
    return {"races": races, "quick": quick}


def _race(name: str, rounds: int) -> dict[str, Any]:
    if name.startswith("epoch"):
        return epoch(rounds)
    if name.startswith("VideoViT"):
        return speed.reference(rounds)
    return steps(name, rounds if "MViT" not in name else max(1, rounds // 3))


def _rows(result: dict[str, Any]) -> list[list[str]]:
    """Model, times the plain step, times faster than Opacus' faster mode: best and worst of the runs."""
    return [
        [
            name,
            *(
                f"{min(found):.2f} to {max(found):.2f}" if found else "-"
                for key in ("ratio", "faster_than_opacus")
                for found in [[race[key] for race in races if key in race]]
            ),
        ]
        for name, races in result["races"].items()
    ]


_HEAD = ["model", "x plain", "x faster than Opacus"]


def terminal(result: dict[str, Any]) -> Iterator[Table]:
    table = Table(*_HEAD)
    for row in _rows(result):
        table.add_row(*row)
    yield table


def tables(result: dict[str, Any]) -> dict[str, str]:
    return {"races": markdown(_HEAD, _rows(result))}
