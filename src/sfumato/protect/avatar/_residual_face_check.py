"""The residual face check of avatars: whose face is it that can be seen now?

The renderer's mask answers for avatars: no pixel of the recording is in it. Any other face of the
output that stands where the recording shows one must be somebody else, by the distance of its
identity from the face that was there.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato import people
from sfumato.media import Image
from sfumato.protect.hide._residual_faces import each_find, is_one_of

Frames = npt.NDArray[np.uint8]
Masks = npt.NDArray[np.bool_]
CHECKER = "blazeface-short"  # takes no part in finding people
SEARCH = "centerface+blazeface"
_CORE, _MOST = 0.8, 0.5  # a face is the avatar's if the renderer wrote most of its core
_UNCHANGED, _STAYED = 16, 0.25  # grey levels; share of the core that is as it was filmed
_BESIDE = 0.2  # of the core that the renderer may have written where a face is nobody's avatar
_LARGE = 0.3  # of the picture's height: so large a face is missed by no detector
_AROUND = 1.3  # what is greyed, in sizes of the face that was found


class ResidualFaceCheck:
    """Finds faces of the recording that are still in the output; models are opened when needed."""

    @cached_property
    def checker(self) -> people.FaceDetector:
        return people.face_detector(CHECKER)

    @cached_property
    def search(self) -> people.FaceDetector:
        return people.face_detector(SEARCH)

    @cached_property
    def identity(self) -> people.FaceEmbedder:
        return people.face_embedder()

    @property
    def detectors_used(self) -> tuple[tuple[str, str], ...]:
        """Name and device of what was really opened, for the card."""
        opened = [self.__dict__.get(name) for name in ("checker", "search", "identity")]
        return tuple((f"{each.name} at the output", each.device) for each in opened if each)

    def left(self, before: Frames, after: Frames, rendered: Masks) -> Masks:
        """Where ``after`` (T, H, W, 3) shows a face of ``before``; ``rendered`` are the avatars'."""
        return np.stack([
            self.on_frame(*each) for each in zip(before, after, rendered, strict=True)
        ])  # fmt: skip

    def on_frame(self, original: Image, output: Image, rendered: Masks) -> Masks:
        """Where a frame of the output shows a face of the recording."""
        found = np.zeros(rendered.shape, bool)
        height, width = rendered.shape
        faces = [
            box
            for box in each_find(self.checker, output)
            if not _written(rendered[box.scale(_CORE).pixels(width, height)])
        ]
        if not faces:
            return found
        surely = each_find(self.search, original)
        there = [*each_find(self.checker, original), *surely]
        for face in faces:
            core = face.scale(_CORE).pixels(width, height)
            apart = np.abs(original[core].astype(np.int16) - output[core]).max(axis=-1)
            stayed = bool(apart.size) and float((apart <= _UNCHANGED).mean()) >= _STAYED
            # nothing of this very frame: then of another, and the avatar is not what was found
            elsewhere = rendered[core].mean() < _BESIDE if apart.size else True
            if not (stayed or elsewhere):
                continue
            # patterns of a room look like a giant's face to one detector, and not to three
            known = surely if face.height > _LARGE * height else there
            if is_one_of(face, known) and self._same(original, output, face):
                found[face.scale(_AROUND).pixels(width, height)] = True
        return found

    def _same(self, original: Image, output: Image, face: people.Box) -> bool:
        """Whether a place shows the person that it showed before: both compared in one box."""
        apart = self.identity.embed(original, face) - self.identity.embed(output, face)
        return float(np.linalg.norm(apart)) < self.identity.same_person


def _written(core: npt.NDArray[np.bool_]) -> bool:
    """Whether the renderer wrote most of a face's core; of one outside the picture it wrote nothing."""
    return bool(core.size) and float(core.mean()) >= _MOST
