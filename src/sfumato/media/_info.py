"""What is known of a video before its pixels are read, and one picture of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.media._clock import usual_rate

Image = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """Size and timing of a video as a person sees it: after rotation, in exact fractions.

    ``rate`` is the nominal rate (frames a second); with ``variable_rate`` it is only nominal and
    the times of the frames tell the truth. ``frame_count`` and ``duration`` (seconds) are what the
    container claims, ``None`` when it says nothing. ``rotation`` is the clockwise turn in degrees
    that was already applied to the frames.
    """

    width: int
    height: int
    rate: Fraction
    time_base: Fraction
    frame_count: int | None = None
    duration: Fraction | None = None
    has_audio: bool = False
    rotation: int = 0
    variable_rate: bool = False
    interlaced: bool = False
    pixel_aspect: Fraction = Fraction(1)
    codec: str = ""
    pixel_format: str = ""

    @property
    def expected_frames(self) -> int | None:
        """How many frames the container leads to expect; good enough for a progress bar."""
        if self.frame_count or self.duration is None:
            return self.frame_count or None
        return max(1, round(self.duration * self.rate))

    def on_usual_grid(self) -> VideoInfo:
        """The same size at a usual rate, with regular times and square pixels.

        What is left of the timing is one of a few rates: gaps between frames, rate and shape of the
        pixels of a recording can carry anything, and no noise touches them.
        """
        rate = usual_rate(self.rate)
        return replace(
            self,
            rate=rate,
            time_base=1 / rate,
            duration=None,
            variable_rate=False,
            pixel_aspect=Fraction(1),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One picture: ``image`` is uint8 (height, width, 3) RGB; ``time == pts * info.time_base``."""

    image: Image
    pts: int
    time: Fraction
