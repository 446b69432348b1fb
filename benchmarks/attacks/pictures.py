"""Attacks on single pictures of the table ``attacks``: people who are still found, covers undone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from benchmarks.attacks.stage import STAGING, WAYS, Clips, Truth
from sfumato import protect, stage
from sfumato.audit import Result
from sfumato.audit.attack import METHODS, Residual, changed_places, over_time, single_frame_attacks
from sfumato.people import Box, person_detector
from sfumato.protect.hide._residual_faces import is_one_of

# Detectors were made for larger pictures than the stage's.
_ENLARGED, _EVERY = 3, 2
_UNDONE, _RESAMPLED, _AS_SHOWN = 12, 400, "as shown"


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
    """How much of what was hidden is seen again after the best attack: variance explained.

    Zero is one flat colour in every changed place, one is the original. What is seen without any
    attack stands beside it.
    """
    name, settings = WAYS[way]
    method = protect.make(name, settings)
    some = np.linspace(0, len(originals) - 1, _UNDONE).astype(int)
    attacks = single_frame_attacks(method, METHODS, _public(), protected.shape[1:])
    attacks |= over_time(method)
    errors: dict[str, list[float]] = {attack: [] for attack in (_AS_SHOWN, *attacks)}
    flat: list[float] = []
    for clear, shown in zip(originals[some], protected[some], strict=True):
        places = changed_places(clear, shown)
        if not places.any():
            continue
        flat.append(_error(clear, _flat(clear, places), places))
        errors[_AS_SHOWN].append(_error(clear, shown, places))
        for attack, undo in attacks.items():
            errors[attack].append(_error(clear, undo(shown, places), places))
    if not flat:
        return []
    best = min(errors, key=lambda attack: float(np.sum(errors[attack])))
    value, low, high = _explained(flat, errors[best])
    return [
        Result(
            "hidden pixels seen again", "privacy", False, (0.0, 1.0), target="reconstruction",
            value=value, low=low, high=high, chance=0.0, note=best,
            unprotected=_explained(flat, errors[_AS_SHOWN])[0],
        )
    ]  # fmt: skip


def _error(clear: Clips, shown: Clips, places: Any) -> float:
    return float(np.square(shown[places].astype(np.float64) - clear[places]).sum())


def _flat(clear: Clips, places: Any) -> Clips:
    """The places of every frame in their mean colour."""
    out = clear.copy()
    for picture, place in zip(out, places, strict=True):
        if place.any():
            picture[place] = picture[place].mean(0).round().astype(np.uint8)
    return out


def _explained(flat: list[float], errors: list[float]) -> tuple[float, float, float]:
    """The share of the variance that is explained, with a 95 % interval over clips drawn again."""
    whole, rest = np.array(flat), np.array(errors)
    rows = np.random.default_rng(0).integers(len(whole), size=(_RESAMPLED, len(whole)))
    drawn = np.maximum(0.0, 1 - rest[rows].sum(1) / whole[rows].sum(1))
    value = max(0.0, float(1 - rest.sum() / whole.sum()))
    return value, float(np.quantile(drawn, 0.025)), float(np.quantile(drawn, 0.975))


def _public() -> list[tuple[Any, Any]]:
    """Pictures of other people in other rooms, with their masks."""
    staging = replace(STAGING, clips=16, actors=8, frames=2, seed=STAGING.seed + 1000)
    made = stage.clips(staging)
    return [pair for clip in made for pair in zip(clip.frames, clip.alpha > 0, strict=True)]
