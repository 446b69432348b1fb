"""Bodies: virtual people as skinned meshes, their poses, and drawing them."""

from sfumato.body._body import Body, BodyError, Mesh, Motion, SkinnedBody, rest_motion
from sfumato.body._camera import Camera
from sfumato.body._fit import Fit, fit, lifted
from sfumato.body._person import Person, random_person
from sfumato.body._procedural import procedural_body
from sfumato.body._render import Drawing, Light, draw, to_srgb
from sfumato.body._skeleton import (
    INDEX,
    JOINTS,
    LAYOUTS,
    MAIN,
    PARENTS,
    Layout,
    LayoutError,
    layout,
)

__all__ = [
    "INDEX",
    "JOINTS",
    "LAYOUTS",
    "MAIN",
    "PARENTS",
    "Body",
    "BodyError",
    "Camera",
    "Drawing",
    "Fit",
    "Layout",
    "LayoutError",
    "Light",
    "Mesh",
    "Motion",
    "Person",
    "SkinnedBody",
    "draw",
    "fit",
    "layout",
    "lifted",
    "procedural_body",
    "random_person",
    "rest_motion",
    "to_srgb",
]
