"""SMPL-H and SMPL-X bodies, for people who have the licensed model files.

The ``.npz`` files that the licensors give out are read directly, without their pickled fields:
template, shape directions, joint regressor, skinning weights and the kinematic tree. Pose
correctives are left out; hands, jaw and eyes follow wrist and head.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sfumato.body._body import BodyError, SkinnedBody
from sfumato.body._cast import people
from sfumato.body._person import CLOTHES_COLOURS, HAIR_COLOURS, SKIN_TONES, VirtualPerson
from sfumato.body._skeleton import INDEX, JOINTS, Floats

# the first 22 joints are the same in SMPL, SMPL-H and SMPL-X
_FIRST = (
    "pelvis", "left_hip", "right_hip", "spine", "left_knee", "right_knee", "chest", "left_ankle",
    "right_ankle", "chest", "left_ankle", "right_ankle", "neck", "left_collar", "right_collar",
    "head", "left_shoulder", "right_shoulder", "left_elbow", "right_elbow", "left_wrist",
    "right_wrist",
)  # fmt: skip
_FIELDS = ("v_template", "shapedirs", "J_regressor", "weights", "kintree_table", "f")
_SPINE2, _SPINE3, _FEET = 6, 9, {"left": 10, "right": 11}


def smpl_body(
    file: str | os.PathLike[str], person: VirtualPerson, *, betas: npt.ArrayLike = ()
) -> SkinnedBody:
    """A body from a SMPL-H or SMPL-X ``.npz``; ``betas`` are shape coefficients."""
    fields = _read(Path(file))
    shape = np.asarray(betas, dtype=np.float64)
    directions = np.asarray(fields["shapedirs"], dtype=np.float64)
    if shape.ndim != 1 or len(shape) > directions.shape[2]:
        raise BodyError(
            f"Expected at most {directions.shape[2]} shape coefficients, got shape {shape.shape}."
        )
    vertices = fields["v_template"] + directions[..., : len(shape)] @ shape
    theirs = np.asarray(fields["J_regressor"], dtype=np.float64) @ vertices
    parents = fields["kintree_table"][0].astype(np.int64)
    weights = _gathered(fields["weights"], parents)
    floor = np.array([0, vertices[:, 1].min(), 0])
    vertices, theirs = vertices - floor, theirs - floor
    factor = person.height / np.ptp(vertices[:, 1])
    vertices, theirs = vertices * factor, theirs * factor
    rest = _joints(theirs, vertices)
    return SkinnedBody(
        vertices=vertices.astype(np.float32),
        faces=fields["f"].astype(np.int32),
        weights=weights.astype(np.float32),
        rest=rest,
        colours=_coloured(person, vertices, rest).astype(np.float32),
        traits=person.to_json(),
    )


def smpl_cast(file: str | os.PathLike[str], *, seed: int = 0) -> tuple[SkinnedBody, ...]:
    """The cast with bodies of a SMPL-H or SMPL-X file: its 32 people, each with a shape of their own."""
    directions = _read(Path(file))["shapedirs"].shape[2]
    made = []
    for number, person in enumerate(people(seed)):
        rng = np.random.default_rng([seed, 34, number])
        betas = rng.normal(0, 0.8, min(10, directions))
        made.append(smpl_body(file, person, betas=betas))
    return tuple(made)


def _read(file: Path) -> dict[str, npt.NDArray[np.float64]]:
    if file.suffix != ".npz" or not file.is_file():
        raise BodyError(
            "Expected the .npz file of a SMPL-H or SMPL-X model: download it from its licensor "
            "(.pkl files are not read, because unpickling runs code)."
        )
    with np.load(file, allow_pickle=False) as stored:  # pickled fields are never opened
        missing = sorted(set(_FIELDS) - set(stored.files))
        if missing:
            raise BodyError(f"Expected the fields {', '.join(_FIELDS)}, missing {missing}.")
        fields = {name: stored[name] for name in _FIELDS}
    joints, count = fields["kintree_table"].shape[1], len(fields["v_template"])
    if joints < len(_FIRST) or fields["weights"].shape != (count, joints):
        raise BodyError(
            f"Expected at least {len(_FIRST)} joints and weights ({count}, {joints}), "
            f"got weights {fields['weights'].shape}."
        )
    return fields


def _gathered(weights: Floats, parents: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Each of their joints gives its share to ours; fingers, jaw and eyes to what carries them."""
    ours = np.zeros((len(weights), len(JOINTS)))
    for j in range(weights.shape[1]):
        ancestor = j
        while ancestor >= len(_FIRST):
            ancestor = int(parents[ancestor])
        ours[:, INDEX[_FIRST[ancestor]]] += weights[:, j]
    return np.asarray(ours / ours.sum(1, keepdims=True))


def _joints(theirs: Floats, vertices: Floats) -> npt.NDArray[np.float64]:
    rest = np.zeros((len(JOINTS), 3))
    for j, name in enumerate(_FIRST):
        if j not in {_SPINE3, *_FEET.values()}:
            rest[INDEX[name]] = theirs[j]
    rest[INDEX["chest"]] = theirs[_SPINE2]
    rest[INDEX["pelvis"]] = (rest[INDEX["left_hip"]] + rest[INDEX["right_hip"]]) / 2
    for side, foot in _FEET.items():
        rest[INDEX[f"{side}_toe"]] = theirs[foot]
        elbow, wrist = rest[INDEX[f"{side}_elbow"]], rest[INDEX[f"{side}_wrist"]]
        rest[INDEX[f"{side}_hand"]] = wrist + 0.4 * (wrist - elbow)
    rest[INDEX["crown"]] = rest[INDEX["head"]]
    rest[INDEX["crown"], 1] = vertices[:, 1].max()
    return rest


def _coloured(person: VirtualPerson, vertices: Floats, rest: Floats) -> npt.NDArray[np.float64]:
    """Skin, shirt, trousers, shoes and hair by where a vertex lies at rest (T-pose)."""
    y, x = vertices[:, 1], np.abs(vertices[:, 0])
    colours = np.repeat(np.array([CLOTHES_COLOURS[person.top]]), len(vertices), 0)
    shoulder, wrist = rest[INDEX["left_shoulder"]], rest[INDEX["left_wrist"]]
    sleeve = shoulder[0] + (0.2 + 0.8 * person.sleeves) * (wrist[0] - shoulder[0])
    colours[x > sleeve] = SKIN_TONES[person.skin]
    colours[y < rest[INDEX["pelvis"], 1] + 0.07] = CLOTHES_COLOURS[person.bottom]
    colours[y < rest[INDEX["left_ankle"], 1]] = CLOTHES_COLOURS[person.shoes]
    head = (y > rest[INDEX["neck"], 1]) & (x < shoulder[0])
    colours[head] = SKIN_TONES[person.skin]
    skull = (rest[INDEX["head"], 1] + rest[INDEX["crown"], 1]) / 2
    behind = vertices[:, 2] < rest[INDEX["head"], 2]
    hair = head & ((y > skull + 0.06) | (behind & (y > skull - 0.06)))
    if person.hair_style != "bald":
        colours[hair] = HAIR_COLOURS[person.hair]
    return colours
