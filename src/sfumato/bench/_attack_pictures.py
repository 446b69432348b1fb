"""Attacks on single pictures of the table ``attacks``: people who are still found, covers undone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from sfumato import protect, stage
from sfumato.audit import (
    METHODS,
    Residual,
    Result,
    changed_places,
    over_time,
    single_frame_attacks,
)
from sfumato.bench._attack_stage import STAGING, WAYS, Clips, Truth
from sfumato.people import Box, person_detector
from sfumato.protect.video._output_check import is_one_of

# Detectors were made for larger pictures than the stage's.
_ENLARGED, _EVERY = 3, 2
_UNDONE, _RESAMPLED = 12, 400


def still_found(protected: Clips, truth: Truth) -> list[Result]:
    """On how many middle frames does a detector find somebody where somebody is?"""
    detector, residual = person_detector(), Residual()
    middle = protected.shape[1] // 2
    for clip, mask in zip(protected[::_EVERY, middle], truth.masks[::_EVERY, middle], strict=True):
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        if not len(rows):
            continue
        x0, y0, x1, y1 = (
            float(_ENLARGED * side) for side in (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
        )
        person = Box(x0, y0, x1, y1)
        large = cv2.resize(clip, None, fx=_ENLARGED, fy=_ENLARGED)
        found = detector.detect(np.asarray(large, dtype=np.uint8))
        residual.update(any(is_one_of(box, [person]) for box in found))
    return residual.results(target="person")


def undone(originals: Clips, protected: Clips, way: str) -> list[Result]:
    """How much of the squared error inside the changed places the best attack takes away."""
    name, settings = WAYS[way]
    method = protect.make(name, settings)
    some = np.linspace(0, len(originals) - 1, _UNDONE).astype(int)
    attacks = single_frame_attacks(method, METHODS, _public(), protected.shape[1:])
    attacks |= over_time(method)
    errors: dict[str, list[float]] = {attack: [] for attack in attacks}
    before: list[float] = []
    for clear, shown in zip(originals[some], protected[some], strict=True):
        places = changed_places(clear, shown)
        if not places.any():
            continue
        before.append(_error(clear, shown, places))
        for attack, undo in attacks.items():
            errors[attack].append(_error(clear, undo(shown, places), places))
    if not before:
        return []
    best = min(errors, key=lambda attack: float(np.sum(errors[attack])))
    # an attacker who gains nothing leaves the picture as it is
    after = np.minimum(np.sum(errors[best]), np.sum(before))
    shares = _resampled(np.array(before), np.array(errors[best]))
    return [
        Result(
            "hidden pixels undone", "privacy", False, (0.0, 1.0), target="reconstruction",
            value=float(1 - after / np.sum(before)), low=float(np.quantile(shares, 0.025)),
            high=float(np.quantile(shares, 0.975)), chance=0.0, note=best,
        )
    ]  # fmt: skip


def _error(clear: Clips, shown: Clips, places: Any) -> float:
    return float(np.square(shown[places].astype(np.float64) - clear[places]).mean())


def _resampled(before: Any, after: Any) -> Any:
    """The share that is undone for clips drawn again, for an interval."""
    rng = np.random.default_rng(0)
    rows = rng.integers(len(before), size=(_RESAMPLED, len(before)))
    return np.maximum(0.0, 1 - after[rows].sum(1) / before[rows].sum(1))


def _public() -> list[tuple[Any, Any]]:
    """Pictures of other people in other rooms, with their masks."""
    staging = replace(STAGING, clips=16, actors=8, frames=2, seed=STAGING.seed + 1000)
    made = stage.clips(staging)
    return [pair for clip in made for pair in zip(clip.frames, clip.alpha > 0, strict=True)]
