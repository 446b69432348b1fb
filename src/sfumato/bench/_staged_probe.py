"""Public backbones for staged recordings, and a head that trains on top of one.

``video-vit`` learns from staged people whom no table trains on or tests: other actors, other
actions, other rooms. ``i3d`` brings its Kinetics-400 weights. Under every table only the head
trains, so that the frozen part runs once a clip and view and is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sfumato.audit import MeanPerClassAccuracy, TopOne
from sfumato.bench._staged_pairs import Pairs, staged_pairs
from sfumato.data import ArrayRecords
from sfumato.files import atomic_output
from sfumato.learn import VideoClips
from sfumato.models import Step, VideoViT, i3d
from sfumato.stage import ACTIONS, Staging

BACKBONES = ("video-vit", "i3d")
_FRAMES = 16


@dataclass(frozen=True)
class Scale:
    """How many clips are staged, how large, and how long the public backbone learns."""

    private: int = 6000
    held_out: int = 600
    public: int = 1400
    side: int = 64
    epochs: int = 16

    def stagings(self) -> dict[str, Staging]:
        """Three groups that share no actor, no room and no clip; public people do other things."""
        actions = tuple(ACTIONS)
        base = Staging(frames=_FRAMES, fps=10.0, width=self.side, height=self.side)
        return {
            "held-out": replace(base, clips=self.held_out, actors=12, rooms=24, actions=actions[:12],
                                seed=43),
            "public": replace(base, clips=self.public, actors=24, rooms=18, actions=actions[12:],
                              seed=42),
            "private": replace(base, clips=self.private, actors=40, rooms=24, actions=actions[:12],
                               seed=41),
        }  # fmt: skip


QUICK = Scale(private=240, held_out=120, public=84, epochs=2)


class Probe(nn.Module):
    """A frozen backbone and a linear head; the backbone's answer is one vector a clip."""

    def __init__(self, backbone: nn.Module, describe: Callable[[Tensor], Tensor], width: int,
                 classes: int) -> None:  # fmt: skip
        super().__init__()
        self.backbone = backbone.requires_grad_(False).eval()
        # the vectors have mean 0 and deviation 1 (a fixed norm), so one clip norm fits all backbones
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.head = nn.Linear(width, classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self._describe = describe

    def features(self, clips: Tensor) -> Tensor:
        return self.norm(self._describe(clips)) / self.head.in_features**0.5  # type: ignore[no-any-return]

    def steps(self) -> list[Step]:
        return [
            Step("features", self.features, (self.backbone,)),
            Step("head", self.head, (self.head,)),
        ]

    def forward(self, clips: Tensor) -> Tensor:
        return self.head(self.features(clips))  # type: ignore[no-any-return]


class StagedTask:
    """Staged clips, a public backbone and what it says about the held-out people, made once."""

    def __init__(self, folder: Path, scale: Scale, backbone: str) -> None:
        self.folder, self.scale, self.backbone = folder, scale, backbone
        self.prepare = _preparation(backbone, scale.side)
        self._stagings = scale.stagings()
        self.private = self._pairs("private")
        self.held_out = self._pairs("held-out")
        self._probe: Probe | None = None
        self._described: dict[str, Tensor] = {}

    def _pairs(self, name: str) -> Pairs:
        return staged_pairs(self._stagings[name], self.folder)

    def probe(self) -> Probe:
        """A fresh head on the public backbone."""
        if self._probe is None:
            self._probe = self._made()
        return copy.deepcopy(self._probe)

    def _made(self) -> Probe:
        classes = len(self.private.classes)
        if self.backbone == "i3d":
            network = i3d(pretrained=True)
            return Probe(network, network.features, 1024, classes)
        model = pretrained(
            lambda: self._pairs("public"), self.prepare, self.scale,
            self.folder / f"video-vit-{self.scale.side}-{self.scale.public}-{self.scale.epochs}.safetensors",
        )  # fmt: skip
        return Probe(model, model_features(model), 192, classes)

    def test(self, probe: Probe, kind: str = "real") -> dict[str, object]:
        """Top-1, mean class and per-class accuracy on held-out people."""
        if kind not in self._described:
            records = self.held_out.records(kind)
            self._described[kind] = described(self.probe(), records, self.prepare)
        with torch.no_grad():
            scores = probe.head(self._described[kind]).numpy()
        truth, top, mean = self.held_out.y, TopOne(), MeanPerClassAccuracy()
        for measure in (top, mean):
            measure.update(scores, truth)
        right = scores.argmax(1) == truth
        return {
            "top1": top.compute().value,
            "mean_class": mean.compute().value,
            "per_class": [float(right[truth == k].mean()) for k in range(scores.shape[1])],
        }


def described(probe: Probe, records: ArrayRecords, prepare: VideoClips) -> Tensor:
    """What the backbone says about every record."""
    with torch.no_grad():
        parts = [
            probe.features(torch.stack([prepare(records.x[i], 1) for i in chosen]))
            for chosen in _batches(len(records), 16)
        ]
    return torch.cat(parts)


def model_features(model: VideoViT) -> Callable[[Tensor], Tensor]:
    def describe(clips: Tensor) -> Tensor:
        state = clips
        for step in model.steps()[:-1]:
            state = step.run(state)
        return model.norm(state).mean(1)  # type: ignore[no-any-return]

    return describe


def pretrained(
    public: Callable[[], Pairs], prepare: VideoClips, scale: Scale, path: Path
) -> VideoViT:
    """A VideoViT that names the public people's actions and says where their joints are.

    Joints make it look at the person and at motion; it sees people as filmed, as avatars, and as
    avatars alone, because anyone can stage all three.
    """
    torch.manual_seed(0)  # the first weights are public
    slots = np.linspace(0, _FRAMES - 1, 8).round().astype(int)
    classes = len(scale.stagings()["public"].actions)
    clip = (3, _FRAMES, scale.side, scale.side)
    model = VideoViT(classes + len(slots) * 24 * 2, clip=clip, tubelet=(2, 16, 16))
    if path.is_file():
        model.load_state_dict(load_file(path))
        return model
    given = public()
    shown = [given.records(kind).x for kind in ("real", "rendered", "avatar")]
    places = torch.from_numpy(given.joints[:, slots].reshape(len(given), -1)) - 0.5
    labels = torch.from_numpy(given.y)
    rng = np.random.default_rng(0)
    steps = scale.epochs * -(-len(given) // 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-4, total_steps=steps)
    for _ in range(scale.epochs):
        for chosen in _batches(len(given), 32, rng.permutation(len(given))):
            kinds = rng.integers(len(shown), size=len(chosen))
            clips = torch.stack([prepare(shown[k][i], 1) for k, i in zip(kinds, chosen)])
            out = model(clips)
            loss = F.cross_entropy(out[:, :classes], labels[chosen])
            loss = loss + 20 * F.mse_loss(out[:, classes:], places[chosen])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    with atomic_output(path, force=True) as temporary:
        save_file(model.state_dict(), temporary)
    return model


def _batches(
    count: int, size: int, order: npt.NDArray[np.int64] | None = None
) -> Iterator[npt.NDArray[np.int64]]:
    places = np.arange(count) if order is None else order
    return (places[start : start + size] for start in range(0, count, size))


def _preparation(backbone: str, side: int) -> VideoClips:
    if backbone == "i3d":  # RGB in [-1, 1], as the published weights expect
        return VideoClips(_FRAMES, side, side, mean=0.5, deviation=0.5)
    return VideoClips(_FRAMES, side, side)
