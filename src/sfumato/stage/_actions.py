"""Actions shipped with the project: key poses of body controls, joined smoothly.

Every action is a loop of (time as a share of the loop, controls); what is not named rests at its
standing value. ``home`` names the kind of room where the action is usually seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.interpolate import CubicSpline

from sfumato.errors import SfumatoError
from sfumato.stage._motion import CONTROL, CONTROLS

Pose = Mapping[str, float]
_STANDING: Pose = {"l_raise": 7, "r_raise": 7, "l_elbow": 12, "r_elbow": 12, "l_spread": 3,
                   "r_spread": 3}  # fmt: skip
# swapping left and right also turns these round
_MIRRORED = ("drift", "turn", "twist", "lean", "look")


@dataclass(frozen=True)
class Action:
    name: str
    home: str
    seconds: float
    keys: tuple[tuple[float, Pose], ...]


class UnknownActionError(SfumatoError):
    """An action that the stage cannot play."""


def _both(**values: float) -> dict[str, float]:
    return {f"{side}_{k}": v for k, v in values.items() for side in "lr"}


_SIT = {"rise": 0.0, "step": -0.25, "bend": 12, **_both(thigh=82, knee=86, swing=25, elbow=45)}
_WALK = (
    (0.0, {"rise": 0.0, "l_thigh": 26, "l_knee": 6, "r_thigh": -20, "r_knee": 14, "r_foot": 12,
           "l_swing": -24, "r_swing": 24, "l_elbow": 18, "r_elbow": 28, "twist": -6}),
    (0.25, {"rise": 0.0, "l_thigh": 4, "l_knee": 6, "r_thigh": 14, "r_knee": 58, "l_swing": 0,
            "r_swing": 2, "l_elbow": 20, "r_elbow": 20}),
    (0.5, {"rise": 0.0, "r_thigh": 26, "r_knee": 6, "l_thigh": -20, "l_knee": 14, "l_foot": 12,
           "r_swing": -24, "l_swing": 24, "r_elbow": 18, "l_elbow": 28, "twist": 6}),
    (0.75, {"rise": 0.0, "r_thigh": 4, "r_knee": 6, "l_thigh": 14, "l_knee": 58, "r_swing": 0,
            "l_swing": 2, "l_elbow": 20, "r_elbow": 20}),
)  # fmt: skip
_RUN = (
    (0.0, {"bend": 10, "l_thigh": 44, "l_knee": 52, "r_thigh": -26, "r_knee": 34, "r_foot": 22,
           "l_swing": -42, "r_swing": 42, **_both(elbow=88), "twist": -10}),
    (0.25, {"rise": 0.07, "bend": 10, "l_thigh": 16, "l_knee": 26, "r_thigh": 22, "r_knee": 96,
            **_both(elbow=88)}),
    (0.5, {"bend": 10, "r_thigh": 44, "r_knee": 52, "l_thigh": -26, "l_knee": 34, "l_foot": 22,
           "r_swing": -42, "l_swing": 42, **_both(elbow=88), "twist": 10}),
    (0.75, {"rise": 0.07, "bend": 10, "r_thigh": 16, "r_knee": 26, "l_thigh": 22, "l_knee": 96,
            **_both(elbow=88)}),
)  # fmt: skip
_MARCH = (
    (0.0, {"l_thigh": 74, "l_knee": 78, "r_swing": 46, "r_elbow": 60, "l_swing": -20}),
    (0.25, {"l_thigh": 8}),
    (0.5, {"r_thigh": 74, "r_knee": 78, "l_swing": 46, "l_elbow": 60, "r_swing": -20}),
    (0.75, {"r_thigh": 8}),
)

ACTIONS: Mapping[str, Action] = {
    action.name: action
    for action in (
        Action("walk", "hall", 1.1, _WALK),
        Action("run", "gym", 0.7, _RUN),
        Action("march", "hall", 1.2, _MARCH),
        Action("jump", "gym", 1.2, (
            (0.0, {}), (0.3, {"bend": 28, **_both(thigh=48, knee=72, swing=-38)}),
            (0.5, {"rise": 0.34, **_both(swing=140, elbow=15, foot=32)}),
            (0.75, {"bend": 18, **_both(thigh=34, knee=52, swing=25)}),
        )),
        Action("squat", "gym", 1.8, (
            (0.0, {}), (0.5, {"bend": 34, **_both(thigh=86, knee=102, swing=82, elbow=8, spread=12)}),
        )),
        Action("jumping_jack", "gym", 1.0, (
            (0.0, {"rise": 0.0, **_both(raise_=6)}),
            (0.25, {"rise": 0.10, **_both(raise_=80, spread=16)}),
            (0.5, {"rise": 0.0, **_both(raise_=158, spread=26, elbow=16)}),
            (0.75, {"rise": 0.10, **_both(raise_=80, spread=16)}),
        )),
        Action("wave", "hall", 1.1, (
            (0.0, {"r_raise": 84, "r_roll": 92, "r_elbow": 58, "lean": 3}),
            (0.5, {"r_raise": 92, "r_roll": 92, "r_elbow": 118, "lean": -2}),
        )),
        Action("clap", "living_room", 0.8, (
            (0.0, {**_both(swing=62, raise_=2, elbow=66, roll=-38)}),
            (0.5, {**_both(swing=58, raise_=34, elbow=54, roll=-22)}),
        )),
        Action("punch", "gym", 0.9, (
            (0.0, {**_both(swing=38, elbow=128, raise_=14), "l_thigh": 16, "r_thigh": -14,
                   **_both(knee=18)}),
            (0.3, {"r_swing": 86, "r_elbow": 6, "twist": 34, "l_swing": 38, "l_elbow": 128,
                   "l_thigh": 20, "r_thigh": -16, **_both(knee=18)}),
            (0.6, {**_both(swing=38, elbow=128, raise_=14), "l_thigh": 16, "r_thigh": -14,
                   **_both(knee=18)}),
            (0.8, {"l_swing": 86, "l_elbow": 6, "twist": -28, "r_swing": 38, "r_elbow": 128,
                   "l_thigh": 20, "r_thigh": -16, **_both(knee=18)}),
        )),
        Action("kick", "gym", 1.3, (
            (0.0, {**_both(swing=20, elbow=70)}),
            (0.25, {"r_thigh": -28, "r_knee": 62, "l_swing": 34, "bend": 8, **_both(elbow=60)}),
            (0.5, {"r_thigh": 84, "r_knee": 12, "bend": -14, "l_knee": 10, "r_swing": -34,
                   **_both(elbow=50)}),
            (0.75, {"r_thigh": 24, "r_knee": 48, **_both(elbow=60)}),
        )),
        Action("bow", "hall", 2.0, (
            (0.0, {}), (0.35, {"bend": 78, "nod": 22, **_both(swing=12)}),
            (0.6, {"bend": 78, "nod": 22, **_both(swing=12)}),
        )),
        Action("sit", "living_room", 2.6, (
            (0.0, {}), (0.18, {"bend": 32, "step": -0.1, **_both(thigh=44, knee=56, swing=34)}),
            (0.35, _SIT), (0.7, _SIT),
            (0.85, {"bend": 34, "step": -0.1, **_both(thigh=44, knee=56, swing=40)}),
        )),
        Action("drink", "kitchen", 2.2, (
            (0.0, {"r_swing": 22, "r_elbow": 78}),
            (0.35, {"r_swing": 58, "r_elbow": 134, "r_roll": -34, "r_raise": 22, "nod": -16}),
            (0.65, {"r_swing": 64, "r_elbow": 138, "r_roll": -34, "r_raise": 26, "nod": -22}),
        )),
        Action("stir", "kitchen", 0.9, (
            (0.0, {"bend": 10, "nod": 18, "r_swing": 38, "r_elbow": 82, "r_roll": -28,
                   "l_swing": 34, "l_elbow": 84, "l_roll": -20}),
            (0.25, {"bend": 10, "nod": 18, "r_swing": 56, "r_elbow": 62, "r_roll": -8,
                    "l_swing": 34, "l_elbow": 84, "l_roll": -20}),
            (0.5, {"bend": 10, "nod": 18, "r_swing": 44, "r_elbow": 66, "r_roll": 18,
                   "l_swing": 34, "l_elbow": 84, "l_roll": -20}),
            (0.75, {"bend": 10, "nod": 18, "r_swing": 28, "r_elbow": 92, "r_roll": 0,
                    "l_swing": 34, "l_elbow": 84, "l_roll": -20}),
        )),
        Action("throw", "living_room", 1.4, (
            (0.0, {}), (0.3, {"r_raise": 96, "r_roll": 72, "r_elbow": 98, "twist": -34,
                              "l_thigh": 20, "l_swing": 52}),
            (0.5, {"r_swing": 118, "r_elbow": 22, "twist": 26, "bend": 18, "l_thigh": 28,
                   "l_knee": 24, "r_thigh": -22}),
            (0.7, {"r_swing": 34, "r_elbow": 24, "twist": 30, "bend": 28, "l_thigh": 24,
                   "l_knee": 28, "r_thigh": -18}),
        )),
        Action("pick_up", "bedroom", 2.2, (
            (0.0, {}), (0.4, {"bend": 86, "nod": -10, **_both(thigh=46, knee=58, swing=42)}),
            (0.5, {"bend": 86, "nod": -10, **_both(thigh=46, knee=58, swing=46)}),
            (0.85, {"bend": 6, **_both(swing=44, elbow=84)}),
        )),
        Action("stretch", "bedroom", 2.4, (
            (0.0, {**_both(raise_=20)}), (0.35, {**_both(raise_=164, elbow=10), "nod": -14}),
            (0.5, {**_both(raise_=160, elbow=24), "lean": 18}),
            (0.7, {**_both(raise_=160, elbow=24), "lean": -18}),
        )),
        Action("type", "office", 0.7, (
            (0.0, {**_SIT, "nod": 14, "l_swing": 36, "l_elbow": 74, "r_swing": 30, "r_elbow": 84}),
            (0.5, {**_SIT, "nod": 14, "l_swing": 30, "l_elbow": 84, "r_swing": 36, "r_elbow": 74}),
        )),
        Action("phone", "office", 2.0, (
            (0.0, {"r_swing": 34, "r_elbow": 144, "r_raise": 24, "r_roll": -12, "look": -10}),
            (0.5, {"r_swing": 38, "r_elbow": 144, "r_raise": 30, "r_roll": -12, "look": 16,
                   "twist": 14, "l_swing": 14, "l_elbow": 34}),
        )),
    )
}  # fmt: skip


def controls(
    name: str,
    times: npt.NDArray[np.float64],
    *,
    rng: np.random.Generator,
    vigour: float = 1.0,
    pace: float = 1.0,
) -> npt.NDArray[np.float64]:
    """Controls (T, 25) of an action at ``times`` in seconds, as one person once performs it.

    ``vigour`` scales the excursions and ``pace`` the speed (a person's style); left-handedness,
    phase, posture and a slow sway are drawn from ``rng`` (the occasion).
    """
    if name not in ACTIONS:
        raise UnknownActionError(f"Expected an action out of {', '.join(ACTIONS)}, got {name!r}.")
    action = ACTIONS[name]
    standing = _row({})
    rows = np.stack([_row(pose) for _, pose in action.keys])
    at = np.array([when for when, _ in action.keys])
    rows = standing + (rows - standing) * vigour
    loop = CubicSpline(np.append(at, 1.0), np.concatenate([rows, rows[:1]]), bc_type="periodic")
    seconds = action.seconds / pace * float(rng.uniform(0.9, 1.1))
    out = np.asarray(loop((times / seconds + rng.random()) % 1.0))
    out[:, CONTROL["rise"]] = np.maximum(out[:, CONTROL["rise"]], 0.0)
    for joint in ("l_knee", "r_knee", "l_elbow", "r_elbow"):
        out[:, CONTROL[joint]] = np.clip(out[:, CONTROL[joint]], 0, 150)
    out += _sway(times, rng)
    if rng.random() < 0.5:
        out = mirrored(out)
    return out


def mirrored(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The same motion with left and right exchanged."""
    swapped = rows.copy()
    for name, i in CONTROL.items():
        if name.startswith("l_"):
            j = CONTROL["r_" + name[2:]]
            swapped[:, i], swapped[:, j] = rows[:, j], rows[:, i]
        elif name in _MIRRORED:
            swapped[:, i] = -rows[:, i]
    return swapped


def _row(pose: Pose) -> npt.NDArray[np.float64]:
    row = np.zeros(len(CONTROLS))
    for name, value in {**_STANDING, **pose}.items():
        row[CONTROL[name.removesuffix("_")]] = value
    return row


def _sway(times: npt.NDArray[np.float64], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Slow individual movement: nobody stands like a statue or repeats a cycle exactly."""
    size = np.array([0.0 if name == "rise" else 2.2 for name in CONTROLS])
    size[[CONTROL["step"], CONTROL["drift"]]] = 0.015
    size[[CONTROL["l_knee"], CONTROL["r_knee"]]] = 1.0
    rate = rng.uniform(0.15, 0.6, len(CONTROLS))
    phase = rng.uniform(0, 2 * np.pi, len(CONTROLS))
    posture = rng.normal(0, 0.8, len(CONTROLS)) * size
    return np.asarray(np.sin(times[:, None] * rate * 2 * np.pi + phase) * size + posture)
