"""Staged people, whose truth is known, by the bundled detectors: covered, and little more than they."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato import people, stage, store
from sfumato.media import Frame

pytestmark = pytest.mark.models


def test_staged_people_are_covered_and_hardly_more_than_they() -> None:
    staging = stage.Staging(clips=2, actors=2, rooms=2, frames=13, width=320, height=240)
    try:
        look = people.search()
    except (store.CacheError, store.DownloadError, store.OfflineError) as error:
        pytest.skip(f"the models cannot be had here: {error}")
    covered, area = [], []
    for clip in stage.clips(replace(staging, fps=25.0)):
        frames = [Frame(image, i, Fraction(i, 25)) for i, image in enumerate(clip.frames)]
        for (_, everybody), truth in zip(people.find(frames, look), clip.mask, strict=True):
            mask = everybody.mask(*truth.shape)
            if truth.any():
                covered.append((mask & truth).sum() / truth.sum())
                area.append(mask.sum() / truth.sum())
    assert covered
    assert np.mean(covered) >= 0.995
    assert min(covered) > 0.9
    assert np.mean(area) <= 1.46
