"""Joints of one data set from those that MoveNet finds: a frozen trunk and a head of few numbers.

Data sets disagree about where a hip is and have joints that COCO lacks. The head moves each joint by
a learned share of vectors of the same body (its spine, its own bone, ...), so it turns and grows with
the person, and left and right learn together. With all shares at zero it says what the trunk says.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sfumato.errors import SfumatoError
from sfumato.models._movenet import SIDE, MoveNetThunder, movenet_thunder
from sfumato.models._steps import Step, run

_FACE = ("nose", "left_eye", "right_eye", "left_ear", "right_ear")
_LIMBS = ("shoulder", "elbow", "wrist", "hip", "knee", "ankle")
COCO = (*_FACE, *(f"{side}_{part}" for part in _LIMBS for side in ("left", "right")))
_MIRRORED = [0, *(i + (1 if i % 2 else -1) for i in range(1, len(COCO)))]
_PARENTS = {"ankle": "knee", "knee": "hip", "wrist": "elbow", "elbow": "shoulder"}
_UNIT = 64.0  # pixels of the crop
_NEAR = 9.0  # pixels: answers this close speak of one place
THUNDER = "movenet-thunder"
Weights = dict[str, float]


def _middle(part: str, weight: float = 1.0) -> Weights:
    return {f"left_{part}": weight / 2, f"right_{part}": weight / 2}


def _sum(*parts: Weights) -> Weights:
    out: Weights = {}
    for part in parts:
        for name, weight in part.items():
            out[name] = out.get(name, 0.0) + weight
    return out


# Guessed by hand, before any picture was scored: the neck a little above the shoulders, and the top of
# the head as far above the ears as they are above the shoulders, nearly.
_GUESSES = {
    "pelvis": _middle("hip"),
    "thorax": _middle("shoulder"),
    "upper_neck": _sum(_middle("shoulder", 0.85), _middle("ear", 0.15)),
    "head_top": _sum(_middle("ear", 1.8), _middle("shoulder", -0.8)),
}
_SPINE = _sum(_middle("shoulder"), _middle("hip", -1))
_HEAD = _sum(_middle("ear"), _middle("shoulder", -1))
_FACING = _sum({"nose": 1.0}, _middle("ear", -1))


def _vectors(name: str) -> list[Weights]:
    """Spine, shoulders and hips (from the other side to the joint's own), head, gaze, own bone."""
    side, _, part = name.partition("_")
    own, other = ("left", "right") if side == "left" else ("right", "left")
    across = [{f"{own}_{each}": 1.0, f"{other}_{each}": -1.0} for each in ("shoulder", "hip")]
    bone: Weights = {}
    if side in ("left", "right") and part in _PARENTS:
        bone = {name: 1.0, f"{side}_{_PARENTS[part]}": -1.0}
    return [_SPINE, *across, _HEAD, _FACING, bone]


def _matrix(rows: Sequence[Weights]) -> Tensor:
    out = torch.zeros(len(rows), len(COCO))
    for row, weights in zip(out, rows):
        for name, weight in weights.items():
            row[COCO.index(name)] = weight
    return out


class JointsHead(nn.Module):
    """COCO's joints (records, 17, 3) with scores to (records, joints, 3) of another vocabulary.

    ``shares`` (kinds of joint, 6 vectors, 2): along each vector, and across it, in units in which one
    step of gradient descent has a sensible size. A right and a left joint are one kind, mirrored.
    """

    start: Tensor
    vectors: Tensor
    kinds: Tensor
    sides: Tensor

    def __init__(self, joints: Sequence[str]) -> None:
        super().__init__()
        unknown = [name for name in joints if name not in COCO and name not in _GUESSES]
        if unknown:
            raise SfumatoError(
                f"Expected joints of COCO, MPII or LSP, got {unknown[0]!r}: MoveNet does not find it."
            )
        names = [name.removeprefix("left_").removeprefix("right_") for name in joints]
        kinds = sorted(set(names))
        start = _matrix([_GUESSES.get(name, {name: 1.0}) for name in joints])
        self.register_buffer("start", start, persistent=False)
        vectors = torch.stack([_matrix(_vectors(name)) for name in joints])
        self.register_buffer("vectors", vectors / _UNIT, persistent=False)
        places = torch.tensor([kinds.index(name) for name in names])
        self.register_buffer("kinds", places, persistent=False)
        sides = torch.tensor([-1.0 if name.startswith("left_") else 1.0 for name in joints])
        self.register_buffer("sides", sides, persistent=False)
        self.shares = nn.Parameter(torch.zeros(len(kinds), vectors.shape[1], 2))

    def forward(self, found: Tensor) -> Tensor:
        points = found[..., :2]
        vectors = torch.einsum("jvk,nkc->njvc", self.vectors, points)
        across = torch.stack((-vectors[..., 1], vectors[..., 0]), -1)
        shares = self.shares[self.kinds]
        moved = torch.einsum("jv,njvc->njc", shares[..., 0], vectors) + torch.einsum(
            "jv,njvc->njc", shares[..., 1] * self.sides[:, None], across
        )
        score = found[..., 2] @ (self.start.abs() / self.start.abs().sum(1, keepdim=True)).t()
        return torch.cat((self.start @ points + moved, score[..., None]), -1)


class MirrorTrunk(nn.Module):
    """What MoveNet says of a crop and of its mirror image, together: (records, 17, 3).

    Where both agree the place is their mean, weighted by the squares of their scores; elsewhere the
    surer one's. Nothing of it trains.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, net: MoveNetThunder) -> None:
        super().__init__()
        self.net = net
        # the crops come scaled by ImageNet's constants, as for every other pose model
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406])[:, None, None])
        self.register_buffer("deviation", torch.tensor([0.229, 0.224, 0.225])[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        pixels = (x * self.deviation + self.mean) * 255
        return merged(self.net(pixels), unmirrored(self.net(pixels.flip(3))))


def unmirrored(found: Tensor) -> Tensor:
    """Joints (records, 17, 3) of mirror images, where they are in the crops themselves."""
    swapped = found[:, _MIRRORED]
    return torch.cat((SIDE - 1 - swapped[..., :1], swapped[..., 1:]), -1)


def merged(a: Tensor, b: Tensor) -> Tensor:
    """Two opinions (..., 3) with scores as one."""
    surer = a[..., 2:] >= b[..., 2:]
    first, second = torch.where(surer, a, b), torch.where(surer, b, a)
    apart = (first[..., :2] - second[..., :2]).square().sum(-1, keepdim=True)
    weight = second[..., 2:].square() * torch.exp(-apart / (2 * _NEAR**2))
    own = first[..., 2:].square() + 1e-12
    place = (own * first[..., :2] + weight * second[..., :2]) / (own + weight)
    return torch.cat((place, first[..., 2:]), -1)


class JointsNet(nn.Module):
    """A trunk that finds COCO's joints in a crop, and a head for the joints that are wanted."""

    def __init__(self, trunk: nn.Module, joints: Sequence[str]) -> None:
        super().__init__()
        self.trunk, self.head = trunk, JointsHead(joints)

    def steps(self) -> list[Step]:
        return [Step("trunk", self.trunk, (self.trunk,)), Step("head", self.head, (self.head,))]

    def forward(self, x: Tensor) -> Tensor:
        return run(self.steps(), x)


def thunder_pose(
    joints: Sequence[str], *, pretrained: bool = True, offline: bool = False
) -> JointsNet:
    """MoveNet thunder under a head for ``joints``, for crops of 256 x 256 pixels."""
    net = JointsNet(MirrorTrunk(movenet_thunder(pretrained=pretrained, offline=offline)), joints)
    net.trunk.requires_grad_(False)
    return net.eval()
