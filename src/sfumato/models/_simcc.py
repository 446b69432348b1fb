"""SimCC (Li et al. 2022): a joint's x and y as two classifications over bins finer than a pixel.

Targets, loss and decoding are functions of tensors; the head turns a feature map into logits.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.models._steps import Sequence, Step, run


class SimCC(nn.Module):
    """Feature map (records, width, h, w) to logits over x bins and y bins.

    A 1x1 convolution gives one map per joint; it is up-sampled, flattened and classified, for every
    joint by the same two linear layers, into ``round(W * k)`` and ``round(H * k)`` bins.

    The output is one tensor (records, joints, x bins + y bins), x first: one output a record is what
    a private step wants. :func:`split_axes` takes it apart.
    """

    def __init__(
        self,
        width: int,
        joints: int = 16,
        *,
        input_size: tuple[int, int] = (256, 192),
        split: float = 2.0,
        stride: int = 32,
        upsample: int = 2,
    ) -> None:
        super().__init__()
        height, breadth = input_size
        if height % stride or breadth % stride:
            raise ValueError(
                f"Expected an input size divisible by the backbone's stride {stride}, "
                f"got {height} x {breadth}."
            )
        if split < 1:
            raise ValueError(f"Expected a split factor of at least 1, got {split}.")
        self.upsample, self.split, self.input_size = upsample, split, input_size
        self.x_bins, self.y_bins = round(breadth * split), round(height * split)
        cells = (height // stride * upsample) * (breadth // stride * upsample)
        self.maps = nn.Conv2d(width, joints, 1)
        self.classify_x = nn.Linear(cells, self.x_bins)
        self.classify_y = nn.Linear(cells, self.y_bins)

    def forward(self, features: Tensor) -> Tensor:
        maps = self.maps(features)
        if self.upsample > 1:
            maps = functional.interpolate(
                maps, scale_factor=self.upsample, mode="bilinear", align_corners=False
            )
        flat = maps.flatten(2)
        return torch.cat((self.classify_x(flat), self.classify_y(flat)), dim=2)


class PoseNet(nn.Module):
    """A backbone that gives feature maps (``classes=0``) and a SimCC head."""

    def __init__(self, backbone: nn.Module, head: SimCC) -> None:
        super().__init__()
        if not isinstance(backbone, Sequence):
            raise TypeError(f"Expected a backbone with steps(), got {type(backbone).__name__}.")
        self.backbone, self.head = backbone, head

    def steps(self) -> list[Step]:
        inner: list[Step] = self.backbone.steps()
        renamed = [Step(f"backbone.{step.name}", step.run, step.modules) for step in inner]
        return [*renamed, Step("head", self.head, (self.head,))]

    def forward(self, x: Tensor) -> Tensor:
        return run(self.steps(), x)


def split_axes(logits: Tensor, x_bins: int) -> tuple[Tensor, Tensor]:
    """Logits over the bins of x and of y."""
    return logits[..., :x_bins], logits[..., x_bins:]


def soft_labels(coordinate: Tensor, bins: int, split: float, sigma: float) -> Tensor:
    """Gaussian-smoothed targets: bin b of a joint at c weighs exp(-(b - round(c k))^2 / (2 sigma^2)).

    Each row sums to one; ``sigma`` is in bins and 0 gives the one-hot target. Coordinates outside the
    picture are the caller's to leave out (weight zero); here they are clamped to its border.
    """
    labels, _ = _labels_by_centre(bins, sigma, coordinate.dtype, coordinate.device)
    return labels[_centre(coordinate, bins, split)]


def _centre(coordinate: Tensor, bins: int, split: float) -> Tensor:
    return (coordinate * split).round().clamp(0, bins - 1).long()


@lru_cache(maxsize=16)
def _labels_by_centre(
    bins: int, sigma: float, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The targets for every centre there is, and the sum of p log p of each: both are looked up,
    because a loss that draws its Gaussians anew spends a third of its time on them."""
    with torch.inference_mode(False), torch.no_grad():
        places = torch.arange(bins, device=device, dtype=dtype)
        distance = places - places[:, None]
        if sigma == 0:
            labels = (distance == 0).to(dtype)
        else:
            weight = torch.exp(-distance.square() / (2 * sigma**2))
            labels = weight / weight.sum(-1, keepdim=True)
        return labels, torch.special.xlogy(labels, labels).sum(-1)


def simcc_loss(
    logits: Tensor,
    joints: Tensor,
    visible: Tensor,
    *,
    x_bins: int,
    split: float = 2.0,
    sigma: float = 6.0,
) -> Tensor:
    """One loss a record: KL divergence to the smoothed targets, mean over visible joints and axes.

    ``joints`` (records, joints, 2) in input pixels, ``visible`` (records, joints). A record without
    visible joints has loss zero. Nothing is averaged over records, as a private step demands.
    """
    total = torch.zeros(logits.shape[0], dtype=logits.dtype, device=logits.device)
    weight = visible.to(logits.dtype)
    for axis, part in enumerate(split_axes(logits, x_bins)):
        bins = part.shape[-1]
        labels, entropy = _labels_by_centre(bins, sigma, logits.dtype, logits.device)
        centre = _centre(joints[..., axis], bins, split)
        divergence = entropy[centre] - (labels[centre] * part.log_softmax(-1)).sum(-1)
        total = total + (divergence * weight).sum(1)
    return total / (2 * weight.sum(1).clamp(min=1))


def decode(logits: Tensor, *, x_bins: int, split: float = 2.0) -> tuple[Tensor, Tensor]:
    """Joints (records, joints, 2) in input pixels, finer than a pixel, and a score in [0, 1].

    The best bin is refined by a parabola through the log-probabilities of its two neighbours, which
    is exact for a Gaussian; a best bin at the border stays. The score is the smaller of the two
    axes' largest probabilities.
    """
    places, scores = [], []
    for part in split_axes(logits, x_bins):
        log = part.log_softmax(-1)
        best = log.argmax(-1)
        inner = best.clamp(1, part.shape[-1] - 2)
        left, middle, right = (
            log.gather(-1, (inner + step)[..., None])[..., 0] for step in (-1, 0, 1)
        )
        curvature = left - 2 * middle + right
        flat = curvature > -1e-12
        offset = 0.5 * (left - right) / torch.where(flat, -torch.ones_like(curvature), curvature)
        offset = torch.where(flat | (best != inner), torch.zeros_like(offset), offset)
        places.append((best + offset.clamp(-0.5, 0.5)) / split)
        scores.append(log.max(-1).values.exp())
    return torch.stack(places, -1), torch.minimum(*scores)
