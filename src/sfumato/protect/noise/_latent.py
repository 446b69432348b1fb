"""A linear latent for pictures, learned from public or staged pictures only (R12).

A latent is a small picture size, a mean, orthonormal components, and how far each spreads over
public pictures. What it was learned from is its maker's word; the file carries that word and the
card repeats it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.errors import SfumatoError
from sfumato.files import atomic_output
from sfumato.media import Image
from sfumato.protect.noise._bases import CHANNELS, dct_matrix
from sfumato.protect.noise._prediction import prior_energies

Floats = npt.NDArray[np.float32]
_FIELDS = {"mean", "components", "spread", "size"}


class LatentError(SfumatoError):
    """A file that holds no latent, or pictures from which none can be learned."""


@dataclass(frozen=True, eq=False)
class Latent:
    """``components`` (k, 3 h w) with orthonormal rows about ``mean`` for pictures of ``size`` h x w."""

    size: tuple[int, int]
    mean: Floats
    components: Floats
    spread: Floats
    learned_from: str

    def __post_init__(self) -> None:
        length = self.size[0] * self.size[1] * CHANNELS
        if self.mean.shape != (length,) or self.components.shape[1:] != (length,):
            raise LatentError(
                f"Expected a mean and components of {length} numbers for pictures of "
                f"{self.size[1]} x {self.size[0]}, got {self.mean.shape} and "
                f"{self.components.shape}: learn the latent anew."
            )
        if self.spread.shape != self.components.shape[:1] or not (self.spread > 0).all():
            raise LatentError(
                f"Expected a positive spread for each of {len(self.components)} components, got "
                f"{self.spread.shape}: learn the latent anew."
            )
        if not all(np.isfinite(each).all() for each in (self.mean, self.components, self.spread)):
            raise LatentError("Expected finite numbers in a latent, got others: learn it anew.")

    @cached_property
    def _doubles(self) -> npt.NDArray[np.float64]:
        """Converted once: doing it for every frame took most of its time."""
        return self.components.astype(np.float64)

    def encode(self, image: Image) -> npt.NDArray[np.float64]:
        height, width = self.size
        small = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
        centred = small.reshape(-1).astype(np.float64) - self.mean
        return np.asarray(self._doubles @ centred)

    def decode(self, code: npt.NDArray[np.float64], height: int, width: int) -> Image:
        flat = self.mean + self._doubles.T @ code
        small = flat.reshape(*self.size, CHANNELS).astype(np.float32)
        large = cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)
        return np.clip(np.rint(large), 0, 255).astype(np.uint8)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        from safetensors.numpy import save_file

        tensors: dict[str, npt.NDArray[Any]] = {
            "mean": self.mean.astype(np.float32),
            "components": np.ascontiguousarray(self.components.astype(np.float16)),
            "spread": self.spread.astype(np.float32),
            "size": np.array(self.size, dtype=np.int64),
        }
        with atomic_output(path, force=force) as partial:
            save_file(tensors, partial, metadata={"learned_from": self.learned_from})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Latent:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(Path(path), "numpy") as stored:
                words = (stored.metadata() or {}).get("learned_from", "")
                found = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise LatentError(
                f"Expected a latent saved by sfumato, but it cannot be read "
                f"({type(error).__name__}): check its name."
            ) from None
        if set(found) != _FIELDS or not words:
            raise LatentError("Expected a latent saved by sfumato, got another file: learn one.")
        height, width = (int(side) for side in found["size"])
        mean, components, spread = (
            found[name].astype(np.float32) for name in ("mean", "components", "spread")
        )
        return cls((height, width), mean, components, spread, words)


def dct_latent(kept: int = 8, size: tuple[int, int] = (48, 64)) -> Latent:
    """The latent that needs no pictures: the lowest frequencies, spread as in a textbook's picture."""
    height, width = size
    vertical, horizontal = dct_matrix(height, kept), dct_matrix(width, kept)
    waves = np.einsum("ay,bx->abyx", vertical, horizontal).reshape(kept * kept, height * width)
    components = np.einsum("kp,cd->kcpd", waves, np.eye(CHANNELS)).reshape(
        kept * kept * CHANNELS, height * width * CHANNELS
    )
    mean = np.full(height * width * CHANNELS, 127.5, dtype=np.float32)
    spread = np.sqrt(prior_energies(height, width)[:kept, :kept]).repeat(CHANNELS)
    return Latent(
        size,
        mean,
        components.astype(np.float32),
        spread.astype(np.float32),
        "nothing: fixed cosine waves",
    )


def learn_latent(
    pictures: Iterable[Image],
    *,
    learned_from: str,
    components: int = 32,
    size: tuple[int, int] = (24, 32),
) -> Latent:
    """Principal components of public or staged ``pictures``; ``learned_from`` says which."""
    if not learned_from.strip():
        raise LatentError("Expected words on what the pictures are (public, staged), got none.")
    height, width = size
    rows = [
        cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA).reshape(-1)
        for image in pictures
    ]
    if not 1 <= components < len(rows):
        raise LatentError(
            f"Expected more pictures than components, got {len(rows)} for {components} components."
        )
    data = np.stack(rows).astype(np.float64)
    mean = data.mean(axis=0)
    _, lengths, right = np.linalg.svd(data - mean, full_matrices=False)
    # pictures that are all alike have components along which nothing spreads
    spread = np.maximum(lengths[:components] / np.sqrt(len(rows)), 1e-3)
    return Latent(
        size,
        mean.astype(np.float32),
        right[:components].astype(np.float32),
        spread.astype(np.float32),
        learned_from,
    )
