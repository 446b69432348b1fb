"""From decoded pictures to RGB as a viewer sees them, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.media._info import Image

_HD_HEIGHT = 720


def to_rgb(frame: Any) -> Image:
    """RGB of one decoded frame; what is transparent becomes black.

    Dropping the alpha channel would show colours that no viewer of the input has ever seen.
    Interlaced frames stay woven: deinterlacing lets one pixel change its neighbours (R10).
    """
    if _has_alpha(frame.format):
        return over_black(np.asarray(frame.to_ndarray(format="rgba")))
    return np.ascontiguousarray(frame.to_ndarray(format="rgb24"))


def _has_alpha(pixel_format: Any) -> bool:
    return bool(pixel_format.has_palette) or len(pixel_format.components) in {2, 4}


def over_black(rgba: Image) -> Image:
    """Compose RGBA over black, rounding to the nearest level; opaque pixels are untouched."""
    alpha = rgba[..., 3:].astype(np.uint16)
    if alpha.min(initial=255) == 255:
        return np.ascontiguousarray(rgba[..., :3])
    return ((rgba[..., :3] * alpha + 127) // 255).astype(np.uint8)


def orientation(frame: Any) -> tuple[bool, bool, bool]:
    """(transpose, flip rows, flip columns) that the frame's display matrix asks for.

    The matrix maps pixel (p, q) to (a p + c q, b p + d q); turns that are no multiple of 90
    degrees are rounded to the nearest one.
    """
    data = frame.side_data.get("DISPLAYMATRIX")
    if data is None:
        return False, False, False
    a, b, _, c, d, *_ = np.frombuffer(bytes(data), dtype=np.int32).astype(float)
    if abs(a) + abs(d) >= abs(b) + abs(c):
        return False, bool(d < 0), bool(a < 0)
    return True, bool(b < 0), bool(c < 0)


def turn(image: Image, way: tuple[bool, bool, bool]) -> Image:
    """Apply an ``orientation``."""
    transpose, rows, columns = way
    if transpose:
        image = image.transpose(1, 0, 2)
    return np.ascontiguousarray(image[:: -1 if rows else 1, :: -1 if columns else 1])


def degrees(way: tuple[bool, bool, bool]) -> int:
    """The clockwise turn of an ``orientation`` (mirrorings count by their turn only)."""
    transpose, rows, columns = way
    if transpose:
        return 270 if rows and not columns else 90
    return 180 if rows and columns else 0


def colour_matrix(height: int) -> str:
    """The matrix that players assume for this height when a file does not say."""
    return "itu709" if height >= _HD_HEIGHT else "itu601"
