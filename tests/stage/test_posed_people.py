"""People posed at random: joints lie on the body that is drawn, bones keep their length."""

from __future__ import annotations

import numpy as np

from sfumato.body import INDEX, JOINTS, PARENTS, draw, procedural_body, random_person
from sfumato.stage import any_pose, posed_people
from sfumato.stage._poses import _camera

INNER = [INDEX[f"{side}_{name}"] for side in ("left", "right") for name in ("hip", "knee", "elbow")]


def test_joints_lie_on_the_drawn_body_and_bones_keep_their_length() -> None:
    body = procedural_body(random_person(np.random.default_rng(5)))
    rest = np.linalg.norm(body.rest - body.rest[list(PARENTS)], axis=1)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        motion = any_pose(body, rng)
        joints = body.joints(motion)[0]
        bones = np.linalg.norm(joints - joints[list(PARENTS)], axis=1)
        assert np.allclose(bones[1:], rest[1:], atol=1e-6)
        camera = _camera(joints, rng, 96)
        alpha = draw([body.mesh(motion, 0)], camera, samples=1).alpha
        x, y = camera.project(joints)[INNER].astype(int).T
        assert (alpha[y, x] > 0).all()


def test_pictures_follow_from_the_seed_and_hold_the_whole_person() -> None:
    made = list(posed_people(5, seed=3, side=64))
    again = list(posed_people(5, seed=3, side=64))
    other = list(posed_people(5, seed=4, side=64))
    assert len(made) == 5
    for (x, y), (x2, y2), (x3, y3) in zip(made, again, other):
        assert np.array_equal(x, x2)
        assert np.array_equal(y, y2)
        assert not np.array_equal(x, x3)
        assert x.shape == (64, 64, 3)
        assert y.shape == (len(JOINTS), 2)
        assert not np.array_equal(y, y3)
    free = np.stack([y for _, y in made[1:]])
    assert ((free >= 0) & (free <= 64)).all()  # posed freely, the camera takes them in whole
