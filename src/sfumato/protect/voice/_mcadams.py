"""McAdams: the poles of the voice's linear prediction turned, which moves its formants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sfumato.protect.voice._vocoder import Who

Floats = npt.NDArray[np.float64]
_FRAMES = 64  # a block
_ORDER = 20  # of the linear prediction, whatever the rate, as in the baseline
_STABLE = 0.998  # the largest radius of a turned pole


class McAdams:
    """The baseline of the VoicePrivacy challenges: every pole's angle phi becomes phi ** coefficient.

    One coefficient a speaker. Pitch and loudness stay as they are.
    """

    def __init__(self, rate: int, coefficients: Sequence[float], who: Who) -> None:
        self._hop = round(rate * 0.010)
        self._coefficients, self._who = np.array(coefficients), who
        self.block, self.context = _FRAMES * self._hop, self._hop
        self._window = np.sqrt(np.hanning(2 * self._hop + 1)[:-1])

    def __call__(self, segment: Floats, at: int) -> Floats:
        width = 2 * self._hop
        # the first frame is centred on the block's first sample
        frames = np.lib.stride_tricks.sliding_window_view(segment, width)[:: self._hop][:_FRAMES]
        speakers = self._who(at + self._hop * np.arange(_FRAMES))
        made = turned(frames * self._window, self._coefficients[speakers]) * self._window
        out = np.zeros(len(segment))
        for number, frame in enumerate(made):
            out[number * self._hop :][:width] += frame
        return out


def turned(frames: Floats, coefficients: Floats) -> Floats:
    """Windowed frames with the poles of their linear prediction turned, as loud as they were."""
    prediction = lpc(frames, _ORDER)
    poles = roots(prediction)
    angle, radius = np.angle(poles), np.abs(poles)
    new = np.minimum(np.abs(angle) ** coefficients[:, None], np.pi)
    moved = np.minimum(radius, _STABLE) * np.exp(1j * np.sign(angle) * new)
    poles = np.where(np.abs(poles.imag) > 1e-9, moved, poles)
    made = recursion(residual(frames, prediction), polynomial(poles))
    before, after = (np.sqrt((each**2).sum(1)) for each in (frames, made))
    return np.asarray(made * (before / np.maximum(after, 1e-12))[:, None])


def lpc(frames: Floats, order: int) -> Floats:
    """(frames, order + 1): the autocorrelation method, by Levinson and Durbin."""
    size = 1 << (2 * frames.shape[1] - 1).bit_length()
    r = np.fft.irfft(np.abs(np.fft.rfft(frames, size)) ** 2)[:, : order + 1]
    r[:, 0] = r[:, 0] * 1.0001 + 1e-9
    a = np.zeros_like(r)
    a[:, 0] = 1
    error = r[:, 0].copy()
    for i in range(1, order + 1):
        k = -(a[:, :i] * r[:, i:0:-1]).sum(1) / error
        a[:, 1 : i + 1] += k[:, None] * a[:, :i][:, ::-1]
        error *= 1 - k**2
    return a


def roots(prediction: Floats) -> npt.NDArray[np.complex128]:
    """The poles, as eigenvalues of companion matrices."""
    order = prediction.shape[1] - 1
    companion = np.zeros((len(prediction), order, order))
    companion[:, 0] = -prediction[:, 1:]
    companion[:, np.arange(1, order), np.arange(order - 1)] = 1
    return np.asarray(np.linalg.eigvals(companion), np.complex128)


def polynomial(poles: npt.NDArray[np.complex128]) -> Floats:
    """The prediction that has these poles."""
    found = np.ones((len(poles), 1), dtype=np.complex128)
    for k in range(poles.shape[1]):
        longer = np.pad(found, ((0, 0), (0, 1)))
        longer[:, 1:] -= poles[:, k : k + 1] * found
        found = longer
    return found.real


def residual(frames: Floats, prediction: Floats) -> Floats:
    """What the prediction leaves of each frame."""
    out = np.zeros_like(frames)
    for k in range(prediction.shape[1]):
        out[:, k:] += prediction[:, k : k + 1] * frames[:, : frames.shape[1] - k]
    return out


def recursion(residual: Floats, prediction: Floats) -> Floats:
    """The frames that a prediction leaves this of."""
    order = prediction.shape[1] - 1
    out = np.zeros((len(residual), residual.shape[1] + order))
    backwards = prediction[:, :0:-1]
    for n in range(residual.shape[1]):
        out[:, n + order] = residual[:, n] - (backwards * out[:, n : n + order]).sum(1)
    return out[:, order:]
