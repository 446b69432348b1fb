"""Body controls in degrees -> rotations of the shared skeleton, with feet on the floor."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.body import INDEX, JOINTS, Body, Motion

# one row per frame; angles in degrees, ``rise`` (height above the floor) and ``step`` in metres
CONTROLS: tuple[str, ...] = (
    "rise", "step", "drift", "turn",
    "bend", "twist", "lean", "nod", "look",
    "l_swing", "l_raise", "l_roll", "l_elbow", "r_swing", "r_raise", "r_roll", "r_elbow",
    "l_thigh", "l_spread", "l_knee", "l_foot", "r_thigh", "r_spread", "r_knee", "r_foot",
)  # fmt: skip
CONTROL = {name: i for i, name in enumerate(CONTROLS)}
Floats = npt.NDArray[np.float64]


def about(axis: npt.ArrayLike, degrees: npt.ArrayLike) -> Floats:
    """Rotation matrices (..., 3, 3) about one axis (Rodrigues)."""
    x, y, z = np.asarray(axis, float) / np.linalg.norm(axis)
    angle = np.deg2rad(np.asarray(degrees, float))[..., None, None]
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * (cross @ cross))


def to_motion(controls: Floats, body: Body) -> Motion:
    """Controls (T, 25) -> a motion of ``body`` whose lowest foot is ``rise`` above the floor."""
    rest = np.asarray(body.rest_joints)
    c = {name: controls[:, i] for name, i in CONTROL.items()}
    rotations = np.broadcast_to(np.eye(3), (len(controls), len(JOINTS), 3, 3)).copy()
    x, y, z = np.eye(3)

    def put(name: str, turn: Floats) -> None:
        rotations[:, INDEX[name]] = turn

    put("pelvis", about(y, c["turn"]) @ about(x, 0.25 * c["bend"]))
    for name in ("spine", "chest"):
        part = about(y, 0.5 * c["twist"]) @ about(x, 0.375 * c["bend"])
        put(name, part @ about(z, 0.5 * c["lean"]))
    put("neck", about(x, 0.4 * c["nod"]))
    put("head", about(x, 0.6 * c["nod"]) @ about(y, c["look"]))
    for side, sign in (("left", 1.0), ("right", -1.0)):
        s = side[0]
        upper = rest[INDEX[f"{side}_elbow"]] - rest[INDEX[f"{side}_shoulder"]]
        upper /= np.linalg.norm(upper)
        hanging = np.rad2deg(np.arctan2(abs(upper[0]), -upper[1]))  # from hanging down to rest
        shoulder = about(x, -c[f"{s}_swing"]) @ about(z, sign * (c[f"{s}_raise"] - hanging))
        put(f"{side}_shoulder", shoulder @ about(upper, -sign * c[f"{s}_roll"]))
        put(f"{side}_elbow", about(np.cross(upper, z), c[f"{s}_elbow"]))
        # the trunk's bend turns the pelvis, the legs stay under the body
        thigh = about(x, -c[f"{s}_thigh"] - 0.25 * c["bend"])
        put(f"{side}_hip", thigh @ about(z, sign * c[f"{s}_spread"]))
        put(f"{side}_knee", about(x, c[f"{s}_knee"]))
        level = c[f"{s}_thigh"] - c[f"{s}_knee"]
        put(f"{side}_ankle", about(x, c[f"{s}_foot"] + np.clip(level, -25, 25)))
    flat = np.zeros((len(controls), 3))
    low = body.joints(Motion(rotations, flat))[
        :, [INDEX[f"{side}_{end}"] for side in ("left", "right") for end in ("ankle", "toe")], 1
    ]
    sole = rest[[INDEX["left_ankle"], INDEX["left_toe"]] * 2, 1]
    forward = about(y, c["turn"]) @ z
    sideways = about(y, c["turn"]) @ x
    place = forward * c["step"][:, None] + sideways * c["drift"][:, None]
    place[:, 1] = c["rise"] - (low - sole).min(1)
    return Motion(rotations, place)
