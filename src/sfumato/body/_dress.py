"""Clothes, hair and face for a body made of helper surfaces: procedural, a colour per vertex."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfumato.body._body import vertex_normals
from sfumato.body._person import CLOTHES_COLOURS, HAIR_COLOURS, SKIN_TONES, VirtualPerson
from sfumato.body._skeleton import INDEX, Floats

Faces = npt.NDArray[np.int64]
_SIDES = ("left", "right")
_BARE, _SHIRT, _TROUSERS, _SHOES = range(4)
# metres that a garment stands off the helper surface, which itself lies just outside the skin
_THICK = {_BARE: -0.005, _SHIRT: 0.003, _TROUSERS: 0.002, _SHOES: 0.004}


class Shaped(Protocol):
    @property
    def vertices(self) -> Floats: ...
    @property
    def joints(self) -> Floats: ...
    @property
    def eyes(self) -> Floats: ...
    @property
    def owner(self) -> Faces: ...


@dataclass(frozen=True)
class Dressed:
    """One visible surface; ``origin`` are the vertices of the whole mesh that it was taken from."""

    vertices: Floats
    faces: Faces
    colours: Floats
    origin: Faces


def dress(person: VirtualPerson, surface: Shaped, parts: Mapping[str, Faces]) -> Iterator[Dressed]:
    """All surfaces of a person."""
    yield from _garments(person, surface, parts["tights"])
    yield _head_and_hands(person, surface, parts["skin"])
    yield _eyes(surface, parts["eyes"])
    if person.bottom_kind == "skirt":
        yield _skirt(person, surface, parts["skirt"])
    if person.hair_style == "long":
        yield _long_hair(person, surface, parts["hair"])


def _taken(
    surface: Shaped, faces: Faces, colours: Floats, thick: Floats | float, normals: Floats
) -> Dressed:
    """The faces as a surface of their own, moved outwards, with a colour for each face.

    Vertices are doubled where colours meet, so that a hem is a line and not a gradient.
    """
    shades, kind = np.unique(colours, axis=0, return_inverse=True)
    keys = faces * len(shades) + kind.reshape(-1, 1)
    used, index = np.unique(keys, return_inverse=True)
    origin = used // len(shades)
    off = thick[origin] if isinstance(thick, np.ndarray) else np.full(len(origin), thick)
    return Dressed(
        vertices=surface.vertices[origin] + off[:, None] * normals[origin],
        faces=index.reshape(-1, 3),
        colours=shades[used % len(shades)],
        origin=origin,
    )


def _garments(person: VirtualPerson, surface: Shaped, faces: Faces) -> Iterator[Dressed]:
    centre = _quad_centres(surface.vertices, faces)
    arms = {side: [INDEX[f"{side}_{n}"] for n in ("shoulder", "elbow", "wrist")] for side in _SIDES}
    on_arm = {side: np.isin(surface.owner, arms[side]) for side in _SIDES}
    whose = _regions(
        person,
        surface,
        centre,
        {side: np.asarray(mine[faces].any(axis=1)) for side, mine in on_arm.items()},
    )
    skin = np.array(SKIN_TONES[person.skin])
    tones = np.stack([
        skin, CLOTHES_COLOURS[person.top], CLOTHES_COLOURS[person.bottom],
        CLOTHES_COLOURS[person.shoes],
    ])  # fmt: skip
    colours = tones[whose]
    shirt = whose == _SHIRT
    if person.pattern == "stripes":
        band = shirt & (np.floor(centre[:, 1] / 0.03) % 3 == 0)
        colours[band] = 0.25 * colours[band] + 0.75 * np.array(CLOTHES_COLOURS["white"])
    elif person.pattern == "blocks":
        yoke = shirt & (centre[:, 1] > surface.joints[INDEX["chest"], 1] + 0.06)
        # darker or lighter than the shirt, never another colour: mixed, it could look like skin
        colours[yoke] = colours[yoke] * 0.3 if tones[1].mean() > 0.2 else colours[yoke] * 0.6 + 0.25
    normals = vertex_normals(surface.vertices.astype(np.float32), faces.astype(np.int32))
    on_vertex = _regions(person, surface, surface.vertices, on_arm)
    thick = np.array([_THICK[kind] for kind in range(4)])[on_vertex]
    cloth = np.isin(on_vertex, (_SHIRT, _TROUSERS))
    fold = np.where(cloth, folds(surface.vertices, surface.joints), 0.0)
    made = _taken(surface, faces, colours, thick + _DEEP * fold, normals)
    yield woven(made, fold, cloth)


_DEEP = 0.006  # metres of a fold
_FOLDED = ("left_elbow", "right_elbow", "left_knee", "right_knee", "left_shoulder", "right_shoulder",
           "pelvis", "spine", "left_ankle", "right_ankle")  # fmt: skip
_REACH, _WAVE = 0.15, 0.055  # metres around a joint that cloth creases, and from crease to crease


def folds(points: Floats, joints: Floats) -> npt.NDArray[np.float64]:
    """How far (-1 to 1) cloth stands out: creases around what bends, and a little everywhere."""
    total = np.zeros(len(points))
    for number, name in enumerate(_FOLDED):
        way = points - joints[INDEX[name]]
        near = np.exp(-((way**2).sum(1)) / (2 * _REACH**2))
        turn = 2.1 * number  # no two joints crease alike
        along = way @ np.array([0.5 * np.sin(turn), 1.0, 0.5 * np.cos(turn)])
        bent = 0.012 * np.sin(way[:, 0] * 35 + turn) + 0.01 * np.sin(way[:, 2] * 42 - turn)
        total += near * np.sin(2 * np.pi * (along + bent) / _WAVE)
    waves = np.sin(points @ np.array([31.0, 9.0, 22.0])) * np.sin(
        points @ np.array([-14.0, 17.0, 27.0])
    )
    return np.asarray(np.clip(0.8 * total + 0.35 * waves, -1, 1))


def woven(made: Dressed, fold: Floats, cloth: npt.NDArray[np.bool_]) -> Dressed:
    """Colours as cloth has them: uneven threads, and darker where a fold lies deep."""
    points, at = made.vertices, made.origin
    thread = np.sin(points @ np.array([911.0, 527.0, 733.0])) * np.sin(
        points @ np.array([-389.0, 1013.0, 607.0])
    )
    shade = 1 + 0.09 * thread + 0.16 * np.minimum(fold[at], 0.25)
    return replace(
        made, colours=np.where(cloth[at][:, None], made.colours * shade[:, None], made.colours)
    )


def _quad_centres(vertices: Floats, faces: Faces) -> Floats:
    """One centre for the two triangles of a quad, so that garments end along whole quads."""
    middle = np.asarray(vertices[faces].mean(1))
    if len(faces) % 2 or not np.array_equal(faces[0::2, 0], faces[1::2, 0]):
        return middle  # not made of quads
    pairs = middle.reshape(-1, 2, 3).mean(1)
    return np.asarray(np.repeat(pairs, 2, 0))


def _regions(
    person: VirtualPerson, surface: Shaped, points: Floats, arm: Mapping[str, npt.NDArray[np.bool_]]
) -> npt.NDArray[np.int64]:
    """Which garment covers each point of the tights; ``arm`` tells the points of either arm."""
    joints = surface.joints
    region = np.full(len(points), _SHIRT)
    waist = joints[INDEX["pelvis"], 1] + 0.075
    knee, ankle = joints[INDEX["left_knee"], 1], joints[INDEX["left_ankle"], 1]
    hip = joints[INDEX["left_hip"], 1]
    # under a skirt the thighs have its colour: what pokes through does not show
    hem = {"trousers": ankle + 0.02, "shorts": hip - 0.62 * (hip - knee), "skirt": knee + 0.06}
    low = points[:, 1] < waist
    region[low] = _TROUSERS
    region[low & (points[:, 1] < hem[person.bottom_kind])] = _BARE
    region[low & (points[:, 1] < ankle + 0.012)] = _SHOES
    region[points[:, 1] > joints[INDEX["neck"], 1] + 0.012] = _BARE
    for side in _SIDES:
        shoulder, wrist = joints[INDEX[f"{side}_shoulder"]], joints[INDEX[f"{side}_wrist"]]
        along = (points - shoulder) @ (wrist - shoulder) / ((wrist - shoulder) ** 2).sum()
        covered = along <= 0.2 + 0.8 * person.sleeves
        region[arm[side]] = np.where(covered[arm[side]], _SHIRT, _BARE)
    return region


def _head_and_hands(person: VirtualPerson, surface: Shaped, faces: Faces) -> Dressed:
    points = surface.vertices
    skin, hair = np.array(SKIN_TONES[person.skin]), np.array(HAIR_COLOURS[person.hair])
    normals = vertex_normals(points.astype(np.float32), faces.astype(np.int32))
    centre = points[faces].mean(1)
    colours = np.repeat(skin[None], len(faces), 0)
    eyes = surface.eyes.mean(0)
    up, ahead = centre[:, 1] - eyes[1], centre[:, 2] - eyes[2]
    aside = np.abs(centre[:, 0])
    half = abs(surface.eyes[0, 0])
    # offsets from the eyes in units of half the distance between them (about 3 cm)
    u, v = aside / half, up / half
    face = ahead > -0.9 * half
    lips = face & (u < 0.78) & (np.abs(v + 2.05) < 0.28)
    colours[lips] = skin * np.array([0.82, 0.46, 0.46])
    brows = face & (np.abs(u - 1.0) < 0.75) & (np.abs(v - 0.72 + 0.12 * np.abs(u - 1)) < 0.17)
    colours[brows] = 0.75 * hair + 0.25 * skin
    cheeks = face & (np.abs(u - 1.35) < 0.45) & (np.abs(v + 1.0) < 0.5)
    colours[cheeks] = colours[cheeks] * np.array([1.0, 0.9, 0.88])
    on_head = centre[:, 1] > surface.joints[INDEX["neck"], 1]
    scalp_vertex = _scalp(person, points, eyes, half)
    hairy = on_head & _scalp(person, centre, eyes, half)
    colours[hairy] = hair
    if person.hair_style == "bald":
        return _taken(surface, faces, colours, 0.0, normals)
    return _with_strands(person, surface, faces, colours, normals, scalp_vertex)


def _with_strands(
    person: VirtualPerson,
    surface: Shaped,
    faces: Faces,
    colours: Floats,
    normals: Floats,
    scalp: npt.NDArray[np.bool_],
) -> Dressed:
    """The head with hair that stands off it, uneven as strands are."""
    points, scalp_vertex = surface.vertices, scalp
    puff = {"short": 0.009, "long": 0.010, "bun": 0.008}[person.hair_style]
    hairy = scalp_vertex & (points[:, 1] > surface.joints[INDEX["neck"], 1])
    strand = np.sin(points @ np.array([260.0, 35.0, 210.0])) * np.sin(
        points @ np.array([-170.0, 20.0, 330.0])
    )
    thick = np.where(hairy, puff * (1 + 0.35 * strand), 0.0)
    made = _taken(surface, faces, colours, thick, normals)
    own = hairy[made.origin] & (made.colours == np.array(HAIR_COLOURS[person.hair])).all(axis=1)
    shade = 1 + 0.3 * strand[made.origin]
    return replace(
        made, colours=np.where(own[:, None], made.colours * shade[:, None], made.colours)
    )


def _scalp(
    person: VirtualPerson, points: Floats, eyes: Floats, half: float
) -> npt.NDArray[np.bool_]:
    """Where hair grows: above a hairline that falls from the forehead to the nape."""
    if person.hair_style == "bald":
        return np.zeros(len(points), dtype=bool)
    v, back = (points[:, 1] - eyes[1]) / half, (eyes[2] - points[:, 2]) / half
    low = {"short": -1.6, "long": -2.6, "bun": -2.0}[person.hair_style]
    hairline = np.interp(back, [-0.5, 1.0, 2.2, 3.0, 4.2], [2.05, 1.75, 0.9, 0.3, low])
    return np.asarray(v > hairline)


def _eyes(surface: Shaped, faces: Faces) -> Dressed:
    points = surface.vertices
    normals = vertex_normals(points.astype(np.float32), faces.astype(np.int32))
    centre = points[faces].mean(1)
    nearest = np.where(centre[:, :1] > 0, surface.eyes[:1], surface.eyes[1:])
    off = np.hypot(centre[:, 0] - nearest[:, 0], centre[:, 1] - nearest[:, 1])
    colours = np.where((off < 0.0055)[:, None], [0.03, 0.02, 0.015], [0.62, 0.60, 0.57])
    return _taken(surface, faces, colours, 0.0, normals)


def _skirt(person: VirtualPerson, surface: Shaped, faces: Faces) -> Dressed:
    points, joints = surface.vertices, surface.joints
    hip, knee = joints[INDEX["left_hip"], 1], joints[INDEX["left_knee"], 1]
    kept = faces[(points[faces][..., 1] > knee - 0.02 * hip).all(1)]
    colours = np.repeat(np.array([CLOTHES_COLOURS[person.bottom]]), len(kept), 0)
    normals = vertex_normals(points.astype(np.float32), kept.astype(np.int32))
    around = np.arctan2(points[:, 2], points[:, 0])
    fall = np.clip((hip - points[:, 1]) / max(float(hip - knee), 1e-6), 0, 1)
    pleats = fall * np.sin(13 * around)
    made = _taken(surface, kept, colours, 0.014 + 0.009 * pleats, normals)
    return woven(made, pleats, np.ones(len(points), bool))


def _long_hair(person: VirtualPerson, surface: Shaped, faces: Faces) -> Dressed:
    points = surface.vertices
    shoulder = surface.joints[INDEX["left_shoulder"], 1]
    eyes, half = surface.eyes.mean(0), abs(surface.eyes[0, 0])
    corner = points[faces]
    above = corner[..., 1] > shoulder - 0.06
    beside = corner[..., 2] < eyes[2] - 1.2 * half  # the helper has a fringe over the eyes
    kept = faces[(above & beside).all(1)]
    colours = np.repeat(np.array([HAIR_COLOURS[person.hair]]), len(kept), 0)
    normals = vertex_normals(points.astype(np.float32), kept.astype(np.int32))
    return _taken(surface, kept, colours, 0.004, normals)
