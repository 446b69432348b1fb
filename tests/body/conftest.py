"""Bodies and motions shared by the tests of this room."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.body import Motion, SkinnedBody, procedural_body, random_person
from sfumato.body._rotation import turn, unit


@pytest.fixture(scope="session")
def bodies() -> list[SkinnedBody]:
    rng = np.random.default_rng(5)
    return [procedural_body(random_person(rng)) for _ in range(4)]


def random_motion(rng: np.random.Generator, frames: int, spread: float = 0.4) -> Motion:
    """Any rotations at all: for properties that hold for every pose."""
    axes = unit(rng.normal(size=(frames, 24, 3)))
    return Motion(turn(axes, rng.normal(0, spread, (frames, 24))), rng.normal(size=(frames, 3)))


@pytest.fixture
def anyhow() -> Motion:
    return random_motion(np.random.default_rng(2), 3)
