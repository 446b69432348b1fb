"""Somebody who was missed in a recording: added by a point and followed further, each as one edit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import SfumatoError
from sfumato.media import Image, VideoWriter
from sfumato.people import (
    CARRIED,
    Box,
    Look,
    People,
    PeopleFile,
    StaleEditError,
    _recording,
    add_person_at,
    follow_person,
)

FRAMES, HEIGHT, WIDTH = 30, 120, 200
_TEXTURE = np.random.default_rng(1).integers(0, 256, (60, 24, 3), dtype=np.uint8)
_TEXTURE[..., 0] = 255


def place(number: int) -> Box:
    return Box(20 + 4 * number, 40, 44 + 4 * number, 100)


class Reds:
    """Finds the bright red figure by its colour."""

    name, device = "reds", "test"

    def detect(self, image: Image) -> list[Box]:
        red = image[..., 0] == 255
        if red.sum() < 100:
            return []
        rows, columns = np.flatnonzero(red.any(axis=1)), np.flatnonzero(red.any(axis=0))
        return [Box(columns[0], rows[0], columns[-1] + 1, rows[-1] + 1, 0.9, "reds")]


@pytest.fixture
def clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A figure that walks through, and detectors that need no model."""
    look = Look([Reds()], [])
    monkeypatch.setattr(
        _recording,
        "_finders",
        lambda: (look, look, lambda image: (image[..., 0] == 255).astype(np.float32)),
    )
    monkeypatch.setattr(_recording, "STRETCH", 6)
    path = tmp_path / "walk.mkv"
    with VideoWriter(path, rate=25, size=(WIDTH, HEIGHT), codec="ffv1") as writer:
        for number in range(FRAMES):
            image = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
            box = place(number)
            image[int(box.y0) : int(box.y1), int(box.x0) : int(box.x1)] = _TEXTURE
            writer.write(image)
    return path


@pytest.fixture
def file(tmp_path: Path) -> PeopleFile:
    nobody = [People([], number) for number in range(FRAMES)]
    return PeopleFile.create(tmp_path / "people.db", nobody, width=WIDTH, height=HEIGHT)


def test_a_person_is_added_at_a_point_carried_both_ways_and_followed_to_the_ends(
    clip: Path, file: PeopleFile
) -> None:
    track = add_person_at(file, clip, 15, 92, 70)
    rows = {row.frame: row for row in file.of_track(track)}
    assert sorted(rows) == list(range(9, 22))
    assert rows[15].confirmed
    assert {row.person.evidence for frame, row in rows.items() if frame != 15} == {CARRIED}
    for number, row in rows.items():
        assert row.person.box.covers(place(number)) > 0.8
    assert [(d.first, d.last) for d in file.doubts()] == [(9, 14), (16, 21)]
    file.undo()
    assert file.of_track(track) == []  # one edit
    file.redo()

    follow_person(file, clip, 20, track)
    rows = {row.frame: row for row in file.of_track(track)}
    assert sorted(rows) == list(range(3, 28))  # a stretch beyond either end, not beyond frame 20
    assert rows[20].confirmed
    follow_person(file, clip, 27, track)
    follow_person(file, clip, 3, track)
    assert sorted(row.frame for row in file.of_track(track)) == list(range(FRAMES))


def test_following_needs_the_person_and_the_newest_state(clip: Path, file: PeopleFile) -> None:
    track = add_person_at(file, clip, 15, 92, 70)
    with pytest.raises(SfumatoError, match="there is nobody"):
        follow_person(file, clip, 29, track)
    with pytest.raises(StaleEditError):
        follow_person(file, clip, 15, track, revision=file.revision - 1)
