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

from sfumato.bench._pose_fit import SIZE, SPLIT, People, fit
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


RECIPES = {
    recipe.backbone: recipe
    for recipe in (
        # the stem and the first three stages stay as ImageNet made them
        Recipe("efficientnet-lite0", True, 6, 2.0, 2e-3),
        # no index carries weights of TinyViT: it learns everything from staged people
        Recipe("tiny-vit-5m", False, 0, 2.0, 1e-3),
    )
}
TURN = 25.0


def fresh(backbone: str, *, imagenet: bool = False) -> PoseNet:
    """An untrained model for LSP's joints, its first weights drawn from a fixed seed."""
    torch.manual_seed(0)  # the first weights are public
    return pose_net(backbone, len(LSP), input_size=SIZE, split=SPLIT, pretrained=imagenet)


def train_after(model: PoseNet, frozen: int) -> None:
    """Let everything train but the first ``frozen`` steps."""
    model.requires_grad_(True)
    for step in model.steps()[:frozen]:
        for part in step.modules:
            part.requires_grad_(False)


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
            say=say,
        )

    kept(folder / f"public-{backbone}.safetensors", model, learn)
    freeze_batchnorm(model).eval()
    return model


def without_promise(
    model: PoseNet, people: People, folder: Path, *, frozen: int, epochs: float, rounds: int,
    say: Callable[[str], None] = print,
) -> None:  # fmt: skip
    """Fine-tune on private people as anyone would who promises nothing: mirrored, turned, no noise.

    Each of ``rounds`` lets the rate rise and fall once; its weights are kept, so a stopped run goes
    on with the next one.
    """
    train_after(model, frozen)
    for number in range(rounds):
        learn = partial(fit, model, people, epochs=epochs, rate=1.5e-3, turn=TURN, seed=2 + number,
                        say=say)  # fmt: skip
        kept(folder / f"fine-tuned-{epochs:g}-round-{number + 1}.safetensors", model, learn)
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
