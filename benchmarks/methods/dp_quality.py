"""What is left of real pictures under each guarantee, beside a grey picture and what was predicted."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.markdown import markdown
from sfumato import protect, stage
from sfumato.media import Frame, Image, list_media, open_video
from sfumato.protect import Shape
from sfumato.protect.noise import Latent, learn_latent

METHODS = ("dp-image", "dprp", "dppix", "laplace", "randomized-response")
EPSILONS = (2.0, 8.0, 40.0)
_FRAMES, _APART, _ROOMS = 8, 6, 60


def run(data: str, *, unit: str = "frame", step: int = 1) -> list[dict[str, Any]]:
    """A row for each method and epsilon: decibels over ``_FRAMES`` frames of every clip."""
    clips = [
        frames
        for folder in data.split(",")
        for clip in list_media(Path(folder))[::step]
        if (frames := _frames(clip))
    ]
    staged = _staged_latent()
    ways: list[tuple[str, str, dict[str, Any]]] = [(name, name, {}) for name in METHODS]
    ways.insert(1, ("dp-image, learned from staged rooms", "dp-image", {"encoder": staged}))
    grey = float(np.mean([_decibel(frame.image, 127.5) for clip in clips for frame in clip]))
    return [
        {
            "method": label,
            "epsilon": epsilon,
            "unit": unit,
            "clips": len(clips),
            "grey": grey,
            **_measured(name, clips, {"epsilon": epsilon, "unit": unit, **settings}),
        }
        for label, name, settings in ways
        for epsilon in EPSILONS
    ]


def _measured(
    name: str, clips: Sequence[list[Frame]], settings: dict[str, Any]
) -> dict[str, float | None]:
    accepted = protect.get(name).accepted_settings()
    chosen = {"delta": 1e-5, **settings}
    method = protect.make(name, {key: chosen[key] for key in chosen if key in accepted})
    measured, told = [], None
    for clip in clips:
        height, width = clip[0].image.shape[:2]
        remarks = " ".join(method.remarks(Shape(height, width, len(clip))))
        told = re.search(r"expected quality (-?[\d.]+) dB", remarks) or told
        shown = method.frames(clip, count=len(clip))
        measured += [_decibel(a.image, b.image) for a, b in zip(clip, shown, strict=True)]
    return {
        "decibel": float(np.mean(measured)),
        "predicted": None if told is None else float(told.group(1)),
    }


def _frames(clip: Path) -> list[Frame]:
    with open_video(clip, tolerant=True) as video:
        return list(islice(video, 0, _FRAMES * _APART, _APART))


def _staged_latent() -> Latent:
    staging = stage.Staging(
        clips=_ROOMS, actors=12, rooms=_ROOMS // 2, frames=2, width=160, height=120
    )
    pictures = [clip.frames[0] for clip in stage.clips(replace(staging, fps=25.0))]
    # a room and its negative: a grey picture stays in the middle of what the latent knows
    both = [each for picture in pictures for each in (picture, 255 - picture)]
    return learn_latent(both, learned_from="staged rooms", components=32)


def _decibel(image: Image, shown: Image | float) -> float:
    error = float(np.square(image.astype(np.float64) - shown).mean())
    return 10 * math.log10(255**2 / max(error, 1e-6))


def table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [["*a grey picture*", "", f"{rows[0]['grey']:.1f}", ""]]
    for row in rows:
        predicted = "" if row["predicted"] is None else f"{row['predicted']:.1f}"
        lines.append([row["method"], f"{row['epsilon']:g}", f"{row['decibel']:.1f}", predicted])
    return markdown(("method", "epsilon for a frame", "measured, dB", "predicted, dB"), lines)


def sentences(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    for row in rows:
        told = "" if row["predicted"] is None else f", predicted {row['predicted']:.1f}"
        yield (
            f"{row['method']}, epsilon {row['epsilon']:g} for a {row['unit']}: {row['decibel']:.1f} dB"
            f"{told}; a grey picture has {row['grey']:.1f} dB ({row['clips']} clips)."
        )
