"""Small recordings with a private, a useful and a hidden attribute, all of them easy to read."""

from __future__ import annotations

import numpy as np

from sfumato.data import ArrayRecords

PEOPLE = 10


def speech_like(records: int = 600, *, seed: int = 0, features: int = 12) -> ArrayRecords:
    """Ten people, three of them women, four words; sex and word each have directions of their own."""
    generator = np.random.default_rng(seed)
    layout = np.random.default_rng(99)
    person = generator.integers(0, PEOPLE, records)
    word = generator.integers(0, 4, records)
    sex = (person < 3).astype(np.int64)
    x = 3 * layout.normal(size=(4, features))[word]
    x = x + 1.5 * layout.normal(size=(PEOPLE, features))[person]
    x = x + np.where(sex[:, None] == 1, 2.0, -2.0) * layout.normal(size=features)
    x = x + 0.3 * generator.normal(size=(records, features))
    return ArrayRecords(
        x.astype(np.float32),
        word,
        owners=[f"person{number}" for number in person],
        attributes={
            "sex": np.array(["male", "female"])[sex],
            "word": word,
            "person": person,
        },
    )
