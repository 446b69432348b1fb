"""Encoders f(x): what decides which donor a sample is near to.

An encoder maps (n, ...) to (n, dimension). ``prepare`` is called once with the training tensors
and their classes before the first step, so that an encoder can start from the statistics of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.attributes._tasks import AttributesError


class Encoder(nn.Module):
    """Base: standardises its input with the training mean and scale."""

    kind = ""
    own: tuple[str, ...] = ("width",)  # settings beside shape and dimension, which are attributes
    mean: Tensor
    scale: Tensor

    def __init__(self, shape: tuple[int, ...], dimension: int) -> None:
        super().__init__()
        self.shape = tuple(shape)
        self.dimension = dimension
        self.register_buffer("mean", torch.zeros(self.shape))
        self.register_buffer("scale", torch.ones(()))

    @property
    def settings(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self.own}
        return {"shape": list(self.shape), "dimension": self.dimension, **own}

    def prepare(
        self, x: Tensor, private: Sequence[Tensor] = (), useful: Sequence[Tensor] = ()
    ) -> None:
        """``private`` and ``useful``: the classes of the records, one tensor an attribute."""
        self.mean.copy_(x.mean(0))
        self.scale.copy_((x - self.mean).square().mean().sqrt().clamp(min=1e-6))

    def standardised(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.scale

    def flat(self, x: Tensor) -> Tensor:
        return self.standardised(x).flatten(1)

    @property
    def features(self) -> int:
        return int(torch.Size(self.shape).numel())


class WhitenedMLP(Encoder):
    """Whitened principal components plus a 3-layer perceptron that starts at zero.

    Before the first step the cosine is the one between whitened samples: a record's nearest
    donors already share most of what it shows (on AudioMNIST speaker NAG 92 against 65 for a
    random perceptron, in exploration). Training then only has to move what is private.
    """

    kind = "whitened-mlp"
    own = ("components", "width", "dropout")
    basis: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        dimension: int = 512,
        *,
        components: int = 256,
        width: int = 512,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(shape, dimension)
        self.components = min(components, dimension, self.features)
        self.width = width
        self.dropout = dropout
        self.register_buffer("basis", torch.eye(self.features, self.components))
        self.body = nn.Sequential(
            *_hidden(self.components, width, dropout),
            *_hidden(width, width, dropout),
            _zero_linear(width, dimension),
        )

    def prepare(
        self, x: Tensor, private: Sequence[Tensor] = (), useful: Sequence[Tensor] = ()
    ) -> None:
        super().prepare(x)
        self.basis.copy_(whitening(self.flat(x), self.components))

    def forward(self, x: Tensor) -> Tensor:
        whitened = self.flat(x) @ self.basis
        start = functional.pad(whitened, (0, self.dimension - self.components))
        result: Tensor = start + self.body(whitened)
        return result


def _hidden(before: int, width: int, dropout: float) -> list[nn.Module]:
    return [nn.Linear(before, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(dropout)]


def _zero_linear(before: int, after: int) -> nn.Linear:
    """Until it has learnt something, a perceptron adds nothing to where the encoder starts."""
    last = nn.Linear(before, after)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return last


def whitening(centred: Tensor, components: int, rows: int = 6000) -> Tensor:
    """Principal directions scaled to unit variance, from ``rows`` evenly spread records."""
    # double precision: repeated eigenvalues of few or equal records stall the solver in single
    some = centred[:: max(1, len(centred) // rows)].double()
    if len(some) < some.shape[1]:
        # fewer records than features: the same directions from the much smaller Gram matrix
        variances, left = torch.linalg.eigh(some @ some.T / len(some))
        vectors = functional.normalize(some.T @ left, dim=0)
    else:
        variances, vectors = torch.linalg.eigh(some.T @ some / len(some))
    order = torch.argsort(variances, descending=True)[:components]
    # directions without variance carry nothing; their whitening would blow up rounding noise
    kept = variances[order].clamp(min=0)
    factor = torch.where(kept > 1e-6 * kept.max(), kept.clamp(min=1e-12).rsqrt(), 0.0)
    scaled: Tensor = (vectors[:, order] * factor).to(centred.dtype)
    return functional.pad(scaled, (0, max(0, components - scaled.shape[1])))


class ErasedMLP(Encoder):
    """Useful classes and a few principal components, private classes erased; plus a perceptron.

    For few records with many features, where a perceptron alone overfits the useful class
    of its training records. Whitened components lose every direction in which the means of
    private classes differ: no linear attacker is left (least-squares concept erasure, Belrose et
    al. 2023). The start is then ``emphasis`` times the linear guess of each useful class and
    ``general`` principal components of the rest; the perceptron, zero at first, hides what is
    not linear.
    """

    kind = "erased-mlp"
    own = ("components", "general", "emphasis", "width", "dropout")
    basis: Tensor
    start: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        dimension: int = 16,
        *,
        components: int = 256,
        general: int = 8,
        emphasis: float = 3.0,
        width: int = 256,
        dropout: float = 0.4,
    ) -> None:
        super().__init__(shape, dimension)
        self.components = min(components, self.features)
        self.general, self.emphasis = min(general, self.components), emphasis
        self.width, self.dropout = width, dropout
        self.register_buffer("basis", torch.eye(self.features, self.components))
        self.register_buffer("start", torch.eye(self.components, dimension))
        self.body = nn.Sequential(
            nn.Dropout(dropout),
            *_hidden(self.components, width, dropout),
            _zero_linear(width, dimension),
        )

    def prepare(
        self, x: Tensor, private: Sequence[Tensor] = (), useful: Sequence[Tensor] = ()
    ) -> None:
        super().prepare(x)
        centred = self.flat(x)
        basis = whitening(centred, self.components)
        length = basis.norm(dim=0)
        deviation = torch.where(length > 0, 1 / length.clamp(min=1e-12), 0.0)
        seen = centred @ basis
        erased = torch.eye(self.components)
        if private:
            gaps = torch.cat([class_covariance(seen, codes) for codes in private], 1)
            directions, size, _ = torch.linalg.svd(gaps, full_matrices=False)
            told = directions[:, size > 1e-4 * size.max().clamp(min=1e-12)]
            erased = erased - told @ told.T
        self.basis.copy_(basis @ erased)
        guesses = [self._guess(seen @ erased, codes) for codes in useful]
        # the covariance of erased components at their own scale is known: no second pass
        spread = deviation[:, None] * erased * deviation
        variances, vectors = torch.linalg.eigh(spread.double())
        largest = variances.argsort(descending=True)[: self.general]
        scaled = vectors[:, largest] * variances[largest].clamp(min=1e-12).rsqrt()
        rest = deviation[:, None] * scaled.to(deviation.dtype)
        start = torch.cat([*guesses, rest], 1)
        if start.shape[1] > self.dimension:
            raise AttributesError(
                f"Expected an embedding of at least {start.shape[1]} dimensions for all useful "
                f"classes and {self.general} components, got {self.dimension}."
            )
        self.start.copy_(functional.pad(start, (0, self.dimension - start.shape[1])))

    def _guess(self, seen: Tensor, codes: Tensor) -> Tensor:
        """Linear guesses of each class: least squares, as the components are white."""
        weights = class_covariance(seen, codes)
        scale = (seen @ weights).square().mean(0).sqrt().clamp(min=1e-6)
        guess: Tensor = self.emphasis * weights / scale
        return guess

    def forward(self, x: Tensor) -> Tensor:
        whitened = self.flat(x) @ self.basis
        result: Tensor = whitened @ self.start + self.body(whitened)
        return result


def class_covariance(seen: Tensor, codes: Tensor) -> Tensor:
    """Covariance of every component with every class, (components, classes)."""
    member = functional.one_hot(codes).to(seen.dtype)
    return (seen - seen.mean(0)).T @ (member - member.mean(0)) / len(seen)


class PerceptronEncoder(Encoder):
    """The paper's 3-layer perceptron (audio features), started at random."""

    kind = "mlp"
    hidden = 2

    def __init__(self, shape: tuple[int, ...], dimension: int = 512, *, width: int = 512) -> None:
        super().__init__(shape, dimension)
        self.width = width
        layers: list[nn.Module] = []
        for before in (self.features, width)[: self.hidden]:
            layers += [nn.Linear(before, width), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Linear(width, dimension))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.body(self.flat(x))
        return result


class FeatureHead(PerceptronEncoder):
    """The paper's 2-layer perceptron on features of a frozen backbone (faces)."""

    kind = "feature-head"
    hidden = 1


class WindowCNN(Encoder):
    """The paper's 6-layer convolutional network for sensor windows (time, channels)."""

    kind = "window-cnn"

    def __init__(self, shape: tuple[int, ...], dimension: int = 512, *, width: int = 64) -> None:
        super().__init__(shape, dimension)
        if len(self.shape) != 2:
            raise AttributesError(
                f"Expected windows of shape (time, channels), got {self.shape}: "
                "use another encoder for this kind of data."
            )
        self.width = width
        channels = [self.shape[1], width, width, 2 * width, 2 * width, 4 * width]
        layers: list[nn.Module] = []
        for before, after in pairwise(channels):
            layers += [nn.Conv1d(before, after, 5, stride=2, padding=2), nn.BatchNorm1d(after)]
            layers += [nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(channels[-1], dimension)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(self.standardised(x).transpose(1, 2))
        result: Tensor = self.head(hidden.mean(2))
        return result


ENCODERS: Mapping[str, Callable[..., Encoder]] = {
    kind.kind: kind for kind in (WhitenedMLP, ErasedMLP, PerceptronEncoder, WindowCNN, FeatureHead)
}


def build_encoder(kind: str, shape: tuple[int, ...], dimension: int, **settings: Any) -> Encoder:
    """The encoder of that name for samples of ``shape``."""
    if kind not in ENCODERS:
        raise AttributesError(
            f"Expected an encoder out of {', '.join(ENCODERS)}, got {kind!r}: "
            "or pass a module of your own."
        )
    return ENCODERS[kind](tuple(shape), dimension, **settings)
