"""Methods for pictures as attribute methods: Laplace, DPPix, Snow, DP-Image beside PASS (Table 17)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from sfumato.media import Frame
from sfumato.protect import Method, Promise, ProtectError, Shape


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
