"""People in any pose, drawn before made-up outdoors: what pose models learn from in public.

Limbs are turned at random within what joints allow, whole bodies turned over now and then: sports
pictures show people upside down, and the actions of the stage's rooms do not.
"""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from sfumato.body import (
    INDEX,
    JOINTS,
    Camera,
    Light,
    Motion,
    SkinnedBody,
    draw,
    procedural_body,
    random_person,
    to_srgb,
)
from sfumato.stage._actions import ACTIONS
from sfumato.stage._make import Staging, clips

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Posed = tuple[Pixels, npt.NDArray[np.float32]]
_BODIES = 48


def posed_people(count: int, *, seed: int = 0, side: int = 160) -> Iterator[Posed]:
    """``count`` square pictures of one person each, with the 24 joints (24, 2) in pixels.

    A quarter comes from clips in rooms (furniture, shadows), the others are posed freely.
    """
    indoors = count // 4
    yield from _in_rooms(indoors, seed, side)
    yield from _free(count - indoors, seed, side)


def _in_rooms(count: int, seed: int, side: int) -> Iterator[Posed]:
    left = count
    if not left:
        return
    staging = Staging(
        clips=-(-count // 4), actors=24, rooms=24, actions=tuple(ACTIONS), frames=4, fps=1.7,
        width=side, height=side, habit=0.0, seed=seed,
    )  # fmt: skip
    for clip in clips(staging):
        for t in range(min(left, len(clip.frames))):
            yield clip.frames[t], clip.pixels[t]
        left -= len(clip.frames)


def _free(count: int, seed: int, side: int) -> Iterator[Posed]:
    bodies = [
        procedural_body(random_person(np.random.default_rng([seed, 3, i])))
        for i in range(min(_BODIES, count))
    ]
    for number in range(count):
        rng = np.random.default_rng([seed, 4, number])
        body = bodies[number % len(bodies)]
        motion = any_pose(body, rng)
        joints = body.joints(motion)[0]
        camera = _camera(joints, rng, side)
        towards = rng.normal([0, 0.8, 0.3], 0.6)
        light = Light((float(towards[0]), float(towards[1]), float(towards[2])))
        drawn = draw([body.mesh(motion, 0)], camera, light=light, samples=2)
        person = drawn.colour * rng.uniform(0.6, 1.4)
        behind = outdoors(rng, side) ** 2.2
        frame = to_srgb(person + (1 - drawn.alpha[..., None]) * behind)
        yield frame, camera.project(joints).astype(np.float32)


def any_pose(body: SkinnedBody, rng: np.random.Generator) -> Motion:
    """One frame of a body with limbs turned at random, within what joints allow."""
    turns = np.broadcast_to(np.eye(3), (len(JOINTS), 3, 3)).copy()
    upright = rng.random() < 0.7
    tilt = rng.normal(0, 15, 2) if upright else rng.uniform(-180, 180, 2)
    turns[INDEX["pelvis"]] = _turn("yxz", rng.uniform(-180, 180), *tilt)
    bend = rng.uniform(-15, 35)
    for name in ("spine", "chest"):
        turns[INDEX[name]] = _turn("yxz", rng.uniform(-20, 20), bend, rng.uniform(-12, 12))
    for name in ("neck", "head"):
        turns[INDEX[name]] = _turn("yxz", *rng.uniform([-25, -20, -10], [25, 25, 10]))
    for side, sign in (("left", 1.0), ("right", -1.0)):
        upper = body.rest[INDEX[f"{side}_elbow"]] - body.rest[INDEX[f"{side}_shoulder"]]
        upper = upper / np.linalg.norm(upper)
        hanging = np.rad2deg(np.arctan2(abs(upper[0]), -upper[1]))
        swing, lift = rng.uniform(-50, 175), rng.uniform(0, 160)
        roll = Rotation.from_rotvec(upper * np.deg2rad(rng.uniform(-80, 80)))
        shoulder = Rotation.from_euler("XZ", [-swing, sign * (lift - hanging)], degrees=True) * roll
        turns[INDEX[f"{side}_shoulder"]] = shoulder.as_matrix()
        hinge = np.cross(upper, [0.0, 0.0, 1.0])
        flexed = np.deg2rad(140 * rng.beta(0.8, 1.2))
        turns[INDEX[f"{side}_elbow"]] = Rotation.from_rotvec(
            hinge / np.linalg.norm(hinge) * flexed
        ).as_matrix()
        thigh, spread = 110 * rng.beta(0.9, 1.6) - 30 * rng.random(), rng.uniform(-8, 45)
        turns[INDEX[f"{side}_hip"]] = _turn("xz", -thigh, sign * spread)
        turns[INDEX[f"{side}_knee"]] = _turn("x", 130 * rng.beta(0.7, 1.5))
        turns[INDEX[f"{side}_ankle"]] = _turn("x", rng.uniform(-25, 35))
    return Motion(turns[None], np.zeros((1, 3)))


def _turn(axes: str, *degrees: float) -> Floats:
    return np.asarray(Rotation.from_euler(axes.upper(), list(degrees), degrees=True).as_matrix())


def _camera(joints: Floats, rng: np.random.Generator, side: int) -> Camera:
    centre = (joints.min(0) + joints.max(0)) / 2
    radius = float(np.linalg.norm(joints - centre, axis=1).max())
    height, distance = rng.uniform(-0.5, 1.2), rng.uniform(2.5, 7.0)
    angle = rng.uniform(-np.pi, np.pi)
    eye = centre + np.array([np.sin(angle) * distance, height, np.cos(angle) * distance])
    wide = 2 * np.rad2deg(np.arctan(rng.uniform(1.1, 1.4) * radius / distance))
    return Camera.look(side, side, eye, centre, field_of_view=float(wide))


def outdoors(rng: np.random.Generator, side: int) -> Floats:
    """A made-up background in 0..1: sky over ground, clutter, and noise at every scale."""
    sky, ground = rng.uniform(0.1, 1.0, 3), rng.uniform(0.05, 0.8, 3)
    horizon, soft = rng.uniform(0.1, 0.9), rng.uniform(0.01, 0.3)
    rows = 1 / (1 + np.exp(-(np.linspace(0, 1, side) - horizon) / soft))
    picture = sky + (ground - sky) * np.repeat(rows[:, None, None], side, 1)
    for _ in range(rng.integers(0, 14)):
        a, b = (tuple(int(v) for v in rng.integers(-20, side + 20, 2)) for _ in range(2))
        colour = tuple(float(v) for v in rng.uniform(0, 1, 3))
        if rng.random() < 0.6:
            cv2.line(picture, a, b, colour, int(rng.integers(1, 14)), cv2.LINE_AA)
        else:
            cv2.circle(picture, a, int(rng.integers(2, 22)), colour, -1, cv2.LINE_AA)
    for cells in (4, 12, 40, side):
        noise = rng.normal(0, 1, (cells, cells, 3)) * rng.uniform(0, 0.04)
        noise += rng.normal(0, 1, (cells, cells, 1)) * rng.uniform(0, 0.12)
        picture = picture + cv2.resize(noise, (side, side), interpolation=cv2.INTER_CUBIC)
    # the world is greyer than colours drawn at random
    grey = picture.mean(2, keepdims=True)
    return np.asarray(np.clip(grey + rng.uniform(0.1, 0.7) * (picture - grey), 0, 1))
