"""How much of a recording a unit may change: so many pixels in so many frames."""

from __future__ import annotations

from sfumato.privacy import Unit, UnitKind
from sfumato.protect._method import ProtectError, Shape


def covers_every_frame(unit: Unit) -> bool:
    """Whether the number of frames must be known before anything can be promised."""
    return unit.kind in {UnitKind.CLIP, UnitKind.VIDEO}


def unit_extent(unit: Unit, shape: Shape) -> tuple[int, int]:
    """How many pixels in how many frames may change; refuses a unit without such an extent."""
    area = shape.height * shape.width
    match unit.kind:
        case UnitKind.PIXELS if not unit.inside_public_mask:
            pixels, frames = unit.pixel_count, unit.frame_count
        case UnitKind.FRAME:
            pixels, frames = area, unit.frame_count
        case UnitKind.CLIP | UnitKind.VIDEO:
            if shape.frames is None:
                raise ProtectError(
                    f"The unit {unit} covers every frame, so their number must be known first: "
                    "pass count=, or protect a file."
                )
            pixels, frames = area, shape.frames
        case _:
            raise ProtectError(
                f"Expected the unit pixels(m, frames=n), frame, clip or video for a noisy picture, "
                f"got {unit}."
            )
    assert pixels is not None
    assert frames is not None
    within = frames if shape.frames is None else min(frames, shape.frames)
    return min(pixels, area), within
