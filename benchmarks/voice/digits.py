"""Which digit was said: a small network on spectrograms, normalised over each recording."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from benchmarks.voice.recordings import Recording
from sfumato.models import SpeakerEncoder

Floats = npt.NDArray[np.float64]
_FRAMES, _HOP = 64, 80


def spoken_digits(
    sounds: Sequence[Floats], recordings: Sequence[Recording], encoder: SpeakerEncoder
) -> tuple[torch.Tensor, torch.Tensor]:
    """(digits, 40, 64) levels of mel bands around each digit, and which it is."""
    from sfumato.audit.attack import at_speaker_rate

    pictures, truth = [], []
    for sound, recording in zip(sounds, recordings, strict=True):
        levels = np.log(encoder.mel(at_speaker_rate(sound, 8000)).numpy() + 1e-6)
        levels = (levels - levels.mean(0)) / (levels.std(0) + 0.5)
        for digit, start, end in recording.digits:
            piece = levels[start // _HOP : end // _HOP + 1][:_FRAMES]
            before = (_FRAMES - len(piece)) // 2
            after = _FRAMES - len(piece) - before
            pictures.append(np.pad(piece, ((before, after), (0, 0)), constant_values=-1))
            truth.append(digit)
    return torch.as_tensor(np.stack(pictures)).float().transpose(1, 2), torch.as_tensor(truth)


def recognition(
    train: tuple[torch.Tensor, torch.Tensor], test: tuple[torch.Tensor, torch.Tensor],
    *, epochs: int,
) -> npt.NDArray[np.bool_]:  # fmt: skip
    """For every digit of ``test``, whether a network that learned from ``train`` gets it right."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        widths = (40, 64, 96, 96)
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            layers += [nn.Conv1d(before, after, 5, padding=2), nn.BatchNorm1d(after), nn.ReLU(),
                       nn.MaxPool1d(2)]  # fmt: skip
        net = nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.4), nn.Linear(96 * 8, 10))
        optimizer = torch.optim.AdamW(net.parameters(), 2e-3, weight_decay=0.05)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
        x, y = train
        for _ in range(epochs):
            for batch in torch.split(torch.randperm(len(x)), 32):
                if len(batch) < 2:
                    continue
                # words are not always spoken at the same place
                shifted = torch.roll(x[batch], int(torch.randint(-4, 5, ())), 2)
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(shifted), y[batch]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            schedule.step()
        net.eval()
        with torch.no_grad():
            return np.asarray((net(test[0]).argmax(1) == test[1]).numpy())
