"""Joints along a whole track: what several detectors saw, explained by one body that moves smoothly.

Unknown are the places of 17 points of the body on every frame, in metres in the camera's axes. They are
the least squares of everything that is known at once: where each detector saw a joint in the picture, how
the joints lie to each other in depth, the lengths of the bones (one set a person), how fast limbs can
change their speed, and that a foot which stands does not slide. All frames are solved together, so
that a joint nobody sees is carried by the motion before and after, and nothing lags behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.linalg import solveh_banded

from sfumato.body._skeleton import INDEX, JOINTS, Floats

_ENDS = ("shoulder", "elbow", "wrist", "hand", "hip", "knee", "ankle", "toe")
POINTS: tuple[str, ...] = (*(f"{side}_{e}" for side in ("left", "right") for e in _ENDS), "ears")
_AT = {name: i for i, name in enumerate(POINTS)}
_COUNT, _SIZE = len(POINTS), 3 * len(POINTS)
EARS = _AT["ears"]


def _bones() -> list[tuple[int, int, float, int]]:
    """Pairs of points, how exactly (metres) their distance is kept, and which pairs share a length."""
    limbs = (
        ("shoulder", "elbow"), ("elbow", "wrist"), ("hip", "knee"), ("knee", "ankle"),
        ("wrist", "hand"), ("ankle", "toe"), ("shoulder", "hip"),
    )  # fmt: skip
    made = [
        (_AT[f"{side}_{a}"], _AT[f"{side}_{b}"], 0.01, kind)
        for kind, (a, b) in enumerate(limbs)
        for side in ("left", "right")
    ]
    kind = len(limbs)
    for end in ("shoulder", "hip"):
        made.append((_AT[f"left_{end}"], _AT[f"right_{end}"], 0.015, kind))
        kind += 1
    for a, b in (("left", "right"), ("right", "left")):
        made.append((_AT[f"{a}_shoulder"], _AT[f"{b}_hip"], 0.02, kind))
        made.append((_AT["ears"], _AT[f"{a}_shoulder"], 0.02, kind + 1))
    return made


_BONES = _bones()
# what hangs down from what, and the kind of the bone between
_HANGS = [
    (_AT[f"{side}_{a}"], _AT[f"{side}_{b}"], kind)
    for side in ("left", "right")
    for a, b, kind in (
        ("shoulder", "hip", 6), ("hip", "knee", 2), ("knee", "ankle", 3), ("shoulder", "elbow", 0),
        ("elbow", "wrist", 1),
    )
]  # fmt: skip
# how much a point can change its speed, metres a second squared
_AGILE = np.array([
    {"hip": 12.0, "shoulder": 13.0, "ears": 13.0, "knee": 30.0, "elbow": 30.0}.get(
        name.split("_")[-1], 50.0
    )
    for name in POINTS
])  # fmt: skip
_DEPTH_CALM = 3.0  # depth is seen worst: it changes its speed that much less
_SEEN, _DEPTH, _BESIDE = 0.03, 0.07, 0.12  # metres: how exactly a point in the picture, its depth
# against the hips and its place beside them are known
_FLAT = 0.25  # metres: how far from the hips' depth a point may be of which nothing is known
_UPRIGHT = 0.45  # metres: how far from hanging down a trunk or a limb is of which nothing is known
_OUTLIER = 0.15  # metres from where a sighting begins to be doubted
_LOCK = 0.004  # metres a frame that a standing foot may move
_STANDS, _STEPS = 0.35, 0.8  # metres a second: below, a foot stands; above, it does not
_FEET = [_AT[f"{side}_{end}"] for side in ("left", "right") for end in ("ankle", "toe")]
_ANKLES = [_AT["left_ankle"], _AT["right_ankle"]]
_ROUNDS, _FIRM = 4, 1e-3
_NEAREST = 0.4  # metres from the camera
# lengths of a grown person, by kind of bone: what a length that nobody saw is taken for
_USUAL = (0.285, 0.25, 0.405, 0.40, 0.10, 0.165, 0.49, 0.33, 0.18, 0.545, 0.25)
_OWN_SIZE, _OWN_LENGTH = (
    0.4,
    0.3,
)  # how much of a person's size, and of one bone, is taken as it was seen


@dataclass(frozen=True)
class Sightings:
    """What was seen of one person on T frames, by S detectors.

    ``places`` (S, T, 17, 2) are (u - c_x) / f and (v - c_y) / f, ``trust`` (S, T, 17) from 0 to 1;
    ``local`` (T, 17, 3) are metres about the hips in the camera's axes (x right, y down, z away) with
    ``local_trust`` (T, 17).
    """

    places: Floats
    trust: Floats
    local: Floats
    local_trust: Floats

    def __len__(self) -> int:
        return int(self.places.shape[1])


@dataclass(frozen=True)
class Paths:
    """Places (T, 17, 3) in the camera's axes, and the bone lengths by kind that explain them."""

    points: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.float64]
    stands: npt.NDArray[np.bool_] = field(repr=False)  # (T, 2): left and right foot

    def joints(self) -> npt.NDArray[np.float64]:
        """The shared skeleton's joints (T, 24, 3); NaN for those that nobody observes."""
        out = np.full((len(self.points), len(JOINTS), 3), np.nan)
        for name, i in _AT.items():
            if name in INDEX:
                out[:, INDEX[name]] = self.points[:, i]
        both = {
            name: (self.points[:, _AT[f"left_{name}"]] + self.points[:, _AT[f"right_{name}"]]) / 2
            for name in ("hip", "shoulder")
        }
        out[:, INDEX["pelvis"]], out[:, INDEX["neck"]] = both["hip"], both["shoulder"]
        # the ears lie at mid skull: the crown is about as far above them as they are above the neck
        ears = self.points[:, EARS]
        out[:, INDEX["crown"]] = ears + 0.9 * (ears - both["shoulder"])
        return out


def joint_paths(
    seen: Sightings,
    rate: float,
    *,
    lengths: npt.NDArray[np.float64] | None = None,
    known: npt.NDArray[np.float64] | None = None,
    ground: tuple[float, float] | None = None,
) -> Paths:
    """Solve a track of at least one frame, ``rate`` frames a second.

    ``lengths`` fixes the bones (one person has one set); ``known`` (K, 17, 3) are the places of the
    first K frames where they are settled already; ``ground`` (h, slope) is the plane y = h + slope z on which
    standing ankles are.
    """
    lengths = lengths if lengths is not None else _lengths(seen)
    points = _start(seen, lengths)
    stands = np.zeros((len(seen), 2), bool)
    weight = seen.trust.astype(np.float64)
    for turn in range(_ROUNDS):
        points = _solve(seen, weight, points, lengths, rate, stands, known, ground)
        weight = seen.trust / (1 + (_gap(seen, points) / _OUTLIER) ** 2)
        if turn:
            stands = _standing(points, seen, rate)
    return Paths(points, lengths, stands)


def fitting_error(seen: Sightings, paths: Paths) -> npt.NDArray[np.float64]:
    """For each frame the mean distance (metres at the body) of sightings from the points; NaN if none."""
    gap, trust = _gap(seen, paths.points), np.asarray(seen.trust, np.float64)
    total = trust.sum(axis=(0, 2))
    mean = (np.minimum(gap, 1.0) * trust).sum(axis=(0, 2)) / np.maximum(total, 1e-9)
    return np.asarray(np.where(total > 0.5, mean, np.nan))


def ground_plane(paths: list[Paths]) -> tuple[float, float] | None:
    """The plane y = h + slope z of ankles that stand, if they agree on one; a level camera has slope 0."""
    rows = [path.points[:, _ANKLES][path.stands] for path in paths]
    feet = np.concatenate(rows) if rows else np.zeros((0, 3))
    if len(feet) < 12:
        return None
    weight, (h, slope) = np.ones(len(feet)), (0.0, 0.0)
    for _ in range(12):
        z, y = feet[:, 2], feet[:, 1]
        # a prior against steep floors: 0.15 a metre
        normal = np.array([
            [weight.sum(), (weight * z).sum()],
            [(weight * z).sum(), (weight * z * z).sum() + (0.05 / 0.15) ** 2 * len(feet) / 10],
        ])  # fmt: skip
        h, slope = np.linalg.solve(normal, [(weight * y).sum(), (weight * y * z).sum()])
        weight = 1 / np.maximum(np.abs(y - h - slope * z), 0.02)
    off = np.abs(feet[:, 1] - h - slope * feet[:, 2])
    return (float(h), float(slope)) if np.median(off) < 0.06 else None


def _lengths(seen: Sightings) -> npt.NDArray[np.float64]:
    """Bone lengths by kind: the medians of what was seen in space, drawn towards what is usual, because one
    person's proportions differ less from another's than two sightings of them do."""
    found: list[list[float]] = [[] for _ in _USUAL]
    for a, b, _, kind in _BONES:
        sure = np.minimum(seen.local_trust[:, a], seen.local_trust[:, b]) > 0.5
        if sure.sum() >= 3:
            apart = np.linalg.norm(seen.local[sure, a] - seen.local[sure, b], axis=-1)
            found[kind].append(float(np.median(apart)))
    own = np.array([np.mean(each) if each else np.nan for each in found])
    usual, known = np.array(_USUAL), np.isfinite(own)
    if not known.any():
        return usual
    usual *= np.clip(np.median(own[known] / usual[known]), 0.5, 1.3) ** _OWN_SIZE
    own = np.clip(np.where(known, own, usual), 0.65 * usual, 1.4 * usual)
    return np.asarray(own**_OWN_LENGTH * usual ** (1 - _OWN_LENGTH))


def _start(seen: Sightings, lengths: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Each frame's local joints put at the depth where their spread fits that of the sightings."""
    count = len(seen)
    trust = seen.trust.sum(0)
    place = (seen.places * seen.trust[..., None]).sum(0) / np.maximum(trust, 1e-9)[..., None]
    has = seen.local_trust > 0
    local = np.where(has[..., None], seen.local, 0.0)
    standing = _standing_at_ease(lengths)
    depth = np.full(count, np.nan)
    shift = np.zeros((count, 2))
    for t in range(count):
        ok = (trust[t] > 0.2) & (has[t] if has[t].any() else True)
        if ok.sum() < 3:
            continue
        w = trust[t, ok, None]
        middle = (w * place[t, ok]).sum(0) / w.sum()
        spread = np.sqrt((w * (place[t, ok] - middle) ** 2).sum() / w.sum())
        own = local[t, ok, :2] if has[t].any() else standing[ok]
        centre = (w * own).sum(0) / w.sum()
        size = np.sqrt((w * (own - centre) ** 2).sum() / w.sum())
        depth[t] = max(size / max(spread, 1e-6), _NEAREST)
        shift[t] = middle * depth[t] - centre
    known = np.isfinite(depth)
    if not known.any():
        depth[:], known[:] = 3.0, True
    times = np.arange(count)
    depth = np.interp(times, times[known], depth[known])
    # depth frame by frame is noisy: a running median
    reach = np.arange(-7, 8)[None] + times[:, None]
    depth = np.median(depth[np.clip(reach, 0, count - 1)], axis=1)
    out = np.empty((count, _COUNT, 3))
    for axis in range(2):
        out[..., axis] = np.interp(times, times[known], shift[known, axis])[:, None]
    out[..., 2] = depth[:, None]
    out += local
    sure = trust > 0.2
    out[..., :2][sure] = (place * out[..., 2:])[sure]
    # points that were not seen where their neighbours in time have them
    for j in range(_COUNT):
        good = sure[:, j] | has[:, j]
        if good.any() and not good.all():
            for axis in range(3):
                out[:, j, axis] = np.interp(times, times[good], out[good, j, axis])
    return out


def _standing_at_ease(lengths: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Where the points (17, 2) of somebody are who stands before the camera, in metres about the hips."""
    upper, fore, thigh, shin, hand, foot, trunk, shoulders, hips, _, neck = (
        float(v) for v in lengths
    )
    below = {
        "shoulder": -trunk, "elbow": upper - trunk, "wrist": upper + fore - trunk,
        "hand": upper + fore + hand - trunk, "hip": 0.0, "knee": thigh, "ankle": thigh + shin,
        "toe": thigh + shin + foot / 3,
    }  # fmt: skip
    rows = []
    for name in POINTS[:-1]:
        side, _, end = name.partition("_")
        half = (shoulders if end in ("shoulder", "elbow", "wrist", "hand") else hips) / 2
        rows.append((half if side == "left" else -half, below[end]))
    return np.array([*rows, (0.0, -trunk - 0.8 * neck)])


def _gap(seen: Sightings, points: Floats) -> npt.NDArray[np.float64]:
    z = points[None, ..., 2:]
    return np.asarray(np.linalg.norm(points[None, ..., :2] - seen.places * z, axis=-1))


def _standing(points: Floats, seen: Sightings, rate: float) -> npt.NDArray[np.bool_]:
    """Which ankle stands on which frame, by its speed across the view."""
    if len(points) < 3:
        return np.zeros((len(points), 2), bool)
    sure = seen.trust.max(axis=0)[:, _ANKLES] > 0.3
    moved = np.linalg.norm(np.gradient(points[:, _ANKLES, :2], axis=0), axis=-1) * rate
    slow = (moved < _STANDS) & sure
    # between two frames on which it stands, a foot that hardly moved stands too
    wider = slow.copy()
    wider[1:] |= slow[:-1] & (moved[1:] < _STEPS)
    wider[:-1] |= slow[1:] & (moved[:-1] < _STEPS)
    return np.asarray(wider)


def _solve(
    seen: Sightings,
    weight: Floats,
    points: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.float64],
    rate: float,
    stands: npt.NDArray[np.bool_],
    known: npt.NDArray[np.float64] | None,
    ground: tuple[float, float] | None,
) -> npt.NDArray[np.float64]:
    """A few Gauss-Newton steps: only the lengths of bones are not linear in the points."""
    for _ in range(3):
        matrix, right = _normal(seen, weight, points, lengths, stands, known, ground)
        bands = _banded(matrix, rate, stands)
        solved = solveh_banded(bands, right.ravel(), check_finite=False, overwrite_ab=True)
        moved = solved.reshape(points.shape)
        moved[..., 2] = np.maximum(moved[..., 2], _NEAREST)
        done = np.abs(moved - points).max() < _FIRM
        points = moved
        if done:
            break
    return points


def _normal(
    seen: Sightings,
    weight: Floats,
    points: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.float64],
    stands: npt.NDArray[np.bool_],
    known: npt.NDArray[np.float64] | None,
    ground: tuple[float, float] | None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The normal equations inside each frame: (T, 17, 3, 17, 3) and the right side (T, 17, 3)."""
    count = len(seen)
    matrix = np.zeros((count, _COUNT, 3, _COUNT, 3))
    right = np.zeros((count, _COUNT, 3))
    each = np.arange(_COUNT)
    for places, w in zip(seen.places, weight, strict=True):
        strong = w / _SEEN**2
        a, b = places[..., 0], places[..., 1]
        for axis, slope in ((0, a), (1, b)):  # x = a z and y = b z, in metres at the body
            matrix[:, each, axis, each, axis] += strong
            matrix[:, each, axis, each, 2] -= strong * slope
            matrix[:, each, 2, each, axis] -= strong * slope
            matrix[:, each, 2, each, 2] += strong * slope * slope
    hips = [_AT["left_hip"], _AT["right_hip"]]
    trusted = np.minimum(seen.local_trust[:, hips].min(axis=1), 1.0)
    for j in range(_COUNT):
        pull = seen.local_trust[:, j] * (trusted > 0)
        wanted = np.where(pull[:, None] > 0, seen.local[:, j] - seen.local[:, hips].mean(1), 0.0)
        for axis, exact in ((0, _BESIDE), (1, _BESIDE), (2, _DEPTH)):
            w = pull / exact**2 + ((pull == 0) / _FLAT**2 if axis == 2 else 0.0)
            _relative(matrix, right, j, hips, axis, w, wanted[:, axis])
    for a_, b_, exact, kind in _BONES:
        way = points[:, a_] - points[:, b_]
        unit = way / np.maximum(np.linalg.norm(way, axis=1, keepdims=True), 1e-6)
        block = unit[:, :, None] * unit[:, None, :] / exact**2
        matrix[:, a_, :, a_] += block
        matrix[:, b_, :, b_] += block
        matrix[:, a_, :, b_] -= block
        matrix[:, b_, :, a_] -= block
        right[:, a_] += unit * (lengths[kind] / exact**2)
        right[:, b_] -= unit * (lengths[kind] / exact**2)
    for a_, b_, kind in _HANGS:  # of whom little is seen stands upright
        for axis, wanted_at in ((0, 0.0), (1, float(lengths[kind])), (2, 0.0)):
            matrix[:, a_, axis, a_, axis] += 1 / _UPRIGHT**2
            matrix[:, b_, axis, b_, axis] += 1 / _UPRIGHT**2
            matrix[:, a_, axis, b_, axis] -= 1 / _UPRIGHT**2
            matrix[:, b_, axis, a_, axis] -= 1 / _UPRIGHT**2
            right[:, b_, axis] += wanted_at / _UPRIGHT**2
            right[:, a_, axis] -= wanted_at / _UPRIGHT**2
    if ground is not None:
        normal = np.array([0.0, 1.0, -ground[1]])
        for foot, j in enumerate(_ANKLES):
            w = stands[:, foot] / 0.03**2
            matrix[:, j, :, j] += w[:, None, None] * np.outer(normal, normal)
            right[:, j] += w[:, None] * normal * ground[0]
    if known is not None and len(known):
        settled = len(known)
        diagonal = np.arange(3)
        for j in range(_COUNT):
            matrix[:settled, j, diagonal, j, diagonal] += 1e6
        right[:settled] += 1e6 * known
    # a frame on which nothing at all is known still has one solution
    for j in range(_COUNT):
        for axis in range(3):
            matrix[:, j, axis, j, axis] += 1e-3
            right[:, j, axis] += 1e-3 * points[:, j, axis]
    return matrix, right


def _relative(
    matrix: npt.NDArray[np.float64],
    right: npt.NDArray[np.float64],
    j: int,
    hips: list[int],
    axis: int,
    weight: Floats,
    wanted: Floats,
) -> None:
    """Add weight (p_j - mean of the hips - wanted)^2 along one axis."""
    terms: dict[int, float] = {}
    for index, factor in ((j, 1.0), (hips[0], -0.5), (hips[1], -0.5)):
        terms[index] = terms.get(index, 0.0) + factor
    for one, f in terms.items():
        right[:, one, axis] += weight * f * wanted
        for two, g in terms.items():
            matrix[:, one, axis, two, axis] += weight * f * g


def _banded(
    matrix: npt.NDArray[np.float64], rate: float, stands: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """All frames in one banded matrix (upper form), with what ties neighbouring frames together."""
    count = len(matrix)
    blocks = matrix.reshape(count, _SIZE, _SIZE)
    reach = 2 * _SIZE if count > 2 else (_SIZE if count > 1 else _SIZE - 1)
    bands = np.zeros((reach + 1, count * _SIZE))
    shaped = bands.reshape(reach + 1, count, _SIZE)
    for off in range(_SIZE):
        shaped[reach - off, :, off:] = np.diagonal(blocks, off, 1, 2)
    calm = np.stack([_AGILE, _AGILE, _AGILE / _DEPTH_CALM], axis=1).ravel()
    smooth = (rate * rate / calm) ** 2
    if count > 2:  # (p[t] - 2 p[t+1] + p[t+2])^2
        for shift, factor in ((0, 1.0), (1, 4.0), (2, 1.0)):
            shaped[reach, shift : count - 2 + shift] += factor * smooth
        for shift in (0, 1):
            shaped[reach - _SIZE, shift + 1 : count - 1 + shift] -= 2 * smooth
        shaped[reach - 2 * _SIZE, 2:] += smooth
    elif count == 2:
        shaped[reach] += smooth
        shaped[reach - _SIZE, 1:] -= smooth
    for j in _FEET:
        foot = 0 if POINTS[j].startswith("left") else 1
        both = (stands[1:, foot] & stands[:-1, foot]) / _LOCK**2
        for axis in range(3):
            i = 3 * j + axis
            shaped[reach, 1:, i] += both
            shaped[reach, :-1, i] += both
            if count > 1:
                shaped[reach - _SIZE, 1:, i] -= both
    return bands
