"""Joints along a track: one smooth body explains what several detectors saw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sfumato.body import INDEX, POINTS, Sightings, fitting_error, ground_plane, joint_paths

RATE = 25.0
WRIST, ANKLES = POINTS.index("left_wrist"), [POINTS.index(f"{s}_ankle") for s in ("left", "right")]
HIPS = [POINTS.index(f"{s}_hip") for s in ("left", "right")]
# a standing person about the hips: x right, y down, z away
BODY = {
    "shoulder": (0.17, -0.5, 0.0), "elbow": (0.2, -0.22, 0.0), "wrist": (0.21, 0.02, -0.05),
    "hand": (0.21, 0.1, -0.07), "hip": (0.11, 0.0, 0.0), "knee": (0.12, 0.43, -0.02),
    "ankle": (0.12, 0.84, 0.0), "toe": (0.13, 0.88, -0.16), "ears": (0.0, -0.75, 0.0),
}  # fmt: skip


def waving(count: int = 24) -> np.ndarray:
    """True points (T, 17, 3): somebody stands three metres away and waves the left arm."""
    rest = np.array([
        np.array(BODY[name.split("_")[-1]]) * [1 if "left" in name else -1, 1, 1] for name in POINTS
    ])  # fmt: skip
    points = np.repeat(rest[None], count, 0) + np.array([0.2, 0.3, 3.0])
    angle = 2.2 + 0.6 * np.sin(2 * np.pi * np.arange(count) / 20)
    for joint, far in (("elbow", 0.28), ("wrist", 0.52), ("hand", 0.6)):
        arm = np.stack([np.sin(angle) * far, np.cos(angle) * far, np.zeros(count)], 1)
        points[:, POINTS.index(f"left_{joint}")] = points[:, POINTS.index("left_shoulder")] + arm
    return points


def seen(points: np.ndarray, noise: float = 0.03, seed: int = 0) -> Sightings:
    """Two detectors, the second on every fourth frame only, and noisy places in space."""
    rng, count = np.random.default_rng(seed), len(points)
    places = points[..., :2] / points[..., 2:]
    both = np.stack([places + rng.normal(0, noise, places.shape) / 3 for _ in range(2)])
    trust = np.ones((2, count, len(POINTS)))
    trust[1, np.arange(count) % 4 != 0] = 0
    local = points - points[:, HIPS].mean(1, keepdims=True)
    return Sightings(both, trust, local + rng.normal(0, 2 * noise, local.shape), trust[0].copy())


def relative(points: np.ndarray) -> np.ndarray:
    return points - points[:, HIPS].mean(1, keepdims=True)


def error(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.linalg.norm(relative(found) - relative(true), axis=-1).mean())


def test_the_fit_is_nearer_to_the_truth_than_what_was_seen() -> None:
    true = waving()
    given = seen(true)
    found = joint_paths(given, RATE)
    assert error(found.points, true) < 0.65 * error(given.local, true)
    assert np.nanmax(fitting_error(given, found)) < 0.06


def test_a_joint_that_nobody_sees_is_carried_by_the_motion_before_and_after() -> None:
    true = waving()
    given = seen(true, 0.005)
    given.trust[:, 9:14, WRIST] = 0
    given.local_trust[9:14, WRIST] = 0
    given.local[9:14, WRIST] = 0
    found = relative(joint_paths(given, RATE).points)
    gap = np.linalg.norm(found[9:14, WRIST] - relative(true)[9:14, WRIST], axis=1)
    assert gap.max() < 0.08


def test_nothing_lags_behind() -> None:
    """The fit of the reversed recording is the reversed fit."""
    given = seen(waving())
    back = Sightings(
        given.places[:, ::-1], given.trust[:, ::-1], given.local[::-1], given.local_trust[::-1]
    )
    forth = joint_paths(given, RATE).points
    assert np.abs(joint_paths(back, RATE).points[::-1] - forth).max() < 1e-3


def test_feet_that_stand_do_not_slide() -> None:
    given = seen(waving(40))
    found = joint_paths(given, RATE)
    assert found.stands.mean() > 0.9
    moved = np.linalg.norm(np.diff(found.points[:, ANKLES], axis=0), axis=-1)
    assert moved.mean() < 0.003
    raw = given.places[0][:, ANKLES] * 3
    assert moved.mean() < 0.1 * np.linalg.norm(np.diff(raw, axis=0), axis=-1).mean()


def test_an_outlier_does_not_pull_the_body_away() -> None:
    true = waving()
    given = seen(true, 0.01)
    given.places[0, 12] += 0.5  # one frame of one detector: another person
    assert (
        np.linalg.norm(
            relative(joint_paths(given, RATE).points)[12] - relative(true)[12], axis=1
        ).mean()
        < 0.12
    )


def test_bones_keep_one_length_and_given_ones_are_kept() -> None:
    first = joint_paths(seen(waving()), RATE)
    thigh = np.linalg.norm(
        first.points[:, HIPS[0]] - first.points[:, POINTS.index("left_knee")], axis=1
    )
    assert np.ptp(thigh) < 0.03
    again = joint_paths(seen(waving(), seed=1), RATE, lengths=first.lengths)
    assert np.array_equal(again.lengths, first.lengths)


def test_what_is_settled_stays_and_the_rest_goes_on_from_it() -> None:
    given = seen(waving())
    before = joint_paths(given, RATE).points
    again = joint_paths(replace(given), RATE, known=before[:10] + 0.01).points
    assert np.abs(again[:10] - before[:10] - 0.01).max() < 2e-3
    assert np.abs(np.diff(again[8:13], axis=0)).max() < 0.2


@pytest.mark.parametrize("count", [1, 2, 3])
def test_short_tracks_are_fitted_too(count: int) -> None:
    true = waving(count)
    assert error(joint_paths(seen(true, 0.01), RATE).points, true) < 0.12


def test_somebody_of_whom_head_and_shoulders_are_seen_stands_upright() -> None:
    true = waving()
    given = seen(true, 0.005)
    lower = [
        i for i, name in enumerate(POINTS) if name.split("_")[-1] in ("hip", "knee", "ankle", "toe")
    ]
    given.trust[:, :, lower] = 0
    given.local_trust[:] = 0
    found = joint_paths(given, RATE)
    down = found.points[:, ANKLES].mean(1) - found.points[:, HIPS].mean(1)
    assert (down[:, 1] > 0.6).all()
    assert np.isfinite(found.joints()[:, INDEX["pelvis"]]).all()


def test_the_ground_is_where_standing_feet_agree() -> None:
    found = joint_paths(seen(waving(40), 0.01), RATE)
    plane = ground_plane([found])
    assert plane is not None
    height, slope = plane
    at = found.points[:, ANKLES]
    assert np.abs(at[..., 1] - height - slope * at[..., 2]).mean() < 0.03
    assert ground_plane([]) is None
