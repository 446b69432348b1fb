"""Face identity: a vector that stays near itself for one person and far for two."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato import store
from sfumato.errors import needs_extra
from sfumato.media import Image
from sfumato.people._boxes import Box


class DlibEmbedder:
    """``dlib``: 128 numbers after aligning the face by five landmarks.

    Vectors closer than ``same_person`` (Euclidean) belong to one person, as its authors chose it on
    Labeled Faces in the Wild.
    """

    name = "dlib"
    device = "cpu (dlib)"
    same_person = 0.6

    def __init__(self, *, offline: bool = False) -> None:
        with needs_extra("dlib", "faces", "Recognising faces"):
            import dlib

        self._rectangle = dlib.rectangle
        landmarks = store.path("dlib-face-landmarks-5", offline=offline)
        weights = store.path("dlib-face-recognition", offline=offline)
        self._landmarks = dlib.shape_predictor(str(landmarks))
        self._network = dlib.face_recognition_model_v1(str(weights))

    def embed(self, image: Image, face: Box) -> npt.NDArray[np.float64]:
        picture = np.ascontiguousarray(image)
        sides = (round(value) for value in (face.x0, face.y0, face.x1, face.y1))
        shape = self._landmarks(picture, self._rectangle(*sides))
        vector = self._network.compute_face_descriptor(picture, shape)
        return np.asarray(vector, dtype=np.float64)
