"""Detectors by name, united by ``+``, with plug-ins by entry point.

A plug-in package declares, in the group ``sfumato.detectors``, a name such as ``faces.mine`` (or
``people.``, ``masks.``, ``poses.``, ``identity.``, ``text.``) that points to a callable; called with
``offline=bool`` it returns an object with the methods of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.media import Image
from sfumato.people._boxes import Box, unite
from sfumato.people.detect._protocols import (
    FaceDetector,
    FaceEmbedder,
    PersonDetector,
    PersonSegmenter,
    PoseEstimator,
    TextDetector,
)

GROUP = "sfumato.detectors"
Factory = Callable[..., Any]


def _blazeface(name: str) -> Factory:
    def make(**settings: Any) -> Any:
        from sfumato.people.detect._blazeface import BlazeFace

        return BlazeFace(name, **settings)

    return make


def _centerface(**settings: Any) -> Any:
    from sfumato.people.detect._centerface import CenterFace

    return CenterFace(**settings)


def _bodies(**settings: Any) -> Any:
    from sfumato.people.detect._blazepose import BodyDetector

    return BodyDetector(**settings)


def _movenet(**settings: Any) -> Any:
    from sfumato.people.detect._movenet import MoveNet

    return MoveNet(**settings)


def _centernet(**settings: Any) -> Any:
    from sfumato.people.detect._centernet import CenterNet

    return CenterNet(**settings)


def _nanodet(**settings: Any) -> Any:
    from sfumato.people.detect._nanodet import NanoDet

    return NanoDet(**settings)


def _selfie(**settings: Any) -> Any:
    from sfumato.people.detect._segmenters import SelfieSegmenter

    return SelfieSegmenter(**settings)


def _pose_masks(**settings: Any) -> Any:
    from sfumato.people.detect._segmenters import PoseSegmenter

    return PoseSegmenter(**settings)


def _blazepose(name: str) -> Factory:
    def make(**settings: Any) -> Any:
        from sfumato.people.detect._blazepose import BlazePose

        return BlazePose(name, **settings)

    return make


def _dlib(**settings: Any) -> Any:
    from sfumato.people.detect._identity import DlibEmbedder

    return DlibEmbedder(**settings)


def _pp_ocr(**settings: Any) -> Any:
    from sfumato.people.detect._pp_ocr import PpOcr

    return PpOcr(**settings)


# Imports wait until a detector is asked for: naming one must not load a runtime.
_BUNDLED: Mapping[str, Mapping[str, Factory]] = {
    "faces": {
        "centerface": _centerface,
        "blazeface": _blazeface("blazeface"),
        "blazeface-short": _blazeface("blazeface-short"),
    },
    "people": {"pose": _bodies, "movenet": _movenet, "centernet": _centernet, "nanodet": _nanodet},
    "masks": {
        "selfie": _selfie,
        "pose": _pose_masks,
    },
    "poses": {
        "blazepose": _blazepose("blazepose"),
        "blazepose-heavy": _blazepose("blazepose-heavy"),
    },
    "identity": {"dlib": _dlib},
    "text": {"pp-ocr": _pp_ocr},
}


def detectors() -> dict[str, list[str]]:
    """The names that can be asked for, by kind, plug-ins included."""
    found = {kind: list(names) for kind, names in _BUNDLED.items()}
    for entry in entry_points(group=GROUP):
        kind, _, name = entry.name.partition(".")
        if kind in found and name and name not in found[kind]:
            found[kind].append(name)
    return found


def make(kind: str, name: str, protocol: type, offline: bool, **settings: Any) -> Any:
    """One detector by kind and name; ``settings`` are for bundled ones."""
    factory: Factory | None = _BUNDLED[kind].get(name)
    if factory is None:
        for entry in entry_points(group=GROUP):
            if entry.name == f"{kind}.{name}":
                factory = entry.load()
    if factory is None:
        raise SfumatoError(
            f"Expected a detector of {kind}, got {name!r}: choose out of "
            f"{', '.join(detectors()[kind])}, or unite several as a+b."
        )
    made = factory(offline=offline, **settings)
    if not isinstance(made, protocol):
        raise SfumatoError(
            f"Expected the plug-in {name!r} to be a {protocol.__name__}, got "
            f"{type(made).__name__}, which lacks some of its attributes: update the plug-in."
        )
    return made


class UnitedDetector:
    """Several detectors of boxes; what any of them finds is found."""

    def __init__(self, parts: Sequence[FaceDetector | PersonDetector]) -> None:
        self.parts = tuple(parts)
        self.name = "+".join(part.name for part in parts)
        self.device = ", ".join(dict.fromkeys(part.device for part in parts))
        self.at_once = all(getattr(part, "at_once", False) for part in parts)

    def detect(self, image: Image) -> list[Box]:
        return unite(box for part in self.parts for box in part.detect(image))

    def detect_near(self, image: Image, near: Sequence[Box]) -> list[Box]:
        return unite(box for part in self.parts for box in look_near(part, image, near))


def look_near(
    detector: FaceDetector | PersonDetector, image: Image, near: Sequence[Box]
) -> list[Box]:
    """What is found around the boxes ``near``, and maybe elsewhere: a detector that can look at
    parts of a picture (``detect_near``) looks at these only, any other one at all of it."""
    look = getattr(detector, "detect_near", None)
    return detector.detect(image) if look is None else list(look(image, near))


def face_detector(names: str = "centerface+blazeface", *, offline: bool = False) -> FaceDetector:
    """Faces by ``centerface``, ``blazeface``, ``blazeface-short``, a plug-in, or a union ``a+b``."""
    parts = [make("faces", name, FaceDetector, offline) for name in names.split("+")]
    return parts[0] if len(parts) == 1 else UnitedDetector(parts)


def person_detector(names: str = "movenet+centernet", *, offline: bool = False) -> PersonDetector:
    """Whole people by ``movenet``, ``centernet``, ``nanodet``, ``pose``, a plug-in, or a union ``a+b``."""
    parts = [make("people", name, PersonDetector, offline) for name in names.split("+")]
    return parts[0] if len(parts) == 1 else UnitedDetector(parts)


def person_segmenter(names: str = "selfie+pose", *, offline: bool = False) -> PersonSegmenter:
    """Person masks by ``selfie``, ``pose`` or a union."""
    from sfumato.people.detect._segmenters import UnitedSegmenter

    parts = [make("masks", name, PersonSegmenter, offline) for name in names.split("+")]
    return parts[0] if len(parts) == 1 else UnitedSegmenter(parts)


def pose_estimator(name: str = "blazepose", *, offline: bool = False) -> PoseEstimator:
    """33 landmarks a person by ``blazepose``, ``blazepose-heavy`` or a plug-in."""
    made: PoseEstimator = make("poses", name, PoseEstimator, offline)
    return made


def face_embedder(name: str = "dlib", *, offline: bool = False) -> FaceEmbedder:
    """Face identity by ``dlib`` or a plug-in."""
    made: FaceEmbedder = make("identity", name, FaceEmbedder, offline)
    return made


def text_detector(name: str = "pp-ocr", *, offline: bool = False) -> TextDetector:
    """Lines of text by ``pp-ocr`` or a plug-in."""
    made: TextDetector = make("text", name, TextDetector, offline)
    return made
