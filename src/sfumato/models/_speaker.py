"""Who speaks, as 256 numbers: Resemblyzer's network (an LSTM on mel spectra), ported to plain torch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sfumato import store

SPEAKER_RATE = 16_000
_WINDOW, _HOP, _MELS = 400, 160, 40
_PARTIAL = 160  # mel frames that the network was trained on: 1.6 s
_STEP = 80
_LEVEL = 10 ** (-30 / 20)  # recordings that are quieter are raised to -30 dBFS
Floats = npt.NDArray[np.floating]


class SpeakerEncoder(nn.Module):
    """``encoder(sound)`` is a unit vector; the nearer two are, the likelier it is one speaker.

    ``sound`` is mono at ``SPEAKER_RATE``. What is shorter than 1.6 s is padded with silence; of what
    is longer, the mean over windows of 1.6 s every 0.8 s is taken.
    """

    filters: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(_MELS, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)
        self.register_buffer("filters", torch.from_numpy(_slaney_filters()), persistent=False)

    @classmethod
    def pretrained(cls, *, offline: bool = False) -> SpeakerEncoder:
        """With Resemblyzer's own weights, from the store."""
        arrays = store.load_arrays("resemblyzer", offline=offline)
        model = cls()
        own = set(model.state_dict())
        model.load_state_dict({n: torch.from_numpy(a) for n, a in arrays.items() if n in own})
        return model.eval()

    def forward(self, mels: Tensor) -> Tensor:
        """(batch, frames, 40) mel powers to (batch, 256) unit vectors."""
        hidden = self.lstm(mels)[1][0][-1]
        return nn.functional.normalize(torch.relu(self.linear(hidden)), dim=1)

    @torch.no_grad()
    def partials(self, sound: Floats) -> Floats:
        """A vector for every window of 1.6 s, every 0.8 s."""
        mels = self.mel(sound)
        starts = range(0, max(len(mels) - _PARTIAL, 0) + 1, _STEP)
        each = torch.stack([mels[s : s + _PARTIAL] for s in starts])
        return np.asarray(self(each).cpu().numpy())

    def embed(self, sound: Floats) -> Floats:
        """One unit vector for a recording."""
        mean = self.partials(sound).mean(0)
        return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-9))

    def mel(self, sound: Floats) -> Tensor:
        """(frames, 40) mel powers of Hann windows of 25 ms every 10 ms, as librosa makes them."""
        samples = torch.as_tensor(np.asarray(sound, dtype=np.float32)).to(self.filters.device)
        short = _PARTIAL * _HOP - len(samples)
        level = samples.square().mean().sqrt() if len(samples) else samples.new_zeros(())
        if 0 < level < _LEVEL:
            samples = samples * (_LEVEL / level)
        samples = nn.functional.pad(samples, (0, max(short, 0)))
        window = torch.hann_window(_WINDOW, device=samples.device)
        spectrum = torch.stft(samples, _WINDOW, _HOP, window=window, pad_mode="constant",
                              return_complex=True).abs().square()  # fmt: skip
        return (self.filters @ spectrum).T


def _slaney_filters() -> npt.NDArray[np.float32]:
    """40 triangles on Slaney's mel scale (linear up to 1 kHz, logarithmic above), of equal area."""
    knee, step = 15.0, np.log(6.4) / 27
    mels = np.linspace(0, knee + np.log(SPEAKER_RATE / 2 / 1000) / step, _MELS + 2)
    hertz = np.where(mels < knee, mels * 200 / 3, 1000 * np.exp(step * (mels - knee)))
    bins = np.linspace(0, SPEAKER_RATE / 2, _WINDOW // 2 + 1)
    ramps = hertz[:, None] - bins
    width = np.diff(hertz)[:, None]
    rising, falling = -ramps[:-2] / width[:-1], ramps[2:] / width[1:]
    triangles = np.maximum(0, np.minimum(rising, falling))
    return (triangles * (2 / (hertz[2:] - hertz[:-2]))[:, None]).astype(np.float32)
