"""The method ``voice``: every voice of a recording becomes another one, and all other sound with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from sfumato.media import Frame, SoundReader, SoundWriter
from sfumato.progress import tell
from sfumato.protect._method import Method, ProtectError, Shape
from sfumato.protect.voice._effects import Algorithm, effect_for
from sfumato.protect.voice._overlap import OverlapAdd
from sfumato.protect.voice._speakers import Timeline, follow_speakers
from sfumato.settings import Seed

if TYPE_CHECKING:
    from sfumato.models import SpeakerEncoder

Floats = npt.NDArray[np.float64]
# percent, by algorithm, of the benchmark ``voice``: the equal error rate of the best attacker who trains on
# protected speech of the very speakers, and the digits understood
MEASURED: dict[Algorithm, tuple[int, int]] = {
    "distort": (9, 79),
    "world": (2, 93),
    "mcadams": (0, 96),
}
_KNEE = 0.7  # from here on up to 1, what is louder is pressed together instead of cut off


class Voice(Method):
    """Sound is taken apart and made anew with voices that are drawn in secret, or bent.

    Guarantee: none. All channels become one, heard in each of them: their differences would carry the
    original past the change. Secrets are drawn from the operating system for each recording, used and
    forgotten; no card holds them.

    | case | what happens |
    | --- | --- |
    | silence | stays silence, of the same length |
    | shorter than a frame (32 ms) | made anew all the same |
    | several tracks | in a video each by itself; of a sound file the first alone, and the card says so |
    | NaN or infinity, what does not decode | refused |
    | louder than full scale | pressed below it |
    """

    name = "voice"
    summary = "every voice becomes another one, and all other sound with it"
    provides = "no guarantee"
    medium = "sound"
    reason = (
        "It makes other voices of those that speak; how well speakers can still be told apart can be "
        "measured (sfumato audit reid --by voice), and a better attacker may do better."
    )
    leaves = (
        "words and names that are spoken",
        "accent, dialect and choice of words",
        "who speaks when, how fast and how loud",
        "other sounds of the place, changed but not removed",
    )
    works_with = ("scipy",)
    audits = frozenset()

    def __init__(
        self,
        *,
        algorithm: Algorithm = "distort",
        speakers: Literal["one", "each"] = "one",
        seed: Seed | None = None,
    ) -> None:
        super().__init__(seed=seed)
        self.algorithm, self.speakers = algorithm, speakers
        self._encoder: SpeakerEncoder | None = None

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        raise ProtectError(
            "Expected a sound file (wav, flac, mp3, m4a, ogg) for the method voice, got pictures: for a "
            "video choose a method for the picture and --audio anonymize."
        )

    @property
    def packages(self) -> tuple[str, ...]:
        return ("scipy", "torch") if self.speakers == "each" else ("scipy",)

    def sound(self, source: Path, made: Path) -> tuple[str, str]:
        digest = hashlib.sha256()
        with SoundReader(source) as reader:
            rate, channels = reader.info.rate, min(reader.info.channels, 2)
            digest.update(f"{rate}x{reader.info.channels}".encode())
            change = self.change(source, 0, rate)
            with SoundWriter(made, rate, channels) as writer:

                def write(samples: Floats) -> None:
                    writer.write(np.repeat(samples[None], channels, axis=0))
                    tell("protecting", writer.samples_written, None)

                for block in reader:
                    digest.update(np.ascontiguousarray(block).data)
                    write(change.push(block.mean(0)))
                write(change.flush())
            self._require_length(made, change.came)
        others = reader.info.tracks - 1
        said = [] if not others else [f"Of {others + 1} tracks of sound the first is there alone."]
        return digest.hexdigest(), " ".join([*said, self.measured])

    @property
    def measured(self) -> str:
        """For the card: what attackers and listeners made of this algorithm, on one kind of speech."""
        rate, digits = MEASURED[self.algorithm]
        return (
            f"Measured for {self.algorithm} on digits spoken by four people: whoever trains on such protected "
            f"speech tells these people apart with an equal error rate of {rate} %, where 50 % is guessing; "
            f"{digits} % of digits are understood."
        )

    def change(self, source: Path, track: int, rate: int) -> Changed:
        """What is done to one track of a file: it is listened to first, and then secrets are drawn."""

        def blocks() -> Iterator[Floats]:
            with SoundReader(source, track) as reader:
                for block in reader:
                    yield block.mean(0)

        who = Timeline([], rate)
        if self.speakers == "each":
            who = follow_speakers(blocks(), rate, self._embed)
        return Changed(effect_for(self.algorithm, blocks, rate, who, self.randomness))

    def _embed(self, sound: Floats) -> Any:
        if self._encoder is None:
            from sfumato.models import SpeakerEncoder

            self._encoder = SpeakerEncoder.pretrained()
        return self._encoder.embed(sound)

    @staticmethod
    def _require_length(made: Path, samples: int) -> None:
        with SoundReader(made) as reader:
            found = sum(block.shape[1] for block in reader)
        if found != samples:
            raise ProtectError(
                f"Expected {samples} samples in the output, as in the recording, got {found}: "
                f"{made.suffix} cannot hold that few; write .wav or .flac."
            )


class Changed(OverlapAdd):
    """Sound through an effect, within full scale."""

    def push(self, samples: npt.ArrayLike) -> Floats:
        return within_scale(super().push(samples))

    def flush(self) -> Floats:
        return within_scale(super().flush())


def within_scale(samples: Floats) -> Floats:
    """As it is up to the knee; what is louder is bent, so that nothing reaches full scale."""
    over = np.maximum(np.abs(samples) - _KNEE, 0.0)
    bent = _KNEE + (1 - _KNEE) * np.tanh(over / (1 - _KNEE))
    return np.where(over > 0, np.sign(samples) * bent, samples)
