"""Staged people as a public backbone describes them, and a linear head that trains on that.

The backbone is frozen, so it runs once for each clip and each way to show it; what it says is kept
beside the clips. ``video-vit`` learnt from other staged people, ``i3d`` brings its Kinetics weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.tasks.pose_backbone import FRAMES, batches, pose_vit
from benchmarks.tasks.staged_pairs import Piece, pieces, staged_pairs
from sfumato.audit.measure import MeanPerClassAccuracy, TopOne
from sfumato.data import ArrayRecords
from sfumato.files import atomic_output
from sfumato.learn import VideoClips
from sfumato.models import i3d
from sfumato.stage import ACTIONS, Staging

BACKBONES = ("video-vit", "i3d")
# what is left of a kind of clip when only its public pixels are shown
PUBLIC_PART = {"real": "person", "rendered": "avatar"}
# the same clips with another public view
IN_PUBLIC_ROOMS = "rendered, public rooms"
Chosen = npt.NDArray[np.int64]
Describe = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Scale:
    """How many clips are staged, how large, and how long the public backbone learns."""

    private: int = 6000
    held_out: int = 600
    public: int = 1400
    side: int = 64
    epochs: int = 14

    def stagings(self) -> dict[str, Staging]:
        """Three groups that share no actor, no room and no clip; public people do other things."""
        actions = tuple(ACTIONS)
        base = Staging(frames=FRAMES, fps=10.0, width=self.side, height=self.side)
        return {
            "held-out": replace(base, clips=self.held_out, actors=12, rooms=24, actions=actions[:12],
                                seed=43),
            "public": replace(base, clips=self.public, actors=24, rooms=18, actions=actions[12:],
                              seed=42),
            "private": replace(base, clips=self.private, actors=40, rooms=24, actions=actions[:12],
                               seed=41),
        }  # fmt: skip


QUICK = Scale(private=120, held_out=60, public=42, epochs=2)


class Head(nn.Module):
    """A linear answer to what the backbone said about a clip.

    It gets (B, 2, width): what was said about the whole clip, which is private, and about its public
    pixels. A view that does not show the first has zeros there, and the second is answered.
    """

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, said: Tensor) -> Tensor:
        whole, public = said[:, 0], said[:, -1]
        shown = (whole != 0).any(1, keepdim=True)
        return self.linear(torch.where(shown, whole, public))  # type: ignore[no-any-return]


class StagedTask:
    """Staged clips and what a public backbone says about them, each made once."""

    def __init__(
        self,
        folder: Path,
        scale: Scale,
        backbone: str,
        people: str = "truth",
        *,
        rough: bool = False,
    ) -> None:
        """``rough``: private and held-out clips are filmed badly, and nobody is told where people are."""
        self.folder, self.scale, self.backbone = folder, scale, backbone
        found_by = dict.fromkeys(scale.stagings(), people)
        self._public_part = PUBLIC_PART | {IN_PUBLIC_ROOMS: "elsewhere"}
        if rough:
            del self._public_part["real"]  # such a person is never public
            found_by |= {"private": "detectors", "held-out": "nobody"}
        self.prepare = _preparation(backbone, scale.side)
        self._stagings = scale.stagings()
        self.classes = self._stagings["private"].actions
        self._pieces = {
            name: pieces(staging, folder, found_by[name], rough=rough and name != "public")
            for name, staging in self._stagings.items()
        }
        self._describe: Describe | None = None
        self._labels: dict[str, tuple[Chosen, Chosen]] = {}
        self._said: dict[tuple[str, str], Tensor] = {}

    def labels(self, group: str) -> tuple[Chosen, Chosen]:
        """What is done in each clip of ``group``, and who does it."""
        if group not in self._labels:
            y, actor = zip(*(piece.labels() for piece in self._pieces[group]))
            self._labels[group] = np.concatenate(y), np.concatenate(actor)
        return self._labels[group]

    def described(self, group: str, kind: str) -> Tensor:
        """What the backbone says about every clip of a kind: vectors of mean 0 and length 1, so
        that one clip norm fits all backbones."""
        if (group, kind) not in self._said:
            parts = [self._piece(piece, kind) for piece in self._pieces[group]]
            said = torch.from_numpy(np.concatenate(parts))
            self._said[group, kind] = F.layer_norm(said, said.shape[1:]) / said.shape[1] ** 0.5
        return self._said[group, kind]

    def _piece(self, piece: Piece, kind: str) -> npt.NDArray[np.float32]:
        kept = piece.path.with_suffix(f".{self._backbone_name}.{kind}.npy")
        if not kept.is_file():
            clips, describe = piece.load().clips(kind), self._network()
            with torch.no_grad():
                said = torch.cat([
                    describe(torch.stack([self.prepare(clips[i], 1) for i in chosen]))
                    for chosen in batches(len(clips), 20)
                ])  # fmt: skip
            with atomic_output(kept, force=True) as temporary, open(temporary, "wb") as stream:
                np.save(stream, said.numpy())
        return np.asarray(np.load(kept, allow_pickle=False), np.float32)

    @property
    def _backbone_name(self) -> str:
        if self.backbone == "i3d":
            return "i3d"
        return f"pose-vit-{self.scale.side}-{self.scale.public}-{self.scale.epochs}"

    def _network(self) -> Describe:
        if self._describe is None:
            if self.backbone == "i3d":
                self._describe = i3d(pretrained=True).eval().features
            else:
                self._describe = pose_vit(
                    lambda: staged_pairs(self._stagings["public"], self.folder), self.prepare,
                    self.scale.side, self.scale.epochs,
                    self.folder / f"{self._backbone_name}.safetensors",
                ).features  # fmt: skip
        return self._describe

    def head(self) -> Head:
        """One that knows nothing yet."""
        return Head(self.described("held-out", "real").shape[1], len(self.classes))

    def records(self, kind: str, chosen: Chosen | None = None) -> ArrayRecords:
        """The private clips of a kind, as the backbone describes them; the mask says that what it
        says about public pixels is public."""
        y, actor = self.labels("private")
        shown = ["rendered" if kind == IN_PUBLIC_ROOMS else kind]
        shown += [self._public_part[kind]] if kind in self._public_part else []
        said = torch.stack([self.described("private", each) for each in shown], 1).numpy()
        mask = np.zeros(said.shape[:2], dtype=bool)
        mask[:, 1:] = True
        taken = np.arange(len(y)) if chosen is None else chosen
        owners = [f"actor{number}" for number in actor[taken]]
        return ArrayRecords(
            said[taken], y[taken], mask=mask[taken], owners=owners, classes=self.classes
        )

    def test(
        self, head: Head, kind: str = "real", group: str = "held-out", chosen: Chosen | None = None
    ) -> dict[str, object]:
        """Top-1, mean class and per-class accuracy on the clips of a group, or on some of them."""
        truth = self.labels(group)[0]
        taken = np.arange(len(truth)) if chosen is None else chosen
        with torch.no_grad():
            scores = head(self.described(group, kind)[taken][:, None]).numpy()
        truth, top, mean = truth[taken], TopOne(), MeanPerClassAccuracy()
        for measure in (top, mean):
            measure.update(scores, truth)
        right, several = truth[scores.argmax(1) == truth], scores.shape[1]
        shares = np.bincount(right, minlength=several) / np.maximum(
            np.bincount(truth, minlength=several), 1
        )
        return {
            "top1": top.compute().value,
            "mean_class": mean.compute().value,
            "per_class": shares.tolist(),
        }


def _preparation(backbone: str, side: int) -> VideoClips:
    if backbone == "i3d":  # RGB in [-1, 1], as the published weights expect
        return VideoClips(FRAMES, side, side, mean=0.5, deviation=0.5)
    return VideoClips(FRAMES, side, side)
