"""People and sightings as lines of text, to the last bit: from one process to another one.

Numbers keep their kind. A coordinate in single precision that came back in double would round otherwise
in what is computed with it, and a mask might differ by a pixel from that of one run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sfumato.people._boxes import Box
from sfumato.people._person import People, Person
from sfumato.people._text_line import TextLine
from sfumato.people.detect._sightings import Sighting

_KINDS: dict[str, Any] = {"f": np.float32, "d": np.float64, "i": np.int32, "q": np.int64}
_LETTERS = {kind: letter for letter, kind in _KINDS.items()}


def line_of_sightings(found: Iterable[Sighting]) -> str:
    """One line for what a look found."""
    return json.dumps(
        [
            [
                _box(one.box), _array(one.joints), _box(one.head), list(one.sources),
                bool(one.body), bool(one.solid), bool(one.faint),
            ]
            for one in found
        ]
    )  # fmt: skip


def sightings_of_line(line: str) -> list[Sighting]:
    return [
        Sighting(_box_of(box), _array_of(joints), _box_of(head), tuple(sources), *flags)
        for box, joints, head, sources, *flags in json.loads(line)
    ]


def line_of_people(found: People, text: Sequence[TextLine] = ()) -> str:
    """One line for everybody on a frame, without masks, and for its lines of text."""
    if any(one.cut is not None for one in found):
        raise ValueError("masks are made where they are used")
    everybody = [
        [
            one.track, _box(one.box), _array(one.joints), one.head and _box(one.head),
            one.evidence, list(one.shape), bool(one.body), bool(one.outlined),
        ]
        for one in found
    ]  # fmt: skip
    lines = [[_array(line.corners), _number(line.score)] for line in text]
    return json.dumps([found.number, bool(found.blank), everybody, lines])


def people_of_line(line: str) -> tuple[People, tuple[TextLine, ...]]:
    number, blank, everybody, lines = json.loads(line)
    found = [
        Person(
            track, _box_of(box), _array_of(joints), head and _box_of(head), evidence,
            (shape[0], shape[1]), body=body, outlined=outlined,
        )
        for track, box, joints, head, evidence, shape, body, outlined in everybody
    ]  # fmt: skip
    text = tuple(TextLine(_array_of(corners), _number_of(score)) for corners, score in lines)
    return People(found, number, blank), text


def _box(box: Box) -> list[Any]:
    return [*map(_number, (box.x0, box.y0, box.x1, box.y1, box.score)), box.source]


def _box_of(row: Sequence[Any]) -> Box:
    x0, y0, x1, y1, score = map(_number_of, row[:5])
    return Box(x0, y0, x1, y1, score, row[5])


def _number(value: Any) -> Any:
    letter = _LETTERS.get(type(value))
    return value if letter is None else [letter, value.item()]


def _number_of(row: Any) -> Any:
    return _KINDS[row[0]](row[1]) if isinstance(row, list) else row


def _array(values: Any) -> list[Any]:
    return [values.dtype.str, values.tolist()]


def _array_of(row: Sequence[Any]) -> Any:
    return np.array(row[1], np.dtype(row[0]))
