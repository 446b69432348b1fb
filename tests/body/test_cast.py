"""The cast: diverse, the same for everyone, whole after a trip through the cache."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sfumato.body import (
    CAST_SIZE,
    INDEX,
    BodyError,
    Camera,
    SkinnedBody,
    cast_of,
    draw,
    fit,
    load_bodies,
    people,
    proportions,
    rest_motion,
    save_bodies,
    smpl_body,
    stretched,
)
from sfumato.body._smpl import _FIRST


def test_the_cast_is_diverse_and_reproducible() -> None:
    cast = people(0)
    assert cast == people(0)
    assert cast != people(1)
    assert len(cast) == CAST_SIZE == 32
    assert Counter(p.sex for p in cast) == {"female": 16, "male": 16}
    assert len({p.skin for p in cast}) == 6
    assert len({p.hair for p in cast}) >= 4
    assert len({p.top for p in cast}) >= 8
    assert min(p.age for p in cast) < 25
    assert max(p.age for p in cast) > 70
    assert min(p.build for p in cast) < -0.8
    assert max(p.build for p in cast) > 0.8


def test_bodies_survive_the_cache(tmp_path: Path, bodies: list[SkinnedBody]) -> None:
    save_bodies(tmp_path / "cast.safetensors", bodies)
    for before, after in zip(bodies, load_bodies(tmp_path / "cast.safetensors"), strict=True):
        assert np.array_equal(before.vertices, after.vertices)
        assert np.array_equal(before.faces, after.faces)
        assert np.allclose(before.weights, after.weights, atol=1e-3)
        assert before.traits == after.traits


def test_an_unknown_kind_of_body_is_refused() -> None:
    with pytest.raises(BodyError, match="anny and procedural"):
        cast_of("doll")  # type: ignore[arg-type]


@pytest.mark.slow
def test_anny_bakes_people_that_can_be_posed(tmp_path: Path, bodies: list[SkinnedBody]) -> None:
    pytest.importorskip("anny")
    made = cast_of("anny", count=2, progress=False, cache=tmp_path)
    again = cast_of("anny", count=2, progress=False, cache=tmp_path)  # from the file
    target = bodies[0].joints(rest_motion(bodies[0], 3))
    for person, body, stored in zip(people(0, 2), made, again, strict=True):
        assert np.array_equal(body.vertices, stored.vertices)
        assert body.height == pytest.approx(person.height, rel=0.02)
        # anatomy in our frame: left is +x, the face is +z, the crown is on top
        rest = body.rest
        assert rest[INDEX["left_wrist"], 0] > 0.3 > -0.3 > rest[INDEX["right_wrist"], 0]
        assert rest[INDEX["left_toe"], 2] > rest[INDEX["left_ankle"], 2]
        assert rest[INDEX["crown"], 1] == pytest.approx(person.height)
        assert len(body.faces) < 15_000
        assert fit(target, stretched(body, proportions(target, body)), smooth=0).error < 0.03
        camera = Camera.look(60, 90, (0, 0.9, 3.4), (0, 0.9, 0), field_of_view=32)
        drawn = draw([body.mesh(rest_motion(body), 0)], camera)
        # no holes: what is inside the outline is covered
        rows = np.flatnonzero(drawn.mask.any(1))
        assert len(rows) > 50
        middle = drawn.mask[rows[5] : rows[len(rows) // 2], 29:31]
        assert middle.all()


def tiny_smpl(file: Path, joints: int = 52) -> Path:
    """A made-up model in SMPL-H's format: one little square of vertices around every joint."""
    parents = [-1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 12, 13, 14, 16, 17, 18, 19]
    parents += [20] * 15 + [21] * (joints - 37)
    places = np.zeros((joints, 3))
    for j, (x, y) in enumerate(
        [(0, 0.95), (0.1, 0.9), (-0.1, 0.9), (0, 1.05), (0.1, 0.5), (-0.1, 0.5), (0, 1.2), (0.1, 0.1),
         (-0.1, 0.1), (0, 1.3), (0.1, 0), (-0.1, 0), (0, 1.5), (0.05, 1.45), (-0.05, 1.45), (0, 1.6),
         (0.2, 1.45), (-0.2, 1.45), (0.45, 1.45), (-0.45, 1.45), (0.7, 1.45), (-0.7, 1.45)]
    ):  # fmt: skip
        places[j, :2] = x, y
    places[22:37] = places[20] + [0.1, 0, 0]
    places[37:] = places[21] - [0.1, 0, 0]
    square = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]) * 0.02
    vertices = (places[:, None] + square).reshape(-1, 3)
    regressor = np.kron(np.eye(joints), np.full((1, 4), 0.25))
    faces = [
        [4 * j + a for a in corner] for j in range(joints) for corner in ((0, 1, 2), (0, 2, 3))
    ]
    taller = np.zeros((len(vertices), 3, 2))
    taller[:, 1, 0] = vertices[:, 1]
    np.savez(
        file, v_template=vertices, shapedirs=taller, J_regressor=regressor, f=np.array(faces),
        weights=np.kron(np.eye(joints), np.ones((4, 1))),
        kintree_table=np.array([parents, range(joints)]),
        posedirs=np.zeros(1),
    )  # fmt: skip
    return file


def test_a_smpl_file_becomes_a_body(tmp_path: Path) -> None:
    person = people(0, 1)[0]
    body = smpl_body(tiny_smpl(tmp_path / "SMPLH_TINY.npz"), person, betas=[0.1])
    assert body.height == pytest.approx(person.height)
    # every vertex follows the joint it sits on; fingers follow their wrist
    for j, name in enumerate(_FIRST):
        assert body.weights[4 * j, INDEX[name]] == 1, name
    assert body.weights[4 * 30, INDEX["left_wrist"]] == 1
    assert body.weights[4 * 50, INDEX["right_wrist"]] == 1
    assert np.allclose(body.rest[INDEX["left_knee"]], body.vertices[16:20].mean(0), atol=1e-6)
    assert body.rest[INDEX["left_toe"], 1] < body.rest[INDEX["left_ankle"], 1]


def test_what_is_no_smpl_file_is_refused(tmp_path: Path) -> None:
    person = people(0, 1)[0]
    (tmp_path / "model.pkl").write_bytes(b"\x80\x04.")
    with pytest.raises(BodyError, match="unpickling runs code"):
        smpl_body(tmp_path / "model.pkl", person)
    np.savez(tmp_path / "other.npz", f=np.zeros(3))
    with pytest.raises(BodyError, match="missing"):
        smpl_body(tmp_path / "other.npz", person)
    with pytest.raises(BodyError, match="shape coefficients"):
        smpl_body(tiny_smpl(tmp_path / "tiny.npz"), person, betas=np.zeros(9))
