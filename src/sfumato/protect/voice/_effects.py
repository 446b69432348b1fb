"""From a recording to what is done to it: first it is heard, then secrets are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.privacy import Randomness
from sfumato.protect.voice._features import Framing
from sfumato.protect.voice._mcadams import McAdams
from sfumato.protect.voice._overlap import Effect, OverlapAdd
from sfumato.protect.voice._speakers import Timeline
from sfumato.protect.voice._vocoder import Vocoder
from sfumato.protect.voice._voices import Listening, Range, Statistics, Target, measured

Floats = npt.NDArray[np.float64]
Algorithm = Literal["world", "mcadams", "distort"]
Blocks = Callable[[], Iterable[Floats]]

RANGES = {
    "world": Range(detail=0.4, tint=0.8, bend=0.3, stretch=0.2, warp=0.1, contrast=0.9),
    "distort": Range(detail=0.4, tint=1.0, bend=0.8, stretch=0.4, warp=0.1, contrast=0.5),
}
_COEFFICIENTS = (0.5, 0.9)  # of McAdams, as in the VoicePrivacy challenges


def effect_for(
    algorithm: Algorithm, blocks: Blocks, rate: int, who: Timeline, randomness: Randomness
) -> Effect:
    """The effect for one track, with secrets of its own for each of its speakers.

    ``blocks`` gives the mono blocks of the track anew each time it is called.
    """
    secret = randomness.generator()
    if algorithm == "mcadams":
        return McAdams(
            rate, [float(secret.uniform(*_COEFFICIENTS)) for _ in range(who.speakers)], who
        )
    framing = Framing(rate)
    within = RANGES[algorithm]
    coefficients = round(within.detail * len(framing.bands))
    heard = listen(blocks(), framing, coefficients, who)
    targets = [Target.draw(secret, framing, coefficients, within) for _ in heard]
    return Vocoder(framing, heard, targets, who, randomness.generator(),
                   contrast=within.contrast, whisper=algorithm == "distort")  # fmt: skip


def listen(
    blocks: Iterable[Floats], framing: Framing, coefficients: int, who: Timeline
) -> list[Statistics]:
    """The statistics of each speaker, in one pass and constant memory."""
    ears = _Ears(framing, coefficients, who)
    through = OverlapAdd(ears)
    for block in blocks:
        through.push(block)
    ears.count = through.came
    through.flush()
    return [each.compute() for each in ears.voices]


class _Ears:
    """An effect that changes nothing and remembers what it heard."""

    def __init__(self, framing: Framing, coefficients: int, who: Timeline) -> None:
        self.block, self.context = 64 * framing.hop, 6 * framing.hop
        self._framing, self._who = framing, who
        self.voices = [Listening(framing, coefficients) for _ in range(who.speakers)]
        self.count: int | None = None

    def __call__(self, segment: Floats, at: int) -> Floats:
        bands, pitch = measured(self._framing, segment, self.context, 64)
        places = at + self._framing.hop * np.arange(64)
        inside = places < (self.count if self.count is not None else places[-1] + 1)
        speakers = self._who(places)
        for number, voice in enumerate(self.voices):
            here = inside & (speakers == number)
            voice.add(bands[here], pitch[here])
        return np.zeros(len(segment))
