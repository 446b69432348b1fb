"""Rooms with furniture and textures: the private backgrounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.body import Camera, Light

Floats = npt.NDArray[np.float64]
KINDS = ("hall", "gym", "living_room", "kitchen", "bedroom", "office")
# kind -> (floor, wall) in linear RGB and the floor's texture; every room varies on it
_LOOK = {
    "hall": ((0.42, 0.40, 0.38), (0.62, 0.60, 0.55), "tiles"),
    "gym": ((0.20, 0.28, 0.36), (0.55, 0.58, 0.60), "plain"),
    "living_room": ((0.30, 0.17, 0.08), (0.55, 0.46, 0.34), "planks"),
    "kitchen": ((0.52, 0.50, 0.46), (0.62, 0.64, 0.58), "tiles"),
    "bedroom": ((0.38, 0.27, 0.20), (0.42, 0.48, 0.58), "planks"),
    "office": ((0.22, 0.23, 0.25), (0.58, 0.58, 0.57), "cloth"),
}
_CLEAR = 0.75  # metres around the origin that stay free for the actor
_SAMPLES = 2


@dataclass(frozen=True)
class Block:
    """A box with one surface."""

    low: tuple[float, float, float]
    high: tuple[float, float, float]
    colour: tuple[float, float, float]
    surface: str = "plain"


@dataclass(frozen=True)
class Room:
    """``size`` is (half width, height, half depth); the actor stands at the origin."""

    kind: str
    size: tuple[float, float, float]
    floor: Block
    wall: Block
    blocks: tuple[Block, ...]
    light: Light
    seed: int


def make_room(kind: str, seed: int) -> Room:
    """A room of this kind; the same seed gives the same room."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    half, height, deep = rng.uniform(2.3, 3.0), rng.uniform(2.5, 3.0), rng.uniform(2.0, 2.6)
    floor_colour, wall_colour, texture = _LOOK[kind]
    walls = str(rng.choice(["plain", "stripes", "plain"]))
    bright = rng.uniform(0.8, 1.15)
    azimuth = rng.uniform(-0.9, 0.9)
    light = Light(
        direction=(float(np.sin(azimuth)), float(rng.uniform(1.1, 1.7)), float(np.cos(azimuth))),
        key=_tint(rng, (0.92 * bright, 0.89 * bright, 0.82 * bright), 0.06),
    )
    box = ((-half, 0.0, -deep), (half, height, deep))
    return Room(
        kind=kind,
        size=(half, height, deep),
        floor=Block(*box, _tint(rng, floor_colour, 0.25), texture),
        wall=Block(*box, _tint(rng, wall_colour, 0.22), walls),
        blocks=tuple(_furniture(kind, rng, half, height, deep)),
        light=light,
        seed=seed,
    )


def _tint(
    rng: np.random.Generator, colour: tuple[float, float, float], amount: float
) -> tuple[float, float, float]:
    r, g, b = np.clip(np.array(colour) * rng.uniform(1 - amount, 1 + amount, 3), 0.01, 0.95)
    return (float(r), float(g), float(b))


def _furniture(
    kind: str, rng: np.random.Generator, half: float, height: float, deep: float
) -> list[Block]:
    """Things along the walls, out of the actor's way, and pictures and windows on the walls."""
    back = -deep

    def along(width: float, tall: float, thick: float, colour: tuple[float, float, float],
              surface: str = "plain", above: float = 0.0) -> Block:  # fmt: skip
        x = float(rng.uniform(-half + 0.1, max(half - width - 0.1, -half + 0.2)))
        return Block((x, above, back), (x + width, above + tall, back + thick),
                     _tint(rng, colour, 0.3), surface)  # fmt: skip

    def aside(side: int, long: float, tall: float, thick: float,
              colour: tuple[float, float, float], surface: str = "plain") -> Block:  # fmt: skip
        z = float(rng.uniform(back + 0.2, 0.4))
        edge = side * half
        low, high = sorted((edge, edge - side * min(thick, half - _CLEAR)))
        return Block((low, 0.0, z), (high, tall, z + long), _tint(rng, colour, 0.3), surface)

    wood, white, dark = (0.28, 0.15, 0.07), (0.65, 0.64, 0.61), (0.07, 0.07, 0.08)
    any_colour = tuple(float(v) for v in rng.uniform(0.05, 0.6, 3))
    loud = (any_colour[0], any_colour[1], any_colour[2])
    things = {
        "hall": lambda: [along(0.95, 2.05, 0.06, wood), along(1.1, 0.45, 0.35, wood),
                         aside(1, 0.5, 1.7, 0.35, dark)],
        "gym": lambda: [along(1.6, 1.7, 0.05, (0.55, 0.6, 0.63), "window", 0.2),
                        aside(-1, 1.4, 0.45, 0.7, loud), along(0.9, 0.5, 0.5, dark),
                        aside(1, 1.0, 1.1, 0.3, (0.45, 0.08, 0.06))],
        "living_room": lambda: [along(1.9, 0.42, 0.85, loud, "cloth"),
                                along(1.9, 0.85, 0.25, loud, "cloth"),
                                aside(1, 1.0, 1.9, 0.35, wood, "books"),
                                aside(-1, 1.3, 0.5, 0.45, dark)],
        "kitchen": lambda: [along(2.6, 0.9, 0.6, white), along(2.0, 0.65, 0.35, wood, "plain", 1.5),
                            aside(1, 0.7, 1.85, 0.65, white), aside(-1, 1.2, 0.75, 0.8, wood)],
        "bedroom": lambda: [aside(-1, 2.0, 0.5, 1.4, loud, "cloth"),
                            along(1.5, 2.0, 0.55, wood, "planks"), along(0.45, 0.5, 0.4, wood)],
        "office": lambda: [along(1.6, 0.74, 0.7, wood), along(0.6, 0.45, 0.1, dark, "plain", 0.8),
                           aside(1, 1.2, 1.8, 0.4, (0.35, 0.36, 0.37), "books"),
                           aside(-1, 1.4, 0.74, 0.7, wood)],
    }[kind]()  # fmt: skip
    hung = [
        along(float(rng.uniform(0.4, 1.0)), float(rng.uniform(0.4, 0.8)), 0.03, loud, surface,
              float(rng.uniform(1.2, 1.5)))
        for surface in rng.choice(["picture", "window", "picture"], size=int(rng.integers(1, 3)))
    ]  # fmt: skip
    return [block for block in things + hung if block.high[1] < height]


@dataclass(frozen=True)
class Backdrop:
    """A room as one camera sees it, empty: linear colour, depth, and the points for shadows."""

    colour: npt.NDArray[np.float32]
    depth: npt.NDArray[np.float32]
    points: npt.NDArray[np.float32]


def backdrop(room: Room, camera: Camera) -> Backdrop:
    """Draw the empty room with ``_SAMPLES`` squared rays a pixel."""
    h, w = camera.height, camera.width
    at = (np.arange(_SAMPLES) + 0.5) / _SAMPLES
    total, depth = np.zeros((h * w, 3), np.float32), np.zeros(h * w, np.float32)
    points = np.zeros((h * w, 3), np.float32)
    ys, xs = (g.ravel() for g in np.mgrid[:h, :w])
    for oy in at:
        for ox in at:
            rays = camera.rays(xs + ox, ys + oy).astype(np.float64)
            distance, normal, which = _hit(room, camera.position, rays)
            where = camera.position + rays * distance[:, None]
            total += _paint(room, where, normal, which)
            depth, points = distance.astype(np.float32), where.astype(np.float32)
    mean = total / np.float32(_SAMPLES**2)
    return Backdrop(mean.reshape(h, w, 3), depth.reshape(h, w), points.reshape(h, w, 3))


def _hit(room: Room, origin: Floats, rays: Floats) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Distance, outward normal and block (-1 floor and walls) of what each ray meets first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = 1.0 / np.where(np.abs(rays) < 1e-9, 1e-9, rays)
    far = np.maximum(
        (np.array(room.floor.low) - origin) * inverse,
        (np.array(room.floor.high) - origin) * inverse,
    )
    axis = far.argmin(1)  # from inside, a room is left through its nearest far plane
    rows = np.arange(len(rays))
    best = far[rows, axis]
    normal = np.zeros_like(rays)
    normal[rows, axis] = -np.sign(rays[rows, axis])
    which = np.full(len(rays), -1)
    for index, block in enumerate(room.blocks):
        a, b = (np.array(block.low) - origin) * inverse, (np.array(block.high) - origin) * inverse
        enter, leave = np.minimum(a, b), np.maximum(a, b)
        side = enter.argmax(1)
        near = enter[rows, side]
        hit = (near > 0) & (near <= leave.min(1)) & (near < best)
        best = np.where(hit, near, best)
        which[hit] = index
        normal[hit] = 0
        chosen = rows[hit]
        normal[chosen, side[hit]] = -np.sign(rays[chosen, side[hit]])
    return best, normal, which


def _paint(
    room: Room, where: Floats, normal: Floats, which: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    colour = np.zeros_like(where)
    floor = (which < 0) & (normal[:, 1] > 0.5)
    ceiling = (which < 0) & (normal[:, 1] < -0.5)
    wall = (which < 0) & ~floor & ~ceiling
    colour[floor] = _texture(room.floor, where[floor], normal[floor], room.seed)
    colour[wall] = _texture(room.wall, where[wall], normal[wall], room.seed)
    colour[ceiling] = 0.7
    skirting = wall & (where[:, 1] < 0.09)
    colour[skirting] = np.array(room.wall.colour) * 0.45
    for index, block in enumerate(room.blocks):
        mine = which == index
        if mine.any():
            colour[mine] = _texture(block, where[mine], normal[mine], room.seed + index)
    # corners get less light: distance to the nearest wall or floor, a cheap ambient occlusion
    half, height, deep = room.size
    gap = np.stack([half - np.abs(where[:, 0]), deep - np.abs(where[:, 2]), where[:, 1],
                    height - where[:, 1]], 1)  # fmt: skip
    gap.sort(axis=1)
    hollow = 0.62 + 0.38 * np.clip(gap[:, 1] / 0.7, 0, 1) ** 0.6
    n = normal.astype(np.float32)
    lit = room.light.shade(colour.astype(np.float32), n, n)
    return np.asarray(lit * hollow[:, None].astype(np.float32))


def _texture(block: Block, where: Floats, normal: Floats, seed: int) -> Floats:
    """Colour of surface points; u runs along the surface, v up or away."""
    base = np.array(block.colour)
    upright = np.abs(normal[:, 1]) < 0.5
    u = np.where(np.abs(normal[:, 0]) > 0.5, where[:, 2], where[:, 0])
    v = np.where(upright, where[:, 1], where[:, 2])
    grain = _hash(np.floor(u * 40), np.floor(v * 40), seed)
    shade = 0.94 + 0.12 * grain
    if block.surface == "planks":
        plank = np.floor(u / 0.16)
        shade = 0.75 + 0.4 * _hash(plank, np.floor(v / 0.9 + _hash(plank, plank * 0, seed)), seed)
        shade = shade * np.where((u / 0.16) % 1 < 0.07, 0.6, 1.0)
    elif block.surface == "tiles":
        joint = ((u / 0.4) % 1 < 0.05) | ((v / 0.4) % 1 < 0.05)
        checker = (np.floor(u / 0.4) + np.floor(v / 0.4)) % 2
        shade = np.where(joint, 0.62, 0.86 + 0.22 * checker)
    elif block.surface == "stripes":
        shade = np.where((u / 0.22) % 1 < 0.5, 0.88, 1.08)
    elif block.surface == "cloth":
        shade = 0.8 + 0.3 * _hash(np.floor(u * 22), np.floor(v * 22), seed)
    colour = base * shade[:, None]
    if block.surface == "books":
        shelf = (v / 0.34) % 1
        book = np.floor(u / 0.06)
        tone = np.stack([_hash(book, np.floor(v / 0.34), seed + k) for k in range(3)], 1)
        colour = np.where((shelf < 0.1)[:, None], base * 0.5, 0.05 + 0.55 * tone**1.5)
    elif block.surface == "picture":
        blob = np.stack([
            0.5 + 0.5 * np.sin(u * (5 + 3 * k) + seed + v * (7 - 2 * k)) for k in range(3)
        ], 1)  # fmt: skip
        colour = 0.05 + 0.6 * blob * (0.4 + base)
    elif block.surface == "window":
        frame = ((u / 0.45) % 1 < 0.12) | ((v / 0.5) % 1 < 0.1)
        colour = np.where(
            frame[:, None], 0.6, np.array([0.55, 0.72, 0.9]) * (0.7 + 0.2 * v[:, None])
        )
    return np.asarray(colour)


def _hash(a: Floats, b: Floats, seed: int) -> Floats:
    """A repeatable number in 0..1 for every cell."""
    mixed = np.sin(a * 127.1 + b * 311.7 + seed * 74.7) * 43758.5453
    return np.asarray(mixed - np.floor(mixed))
