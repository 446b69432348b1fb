"""Small encoders for sensor windows and log-mel pictures, as the PASS paper uses them (its table 6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from torch import Tensor, nn

from sfumato.models._steps import Step, run


class _Encoder(nn.Module):
    """Layers, the mean over what is left of time and space, one linear layer, and a classifier."""

    def __init__(
        self, layers: Iterable[nn.Module], width: int, embedding: int, classes: int
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.embed = nn.Linear(width, embedding)
        self.head = nn.Linear(embedding, classes) if classes else None

    def _embed(self, x: Tensor) -> Tensor:
        return self.embed(x if x.ndim == 2 else x.flatten(2).mean(2))  # type: ignore[no-any-return]

    def steps(self) -> list[Step]:
        parts = [Step(f"layers.{i}", layer, (layer,)) for i, layer in enumerate(self.layers)]
        parts.append(Step("embed", self._embed, (self.embed,)))
        return parts if self.head is None else [*parts, Step("head", self.head, (self.head,))]

    def forward(self, x: Tensor) -> Tensor:
        return run(self.steps(), x)


class _ChannelsFirst(nn.Module):
    """Records keep channels last; convolutions want them second."""

    def forward(self, x: Tensor) -> Tensor:
        return x.movedim(-1, 1)


def _convolutions(
    kind: type[nn.Conv1d] | type[nn.Conv2d], size: int, widths: Sequence[int]
) -> list[nn.Module]:
    """Each halves time and space; GroupNorm, so that no record sees another."""
    return [
        _ChannelsFirst(),
        *(
            nn.Sequential(
                kind(a, b, size, stride=2, padding=size // 2), nn.GroupNorm(8, b), nn.ReLU()
            )
            for a, b in pairwise(widths)
        ),
    ]


class SensorCNN(_Encoder):
    """Windows (records, time, channels) to an embedding: six convolutions and one linear layer."""

    def __init__(
        self, channels: int = 2, width: int = 64, embedding: int = 512, classes: int = 0
    ) -> None:
        widths = [channels, width, width, 2 * width, 2 * width, 4 * width, 4 * width]
        super().__init__(_convolutions(nn.Conv1d, 5, widths), widths[-1], embedding, classes)


class MelCNN(_Encoder):
    """Log-mel pictures (records, mels, time, 1) to an embedding: four convolutions and a linear."""

    def __init__(self, width: int = 32, embedding: int = 512, classes: int = 0) -> None:
        widths = [1, width, 2 * width, 4 * width, 4 * width]
        super().__init__(_convolutions(nn.Conv2d, 3, widths), widths[-1], embedding, classes)


class RecordMLP(_Encoder):
    """A record of any shape, flattened, through linear layers: three as PASS uses for audio."""

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int] = (512, 512),
        embedding: int = 512,
        classes: int = 0,
    ) -> None:
        widths = [inputs, *hidden]
        layers = (
            nn.Sequential(nn.Flatten(), nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)
        )
        super().__init__(layers, widths[-1], embedding, classes)
