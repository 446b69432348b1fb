"""Heads by their bodies: where a face must be, even when it is turned away."""

from __future__ import annotations

from sfumato.media import Image
from sfumato.people._boxes import Box
from sfumato.people.detect._blazepose import BlazePose
from sfumato.people.detect._litert import DEVICE
from sfumato.people.detect._protocols import Pose


class Heads:
    """``heads``: the head of every person that the pose model finds, from any side.

    It covers backs of heads and faces that no face detector sees, but only of people whose body is
    in view. It follows people through a video: give it the frames in order.
    """

    name = "heads"
    device = DEVICE

    def __init__(self, *, offline: bool = False) -> None:
        self._estimator = BlazePose(offline=offline)
        self._previous: tuple[Pose, ...] = ()
        self._shape: tuple[int, ...] = ()

    def detect(self, image: Image) -> list[Box]:
        if image.shape != self._shape:
            self._previous, self._shape = (), image.shape
        self._previous = self._estimator.estimate(image, self._previous)
        return [pose.head for pose in self._previous]
