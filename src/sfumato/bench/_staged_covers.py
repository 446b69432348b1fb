"""Covers of staged people, whose truth is known: how much is covered, and does it flicker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato import stage
from sfumato.bench._hidden_clips import flicker
from sfumato.media import Frame
from sfumato.protect.video import Region

_FRAMES, _WIDTH, _HEIGHT = 75, 320, 240


def run(clips: int) -> list[dict[str, Any]]:
    """People as ``silhouette`` finds them; their area, and how much of each person is in it."""
    staging = stage.Staging(
        clips=clips, actors=clips, rooms=clips, frames=_FRAMES, width=_WIDTH, height=_HEIGHT
    )
    parts, changes, areas = [], [0.0], []
    for clip in stage.clips(replace(staging, fps=25.0)):
        region = Region("people")
        found = [place.mask for _, place in region.find(_frames(clip))]
        parts += [
            float((mask & truth).sum() / truth.sum())
            for mask, truth in zip(found, clip.mask, strict=True)
            if truth.any()
        ]
        changes.append(flicker([float(mask.mean()) for mask in found])["largest_change_of_area"])
        areas += [
            float(mask.sum() / truth.sum())
            for mask, truth in zip(found, clip.mask, strict=True)
            if truth.any()
        ]
    return [
        {
            "method": "silhouette",
            "of": "the person",
            "clips": clips,
            "covered": float(np.mean(parts)),
            "least_covered": min(parts),
            "area_to_truth": float(np.mean(areas)),
            "largest_change_of_area": max(changes),
        }
    ]


def _frames(clip: stage.Clip) -> Iterator[Frame]:
    for number, image in enumerate(clip.frames):
        yield Frame(image, number, Fraction(number, 25))
