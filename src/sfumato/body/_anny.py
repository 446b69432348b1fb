"""Bodies from Anny: real anatomy, dressed, and reduced to what a renderer at video size needs.

Anny's base mesh carries helper surfaces that follow every body shape: tights from neck to toes, a
skirt, long hair. The tights become shirt, trousers, bare limbs and shoes by colour and a little
thickness; head and hands keep the skin's own surface, with vertices closer than a few millimetres
welded together. Anny's 163 bones are gathered into the 24 joints of the shared skeleton.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.body._body import SkinnedBody
from sfumato.body._dress import Dressed, dress
from sfumato.body._person import VirtualPerson
from sfumato.body._skeleton import INDEX, JOINTS, Floats
from sfumato.errors import MissingExtraError

_HEAD_CELL, _HAND_CELL = 0.0065, 0.010  # metres between vertices that are kept apart
# Anny's bones by how their names begin -> our joint; {} is the side, first match wins
_BONES: tuple[tuple[str, str], ...] = (
    ("root", "pelvis"), ("pelvis", "pelvis"), ("spine05", "pelvis"), ("spine04", "spine"),
    ("spine03", "spine"), ("spine02", "chest"), ("spine01", "chest"), ("breast", "chest"),
    ("neck", "neck"), ("upperleg", "{}_hip"), ("lowerleg", "{}_knee"), ("foot", "{}_ankle"),
    ("toe", "{}_ankle"), ("clavicle", "{}_collar"), ("shoulder", "{}_collar"),
    ("upperarm", "{}_shoulder"), ("lowerarm", "{}_elbow"), ("wrist", "{}_wrist"),
    ("finger", "{}_wrist"), ("metacarpal", "{}_wrist"),
)  # fmt: skip
# our joint -> the bone whose head it is
_HEADS = {
    "spine": "spine04", "chest": "spine02", "neck": "neck01", "head": "head",
    "{}_hip": "upperleg01", "{}_knee": "lowerleg01", "{}_ankle": "foot", "{}_toe": "toe2-1",
    "{}_collar": "clavicle", "{}_shoulder": "upperarm01", "{}_elbow": "lowerarm01",
    "{}_wrist": "wrist", "{}_hand": "finger3-2",
}  # fmt: skip


@dataclass(frozen=True)
class Surface:
    """Anny's shape for one person in our frame: all vertices, the joints, the face's landmarks."""

    vertices: Floats
    joints: Floats
    eyes: Floats  # left and right
    owner: npt.NDArray[np.int64]  # the joint that moves each vertex most


class AnnyShop:
    """Anny opened once; makes bodies of persons. What Anny keeps for itself goes to ``cache``."""

    def __init__(self, cache: Path) -> None:
        try:
            import anny
            from anny.paths import set_anny_cache_path
        except ImportError:
            raise MissingExtraError("anny", "avatar", "The Anny body") from None
        set_anny_cache_path(cache)  # its own choice is the home folder, which may be read-only
        # the full topology keeps the helper surfaces; their blend shapes are used as they are,
        # because compacting them takes a minute and a half and is of no use for 32 shapes
        self._model: Any = anny.Anny(
            rig="makehuman",
            topology="anny-full",
            phenotypes="all",
            phenotype_blendshapes="original",
            skinning_method="lbs",
        )
        base = Path(anny.__file__).parent / "data" / "mpfb2" / "3dobjs" / "base.obj"
        self._groups = dict(_groups(base))
        labels = list(self._model.bone_labels)
        self._bones = {label: i for i, label in enumerate(labels)}
        self._weights = self._gather(labels)
        self._owner = self._weights.argmax(1)
        self._weld = self._welded()

    def body(self, person: VirtualPerson, rng: np.random.Generator) -> SkinnedBody:
        """A dressed body; ``rng`` draws what a VirtualPerson does not say (face, proportions)."""
        surface = self._shape(person, rng)
        parts: list[Dressed] = list(dress(person, surface, self._parts()))
        vertices = np.concatenate([part.vertices for part in parts]).astype(np.float32)
        offsets = np.cumsum([0, *(len(part.vertices) for part in parts)])
        faces = np.concatenate(
            [part.faces + o for part, o in zip(parts, offsets, strict=False)]
        ).astype(np.int32)
        return SkinnedBody(
            vertices=vertices,
            faces=faces,
            weights=np.concatenate([self._weights[part.origin] for part in parts]),
            rest=surface.joints,
            colours=np.concatenate([part.colours for part in parts]).astype(np.float32),
            traits=person.to_json(),
        )

    def _shape(self, person: VirtualPerson, rng: np.random.Generator) -> Surface:
        race = rng.dirichlet([1, 1, 1])
        grown = 2 / 3 + np.clip((person.age - 25) / 65, 0, 1) / 3  # Anny: 2/3 is young, 1 is old
        coefficients = self._model.get_phenotype_blendshape_coefficients(
            gender=float(person.sex == "female"),
            age=float(grown),
            muscle=float(rng.uniform(0.35, 0.75)),
            weight=float(np.clip(0.5 + 0.36 * person.build, 0.1, 0.9)),
            height=float(np.clip((person.height - 1.45) / 0.5, 0.1, 0.9)),
            proportions=float(rng.uniform(0.4, 0.9)),
            cupsize=float(rng.uniform(0.3, 0.6)),
            african=float(race[0]),
            asian=float(race[1]),
            caucasian=float(race[2]),
        )
        rest = self._model.get_rest_model(coefficients)
        raw = _ours(rest["rest_vertices"][0].numpy())
        heads = _ours(rest["rest_bone_heads"][0].numpy())
        floor, top = raw[self._groups["body"], 1].min(), raw[self._groups["body"], 1].max()
        factor = person.height / (top - floor)
        ground = np.array([0, floor, 0])
        vertices, heads = (raw - ground) * factor, (heads - ground) * factor
        joints = self._joints(heads)
        joints[INDEX["crown"]] = joints[INDEX["head"]] * [1, 0, 1]
        joints[INDEX["crown"], 1] = person.height
        eyes = np.stack([heads[self._bones["eye.L"]], heads[self._bones["eye.R"]]])
        return Surface(vertices, joints, eyes, self._owner)

    def _joints(self, heads: Floats) -> npt.NDArray[np.float64]:
        joints = np.zeros((len(JOINTS), 3))
        for ours, bone in _HEADS.items():
            if "{}" in ours:
                for side, letter in (("left", "L"), ("right", "R")):
                    joints[INDEX[ours.format(side)]] = heads[self._bones[f"{bone}.{letter}"]]
            else:
                joints[INDEX[ours]] = heads[self._bones[bone]]
        joints[INDEX["pelvis"]] = (joints[INDEX["left_hip"]] + joints[INDEX["right_hip"]]) / 2
        return joints

    def _gather(self, labels: list[str]) -> npt.NDArray[np.float32]:
        """Skinning weights (all vertices, 24), each bone's share given to its joint."""
        index = self._model.vertex_bone_indices.numpy()
        share = self._model.vertex_bone_weights.numpy()
        target = np.array([_joint_of(label) for label in labels])
        weights = np.zeros((len(index), len(JOINTS)))
        for k in range(index.shape[1]):
            np.add.at(weights, (np.arange(len(index)), target[index[:, k]]), share[:, k])
        weights /= weights.sum(1, keepdims=True)
        return weights.astype(np.float32)

    def _parts(self) -> dict[str, npt.NDArray[np.int64]]:
        named = {name: self._groups[f"helper-{name}"] for name in ("tights", "skirt", "hair")}
        eyes = [self._groups[f"helper-{side}-eye"] for side in "lr"]
        return {**named, "skin": self._weld, "eyes": np.concatenate(eyes)}

    def _welded(self) -> npt.NDArray[np.int64]:
        """Faces of head and hands with near vertices joined; the same for every person."""
        faces = self._groups["body"]
        hands = np.isin(self._owner, [INDEX["left_wrist"], INDEX["right_wrist"]])
        head = np.isin(self._owner, [INDEX["head"], INDEX["neck"]])
        template = _ours(self._model.template_vertices.numpy())
        cell = np.where(hands, _HAND_CELL, _HEAD_CELL)[:, None]
        keys = np.rint(template / cell).astype(np.int64)
        keys = np.concatenate([keys, hands[:, None]], 1)
        _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        joined = first[group.ravel()][faces]
        kept = (hands | head)[faces].all(1)
        whole = (
            (joined[:, 0] != joined[:, 1])
            & (joined[:, 1] != joined[:, 2])
            & (joined[:, 2] != joined[:, 0])
        )
        return np.asarray(joined[kept & whole])


def _ours(points: Floats) -> npt.NDArray[np.float64]:
    """From Anny's frame (z up, facing -y) to ours (y up, facing +z)."""
    return np.stack([points[:, 0], points[:, 2], -points[:, 1]], 1).astype(np.float64)


def _joint_of(bone: str) -> int:
    side = {".L": "left", ".R": "right"}.get(bone[-2:], "")
    for start, joint in _BONES:
        if bone.startswith(start):
            return INDEX[joint.format(side)]
    return INDEX["head"]  # jaw, eyes, lips and all other muscles of the face


def _groups(base: Path) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """Triangles of every named group of a Wavefront file."""
    name, faces = "", {}  # type: str, dict[str, list[tuple[int, int, int]]]
    with open(base, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("g "):
                name = line.split()[1]
            elif line.startswith("f "):
                corner = [int(part.split("/")[0]) - 1 for part in line.split()[1:]]
                found = faces.setdefault(name, [])
                found += [(corner[0], corner[k], corner[k + 1]) for k in range(1, len(corner) - 1)]
    for group, triangles in faces.items():
        yield group, np.array(triangles)
