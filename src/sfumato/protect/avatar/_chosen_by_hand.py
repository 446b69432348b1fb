"""What an operator decided by looking, on one window of an avatar release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sfumato import people
from sfumato.media import Frame, Image
from sfumato.protect.avatar._replace import GREY, ComposedFrame
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

    def applied(self, t: int, made: ComposedFrame, frame: Image) -> ComposedFrame:
        """Frame ``t`` as it was filmed outside the part that is worked on, and grey where boxes say so.

        No pixel of a frame that is shown as it is may be called the renderer's.
        """
        if not self.inside[t]:
            made = replace(made, image=frame, public=np.zeros_like(made.public))
        if self.covered is not None and self.covered[t].any():
            grey = self.covered[t] & ~made.public
            shown = np.where(grey[..., None], np.uint8(GREY), made.image)
            made = replace(made, image=shown, blanked=made.blanked | grey)
        return made


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
