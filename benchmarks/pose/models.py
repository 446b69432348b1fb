"""The models of table ``pose``: what is learned from public people, and without a promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from benchmarks.pose.fit import SIZE, SPLIT, People, fit
from sfumato.data import LSP, lsp, staged_people
from sfumato.models import PoseNet, freeze_batchnorm, pose_net


@dataclass(frozen=True)
class Recipe:
    """How a backbone learns from staged people: the first ``frozen`` steps keep their weights."""

    backbone: str
    imagenet: bool
    frozen: int
    epochs: float
    rate: float
    batch: int = 32


RECIPES = {
    recipe.backbone: recipe
    for recipe in (
        # the stem and the first three stages stay as ImageNet made them
        Recipe("efficientnet-lite0", True, 6, 2.0, 2e-3),
        # no index carries weights of TinyViT: it learns everything from staged people
        Recipe("tiny-vit-5m", False, 0, 0.5, 1e-3, 16),
    )
}
TURN = 25.0
_LAST_STAGES = ("backbone.backbone.deep", "backbone.stages.3")


def fresh(backbone: str, *, imagenet: bool = False, size: tuple[int, int] = SIZE) -> PoseNet:
    """An untrained model for LSP's joints, its first weights drawn from a fixed seed."""
    torch.manual_seed(0)  # the first weights are public
    return pose_net(backbone, len(LSP), input_size=size, split=SPLIT, pretrained=imagenet)


def train_after(model: PoseNet, frozen: int) -> None:
    """Let everything train but the first ``frozen`` steps."""
    model.requires_grad_(True)
    for step in model.steps()[:frozen]:
        for part in step.modules:
            part.requires_grad_(False)


def before_last_stage(model: PoseNet) -> int:
    """How many steps come before the last stage."""
    names = [step.name for step in model.steps()]
    return next(i for i, name in enumerate(names) if name.startswith(_LAST_STAGES))


def train_norms(model: nn.Module) -> None:
    """Let scale and shift of every layer norm train; of a model that has none, those of its
    BatchNorms, whose statistics stay frozen."""
    modules = list(model.modules())
    kind = nn.LayerNorm if any(isinstance(m, nn.LayerNorm) for m in modules) else nn.BatchNorm2d
    for module in modules:
        if isinstance(module, kind):
            module.requires_grad_(True)


def kept(path: Path, model: nn.Module, learn: Callable[[], None]) -> None:
    """Learn once; afterwards read the weights from ``path``."""
    if path.is_file():
        model.load_state_dict(load_file(path))
        return
    learn()
    save_file({name: t.contiguous() for name, t in model.state_dict().items()}, path)


def public_model(
    backbone: str, people: People, folder: Path, *, share: float = 1.0,
    say: Callable[[str], None] = print,
) -> PoseNet:  # fmt: skip
    """A model that has seen staged people alone; ``share`` shortens its learning."""
    recipe = RECIPES[backbone]
    model = fresh(backbone, imagenet=recipe.imagenet)
    if recipe.imagenet:
        freeze_batchnorm(model)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    train_after(model, recipe.frozen)

    def learn() -> None:
        fit(
            model,
            people,
            epochs=share * recipe.epochs,
            rate=recipe.rate,
            turn=TURN,
            seed=1,
            batch=recipe.batch,
            say=say,
        )

    kept(folder / f"public-{backbone}.safetensors", model, learn)
    freeze_batchnorm(model).eval()
    return model


@dataclass(frozen=True)
class Cycle:
    """One rise and fall of the rate in fine-tuning without a promise, measured in ``parts``.

    First everything trains that staged people trained, but for depthwise kernels: their gradients
    take two fifths of a step on a CPU. Then ``everything`` does.
    """

    epochs: float
    parts: int
    everything: bool = False

    @property
    def name(self) -> str:
        return f"fine-tuned-{self.epochs:g}" + ("-everything" if self.everything else "")


def without_promise(
    model: PoseNet, people: People, folder: Path, cycle: Cycle, *, part: int,
    say: Callable[[str], None] = print,
) -> None:  # fmt: skip
    """Fine-tune on private people as anyone would who promises nothing: mirrored, turned, no noise.

    The model is left as it is after ``part`` of the cycle; the weights are kept after each, so a
    stopped run goes on.
    """
    train_after(model, 0 if cycle.everything else RECIPES["efficientnet-lite0"].frozen)
    for module in model.modules():
        if isinstance(module, nn.Conv2d) and module.groups > 1 and not cycle.everything:
            module.requires_grad_(False)
    for number in range(part):
        span = (number / cycle.parts, (number + 1) / cycle.parts)
        learn = partial(fit, model, people, epochs=cycle.epochs, rate=1e-3, turn=TURN,
                        seed=2 + number + 100 * cycle.everything, batch=16, span=span, say=say)  # fmt: skip
        kept(folder / f"{cycle.name}-part-{number + 1}.safetensors", model, learn)
    model.eval()


def staged(count: int, folder: Path) -> People:
    """The public people, drawn once and kept in ``folder``."""
    found = staged_people(count, seed=11, keep=folder / f"staged-people-{count}.npz")
    return People(list(found.x), found.y[:, 0])


def leeds(data: str, part: str) -> People:
    """Leeds Sports Pose, read whole: its pictures are small."""
    records = lsp(data, part)
    read = [records[index] for index in range(len(records))]
    return People([record.x for record in read], np.stack([record.y[0] for record in read]))
