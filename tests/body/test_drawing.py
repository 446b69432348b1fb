"""The renderer against geometry that can be worked out by hand."""

from __future__ import annotations

import numpy as np
import trimesh

from sfumato.body import Camera, Mesh, Motion, SkinnedBody, draw, rest_motion, to_srgb


def ball(centre: tuple[float, float, float], radius: float, colour: float = 0.5) -> Mesh:
    sphere = trimesh.creation.icosphere(subdivisions=4, radius=radius)
    vertices = (sphere.vertices + centre).astype(np.float32)
    normals = sphere.vertex_normals.astype(np.float32)
    return Mesh(vertices, normals, np.full_like(vertices, colour), sphere.faces.astype(np.int32))


def test_a_point_on_a_pixels_ray_projects_into_that_pixel() -> None:
    camera = Camera.look(64, 48, (1, 1.5, 3), (0, 1, 0))
    x, y = np.array([3.5, 40.25]), np.array([7.5, 30.0])
    points = camera.position + camera.rays(x, y) * 2.5
    assert np.allclose(camera.project(points), np.stack([x, y], 1), atol=1e-3)
    assert np.allclose(camera.to_camera(points)[:, 2], 2.5, atol=1e-5)
    assert np.allclose(camera.resized(128, 96).project(points), np.stack([x, y], 1) * 2, atol=1e-3)


def test_a_balls_silhouette_alpha_and_depth() -> None:
    camera = Camera(80, 60, 60.0, np.eye(3), np.zeros(3))
    drawn = draw([ball((0, 0, 4), 1.0)], camera, samples=4)
    ys, xs = np.mgrid[:60, :80] + 0.5
    angle = np.arctan(np.hypot(xs - 40, ys - 30) / 60)
    edge = np.arcsin(1 / 4)
    assert drawn.mask[angle < edge - 0.03].all()
    assert not drawn.touched[angle > edge + 0.03].any()
    area = np.pi * (60 * np.tan(edge)) ** 2
    assert abs(drawn.alpha.sum() / area - 1) < 0.01
    assert abs(drawn.depth[30, 40] - 3.0) < 0.01
    assert np.isinf(drawn.depth[~drawn.touched]).all()


def test_alpha_counts_rays_exactly() -> None:
    wall = np.array([[-9, -9, 2], [0.25 * 2 / 40, -9, 2], [0.25 * 2 / 40, 9, 2], [-9, 9, 2]])
    normals = np.tile(np.array([[0, 0, -1.0]]), (4, 1))
    faces = np.array([[0, 2, 1], [0, 3, 2]], np.int32)
    mesh = Mesh(
        wall.astype(np.float32), normals.astype(np.float32), np.ones((4, 3), np.float32), faces
    )
    camera = Camera(40, 20, 40.0, np.eye(3), np.zeros(3))
    drawn = draw([mesh], camera, samples=4)
    # the wall ends a quarter into pixel 20: one of four columns of rays hits it
    assert (drawn.alpha[:, 20] == 0.25).all()
    assert (drawn.alpha[:, :20] == 1).all()
    assert (drawn.alpha[:, 21:] == 0).all()
    assert np.allclose(drawn.colour[:, 20], drawn.colour[:, 10] * 0.25, rtol=0.05)


def test_the_nearer_body_hides_the_farther() -> None:
    camera = Camera(80, 60, 60.0, np.eye(3), np.zeros(3))
    near, far = ball((0.3, 0, 3), 0.6), ball((-0.3, 0, 5), 1.0)
    both, other = draw([near, far], camera), draw([far, near], camera)
    assert np.array_equal(both.owner == 0, other.owner == 1)
    assert np.array_equal(both.alpha, other.alpha)
    alone = draw([near], camera)
    assert (both.owner[alone.mask] == 0).all()
    assert (both.owner == 1).any()
    # where the near one covers a whole pixel away from edges, the far one changes nothing
    inner = alone.mask & ~np.isclose(both.depth, draw([far], camera).depth)
    assert np.array_equal(both.colour[inner & (both.owner == 0)].shape[1:], (3,))
    deep = both.depth[inner] - alone.depth[inner]
    assert np.abs(deep).max() < 1e-4


def test_leaving_out_triangles_that_face_away_changes_no_pixel(bodies: list[SkinnedBody]) -> None:
    body = bodies[0]
    camera = Camera.look(48, 64, (0.5, 1.0, 3.2), (0, 0.9, 0), field_of_view=35)
    mesh = body.mesh(rest_motion(body), 0)
    drawn = draw([mesh], camera, samples=1)
    whole = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    ys, xs = np.mgrid[:64, :48]
    rays = camera.rays(xs.ravel() + 0.5, ys.ravel() + 0.5)
    hit = whole.ray.intersects_any(np.tile(camera.position, (len(rays), 1)), rays)
    assert np.array_equal(drawn.mask.ravel(), hit)
    assert hit.sum() > 200


def test_nobody_in_view_gives_an_empty_picture(bodies: list[SkinnedBody]) -> None:
    camera = Camera.look(32, 32, (0, 1, 3), (0, 1, 0))
    away = Motion(rest_motion(bodies[0]).rotations, np.array([[0, 1.0, 9]]))
    for drawn in (draw([], camera), draw([bodies[0].mesh(away, 0)], camera)):
        assert not drawn.touched.any()
        assert (drawn.owner == -1).all()


def test_srgb_curve_at_its_ends_and_middle() -> None:
    assert to_srgb(np.array([-1.0, 0.0, 0.2140, 1.0, 7.0])).tolist() == [0, 0, 127, 255, 255]
