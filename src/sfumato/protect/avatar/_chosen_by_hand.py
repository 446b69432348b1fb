"""What an operator decided by looking, on one window of an avatar release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sfumato import people
from sfumato.media import Frame
from sfumato.protect.avatar._replace import GREY, Replaced
from sfumato.protect.avatar._scene import Scene
from sfumato.protect.hide._by_hand import ByHandRun

Masks = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ChosenByHand:
    """Which frames of a window are worked on, and the pixels that are covered by hand."""

    inside: Masks
    covered: Masks | None

    def added_to(self, found: Scene) -> Scene:
        """The scene in which boxes by hand belong to people: they are erased as these are."""
        if self.covered is None:
            return found
        return replace(found, masks=found.masks | self.covered)

    def applied(self, made: Replaced, frames: npt.NDArray[np.uint8]) -> Replaced:
        """The recording as it is outside the part that is worked on, and grey where boxes say so.

        No pixel of a frame that is shown as it is may be called the renderer's.
        """
        outside = ~self.inside
        if not outside.any() and self.covered is None:
            return made
        shown, public, blanked = made.frames.copy(), made.public.copy(), made.blanked
        shown[outside], public[outside] = frames[outside], False
        if self.covered is not None:
            grey = self.covered & ~public
            shown[grey] = GREY
            blanked = blanked | grey
        return replace(made, frames=shown, public=public, blanked=blanked)


def chosen_by_hand(decided: ByHandRun, frames: Sequence[Frame]) -> ChosenByHand:
    """The decisions on the next frames of a recording."""
    inside = np.zeros(len(frames), bool)
    height, width = frames[0].image.shape[:2]
    covered: Masks | None = None
    for t, frame in enumerate(frames):
        inside[t] = decided.works_on(frame)
        if boxes := decided.covered():
            covered = np.zeros((len(frames), height, width), bool) if covered is None else covered
            covered[t] = people.box_mask(boxes, width, height)
    return ChosenByHand(inside, covered)
