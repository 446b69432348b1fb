"""A simple procedural body: lofted limbs on the shared skeleton, no model files needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sfumato.body._body import SkinnedBody
from sfumato.body._person import CLOTHES_COLOURS, HAIR_COLOURS, SKIN_TONES, VirtualPerson
from sfumato.body._skeleton import INDEX, JOINTS, Floats

_ARM_ANGLE = np.deg2rad(40)  # below the horizontal at rest: half way between raised and hanging
_UP = np.array([0.0, 1.0, 0.0])
Rgb = npt.NDArray[np.float64]


def procedural_body(person: VirtualPerson, *, detail: int = 1) -> SkinnedBody:
    """The body of ``person``; ``detail`` multiplies the rings and sides of every part."""
    rest = rest_skeleton(person)
    made = _Maker(person, rest, detail)
    made.torso()
    made.head()
    for side in ("left", "right"):
        made.arm(side)
        made.leg(side)
    if person.bottom_kind == "skirt":
        made.skirt()
    return made.finish()


def rest_skeleton(person: VirtualPerson) -> npt.NDArray[np.float64]:
    """Joint positions (24, 3) from the proportions of adults, as fractions of the height."""
    h = person.height
    broad = 0.108 if person.sex == "male" else 0.098
    hips = 0.050 if person.sex == "male" else 0.053
    rest = np.zeros((len(JOINTS), 3))

    def put(name: str, x: float, y: float, z: float = 0.0) -> None:
        rest[INDEX[name]] = np.array([x, y, z]) * h

    put("pelvis", 0, 0.515)
    put("spine", 0, 0.60, -0.008)
    put("chest", 0, 0.70, -0.012)
    put("neck", 0, 0.825, -0.010)
    put("head", 0, 0.872, 0.002)
    put("crown", 0, 1.0, 0.004)
    down = np.array([np.cos(_ARM_ANGLE), -np.sin(_ARM_ANGLE), 0.0])
    for side, sign in (("left", 1.0), ("right", -1.0)):
        put(f"{side}_hip", sign * hips, 0.515)
        put(f"{side}_knee", sign * hips * 0.98, 0.282, 0.006)
        put(f"{side}_ankle", sign * hips * 0.95, 0.046, -0.008)
        put(f"{side}_toe", sign * hips * 1.15, 0.012, 0.085)
        put(f"{side}_collar", sign * 0.018, 0.806, 0.004)
        put(f"{side}_shoulder", sign * broad, 0.806, -0.008)
        along = np.cumsum([0.172, 0.150, 0.085])
        for name, distance in zip(("elbow", "wrist", "hand"), along, strict=True):
            rest[INDEX[f"{side}_{name}"]] = (
                rest[INDEX[f"{side}_shoulder"]] + down * [sign, 1, 1] * distance * h
            )
    return rest


class _Maker:
    """Collects parts; each part is a closed tube of rings."""

    def __init__(self, person: VirtualPerson, rest: Floats, detail: int) -> None:
        self.person = person
        self.rest = rest
        self.detail = detail
        self.stout = 1 + 0.26 * person.build
        self.skin = np.array(SKIN_TONES[person.skin])
        self.top = np.array(CLOTHES_COLOURS[person.top])
        self.bottom = np.array(CLOTHES_COLOURS[person.bottom])
        self.shoes = np.array(CLOTHES_COLOURS[person.shoes])
        self.hair = np.array(HAIR_COLOURS[person.hair])
        self._vertices: list[Floats] = []
        self._faces: list[npt.NDArray[np.int32]] = []
        self._weights: list[Floats] = []
        self._colours: list[Rgb] = []
        self._count = 0

    def at(self, name: str) -> Floats:
        return np.array(self.rest[INDEX[name]])

    def finish(self) -> SkinnedBody:
        return SkinnedBody(
            vertices=np.concatenate(self._vertices).astype(np.float32),
            faces=np.concatenate(self._faces),
            weights=np.concatenate(self._weights).astype(np.float32),
            rest=self.rest,
            colours=np.concatenate(self._colours).astype(np.float32),
            traits=self.person.to_json(),
        )

    def add(
        self, rings: Floats, weights: Floats, colours: Rgb, *, tips: tuple[Floats, Floats]
    ) -> None:
        """Join rings (n, sides, 3) into a tube closed by one point at either end."""
        n, sides = rings.shape[:2]
        base = self._count
        around = np.arange(sides)
        following = (around + 1) % sides
        faces = []
        for ring in range(n - 1):
            a, b = base + ring * sides, base + (ring + 1) * sides
            faces.append(np.stack([a + around, a + following, b + around], 1))
            faces.append(np.stack([a + following, b + following, b + around], 1))
        first, last = base + n * sides, base + n * sides + 1
        faces.append(np.stack([np.full(sides, first), base + following, base + around], 1))
        end = base + (n - 1) * sides
        faces.append(np.stack([np.full(sides, last), end + around, end + following], 1))
        self._faces.append(np.concatenate(faces).astype(np.int32))
        self._vertices.append(np.concatenate([rings.reshape(-1, 3), np.stack(tips)]))
        per_vertex = np.repeat(weights, sides, 0)
        self._weights.append(np.concatenate([per_vertex, weights[:1], weights[-1:]]))
        flat = np.broadcast_to(colours.reshape(n, -1, 3), (n, sides, 3)).reshape(-1, 3)
        self._colours.append(np.concatenate([flat, flat[:1], flat[-1:]]))
        self._count += n * sides + 2

    def limb(
        self,
        path: Sequence[str],
        profile: Sequence[tuple[float, float, float]],
        colour: npt.NDArray[np.float64],
        joints: Sequence[str],
        *,
        flat: float = 1.0,
        sides: int = 10,
    ) -> None:
        """A tube along the bones of ``path``.

        ``profile`` holds (position in bones from the start, radius as a fraction of the height,
        blend): the k-th bone is moved by ``joints[k]``, and near a joint the two neighbours share.
        """
        points = np.stack([self.at(name) for name in path])
        where = np.array([p[0] for p in profile])
        fine = _refine(where, self.detail)
        radius = np.interp(fine, where, [p[1] for p in profile]) * self.person.height
        spread = np.interp(fine, where, [p[2] for p in profile])
        knots = np.arange(len(points), dtype=float)
        centres = np.stack([_extend(fine, knots, points[:, axis]) for axis in range(3)], 1)
        direction = points[-1] - points[0]
        direction = direction / np.linalg.norm(direction)
        side = np.cross(direction, [0.0, 0.0, 1.0])
        side /= np.linalg.norm(side)
        front = np.cross(direction, side)
        angle = np.linspace(0, 2 * np.pi, sides * self.detail, endpoint=False)
        circle = np.cos(angle)[:, None] * side + flat * np.sin(angle)[:, None] * front
        rings = centres[:, None] + radius[:, None, None] * circle
        weights = np.zeros((len(fine), len(JOINTS)))
        for k, at in enumerate(fine):
            for j, name in enumerate(joints):
                weights[k, INDEX[name]] += _share(at, j, len(joints), spread[k])
        weights /= weights.sum(1, keepdims=True)
        tone = colour if colour.ndim == 2 else np.repeat(colour[None], len(where), 0)
        steps = np.searchsorted(where, fine, side="right") - 1
        start = centres[0] - direction * radius[0] * 0.6
        end = centres[-1] + direction * radius[-1] * 0.6
        self.add(rings, weights, tone[steps][:, None], tips=(start, end))

    def arm(self, side: str) -> None:
        thick = 0.5 + 0.5 * self.stout
        firm = 1.08 if self.person.sex == "male" else 0.95
        profile = [
            (-0.06, 0.026, 0.12), (0.06, 0.031, 0.12), (0.25, 0.030, 0.1), (0.45, 0.028, 0.1),
            (0.7, 0.025, 0.1), (0.92, 0.0225, 0.14), (1.0, 0.022, 0.14), (1.1, 0.0235, 0.14),
            (1.3, 0.0235, 0.1), (1.6, 0.019, 0.1), (1.9, 0.0145, 0.1), (2.0, 0.0145, 0.1),
        ]  # fmt: skip
        covered = 0.15 + self.person.sleeves * 1.9
        profile = [
            (at, r * thick * firm + (0.0035 if at < covered else 0.0), b) for at, r, b in profile
        ]
        colours = np.stack([self.top if at < covered else self.skin for at, _, _ in profile])
        names = [f"{side}_{name}" for name in ("shoulder", "elbow", "wrist")]
        self.limb(names, profile, colours, names[:2])
        slope = [(0.0, 0.030, 0), (0.4, 0.030, 0), (0.8, 0.0315, 0), (1.05, 0.029, 0)]
        slope = [(at, r * thick * firm + 0.003, b) for at, r, b in slope]
        self.limb([f"{side}_collar", names[0]], slope, self.top, [f"{side}_collar"])
        hand = [
            (0.0, 0.0155, 0),
            (0.25, 0.023, 0),
            (0.6, 0.025, 0),
            (1.0, 0.021, 0),
            (1.2, 0.012, 0),
        ]
        self.limb([names[2], f"{side}_hand"], hand, self.skin, [names[2]], flat=0.45, sides=8)

    def leg(self, side: str) -> None:
        thick = 0.35 + 0.65 * self.stout
        profile = [
            (-0.12, 0.050, 0.15), (0.08, 0.054, 0.15), (0.3, 0.050, 0.1), (0.55, 0.044, 0.1),
            (0.8, 0.037, 0.12), (0.95, 0.034, 0.14), (1.05, 0.033, 0.14), (1.25, 0.0345, 0.1),
            (1.45, 0.031, 0.1), (1.7, 0.024, 0.1), (1.9, 0.021, 0.1), (2.0, 0.021, 0.1),
        ]  # fmt: skip
        covered = {"trousers": 1.95, "shorts": 0.72, "skirt": 0.2}[self.person.bottom_kind]
        loose = 0.0045 if self.person.bottom_kind != "skirt" else 0.0
        profile = [(at, r * thick + (loose if at < covered else 0.0), b) for at, r, b in profile]
        colours = np.stack([self.bottom if at < covered else self.skin for at, _, _ in profile])
        names = [f"{side}_{name}" for name in ("hip", "knee", "ankle")]
        self.limb(names, profile, colours, names[:2])
        self._foot(side)

    def _foot(self, side: str) -> None:
        ankle, toe, h = self.at(f"{side}_ankle"), self.at(f"{side}_toe"), self.person.height
        along = toe - ankle
        along[1] = 0
        sides = 10 * self.detail
        angle = np.linspace(0, 2 * np.pi, sides, endpoint=False)
        across = np.array([along[2], 0, -along[0]]) / np.linalg.norm(along)
        rings = []
        for at, width, top in (
            (-0.30, 0.019, 0.040), (-0.05, 0.023, 0.052), (0.3, 0.024, 0.046),
            (0.7, 0.027, 0.032), (1.0, 0.026, 0.024), (1.15, 0.018, 0.018),
        ):  # fmt: skip
            centre = ankle + at * along
            centre[1] = top * h / 2
            rings.append(
                centre
                + width * h * np.cos(angle)[:, None] * across
                + top * h / 2 * np.sin(angle)[:, None] * _UP
            )
        stacked = np.stack(rings)
        weights = np.zeros((len(rings), len(JOINTS)))
        weights[:, INDEX[f"{side}_ankle"]] = 1
        tips = (stacked[0].mean(0), stacked[-1].mean(0) + along * 0.05)
        self.add(stacked, weights, np.repeat(self.shoes[None, None], len(rings), 0), tips=tips)

    def torso(self) -> None:
        male = self.person.sex == "male"
        h, belly = self.person.height, max(self.person.build, 0.0)
        # (height, half width, half depth, centre z), all as fractions of the person's height
        waist = 0.078 if male else 0.068
        chest = 0.098 if male else 0.086
        hips = 0.088 if male else 0.094
        table = np.array([
            (0.455, 0.050, 0.045, -0.002), (0.480, hips * 0.93, 0.064, -0.006),
            (0.515, hips, 0.068, -0.008), (0.555, hips * 0.96, 0.064, -0.004),
            (0.600, waist * 1.03, 0.057 + 0.020 * belly, 0.002 + 0.012 * belly),
            (0.640, waist, 0.055 + 0.022 * belly, 0.002 + 0.012 * belly),
            (0.690, (waist + chest) / 2, 0.059 + 0.010 * belly, 0.002),
            (0.740, chest, 0.064 if male else 0.070, 0.002),
            (0.775, chest, 0.060, -0.002), (0.800, chest * 0.92, 0.050, -0.006),
            (0.820, chest * 0.62, 0.040, -0.010), (0.833, chest * 0.40, 0.034, -0.010),
        ])  # fmt: skip
        fine = _refine(table[:, 0], self.detail)
        width, depth, centre = (np.interp(fine, table[:, 0], table[:, k]) for k in (1, 2, 3))
        stout = 0.45 + 0.55 * self.stout
        sides = 16 * self.detail
        angle = np.linspace(0, 2 * np.pi, sides, endpoint=False)
        # a superellipse: shoulders and hips are squarer than an ellipse
        c, s = np.cos(angle), np.sin(angle)
        x = np.sign(c) * np.abs(c) ** 0.8
        z = -np.sign(s) * np.abs(s) ** 0.8
        rings = np.zeros((len(fine), sides, 3))
        rings[..., 0] = width[:, None] * stout * x * h
        rings[..., 1] = fine[:, None] * h
        rings[..., 2] = (centre[:, None] + depth[:, None] * stout * z) * h
        # collars carry the outer upper ring along with the shoulder
        weights = np.zeros((len(fine), len(JOINTS)))
        knots = np.array([0.53, 0.62, 0.72])
        for k, at in enumerate(fine):
            pelvis = np.clip((knots[1] - at) / (knots[1] - knots[0]), 0, 1)
            chest_part = np.clip((at - knots[1]) / (knots[2] - knots[1]), 0, 1)
            weights[k, INDEX["pelvis"]] = pelvis
            weights[k, INDEX["chest"]] = chest_part
            weights[k, INDEX["spine"]] = 1 - pelvis - chest_part
        colours = np.stack([self._torso_colour(at) for at in fine])
        tips = (rings[0].mean(0), rings[-1].mean(0) + 0.005 * h * _UP)
        self.add(rings, weights, colours[:, None], tips=tips)

    def _torso_colour(self, at: float) -> Rgb:
        if at > 0.826:
            return self.skin
        if at < 0.575:
            return self.bottom
        if self.person.pattern == "stripes" and int(at * 60) % 3 == 0:
            return 0.25 * self.top + 0.75 * np.array([0.75, 0.75, 0.73])
        if self.person.pattern == "blocks" and at > 0.70:
            return 0.4 * self.top + 0.6 * self.bottom
        return self.top

    def skirt(self) -> None:
        h = self.person.height
        stout = 0.45 + 0.55 * self.stout
        table = np.array([
            (0.30, 0.118, 0.105), (0.34, 0.116, 0.100), (0.40, 0.110, 0.090),
            (0.47, 0.102, 0.078), (0.53, 0.094, 0.070), (0.575, 0.078, 0.062),
        ])  # fmt: skip
        sides = 16 * self.detail
        angle = np.linspace(0, 2 * np.pi, sides, endpoint=False)
        rings = np.zeros((len(table), sides, 3))
        rings[..., 0] = table[:, 1:2] * np.cos(angle) * stout * h
        rings[..., 1] = table[:, 0:1] * h
        rings[..., 2] = (-table[:, 2:3] * np.sin(angle) * stout - 0.004) * h
        weights = np.zeros((len(table), len(JOINTS)))
        follow = np.clip((0.53 - table[:, 0]) / 0.2, 0, 1) * 0.35
        weights[:, INDEX["pelvis"]] = 1 - 2 * follow
        weights[:, INDEX["left_hip"]] = weights[:, INDEX["right_hip"]] = follow
        tips = (rings[0].mean(0), rings[-1].mean(0))
        self.add(rings, weights, np.repeat(self.bottom[None, None], len(table), 0), tips=tips)

    def head(self) -> None:
        h = self.person.height
        thin = 1.0 if self.person.sex == "male" else 0.93
        neck = [
            (-0.5, 0.036, 0),
            (0.0, 0.032, 0.2),
            (0.5, 0.030, 0.3),
            (1.0, 0.030, 0.3),
            (1.4, 0.030, 0),
        ]
        neck = [(at, r * thin * (0.7 + 0.3 * self.stout), b) for at, r, b in neck]
        self.limb(["neck", "head"], neck, self.skin, ["neck"])
        rows, sides = 15 * self.detail, 18 * self.detail
        tilt = np.linspace(-1, 1, rows + 2)[1:-1] * np.pi / 2
        angle = np.linspace(0, 2 * np.pi, sides, endpoint=False)
        y, ring = np.sin(tilt)[:, None], np.cos(tilt)[:, None]
        x = ring * np.cos(angle)
        z = -ring * np.sin(angle)
        jaw = np.clip(-y, 0, 1)  # narrower and further forward towards the chin
        face = np.clip(z, 0, 1)
        nose = np.exp(-((x / 0.16) ** 2) - ((y + 0.12) / 0.22) ** 2) * (z > 0.3)
        shape = np.stack([
            x * (0.0475 - 0.013 * jaw**2) * thin,
            np.broadcast_to(y, x.shape) * 0.067,
            z * (0.057 - 0.004 * jaw) + 0.008 * jaw * face + 0.010 * nose,
        ], -1)  # fmt: skip
        hairy = self._hair_region(x, np.broadcast_to(y, x.shape), z)
        puff = {"short": 1.06, "long": 1.10, "bun": 1.07, "bald": 1.0}[self.person.hair_style]
        shape *= np.where(hairy, puff, 1.0)[..., None]
        centre = np.array([0, 0.933, 0.008])
        rings = (shape + centre) * h
        weights = np.zeros((rows, len(JOINTS)))
        weights[:, INDEX["head"]] = 1
        colours = self._face_colours(x, np.broadcast_to(y, x.shape), z, hairy)
        tips = (rings[0].mean(0) - 0.002 * h * _UP, rings[-1].mean(0) + 0.002 * h * _UP)
        self.add(rings, weights, colours, tips=tips)
        if self.person.hair_style in {"long", "bun"}:
            self._extra_hair()

    def _hair_region(self, x: Floats, y: Floats, z: Floats) -> npt.NDArray[np.bool_]:
        if self.person.hair_style == "bald":
            return np.zeros(x.shape, dtype=bool)
        low = {"short": -0.25, "long": -0.8, "bun": -0.3}[self.person.hair_style]
        top = (y > 0.62) & (z < 0.55)
        region: npt.NDArray[np.bool_] = top | ((z < 0.12 + 0.35 * y) & (y > low)) | (y > 0.82)
        return region

    def _face_colours(self, x: Floats, y: Floats, z: Floats, hairy: npt.NDArray[np.bool_]) -> Rgb:
        colours = np.broadcast_to(self.skin, (*x.shape, 3)).copy()
        front = z > 0.55
        lips = front & (np.abs(y + 0.48) < 0.09) & (np.abs(x) < 0.30)
        colours[lips] = self.skin * [0.78, 0.45, 0.45]
        eyes = front & (np.abs(y - 0.08) < 0.09) & (np.abs(np.abs(x) - 0.38) < 0.15)
        colours[eyes] = [0.03, 0.025, 0.02]
        brows = front & (np.abs(y - 0.28) < 0.07) & (np.abs(np.abs(x) - 0.38) < 0.24)
        colours[brows] = 0.7 * self.hair + 0.3 * self.skin
        colours[hairy] = self.hair
        return colours

    def _extra_hair(self) -> None:
        h = self.person.height
        long = self.person.hair_style == "long"
        centre, size = (
            ((0, 0.875, -0.028), (0.052, 0.072, 0.030))
            if long
            else ((0, 0.955, -0.058), (0.026, 0.026, 0.022))
        )
        rows, sides = 8, 12
        tilt = np.linspace(-1, 1, rows + 2)[1:-1] * np.pi / 2
        angle = np.linspace(0, 2 * np.pi, sides, endpoint=False)
        ring = np.stack([
            np.cos(tilt)[:, None] * np.cos(angle),
            np.broadcast_to(np.sin(tilt)[:, None], (rows, sides)),
            -np.cos(tilt)[:, None] * np.sin(angle),
        ], -1)  # fmt: skip
        rings = (ring * size + centre) * h
        weights = np.zeros((rows, len(JOINTS)))
        weights[:, INDEX["head"]] = 1
        tips = ((centre - size[1] * _UP) * h, (centre + size[1] * _UP) * h)
        self.add(rings, weights, np.repeat(self.hair[None, None], rows, 0), tips=tips)


def _refine(knots: Floats, detail: int) -> npt.NDArray[np.float64]:
    """``detail`` points for every step between knots, the knots among them."""
    steps = np.arange((len(knots) - 1) * detail + 1) / detail
    return np.interp(steps, np.arange(len(knots)), knots)


def _extend(where: Floats, knots: Floats, values: Floats) -> npt.NDArray[np.float64]:
    """Piecewise linear interpolation that goes on straight beyond the ends."""
    inside = np.interp(where, knots, values)
    before, after = np.minimum(where - knots[0], 0), np.maximum(where - knots[-1], 0)
    slope = np.diff(values) / np.diff(knots)
    return np.asarray(inside + before * slope[0] + after * slope[-1])


def _share(at: float, bone: int, bones: int, spread: float) -> float:
    """How much the bone moves a ring: one on the bone, a smooth hand-over around its joints."""
    width = max(spread, 1e-3)
    rising = 1.0 if bone == 0 else _smooth((at - bone) / width * 0.5 + 0.5)
    falling = 1.0 if bone == bones - 1 else _smooth((bone + 1 - at) / width * 0.5 + 0.5)
    return rising * falling


def _smooth(t: float) -> float:
    t = min(max(t, 0.0), 1.0)
    return t * t * (3 - 2 * t)
