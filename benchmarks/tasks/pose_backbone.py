"""A public backbone that learns from staged people whom no table trains on or tests.

A VideoViT whose tokens vote for where each joint is in each frame. A clip is then described by how
the joints lie and move, which says much about what is done and little about who does it and where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from benchmarks.tasks.staged_pairs import Pairs
from sfumato.files import atomic_output
from sfumato.learn import VideoClips
from sfumato.models import VideoViT

FRAMES, JOINTS = 16, 24
# lies, spreads and moves, along x and y; and how the whole person moves
FEATURES = 3 * 2 * JOINTS + 4
_TUBELET = (4, 8, 8)
# a typical distance of a joint from the body's middle, in picture widths
_REACH = 0.13
# anyone can stage all three
_SHOWN = ("real", "rendered", "avatar")


class PoseViT(nn.Module):
    """``features(clips)``: (B, 3, 16, side, side) to (B, 148), each of mean 0 and deviation 1 on the
    public clips."""

    def __init__(self, side: int) -> None:
        super().__init__()
        clip = (3, FRAMES, side, side)
        self.vit = VideoViT(JOINTS * _TUBELET[0], clip=clip, tubelet=_TUBELET, width=96, depth=4)
        self.mean = nn.Buffer(torch.zeros(FEATURES))
        self.deviation = nn.Buffer(torch.ones(FEATURES))

    def votes(self, clips: Tensor) -> Tensor:
        """Logits (B, frames, joints, cells): in which cell of the picture is the joint?"""
        state = clips
        for step in self.vit.steps()[:-1]:
            state = step.run(state)
        times, rows, columns = self.vit.grid
        cut = self.vit.head(self.vit.norm(state))
        cut = cut.view(len(clips), times, rows * columns, _TUBELET[0], JOINTS)
        return cut.permute(0, 1, 3, 4, 2).reshape(len(clips), FRAMES, JOINTS, -1)  # type: ignore[no-any-return]

    def places(self, votes: Tensor) -> Tensor:
        """(B, frames, joints, 2): the mean of the cells' centres under the votes, 0..1."""
        _, rows, columns = self.vit.grid
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        centres = torch.stack([(x + 0.5) / columns, (y + 0.5) / rows], -1).reshape(-1, 2)
        return votes.softmax(-1) @ centres

    def cells(self, joints: Tensor) -> Tensor:
        """The cell that a joint is in, or -1 outside the picture."""
        _, rows, columns = self.vit.grid
        x, y = (joints[..., 0] * columns).floor(), (joints[..., 1] * rows).floor()
        inside = (x >= 0) & (x < columns) & (y >= 0) & (y < rows)
        return torch.where(inside, y * columns + x, -1.0).long()

    def described(self, clips: Tensor) -> Tensor:
        """How joints lie around the body's middle and move, in units of the body's size."""
        joints = self.places(self.votes(clips))
        middle = joints.mean(2, keepdim=True)
        around = joints - middle
        size = around.norm(dim=-1).mean((1, 2)).clamp_min(1e-3)[:, None, None, None]
        around, path = around / size, middle / size
        moves = (joints / size).diff(dim=1).abs()
        parts = (
            around.mean(1), around.std(1), moves.mean(1), path.std(1), path[:, -1] - path[:, 0],
        )  # fmt: skip
        return torch.cat([part.flatten(1) for part in parts], 1)

    def features(self, clips: Tensor) -> Tensor:
        return (self.described(clips) - self.mean) / self.deviation


def pose_vit(
    public: Callable[[], Pairs], prepare: VideoClips, side: int, epochs: int, path: Path
) -> PoseViT:
    """The backbone in ``path``, learnt from the ``public`` people and kept there if it is not yet."""
    torch.manual_seed(0)  # the first weights are public
    model = PoseViT(side)
    if path.is_file():
        model.load_state_dict(load_file(path))
        return model.eval()
    given = public()
    shown = [given.clips(kind) for kind in _SHOWN]
    joints = torch.from_numpy(given.joints)
    rng = np.random.default_rng(0)
    steps = epochs * -(-len(given) // 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 1e-3, total_steps=steps, pct_start=0.1
    )
    for _ in range(epochs):
        for chosen in batches(len(given), 32, rng.permutation(len(given))):
            kinds = rng.integers(len(shown), size=len(chosen))
            moved = [_moved(shown[kind][i], rng) for kind, i in zip(kinds, chosen)]
            clips = torch.stack([prepare(clip, 1) for clip, _ in moved])
            shift = torch.tensor([by for _, by in moved], dtype=torch.float32)
            loss = pose_loss(model, clips, joints[chosen] + shift[:, None, None])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    _standardise(model, shown, prepare)
    with atomic_output(path, force=True) as temporary:
        save_file(model.state_dict(), temporary)
    return model.eval()


def pose_loss(model: PoseViT, clips: Tensor, joints: Tensor) -> Tensor:
    """Vote for the right cell, and let the votes' mean be the right place."""
    votes = model.votes(clips)
    voted = F.cross_entropy(votes.flatten(0, 2), model.cells(joints).flatten(), ignore_index=-1)
    return voted + 3 * F.mse_loss(model.places(votes) / _REACH, joints / _REACH)


def _moved(
    clip: npt.NDArray[np.uint8], rng: np.random.Generator
) -> tuple[npt.NDArray[np.uint8], tuple[float, float]]:
    """The clip elsewhere in the picture, in other colours; and by how much it moved."""
    side = clip.shape[2]
    most = side // 10
    dy, dx = (int(by) for by in rng.integers(-most, most + 1, 2))
    wide = np.pad(clip, ((0, 0), (most, most), (most, most), (0, 0)), mode="edge")
    there = wide[:, most - dy : most - dy + side, most - dx : most - dx + side]
    lit = there[..., rng.permutation(3)] * rng.uniform(0.7, 1.2)
    return np.clip(lit, 0, 255).astype(np.uint8), (dx / side, dy / side)


def _standardise(
    model: PoseViT, shown: list[npt.NDArray[np.uint8]], prepare: VideoClips, most: int = 300
) -> None:
    with torch.no_grad():
        found = torch.cat([
            model.described(torch.stack([prepare(x[i], 1) for i in chosen]))
            for x in shown for chosen in batches(min(most, len(x)), 32)
        ])  # fmt: skip
    model.mean.copy_(found.mean(0))
    model.deviation.copy_(found.std(0).clamp_min(1e-3))


def batches(
    count: int, size: int, order: npt.NDArray[np.int64] | None = None
) -> Iterator[npt.NDArray[np.int64]]:
    places = np.arange(count) if order is None else order
    return (places[start : start + size] for start in range(0, count, size))
