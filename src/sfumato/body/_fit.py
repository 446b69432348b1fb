"""From observed joints to the pose of a body: analytic, smooth, within human limits.

The trunk is oriented by hips and shoulders. Each limb reaches for the observed wrist or ankle
with the body's own bone lengths (two-bone inverse kinematics), bending on the observed side.
Smoothing looks as far forward as back, so that it has no lag.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter1d

from sfumato.body._body import Body, BodyError, Motion
from sfumato.body._rotation import frame, limited, part_of, swing, unit
from sfumato.body._skeleton import INDEX, JOINTS, MAIN, PARENTS, Floats, forward

Where = Callable[[str], npt.NDArray[np.float64]]
_DEGREE = np.pi / 180
_KNEE_LIMIT, _ELBOW_LIMIT = 155 * _DEGREE, 150 * _DEGREE
_NECK_LIMIT, _HEAD_LIMIT, _COLLAR_LIMIT = 50 * _DEGREE, 45 * _DEGREE, 35 * _DEGREE
_WRIST_LIMIT, _ANKLE_LIMIT, _WAIST_LIMIT = 70 * _DEGREE, 50 * _DEGREE, 80 * _DEGREE
_SCALES = (0.4, 1.6)  # from a small child to a giant
# bones whose lengths give the size of a person
_LENGTHS = tuple(
    (INDEX[f"{side}_{a}"], INDEX[f"{side}_{b}"])
    for side in ("left", "right")
    for a, b in (("hip", "knee"), ("knee", "ankle"), ("shoulder", "elbow"), ("elbow", "wrist"))
)


@dataclass(frozen=True)
class Fit:
    """A fitted motion; ``inferred`` is the share of joints that had to be made up."""

    motion: Motion
    error: float  # mean distance to the observed main joints, in metres
    inferred: float


def fit(
    observed: npt.ArrayLike,
    body: Body,
    *,
    smooth: float = 1.0,
    floor: float | None = None,
    scale: float | None = None,
) -> Fit:
    """Pose ``body`` like the observed joints (T, 24, 3), NaN where nothing was seen.

    ``smooth`` is the width of the zero-phase filter in frames (0: none). With ``floor`` no foot
    goes below that height. ``scale`` fixes the body's size; otherwise it is the median ratio of
    bone lengths.
    """
    seen = np.array(observed, dtype=np.float64)
    if seen.ndim != 3 or seen.shape[1:] != (len(JOINTS), 3):
        raise BodyError(
            f"Expected joints shaped (T, {len(JOINTS)}, 3), got {seen.shape}: "
            "convert them with layout(name).canonical(points) first."
        )
    known = np.asarray(np.isfinite(seen).all(axis=-1))
    if not known[:, MAIN].any():
        raise BodyError("Expected at least one observed joint to fit a body to, got none.")
    rest = np.asarray(body.rest_joints, dtype=np.float64)
    size = scale if scale is not None else _size(seen, rest)
    points = fill(seen, rest * size)
    if smooth > 0 and len(points) > 2:
        points = gaussian_filter1d(points, smooth, axis=0, mode="nearest")
    rotations, root = _pose(points, np.asarray(known.any(axis=0)), rest, size, smooth)
    motion = Motion(rotations, root, size)
    if floor is not None:
        motion = lifted(motion, body, floor, smooth)
    made = body.joints(motion)
    gap = np.linalg.norm(made - seen, axis=-1)[:, MAIN]
    return Fit(motion, float(np.nanmean(gap)), float(1 - known[:, MAIN].mean()))


def proportions(observed: npt.ArrayLike, body: Body) -> npt.NDArray[np.float64]:
    """Factors (24,) on the body's bone lengths that make them those of the observed joints.

    Left and right share their median; bones that were not observed take the body's general size.
    """
    seen, rest = np.asarray(observed, dtype=np.float64), np.asarray(body.rest_joints)
    ratio = np.full(len(JOINTS), np.nan)
    for j, parent in enumerate(PARENTS):
        if parent >= 0:
            length = np.linalg.norm(seen[:, j] - seen[:, parent], axis=-1)
            own = np.linalg.norm(rest[j] - rest[parent])
            if np.isfinite(length).any() and own > 1e-6:
                ratio[j] = np.nanmedian(length) / own
    for name, j in INDEX.items():
        if name.startswith("left_"):
            pair = [j, INDEX["right_" + name[5:]]]
            both = ratio[pair][np.isfinite(ratio[pair])]
            ratio[pair] = both.mean() if len(both) else np.nan
    size = _size(seen, rest)
    # shoulders hang on collars that are rarely observed: their width is scaled as a whole
    width = _width(seen, rest, "shoulder")
    for side in ("left", "right"):
        for name in ("collar", "shoulder"):
            if not np.isfinite(ratio[INDEX[f"{side}_{name}"]]):
                ratio[INDEX[f"{side}_{name}"]] = width if np.isfinite(width) else size
    ratio[~np.isfinite(ratio)] = size
    return np.asarray(np.clip(ratio, 0.6 * size, 1.6 * size))


def _width(seen: Floats, rest: Floats, name: str) -> float:
    a, b = INDEX[f"left_{name}"], INDEX[f"right_{name}"]
    length = np.linalg.norm(seen[:, a] - seen[:, b], axis=-1)
    if not np.isfinite(length).any():
        return float("nan")
    return float(np.nanmedian(length) / np.linalg.norm(rest[a] - rest[b]))


def _size(seen: Floats, rest: Floats) -> float:
    ratios = []
    for a, b in _LENGTHS:
        length = np.linalg.norm(seen[:, a] - seen[:, b], axis=-1)
        if np.isfinite(length).any():
            ratios.append(np.nanmedian(length) / np.linalg.norm(rest[a] - rest[b]))
    if not ratios:
        return 1.0
    return float(np.clip(np.median(ratios), *_SCALES))


def fill(seen: Floats, rest: Floats) -> npt.NDArray[np.float64]:
    """Complete joints: along time where a joint is seen at all, else from its neighbours at rest."""
    points = np.array(seen, dtype=np.float64)
    times = np.arange(len(points))
    for j in range(len(JOINTS)):
        known = np.isfinite(points[:, j, 0])
        if known.any() and not known.all():
            for axis in range(3):
                points[:, j, axis] = np.interp(times, times[known], points[known, j, axis])
    _mirror_pairs(points, rest)
    for j, parent in enumerate(PARENTS):
        if not np.isfinite(points[:, j]).all() and parent >= 0:
            points[:, j] = points[:, parent] + rest[j] - rest[parent]
    return points


def _mirror_pairs(points: npt.NDArray[np.float64], rest: Floats) -> None:
    """Give a trunk to partial skeletons: a missing shoulder or hip from the others at rest."""
    anchors = [INDEX[n] for n in ("left_shoulder", "right_shoulder", "left_hip", "right_hip")]
    have = [j for j in anchors if np.isfinite(points[:, j]).all()]
    if not have:  # only limbs were seen: the body hangs on their resting offsets
        limb = [j for j in MAIN if np.isfinite(points[:, j]).all()]
        shift = np.mean([points[:, j] - rest[j] for j in limb], axis=0)
        for j in anchors:
            points[:, j] = rest[j] + shift
    else:
        shift = np.mean([points[:, j] - rest[j] for j in have], axis=0)
        for j in anchors:
            if j not in have:
                points[:, j] = rest[j] + shift
    left, right = points[:, INDEX["left_hip"]], points[:, INDEX["right_hip"]]
    if not np.isfinite(points[:, 0]).all():
        points[:, 0] = (left + right) / 2


def _pose(
    points: Floats, known: npt.NDArray[np.bool_], rest: Floats, size: float, smooth: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    count = len(points)
    world = np.broadcast_to(np.eye(3), (count, len(JOINTS), 3, 3)).copy()

    def at(name: str) -> npt.NDArray[np.float64]:
        return np.asarray(points[:, INDEX[name]], dtype=np.float64)

    def bone(a: str, b: str) -> Floats:
        return np.asarray(rest[INDEX[b]] - rest[INDEX[a]])

    _trunk(world, points, known, rest)
    root = _root(world, points, rest, size)
    chest_at = _joint_at(world, root, rest, size)
    for side in ("left", "right"):
        collar = INDEX[f"{side}_collar"]
        lead = world[:, INDEX["chest"]]
        target = at(f"{side}_shoulder") - chest_at(f"{side}_collar")
        hung = lead @ bone(f"{side}_collar", f"{side}_shoulder")
        world[:, collar] = swing(hung, target, at_most=_COLLAR_LIMIT) @ lead
        _limb(world, at, rest, size, _joint_at(world, root, rest, size),
              _Limb((f"{side}_shoulder", f"{side}_elbow", f"{side}_wrist"), f"{side}_collar",
                    np.array([0, 0, 1.0]), _ELBOW_LIMIT, False), smooth)  # fmt: skip
        _limb(world, at, rest, size, _joint_at(world, root, rest, size),
              _Limb((f"{side}_hip", f"{side}_knee", f"{side}_ankle"), "pelvis",
                    np.array([0, 0, -1.0]), _KNEE_LIMIT, True), smooth)  # fmt: skip
        for joint, end, nearer, most in (
            ("wrist", "hand", "elbow", _WRIST_LIMIT),
            ("ankle", "toe", "knee", _ANKLE_LIMIT),
        ):
            lead = world[:, INDEX[f"{side}_{nearer}"]]
            world[:, INDEX[f"{side}_{joint}"]] = lead
            if known[INDEX[f"{side}_{end}"]]:
                resting = lead @ bone(f"{side}_{joint}", f"{side}_{end}")
                pointing = at(f"{side}_{end}") - at(f"{side}_{joint}")
                world[:, INDEX[f"{side}_{joint}"]] = swing(resting, pointing, at_most=most) @ lead
    _head(world, points, known, rest)
    local = world.copy()
    for j, parent in enumerate(PARENTS):
        if parent >= 0:
            local[:, j] = np.swapaxes(world[:, parent], -1, -2) @ world[:, j]
    return local, root


def _trunk(
    world: npt.NDArray[np.float64], points: Floats, known: npt.NDArray[np.bool_], rest: Floats
) -> None:
    """Pelvis from the hips, chest from the shoulders, the spine half way between.

    Where the spine itself was observed, pelvis and chest lean as it does; otherwise both lean as
    the whole trunk.
    """
    left, right = INDEX["left_hip"], INDEX["right_hip"]
    arm_l, arm_r = INDEX["left_shoulder"], INDEX["right_shoulder"]
    up = (points[:, arm_l] + points[:, arm_r]) / 2 - (points[:, left] + points[:, right]) / 2
    rest_up = (rest[arm_l] + rest[arm_r]) / 2 - (rest[left] + rest[right]) / 2
    low, low_rest, high, high_rest = up, rest_up, up, rest_up
    spine = [INDEX[name] for name in ("pelvis", "spine", "chest", "neck")]
    if known[spine].all():
        low, low_rest = points[:, spine[1]] - points[:, 0], rest[spine[1]] - rest[0]
        high, high_rest = points[:, spine[3]] - points[:, spine[2]], rest[spine[3]] - rest[spine[2]]
    hips = frame(points[:, left] - points[:, right], low)
    shoulders = frame(points[:, arm_l] - points[:, arm_r], high)
    pelvis = hips @ frame(rest[left] - rest[right], low_rest).T
    chest = shoulders @ frame(rest[arm_l] - rest[arm_r], high_rest).T
    between = limited(np.swapaxes(pelvis, -1, -2) @ chest, _WAIST_LIMIT)
    world[:, INDEX["pelvis"]] = pelvis
    world[:, INDEX["spine"]] = pelvis @ part_of(between, 0.5)
    world[:, INDEX["chest"]] = pelvis @ between


def _root(world: Floats, points: Floats, rest: Floats, size: float) -> npt.NDArray[np.float64]:
    """Where the pelvis must be for hips and shoulders to lie on the observed ones on average."""
    at = _joint_at(world, np.zeros((len(points), 3)), rest, size)
    gaps = [
        points[:, INDEX[f"{side}_{name}"]] - at(f"{side}_{name}")
        for side in ("left", "right")
        for name in ("hip", "shoulder")
    ]
    return np.asarray(np.mean(gaps, axis=0))


def _joint_at(world: Floats, root: Floats, rest: Floats, size: float) -> Where:
    """Positions of joints under the global rotations that are known so far."""

    def position(name: str) -> npt.NDArray[np.float64]:
        path = [INDEX[name]]
        while PARENTS[path[-1]] >= 0:
            path.append(PARENTS[path[-1]])
        total = np.array(root, dtype=np.float64)
        for child, parent in zip(path[-2::-1], path[::-1], strict=False):
            total += size * (world[:, parent] @ (rest[child] - rest[parent]))
        return total

    return position


@dataclass(frozen=True)
class _Limb:
    joints: tuple[str, str, str]
    parent: str
    bends_to: Floats  # where the far bone goes when the middle joint bends, at rest
    limit: float
    one_way: bool  # a knee that seems to bend forward is straight


def _limb(
    world: npt.NDArray[np.float64],
    at: Where,
    rest: Floats,
    size: float,
    placed: Where,
    limb: _Limb,
    smooth: float,
) -> None:
    """Two-bone inverse kinematics with a hinge in the middle."""
    first, middle, last = (INDEX[name] for name in limb.joints)
    near, far = rest[middle] - rest[first], rest[last] - rest[middle]
    a, b = np.linalg.norm(near) * size, np.linalg.norm(far) * size
    start = placed(limb.joints[0])
    reach = at(limb.joints[2]) - start
    shortest = np.sqrt(a * a + b * b + 2 * a * b * np.cos(limb.limit))
    distance = np.clip(np.linalg.norm(reach, axis=-1), shortest, (a + b) * 0.9999)
    line = unit(reach)
    hinge = _hinge(world, at, near, limb, line, smooth)
    aside = np.cross(hinge, line)  # the middle joint lies on the other side of the bend
    cosine = np.clip((a * a + distance**2 - b * b) / (2 * a * distance), -1, 1)
    sine = np.sqrt(1 - cosine**2)
    upper = line * cosine[:, None] - aside * sine[:, None]
    lower = line * distance[:, None] - upper * a
    axis = unit(np.cross(near, limb.bends_to))
    world[:, first] = frame(upper, hinge) @ frame(near, axis).T
    world[:, middle] = frame(lower, hinge) @ frame(far, axis).T


def _hinge(
    world: Floats, at: Where, near: Floats, limb: _Limb, line: Floats, smooth: float
) -> npt.NDArray[np.float64]:
    """The axis a limb bends about: observed when it is bent, guessed from the trunk when straight."""
    parent = world[:, INDEX[limb.parent]]
    upper = at(limb.joints[1]) - at(limb.joints[0])
    lower = at(limb.joints[2]) - at(limb.joints[1])
    axis = unit(np.cross(near, limb.bends_to))
    guessed = (swing(parent @ near, upper) @ parent) @ axis
    observed = np.cross(unit(upper), unit(lower))
    bent = np.linalg.norm(observed, axis=-1, keepdims=True)
    trust = np.clip((bent - 0.12) / 0.3, 0, 1)
    trust = trust * trust * (3 - 2 * trust)
    if limb.one_way:
        trust = trust * ((observed * guessed).sum(-1, keepdims=True) > 0)
    blend = trust * unit(observed) + (1 - trust) * guessed
    if smooth > 0 and len(blend) > 2:
        blend = gaussian_filter1d(blend, smooth, axis=0, mode="nearest")
    blend = blend - (blend * line).sum(-1, keepdims=True) * line
    weak = np.linalg.norm(blend, axis=-1, keepdims=True) < 1e-3
    spare = guessed - (guessed * line).sum(-1, keepdims=True) * line
    return unit(np.where(weak, spare, blend))


def _head(
    world: npt.NDArray[np.float64], points: Floats, known: npt.NDArray[np.bool_], rest: Floats
) -> None:
    """Neck and head share the way from the neck's base to the crown."""
    chest = world[:, INDEX["chest"]]
    neck, head, crown = INDEX["neck"], INDEX["head"], INDEX["crown"]
    if not known[crown]:
        world[:, neck] = world[:, head] = chest
        return
    resting = chest @ (rest[crown] - rest[neck])
    pointing = points[:, crown] - points[:, neck]
    whole = swing(resting, pointing, at_most=_NECK_LIMIT + _HEAD_LIMIT)
    world[:, neck] = part_of(whole, 0.5) @ chest
    world[:, head] = whole @ chest


def lifted(motion: Motion, body: Body, floor: float, smooth: float = 1.0) -> Motion:
    """Raise the body where a foot would go through the floor; raised smoothly, never lowered."""
    rest = np.asarray(body.rest_joints)
    feet = [INDEX[f"{side}_{end}"] for side in ("left", "right") for end in ("ankle", "toe")]
    sole = (rest[feet, 1] - rest[feet, 1].min()) * motion.scale
    placed = forward(rest, motion.rotations, motion.translation, motion.scale)[1]
    below = np.maximum(floor - (placed[:, feet, 1] - sole), 0).max(1)
    if smooth > 0 and len(below) > 2:
        below = np.maximum(below, gaussian_filter1d(below, smooth, mode="nearest"))
    shift = np.zeros_like(motion.translation)
    shift[:, 1] = below
    return Motion(motion.rotations, motion.translation + shift, motion.scale)
