"""Bodies: virtual people as skinned meshes, their poses, and drawing them."""

from sfumato.body._body import Body, BodyError, Mesh, Motion, SkinnedBody, rest_motion, stretched
from sfumato.body._camera import Camera
from sfumato.body._cast import CAST_SIZE, cast_of, load_bodies, people, save_bodies
from sfumato.body._fit import Fit, fit, lifted, proportions
from sfumato.body._joint_paths import (
    POINTS,
    Paths,
    Sightings,
    fitting_error,
    ground_plane,
    joint_paths,
)
from sfumato.body._person import VirtualPerson, random_person
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
from sfumato.body._smpl import smpl_body, smpl_cast

__all__ = [
    "CAST_SIZE",
    "INDEX",
    "JOINTS",
    "LAYOUTS",
    "MAIN",
    "PARENTS",
    "POINTS",
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
    "Paths",
    "Sightings",
    "SkinnedBody",
    "VirtualPerson",
    "cast_of",
    "draw",
    "fit",
    "fitting_error",
    "ground_plane",
    "joint_paths",
    "layout",
    "lifted",
    "load_bodies",
    "people",
    "procedural_body",
    "proportions",
    "random_person",
    "rest_motion",
    "save_bodies",
    "smpl_body",
    "smpl_cast",
    "stretched",
    "to_srgb",
]  # fmt: skip
