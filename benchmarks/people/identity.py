"""How often a track changes to another person, or a person to another track."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.people.labels import LabelledClip, Somebody
from sfumato import people
from sfumato.media import open_video


def identity_switches(clip: LabelledClip, source: Path) -> dict[str, int] | None:
    """Of people with a number (``who``): from one labelled frame to the next, pairs and changed tracks.

    None where there is nobody to follow, or no ``people.find``, which gives the tracks of people.
    """
    find: Any = getattr(people, "find", None)
    known = any(each.who is not None for frame in clip.frames for each in frame.people)
    if find is None or not known:
        return None
    labels = {frame.number: frame for frame in clip.frames}
    last: dict[int, int] = {}
    compared = switches = 0
    with open_video(source, tolerant=True) as video:
        for number, (_, found) in enumerate(find(video, masks=False)):
            for each in labels[number].people if number in labels else ():
                track = None if each.who is None else track_at(each, found)
                if each.who is None or track is None:
                    continue
                compared += each.who in last
                switches += last.get(each.who, track) != track
                last[each.who] = track
    return {"compared": compared, "switches": switches}


def track_at(person: Somebody, found: Any) -> int | None:
    """The track whose box is the smallest around the trunk, or the head where no trunk is in view."""
    point = person.torso or person.head
    if point is None:
        return None
    around = [
        each
        for each in found
        if each.box.x0 <= point[0] < each.box.x1 and each.box.y0 <= point[1] < each.box.y1
    ]
    return min(around, key=lambda each: each.box.area).track if around else None
