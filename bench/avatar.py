"""Avatars on staged truth: quality of fit, silhouette, inpainting and gait, and where time goes.

    python -m bench.avatar [--body anny|procedural] [--clips 19] [--clip VIDEO] [--sheet sheet.png]

CPU seconds are measured beside wall seconds: on a busy machine only the former say something.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import cv2
import numpy as np

from sfumato.body import (
    INDEX,
    Camera,
    Light,
    cast_of,
    draw,
    fit,
    proportions,
    rest_motion,
    stretched,
)
from sfumato.media import open_video
from sfumato.protect.video.avatar import Avatar, Found, Rules, Track, replace
from sfumato.stage import ACTIONS, Clip, Staging, clips

FPS = 12.0


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    made = work()
    return made, time.perf_counter() - wall, time.process_time() - cpu


def angles(joints: np.ndarray) -> np.ndarray:
    """Knee and elbow angles (T, 4) in degrees."""
    out = []
    for side in ("left", "right"):
        for a, b, c in (("hip", "knee", "ankle"), ("shoulder", "elbow", "wrist")):
            p, q, r = (joints[:, INDEX[f"{side}_{n}"]] for n in (a, b, c))
            one, two = p - q, r - q
            cosine = (
                (one * two).sum(-1) / np.linalg.norm(one, axis=-1) / np.linalg.norm(two, axis=-1)
            )
            out.append(np.rad2deg(np.arccos(np.clip(cosine, -1, 1))))
    return np.stack(out, 1)


def gait(joints: np.ndarray) -> tuple[float, float]:
    """Cadence in steps a minute and step length in metres, from the distance between the ankles."""
    left, right = joints[:, INDEX["left_ankle"]], joints[:, INDEX["right_ankle"]]
    apart = np.linalg.norm((left - right)[:, [0, 2]], axis=1)
    spectrum = np.abs(np.fft.rfft(apart - apart.mean(), 1024))
    rate = np.fft.rfftfreq(1024, 1 / FPS)[spectrum.argmax()]
    return float(rate * 60), float(np.percentile(apart, 95))


def judged(clip: Clip, body: Any, sheet: list[np.ndarray]) -> dict[str, float]:
    joints = clip.joints.astype(float)
    found = Found(clip.alpha > 0, (Track(joints),), clip.camera, 0.0)
    made = replace(clip.frames, found, [body], Rules(), Light(), rate=FPS)
    shaped = stretched(body, proportions(joints, body))
    motion = fit(joints, shaped, smooth=Rules().smooth * FPS, floor=0.0).motion
    overlap = []
    for t in range(0, len(joints), 3):
        drawn = draw([shaped.mesh(motion, t)], clip.camera).alpha > 0.5
        true = clip.alpha[t] > 127
        overlap.append((drawn & true).sum() / (drawn | true).sum())
    inside = made.cover.inside
    error = (made.erased.frames.astype(float) - clip.empty)[inside]
    after = shaped.joints(motion)
    (pace, step), (pace_after, step_after) = gait(joints), gait(after)
    t = len(joints) // 2
    white = np.uint8(255)
    sheet.append(np.concatenate([
        clip.frames[t], np.repeat(inside[t][..., None], 3, 2) * white, made.erased.frames[t],
        made.frames[t], np.repeat(made.public[t][..., None], 3, 2) * white,
    ], 1))  # fmt: skip
    return {
        "joint error cm": 100 * made.errors[0],
        "IoU of r": float(np.mean(overlap)),
        "PSNR inside q dB": float(10 * np.log10(255**2 / max(np.mean(error**2), 1e-3))),
        "never seen share": float(made.erased.unseen.sum() / inside.sum()),
        "public pixels outside q": float((made.public & ~inside).sum()),
        "angle error deg": float(np.abs(angles(after) - angles(joints)).mean()),
        "cadence error 1/min": abs(pace - pace_after),
        "step length error cm": 100 * abs(step - step_after),
    }


def speeds(kind: Any) -> dict[str, float]:
    body = cast_of(kind)[3]
    camera = Camera.look(320, 240, (0.6, 1.3, 3.2), (0, 0.9, 0), field_of_view=55)
    motion = rest_motion(body)
    draw([body.mesh(motion, 0)], camera)
    _, wall, cpu = timed(lambda: [draw([body.mesh(motion, 0)], camera) for _ in range(20)])
    plan = Staging(clips=12, frames=16, width=64, height=64)
    list(clips(Staging(clips=1)))
    _, stage_wall, stage_cpu = timed(lambda: list(clips(plan)))
    return {
        "render 320x240 frames a second": 20 / wall,
        "render frames a CPU second": 20 / cpu,
        "stage 64x64 frames a second": 192 / stage_wall,
        "stage frames a CPU second": 192 / stage_cpu,
    }


def end_to_end(video: str, kind: Any) -> dict[str, float]:
    with open_video(video, tolerant=True) as reader:
        frames = list(islice(reader, 60))
    method = Avatar(body=kind, seed=0)
    assert method.bodies
    finder = method.finder
    images = [frame.image for frame in frames]
    found, find_wall, find_cpu = timed(lambda: finder.find(images))
    chosen = [method.bodies[track.number % 32] for track in found.tracks]
    _, wall, cpu = timed(lambda: replace(np.stack(images), found, chosen, Rules(), Light()))
    return {
        "people": float(len(found.tracks)),
        "frames a second": len(frames) / (find_wall + wall),
        "frames a CPU second": len(frames) / (find_cpu + cpu),
        "finding CPU ms a frame": 1000 * find_cpu / len(frames),
        "replacing CPU ms a frame": 1000 * cpu / len(frames),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--body", default="anny", choices=["anny", "procedural"])
    parser.add_argument("--clips", type=int, default=len(ACTIONS))
    parser.add_argument("--clip", help="a real video, for the speed end to end")
    parser.add_argument("--sheet", help="write a contact sheet")
    asked = parser.parse_args()
    cast = cast_of(asked.body)
    plan = Staging(clips=asked.clips, frames=30, fps=FPS, width=160, height=120, seed=11,
                   actions=tuple(ACTIONS))  # fmt: skip
    sheet: list[np.ndarray] = []
    rows = [judged(clip, cast[(5 * i) % 32], sheet) for i, clip in enumerate(clips(plan))]
    result: dict[str, Any] = {
        "quality": {
            name: round(float(np.mean([row[name] for row in rows])), 3) for name in rows[0]
        },
        "speed": {k: round(v, 1) for k, v in speeds(asked.body).items()},
    }
    if asked.clip:
        result["end to end"] = {
            k: round(v, 2) for k, v in end_to_end(asked.clip, asked.body).items()
        }
    if asked.sheet:
        cv2.imwrite(asked.sheet, np.concatenate(sheet, 0)[..., ::-1])
    print(json.dumps({"body": asked.body, "clips": len(rows), **result}, indent=2))


if __name__ == "__main__":
    main()
