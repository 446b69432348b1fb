"""Differentially private methods for pictures, put to the same attack as PASS (the paper's Table 17)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.attributes.data import Split, faces_of
from sfumato import protect
from sfumato.attributes import picture_features
from sfumato.attributes.baselines import PictureMethod
from sfumato.data import utkface

# The paper states no epsilon. Each is set so that a face can just be made out: what they promise
# is for pixels (or the whole picture), which is another thing than an attribute.
PICTURE_METHODS: Mapping[str, Mapping[str, Any]] = {
    "snow": {"p": 0.5, "unit": "pixels(1, frames=1)"},
    "dppix": {"epsilon": 1.0, "b": 8, "unit": "pixels(1, frames=1)"},
    "laplace": {"epsilon": 4.0, "unit": "pixels(1, frames=1)"},
    "dp-image": {"epsilon": 100.0, "delta": 1e-5, "unit": "frame"},
}


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
