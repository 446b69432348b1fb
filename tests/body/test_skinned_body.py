"""Skinned meshes: closed, outward, and moved as the equation of linear blend skinning says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from sfumato.body import (
    JOINTS,
    PARENTS,
    BodyError,
    LayoutError,
    Motion,
    SkinnedBody,
    layout,
    procedural_body,
    random_person,
    rest_motion,
)


def test_every_part_is_closed_and_faces_outwards(bodies: list[SkinnedBody]) -> None:
    for body in bodies:
        edges = np.concatenate(
            [body.faces[:, [0, 1]], body.faces[:, [1, 2]], body.faces[:, [2, 0]]]
        )
        forth = {tuple(edge) for edge in edges}
        assert len(forth) == len(edges)
        assert forth == {(b, a) for a, b in forth}  # each edge is used once in either direction
        size = len(body.vertices)
        joined = coo_matrix((np.ones(len(edges)), edges.T), shape=(size, size))
        count, part = connected_components(joined, directed=False)
        a, b, c = (body.vertices[body.faces[:, k]].astype(float) for k in range(3))
        volume = np.bincount(part[body.faces[:, 0]], (np.cross(a, b) * c).sum(1) / 6, count)
        assert count > 8
        assert (volume > 0).all()


def test_a_body_is_as_tall_as_its_person_and_stands_on_the_floor() -> None:
    rng = np.random.default_rng(0)
    for _ in range(6):
        person = random_person(rng)
        body = procedural_body(person)
        assert body.height == pytest.approx(person.height, rel=0.03)
        assert abs(body.vertices[:, 1].min()) < 0.02


def test_at_rest_the_mesh_is_the_rest_mesh(bodies: list[SkinnedBody]) -> None:
    mesh = bodies[0].mesh(rest_motion(bodies[0]), 0)
    assert np.allclose(mesh.vertices, bodies[0].vertices, atol=1e-5)
    assert np.allclose(mesh.normals, bodies[0].normals, atol=1e-5)


def test_skinning_agrees_with_the_equation_written_out(
    bodies: list[SkinnedBody], anyhow: Motion
) -> None:
    body = bodies[1]
    fast = body.mesh(anyhow, 1).vertices
    world, place = [], []
    for j, parent in enumerate(PARENTS):
        turn = anyhow.rotations[1, j]
        if parent < 0:
            world.append(turn)
            place.append(anyhow.translation[1])
        else:
            world.append(world[parent] @ turn)
            place.append(place[parent] + world[parent] @ (body.rest[j] - body.rest[parent]))
    for v in range(0, len(fast), 97):
        slow = sum(
            body.weights[v, j] * (world[j] @ (body.vertices[v] - body.rest[j]) + place[j])
            for j in range(len(JOINTS))
        )
        assert np.allclose(fast[v], slow, atol=1e-4)


def test_scale_scales_about_the_pelvis(bodies: list[SkinnedBody], anyhow: Motion) -> None:
    body = bodies[2]
    twice = Motion(anyhow.rotations, anyhow.translation, 2.0)
    root = anyhow.translation[0]
    one, two = body.mesh(anyhow, 0).vertices - root, body.mesh(twice, 0).vertices - root
    assert np.allclose(two, 2 * one, atol=1e-4)
    assert np.allclose(body.joints(twice)[0] - root, 2 * (body.joints(anyhow)[0] - root))


def test_parts_that_do_not_fit_are_refused(bodies: list[SkinnedBody]) -> None:
    body = bodies[0]
    with pytest.raises(BodyError, match="sum to one"):
        SkinnedBody(body.vertices, body.faces, body.weights * 0.5, body.rest, body.colours)
    with pytest.raises(BodyError, match="rotations shaped"):
        Motion(np.zeros((4, 3, 3, 3)), np.zeros((4, 3)))
    with pytest.raises(LayoutError, match="kinect20"):
        layout("kinect20").canonical(np.zeros((5, 33, 3)))
    with pytest.raises(LayoutError, match="got 'coco'"):
        layout("coco")
