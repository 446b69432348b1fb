"""Small encoders for sensor windows and log-mel pictures, as the PASS paper uses them (its table 6)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from sfumato.models._steps import Step, run


class _ChannelsFirst(nn.Module):
    """Records keep channels last; convolutions want them second."""

    def forward(self, x: Tensor) -> Tensor:
        return x.movedim(-1, 1)


class SensorCNN(nn.Module):
    """Windows (records, time, channels) to an embedding: six convolutions and one linear layer.

    Each convolution halves the time axis; GroupNorm, so that no record sees another. ``classes``
    adds a classifier on the embedding.
    """

    def __init__(
        self,
        channels: int = 2,
        width: int = 64,
        embedding: int = 512,
        classes: int = 0,
    ) -> None:
        super().__init__()
        widths = [channels, width, width, 2 * width, 2 * width, 4 * width, 4 * width]
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(a, b, 5, stride=2, padding=2),
                nn.GroupNorm(8, b),
                nn.ReLU(),
            )
            for a, b in pairwise(widths)
        )
        self.layers.insert(0, _ChannelsFirst())
        self.embed = nn.Linear(widths[-1], embedding)
        self.head = nn.Linear(embedding, classes) if classes else None

    def _embed(self, x: Tensor) -> Tensor:
        return self.embed(x.mean(2))  # type: ignore[no-any-return]

    def steps(self) -> list[Step]:
        return _steps(self.layers, Step("embed", self._embed, (self.embed,)), self.head)

    def forward(self, x: Tensor) -> Tensor:
        return run(self.steps(), x)


class MelCNN(nn.Module):
    """Log-mel pictures (records, mels, time, 1) to an embedding: four convolutions and a linear."""

    def __init__(self, width: int = 32, embedding: int = 512, classes: int = 0) -> None:
        super().__init__()
        widths = [1, width, 2 * width, 4 * width, 4 * width]
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(a, b, 3, stride=2, padding=1),
                nn.GroupNorm(8, b),
                nn.ReLU(),
            )
            for a, b in pairwise(widths)
        )
        self.layers.insert(0, _ChannelsFirst())
        self.embed = nn.Linear(widths[-1], embedding)
        self.head = nn.Linear(embedding, classes) if classes else None

    def _embed(self, x: Tensor) -> Tensor:
        return self.embed(x.mean((2, 3)))  # type: ignore[no-any-return]

    def steps(self) -> list[Step]:
        return _steps(self.layers, Step("embed", self._embed, (self.embed,)), self.head)

    def forward(self, x: Tensor) -> Tensor:
        return run(self.steps(), x)


class MLP(nn.Module):
    """A record of any shape, flattened, through linear layers: three as PASS uses for audio."""

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int] = (512, 512),
        embedding: int = 512,
        classes: int = 0,
    ) -> None:
        super().__init__()
        widths = [inputs, *hidden]
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Flatten(), nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)
        )
        self.embed = nn.Linear(widths[-1], embedding)
        self.head = nn.Linear(embedding, classes) if classes else None

    def steps(self) -> list[Step]:
        return _steps(self.layers, Step("embed", self.embed, (self.embed,)), self.head)

    def forward(self, x: Tensor) -> Tensor:
        return run(self.steps(), x)


def _steps(layers: nn.ModuleList, embed: Step, head: nn.Linear | None) -> list[Step]:
    parts = [Step(f"layers.{i}", layer, (layer,)) for i, layer in enumerate(layers)]
    parts.append(embed)
    if head is not None:
        parts.append(Step("head", head, (head,)))
    return parts
