"""Differentially private methods for pictures, put to the same attack as PASS (the paper's Table 17)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.attributes.data import Split, faces_of
from sfumato import protect
from sfumato.attributes import picture_features
from sfumato.data import utkface
from sfumato.media import Frame
from sfumato.protect import Method, Promise, ProtectError, Shape

# The paper states no epsilon. Each is set so that a face can just be made out: what they promise
# is for pixels (or the whole picture), which is another thing than an attribute.
PICTURE_METHODS: Mapping[str, Mapping[str, Any]] = {
    "snow": {"p": 0.5, "unit": "pixels(1, frames=1)"},
    "dppix": {"epsilon": 1.0, "b": 8, "unit": "pixels(1, frames=1)"},
    "laplace": {"epsilon": 4.0, "unit": "pixels(1, frames=1)"},
    "dp-image": {"epsilon": 100.0, "delta": 1e-5, "unit": "frame"},
}


class PictureMethod:
    """Each sample (height, width) or (height, width, 3) in 0..255 is released as a picture.

    They aim at single pixels or pictures, not at attributes: their guarantee is the method's own,
    for its own unit, and what an attacker reads off the release is measured like for PASS.
    """

    def __init__(self, method: Method) -> None:
        self.method = method

    def promise(self, height: int, width: int) -> Promise:
        return self.method.promise(Shape(height, width, 1))

    def obfuscate(self, x: Tensor, generator: np.random.Generator) -> Tensor:
        """Fresh noise for every picture, from the method's own source; ``generator`` is not used."""
        if x.dim() not in (3, 4) or (x.dim() == 4 and x.shape[3] not in (1, 3)):
            raise ProtectError(
                f"Expected pictures (n, height, width) or (n, height, width, 3), got shape "
                f"{tuple(x.shape)}: this method is for pictures only."
            )
        released = [self._one(picture.numpy()) for picture in x.clamp(0, 255)]
        return torch.from_numpy(np.stack(released)).to(x.dtype).view(x.shape)

    def _one(self, picture: np.ndarray) -> np.ndarray:
        grey = picture.ndim == 2 or picture.shape[2] == 1
        plane = np.rint(picture).astype(np.uint8)
        if grey:
            plane = np.repeat(plane.reshape(*picture.shape[:2], 1), 3, axis=2)
        stream = self.method.frames([Frame(plane, 0, Fraction(0))], count=1)
        image: np.ndarray = next(iter(stream)).image.astype(np.float32)
        return image.mean(2) if grey else image


def released_faces(folder: Path, name: str, seed: int, step: int = 1) -> Split:
    """Every ``step``-th face released once by the method, as features of the released picture."""
    faces = utkface(folder)
    method = PictureMethod(protect.get(name)(**PICTURE_METHODS[name], seed=seed))
    generator = np.random.default_rng(seed)
    chosen = range(0, len(faces), step)
    released = []
    for index in chosen:
        picture = torch.from_numpy(faces[index].x.astype(np.float32))[None]
        shown = method.obfuscate(picture, generator)[0]
        released.append(shown.numpy().clip(0, 255).round().astype(np.uint8))
    return faces_of(faces, picture_features(released), chosen)
