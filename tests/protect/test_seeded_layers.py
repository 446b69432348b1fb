"""The public layer of an avatar release, written and read again: exact, and blind to private pixels."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sfumato.media import VideoWriter, open_video
from sfumato.protect.avatar._layers import LayerWriter, read_layers

SIZE = (8, 48, 64)


def _written(folder: Path, public: npt.NDArray[np.bool_], images: npt.NDArray[np.uint8]) -> Path:
    """An (empty) release whose layers hold ``images``."""
    video = folder / "video.mkv"
    with VideoWriter(video, rate=Fraction(10), size=(64, 48), codec="ffv1") as writer:
        for image in images:
            writer.write(image)
    with open_video(video) as reader, LayerWriter(video, reader.info) as layers:
        for mask, image in zip(public, images):
            layers.write(mask, image)
    return video


def test_private_pixels_leave_no_trace_in_the_public_layer(tmp_path: Path) -> None:
    """R8, through write and read: only private pixels change, every public bit stays."""
    rng = np.random.default_rng(0)
    public = np.zeros(SIZE, dtype=bool)
    public[:, 10:30, 20:45] = True
    public[:, 33, ::3] = True  # thin structures, which a codec would smear
    one = rng.integers(0, 256, (*SIZE, 3)).astype(np.uint8)
    two = np.where(public[..., None], one, rng.integers(0, 256, one.shape).astype(np.uint8))
    found = []
    for name, images in (("one", one), ("two", two)):
        (tmp_path / name).mkdir()
        found.append(read_layers(_written(tmp_path / name, public, images)))
    (mask, layer), (other_mask, other) = found
    assert np.array_equal(mask, public)
    assert np.array_equal(other_mask, public)
    assert np.array_equal(layer[mask], one[public])
    assert np.array_equal(layer, other)
