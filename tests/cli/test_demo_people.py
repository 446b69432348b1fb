"""The demo's own choices: whom it learns from, whom it is scored on, and what is private."""

from __future__ import annotations

import numpy as np

from sfumato import stage
from sfumato.cli._demo import split_people
from sfumato.data import staged


def test_people_of_the_score_are_never_learnt_from_and_the_person_is_what_is_private() -> None:
    made = staged(stage.Staging(clips=24, actors=4, frames=2, width=16, height=16, seed=3))
    private, held_out = split_people(made, held_out=1)
    assert len(private) + len(held_out) == 24
    assert 0 < len(held_out) < 24
    last = [i for i, owner in enumerate(made.owners) if owner == ("actor03",)]
    assert np.array_equal(held_out.x, made.x[last])
    assert np.array_equal(held_out.y, made.y[last])
    # the stage calls its synthetic people public; here they stand for real ones
    assert np.array_equal(held_out.mask, ~made.mask[last])
    assert private.mask.mean() > 0.5
