"""Doubts: frames are counted once, few are named, and the worst comes first."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sfumato.jobs import Outcome
from sfumato.people import DoubtfulSpan
from sfumato.protect._command import _most_doubtful
from sfumato.protect._doubts import doubtful_frames, look_first, ranked


def test_frames_with_several_doubts_count_once() -> None:
    """39 doubtful frames of a clip with 32 are none."""
    spans = [
        DoubtfulSpan(0, 19, "held", 1),
        DoubtfulSpan(5, 31, "bridged", 2),
        DoubtfulSpan(7, 9, "unsure", 3),
        DoubtfulSpan(40, 40, "blank", -1),
    ]
    assert doubtful_frames(spans) == 33
    assert doubtful_frames([]) == 0


@pytest.mark.parametrize("seed", range(20))
def test_count_is_that_of_distinct_frames(seed: int) -> None:
    draw = random.Random(seed)
    spans = [
        DoubtfulSpan(first, first + draw.randrange(8), "held", draw.randrange(3))
        for first in (draw.randrange(60) for _ in range(draw.randrange(12)))
    ]
    frames = {n for span in spans for n in range(span.first, span.last + 1)}
    assert doubtful_frames(spans) == len(frames)
    assert doubtful_frames(ranked(spans)) >= len(frames)


def test_worst_comes_first_and_a_handful_is_named() -> None:
    spans = [
        DoubtfulSpan(0, 30, "unsure", 1),
        DoubtfulSpan(50, 70, "held", 2),
        DoubtfulSpan(80, 80, "held", 3),
        DoubtfulSpan(0, 90, "blank", -1),
        *(DoubtfulSpan(20 * n, 20 * n, "bridged", 9) for n in range(10)),
    ]
    order = ranked(spans)
    assert (order[0].track, order[1].track) == (2, 1)
    assert len(order) == len(spans)
    said = look_first([*spans, DoubtfulSpan(60, 66, "bridged", 5)])
    assert len(said) == 5
    assert said[0] == "frames 50-70 (track 2 held, track 5 bridged, 1 more)"


def test_doubts_of_one_track_that_lie_together_are_one() -> None:
    """Looks are some frames apart: misses on three looks in a row are one span, not three."""
    spans = [DoubtfulSpan(n, n, "bridged", 4) for n in (3, 6, 9)]
    assert ranked([*spans, DoubtfulSpan(40, 40, "bridged", 4)]) == [
        DoubtfulSpan(3, 9, "bridged", 4),
        DoubtfulSpan(40, 40, "bridged", 4),
    ]


def test_a_folder_names_the_outputs_with_the_most_doubtful_frames_first() -> None:
    counts = {"a.mp4": 3, "b.mp4": 0, "c.mp4": 40, "d.mp4": 7, "e.mp4": 12}
    outcomes = [
        Outcome(
            Path("in") / name,
            "done",
            output=Path("out") / name,
            result={"doubtful_frames": count, "look_first": [f"frames 0-{count}"] if count else []},
        )
        for name, count in counts.items()
    ]
    # a recording in which nobody is searched, and one that an earlier version finished
    nothing = {"doubtful_frames": None, "look_first": None}
    outcomes.append(Outcome(Path("f"), "done", output=Path("f.mp4"), result=nothing))
    outcomes.append(Outcome(Path("g"), "done", output=Path("g.mp4"), result={}))
    (said,) = _most_doubtful(outcomes)
    assert [name for name in counts if name in said] == ["c.mp4", "d.mp4", "e.mp4"]
    assert said.index("c.mp4, 40") < said.index("e.mp4, 12") < said.index("d.mp4, 7")
    assert _most_doubtful(outcomes[1:2]) == []
