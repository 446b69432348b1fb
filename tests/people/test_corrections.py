"""What a person corrects is kept, can be taken back, and leaves as the file that a release reads."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import SfumatoError
from sfumato.people import (
    BRIDGED,
    CARRIED,
    HELD,
    Box,
    CocoWriter,
    DoubtfulSpan,
    People,
    PeopleFile,
    Person,
    PersonRow,
    StaleEditError,
    numbered,
    read_coco,
    write_coco,
)

SHAPE = (48, 64)
FRAMES = 10


def person(track: int, x: float, evidence: str = "movenet", masked: bool = False) -> Person:
    box = Box(x, 5, x + 10, 35, 0.7, "movenet")
    joints = np.arange(51, dtype=np.float32).reshape(17, 3)
    cut = window = None
    if masked:
        cut = np.random.default_rng(track).random((30, 10)) > 0.5
        window = slice(5, 35), slice(int(x), int(x) + 10)
    return Person(track, box, joints, Box(x + 2, 5, x + 8, 12), evidence, SHAPE, cut, window)


def everybody() -> list[People]:
    found = []
    for number in range(FRAMES):
        evidence = {4: BRIDGED, 9: HELD}.get(number, "movenet+centernet")
        found.append(
            People([person(0, 3.0 + number, evidence, masked=True), person(7, 40)], number)
        )
    found[6] = People([], 6, blank=True)
    return found


@pytest.fixture
def file(tmp_path: Path) -> PeopleFile:
    doubts = [
        DoubtfulSpan(4, 4, "bridged", 0),
        DoubtfulSpan(8, 9, "held", 0),
        DoubtfulSpan(6, 6, "blank", -1),
    ]
    return PeopleFile.create(
        tmp_path / "private" / "p.db", iter(everybody()), width=64, height=48, doubts=lambda: doubts
    )


def same(a: People, b: People) -> bool:
    return (a.number, a.blank, len(a)) == (b.number, b.blank, len(b)) and all(
        (p.track, p.box, p.head, p.evidence) == (q.track, q.box, q.head, q.evidence)
        and np.array_equal(p.joints, q.joints)
        and np.array_equal(p.mask, q.mask)
        for p, q in zip(a, b, strict=True)
    )


def test_what_was_found_comes_back_as_it_was(file: PeopleFile) -> None:
    assert all(same(a, b) for a, b in zip(file.people(), everybody(), strict=True))
    part = list(file.people(3, 6))
    assert [people.number for people in part] == [0, 1, 2, 3]
    assert part[3].blank
    assert [person.track for person in part[0]] == [0, 7]


def test_it_is_for_the_owner_only(file: PeopleFile, tmp_path: Path) -> None:
    for path in (tmp_path / "private", tmp_path / "private" / "p.db"):
        assert path.stat().st_mode & 0o077 == 0


def test_lanes_are_spans_of_one_kind(file: PeopleFile) -> None:
    lanes = [(s.first, s.last, s.kind) for s in file.spans() if s.track == 0]
    assert lanes == [
        (0, 3, "seen"),
        (4, 4, "bridged"),
        (5, 5, "seen"),
        (7, 8, "seen"),
        (9, 9, "held"),
    ]
    file.leave_open(0, True)
    assert {s.kind for s in file.spans() if s.track == 0} == {"left open"}
    assert {p.evidence for people in file.people() for p in people if p.track == 0} == {"left open"}


def test_an_edit_is_taken_back_and_done_again_exactly(file: PeopleFile) -> None:
    states = [list(file.people())]
    edits = (
        lambda: file.draw(2, 0, Box(1, 1, 9, 9)),
        lambda: file.draw(8, 0, Box(20, 1, 28, 9)),
        lambda: file.delete_track(7),
        lambda: file.draw(5, None, Box(30, 30, 40, 40)),
    )
    for edit in edits:
        edit()
        states.append(list(file.people()))
    for before in reversed(states[:-1]):
        file.undo()
        assert all(same(a, b) for a, b in zip(file.people(), before, strict=True))
    for after in states[1:]:
        file.redo()
        assert all(same(a, b) for a, b in zip(file.people(), after, strict=True))


def test_a_new_edit_ends_what_could_be_done_again(file: PeopleFile) -> None:
    first = file.draw(1, None, Box(1, 1, 9, 9))
    file.undo()
    second = file.draw(1, None, Box(2, 2, 9, 9))
    assert file.edits == (1, 0)
    assert second >= first
    with pytest.raises(SfumatoError, match="do again"):
        file.redo()


def test_an_edit_that_fails_leaves_nothing(
    file: PeopleFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, revision = list(file.people()), file.revision

    def broken(*_: object) -> None:
        raise sqlite3.OperationalError("disk full")

    monkeypatch.setattr("sfumato.people._corrections._insert", broken)
    with pytest.raises(SfumatoError, match="damaged or busy"):
        file.draw(1, 0, Box(1, 1, 9, 9))
    assert file.revision == revision
    assert file.edits == (0, 0)
    assert all(same(a, b) for a, b in zip(file.people(), before, strict=True))


def test_two_who_edit_at_once_do_not_overwrite_each_other(file: PeopleFile) -> None:
    revision = file.revision
    file.delete_box(0, 7, revision=revision)
    with pytest.raises(StaleEditError):
        file.delete_track(7, revision=revision)
    assert any(span.track == 7 for span in file.spans())


def test_doubts_end_where_somebody_confirmed(file: PeopleFile) -> None:
    def kinds() -> list[str]:
        return sorted(doubt.reason for doubt in file.doubts())

    assert kinds() == ["blank", "bridged", "held"]
    file.confirm(4, 0)
    assert kinds() == ["blank", "held"]
    file.delete_track(0)
    assert kinds() == ["blank"]


def test_somebody_carried_is_in_doubt_until_both_ends_are_confirmed(file: PeopleFile) -> None:
    rows = [PersonRow(4, person(9, 20, "by hand"), key=True, confirmed=True)]
    rows += [PersonRow(n, person(9, 20, CARRIED)) for n in (2, 3, 5, 6, 7)]
    file.add(rows)
    doubts = [(d.first, d.last) for d in file.doubts() if d.track == 9]
    assert doubts == [(2, 3), (5, 7)]
    assert [(s.first, s.last, s.kind) for s in file.spans() if s.track == 9] == [(2, 7, "by hand")]
    file.confirm(7, 9)
    assert [(d.first, d.last) for d in file.doubts() if d.track == 9] == [(2, 3)]
    file.confirm(2, 9)
    assert [d for d in file.doubts() if d.track == 9] == []
    file.undo()
    assert [(d.first, d.last) for d in file.doubts() if d.track == 9] == [(2, 3)]


def test_a_dragged_box_keeps_a_head_that_lies_in_it(file: PeopleFile) -> None:
    file.draw(0, 0, Box(0, 0, 30, 40))
    file.draw(1, 0, Box(40, 0, 60, 40))
    heads = [row.person.head for row in file.rows(0, 1) if row.person.track == 0]
    assert heads[0] is not None
    assert heads[1] is None  # all of the box counts


def test_wrong_edits_are_refused(file: PeopleFile) -> None:
    for wrong in (
        lambda: file.draw(99, 0, Box(1, 1, 5, 5)),
        lambda: file.draw(0, 55, Box(1, 1, 5, 5)),
        lambda: file.draw(0, 0, Box(-9, -9, -5, -5)),
        lambda: file.delete_box(0, 3),
        lambda: file.delete_track(3),
        lambda: file.leave_open(3, True),
        lambda: file.confirm(6, 0),
    ):
        with pytest.raises(SfumatoError):
            wrong()
    assert file.edits == (0, 0)


def test_a_file_written_a_frame_at_a_time_says_what_the_collected_one_says(
    file: PeopleFile, tmp_path: Path
) -> None:
    for category in ("person", "face"):
        collected = CocoWriter(64, 48, category)
        for people in file.people():
            collected.add(people)
        collected.write(tmp_path / f"{category}-a.json")
        streamed = tmp_path / f"{category}-b.json"
        write_coco(streamed, file.people(), width=64, height=48, category=category)
        assert json.loads(streamed.read_text()) == json.loads(
            (tmp_path / f"{category}-a.json").read_text()
        )
        assert streamed.stat().st_mode & 0o077 == 0
    again = read_coco(tmp_path / "person-b.json")
    for number, people in enumerate(file.people()):
        assert np.array_equal(again.frames[number].mask(48, 64), people.mask(48, 64))


def test_imported_people_each_have_a_track() -> None:
    twice = [People([person(-1, 3), person(2, 9), person(2, 20)], 0), People([person(-1, 3)], 1)]
    tracks = [[p.track for p in people] for people in numbered(twice)]
    assert tracks == [[3, 2, 4], [5]]


def test_another_file_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "p.db"
    with pytest.raises(SfumatoError, match="none yet"):
        PeopleFile(wrong)
    wrong.write_bytes(b"not a database, but long enough to be looked at" * 40)
    with pytest.raises(SfumatoError):
        PeopleFile(wrong)


def test_somebody_followed_is_covered_by_the_whole_box_until_looked_at(file: PeopleFile) -> None:
    """A mask that was carried along may lack a foot; who looked and confirmed it has seen that."""
    cut = np.ones((4, 6), bool)
    followed = replace(person(9, 20, CARRIED), cut=cut, window=(slice(2, 6), slice(18, 24)))
    file.add([PersonRow(2, followed), PersonRow(3, followed, confirmed=True)])
    at = {
        people.number: next(one for one in people if one.track == 9) for people in file.people(2, 3)
    }
    box = followed.box
    whole = np.zeros(followed.shape, bool)
    whole[
        min(2, int(box.y0)) : max(6, int(box.y1)), min(18, int(box.x0)) : max(24, int(box.x1))
    ] = True
    assert np.array_equal(at[0].mask, whole)
    assert np.array_equal(at[1].mask, followed.mask)
    assert at[0].mask.sum() > at[1].mask.sum()


def test_frames_between_two_looks_count_as_seen_and_a_longer_gap_does_not(tmp_path: Path) -> None:
    seen = "movenet+centernet"
    evidence = [seen, *[BRIDGED] * 3, seen, *[BRIDGED] * 4, seen, HELD]
    found = [People([person(0, 3, each)], number) for number, each in enumerate(evidence)]
    file = PeopleFile.create(tmp_path / "gaps.db", found, width=64, height=48)
    assert [(s.first, s.last, s.kind) for s in file.spans(looks_every=4)] == [
        (0, 4, "seen"), (5, 8, BRIDGED), (9, 9, "seen"), (10, 10, HELD),
    ]  # fmt: skip
    assert len(file.spans()) == 6
    assert file.spans([1]) == []


def test_a_file_says_which_tracks_an_edit_changed(file: PeopleFile) -> None:
    start = file.revision
    assert file.changed_since(start) == set()
    file.delete_box(2, 7)
    file.leave_open(0, True)
    assert file.changed_since(start) == {0, 7}
    assert file.changed_since(start + 1) == {0}
    now = file.revision
    file.undo()
    assert file.changed_since(now) == {0}
    whole = file.spans()
    assert [s for s in whole if s.track == 7] == file.spans([7])
