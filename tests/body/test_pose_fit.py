"""Fitting poses: close, without lag, within human limits, whole from partial joints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sfumato.body import (
    INDEX,
    MAIN,
    PARENTS,
    BodyError,
    SkinnedBody,
    fit,
    layout,
    proportions,
    stretched,
)
from sfumato.body._rotation import angle_of, part_of, swing, turn, unit
from sfumato.stage._actions import ACTIONS, controls
from sfumato.stage._motion import to_motion


def performed(body: SkinnedBody, action: str, frames: int = 30) -> np.ndarray:
    rng = np.random.default_rng(len(action))
    return body.joints(to_motion(controls(action, np.arange(frames) / 20, rng=rng), body))


@pytest.mark.parametrize("action", list(ACTIONS))
def test_another_body_follows_true_joints_within_five_centimetres(
    bodies: list[SkinnedBody], action: str
) -> None:
    joints = performed(bodies[0], action)
    made = fit(joints, bodies[1])
    assert made.error <= 0.05
    gap = np.linalg.norm(bodies[1].joints(made.motion) - joints, axis=-1)[:, MAIN]
    assert made.error == pytest.approx(gap.mean())


def test_a_body_finds_its_own_pose_again(bodies: list[SkinnedBody]) -> None:
    for action in ("walk", "kick", "jumping_jack", "sit"):
        made = fit(performed(bodies[2], action), bodies[2], smooth=0)
        assert made.error < 0.005
        assert made.motion.scale == pytest.approx(1, abs=1e-3)


def test_fitting_has_no_lag_reversed_time_gives_the_reversed_pose(
    bodies: list[SkinnedBody],
) -> None:
    joints = performed(bodies[0], "run")
    joints += np.random.default_rng(0).normal(0, 0.01, joints.shape)
    forth, back = fit(joints, bodies[1]).motion, fit(joints[::-1], bodies[1]).motion
    assert np.allclose(bodies[1].joints(forth), bodies[1].joints(back)[::-1], atol=1e-9)


def test_smoothing_takes_noise_away(bodies: list[SkinnedBody]) -> None:
    true = performed(bodies[0], "stretch")
    noisy = true + np.random.default_rng(1).normal(0, 0.03, true.shape)

    def shake(smooth: float) -> float:
        made = bodies[0].joints(fit(noisy, bodies[0], smooth=smooth).motion)
        return float(np.abs(np.diff(made, 2, axis=0)).mean())

    assert shake(1.5) < 0.35 * shake(0)


def test_missing_joints_are_inferred(bodies: list[SkinnedBody]) -> None:
    joints = performed(bodies[0], "walk")
    holes = joints.copy()
    holes[8:12, INDEX["left_wrist"]] = np.nan
    holes[:, INDEX["right_ankle"]] = np.nan
    holes[:, [INDEX["crown"], INDEX["neck"], INDEX["spine"], INDEX["left_collar"]]] = np.nan
    made = fit(holes, bodies[1])
    assert made.inferred == pytest.approx((4 + 30) / (30 * len(MAIN)))
    placed = bodies[1].joints(made.motion)
    assert np.isfinite(placed).all()
    wrist = np.linalg.norm(placed - joints, axis=-1)[8:12, INDEX["left_wrist"]]
    assert wrist.mean() < 0.12
    shin = placed[:, INDEX["right_ankle"]] - placed[:, INDEX["right_knee"]]
    assert (shin[:, 1] < 0).all()  # an unseen foot is still below its knee


def test_half_a_person_is_completed(bodies: list[SkinnedBody]) -> None:
    joints = performed(bodies[0], "wave")
    upper = joints.copy()
    for side in ("left", "right"):
        for name in ("hip", "knee", "ankle", "toe"):
            upper[:, INDEX[f"{side}_{name}"]] = np.nan
    upper[:, INDEX["pelvis"]] = np.nan
    placed = bodies[1].joints(fit(upper, bodies[1]).motion)
    arms = [INDEX[f"{side}_{n}"] for side in ("left", "right") for n in ("shoulder", "wrist")]
    assert np.linalg.norm(placed - joints, axis=-1)[:, arms].mean() < 0.08
    assert (placed[:, INDEX["left_ankle"], 1] < placed[:, INDEX["left_hip"], 1]).all()


def test_knees_and_elbows_bend_within_human_limits(bodies: list[SkinnedBody]) -> None:
    rng = np.random.default_rng(3)
    wild = performed(bodies[0], "kick") + rng.normal(0, 0.25, (30, 24, 3))
    motion = fit(wild, bodies[0], smooth=0).motion
    for side in ("left", "right"):
        knee = motion.rotations[:, INDEX[f"{side}_knee"]]
        assert np.rad2deg(angle_of(knee)).max() <= 160
        # a knee's shin never swings in front of its thigh
        rest = bodies[0].rest
        shin = knee @ (rest[INDEX[f"{side}_ankle"]] - rest[INDEX[f"{side}_knee"]])
        assert (shin[:, 2] <= 0.04).all()


def test_no_foot_goes_through_the_floor(bodies: list[SkinnedBody]) -> None:
    joints = performed(bodies[0], "jump")
    joints[..., 1] -= 0.15
    feet = [INDEX[f"{side}_ankle"] for side in ("left", "right")]
    body = bodies[1]

    def lowest(floor: float | None) -> float:
        made = fit(joints, body, floor=floor).motion
        low = body.joints(made)[:, feet, 1] - body.rest[feet, 1] * made.scale
        return float(low.min())

    assert lowest(None) < -0.1
    assert lowest(0.0) >= -0.03


def test_a_body_takes_the_proportions_of_what_it_follows(bodies: list[SkinnedBody]) -> None:
    joints = performed(bodies[0], "walk")
    factors = proportions(joints, bodies[1])
    other = stretched(bodies[1], factors)
    for j, parent in enumerate(PARENTS):
        if parent >= 0:
            want = np.linalg.norm(bodies[0].rest[j] - bodies[0].rest[parent])
            have = np.linalg.norm(other.rest[j] - other.rest[parent])
            assert have == pytest.approx(want, rel=0.02)
    assert fit(joints, other, smooth=0).error < 0.6 * fit(joints, bodies[1], smooth=0).error
    same = stretched(bodies[1], np.ones(24))
    assert np.allclose(same.vertices, bodies[1].vertices, atol=1e-5)


def test_what_cannot_be_fitted_is_refused(bodies: list[SkinnedBody]) -> None:
    with pytest.raises(BodyError, match="at least one observed joint"):
        fit(np.full((3, 24, 3), np.nan), bodies[0])
    with pytest.raises(BodyError, match="convert them with layout"):
        fit(np.zeros((3, 33, 3)), bodies[0])


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("file", "kind"),
    [("utd_mhad/skeleton.npz", "kinect20"), ("cmu_mocap/joints_30fps.npz", "cmu23")],
)
def test_real_motion_is_followed(
    real_data: Path, bodies: list[SkinnedBody], file: str, kind: str
) -> None:
    with np.load(real_data / file, allow_pickle=False) as stored:
        points, offsets = stored["x"], stored["offsets"]
    errors = [
        fit(layout(kind).canonical(points[offsets[i] : offsets[i + 1]]), bodies[0]).error
        for i in range(0, len(offsets) - 1, 60)
    ]
    assert len(errors) >= 7
    assert np.mean(errors) < 0.06


def test_rotation_algebra() -> None:
    rng = np.random.default_rng(4)
    a, b = unit(rng.normal(size=(50, 3))), unit(rng.normal(size=(50, 3)))
    full = swing(a, b)
    assert np.allclose((full @ a[..., None])[..., 0], b)
    assert np.allclose(swing(a, -a) @ a[..., None], -a[..., None], atol=1e-6)
    assert (angle_of(swing(a, b, at_most=0.3)) <= 0.3 + 1e-9).all()
    half = part_of(turn(a, np.full(50, 1.2)), 0.5)
    assert np.allclose(half @ half, turn(a, np.full(50, 1.2)))
