"""DP-Image: Gaussian noise on a clipped latent of every frame."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sfumato.media import Frame, Image
from sfumato.privacy import Bounds, Gaussian, Guarantee, Relation, Unit, calibrate_gaussian
from sfumato.protect._method import Promise, ProtectError, Shape
from sfumato.protect.video._bases import CHANNELS
from sfumato.protect.video._extent import (
    BLIND_SETTINGS,
    NOT_COVERED,
    PUBLIC,
    UnitMethod,
    unit_extent,
)
from sfumato.protect.video._latent import Latent, dct_latent

Code = npt.NDArray[np.float64]
# The clipped norm is computed in double precision; this is far more than it can be off.
_ROUNDING = 1 + 1e-9


class DpImage(UnitMethod):
    """Noise on a latent whose norm is clipped, so that the encoder may be anything public.

    Guarantee: (epsilon, delta)-DP for the stated unit under replace. Whatever changes in a frame, its
    clipped latent moves by at most 2 C; n frames move by at most 2 C sqrt(n). The encoder must have
    been learned from other data than the recordings it protects: a file made with ``learn_latent``,
    or the built-in waves.

    | edge case | what happens |
    | --- | --- |
    | latent longer than C | shortened to C; the picture loses contrast |
    | unit pixels(m, frames=n) | counted as n whole frames: a latent has no pixels |
    | unit clip or video, length unknown | refused |
    """

    name: ClassVar[str] = "dp-image"
    summary: ClassVar[str] = "noise on a clipped latent of every frame (DP-Image)"
    provides: ClassVar[str] = "(epsilon, delta) for frame, clip or video"

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        unit: Unit | str,
        relation: Relation | str = Relation.REPLACE,
        encoder: str | os.PathLike[str] | Latent | None = None,
        clip: float = 45.0,
        seed: int | None = None,
    ) -> None:
        super().__init__(unit=unit, relation=relation, seed=seed)
        if not 0 < clip < float("inf"):
            raise ProtectError(f"Expected clip > 0 (grey levels a pixel), got {clip!r}.")
        self.epsilon, self.delta, self.clip = epsilon, delta, float(clip)
        self.multiplier = calibrate_gaussian(epsilon, delta)
        if encoder is None:
            self.latent = dct_latent()
        else:
            self.latent = encoder if isinstance(encoder, Latent) else Latent.load(encoder)

    @property
    def lookahead(self) -> int:
        return 0

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": str(self.unit),
            "relation": self.relation.value,
            "clip": self.clip,
            "components": len(self.latent.components),
            "encoder learned from": self.latent.learned_from,
        }

    @property
    def clip_norm(self) -> float:
        """C: ``clip`` grey levels on every value of the small picture."""
        return self.clip * math.sqrt(self.latent.size[0] * self.latent.size[1] * CHANNELS)

    def sensitivity(self, shape: Shape) -> float:
        _, frames = unit_extent(self.unit, shape)
        return 2 * self.clip_norm * math.sqrt(frames) * _ROUNDING

    def scale(self, shape: Shape) -> float:
        return self.multiplier * self.sensitivity(shape)

    def clipped(self, image: Image) -> Code:
        """The latent, of norm at most C."""
        code = self.latent.encode(image)
        norm = float(np.linalg.norm(code))
        return code if norm <= self.clip_norm else code * (self.clip_norm / norm)

    def promise(self, shape: Shape) -> Promise:
        return Guarantee(
            mechanism=self.summary,
            unit=self.unit,
            relation=self.relation,
            delta=self.delta,
            event=Gaussian(self.scale(shape) / self.sensitivity(shape), Bounds.DIFFERENCE),
            accountant="analytic-gaussian",
            public=(*PUBLIC, "the encoder"),
            assumptions=(
                f"the encoder was learned from {self.latent.learned_from}",
                BLIND_SETTINGS,
            ),
            not_covered=NOT_COVERED,
            randomness=self.randomness.label,
        )

    def remarks(self, shape: Shape) -> list[str]:
        ratio = self.clip_norm / (self.scale(shape) * math.sqrt(len(self.latent.components)))
        verdict = (
            "something of the picture will be left"
            if ratio > 0.5
            else "nothing useful can be released at this unit and epsilon"
        )
        return [f"The clipped latent is at most {ratio:.2g} times as long as the noise: {verdict}."]

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        generator, scale = self.randomness.generator(), self.scale(shape)
        size = len(self.latent.components)
        for frame in frames:
            noisy = self.clipped(frame.image) + scale * generator.standard_normal(size)
            shrunk = noisy * _shrinkage(noisy, scale)
            yield replace(frame, image=self.latent.decode(shrunk, shape.height, shape.width))


def _shrinkage(noisy: Code, scale: float) -> float:
    """Positive-part James-Stein (post-processing): noise alone comes back as the mean picture."""
    energy = float(noisy @ noisy)
    return max(0.0, 1 - max(len(noisy) - 2, 1) * scale**2 / energy) if energy else 0.0
