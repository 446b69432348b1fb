"""People upside down or lying across: networks that know people upright are shown the picture turned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfumato.people._boxes import Box, hull, iou
from sfumato.people.detect._sightings import SAME, Sighting

# quarters by which the picture is turned, one on each look; tracks bridge the looks between
IN_TURN = (2, 1, 2, 3)
_AROUND = 0.8  # of somebody who was seen upright, inside a turned find
_PART = 0.6  # of a box that lies inside somebody who was seen upright


def turned_back(one: Sighting, quarters: int, width: int, height: int) -> Sighting:
    """Somebody seen in ``np.rot90(picture, quarters)``, in pixels of the picture, which is ``width`` by
    ``height``."""

    def point(x: float, y: float) -> tuple[float, float]:
        return {1: (width - y, x), 2: (width - x, height - y), 3: (y, height - x)}[quarters]

    def box(of: Box) -> Box:
        (x0, y0), (x1, y1) = point(of.x0, of.y0), point(of.x1, of.y1)
        return replace(of, x0=min(x0, x1), y0=min(y0, y1), x1=max(x0, x1), y1=max(y0, y1))

    joints = one.joints.copy()
    joints[:, :2] = [point(float(x), float(y)) for x, y, _ in one.joints]
    return replace(one, box=box(one.box), head=box(one.head), joints=joints)


def with_turned(found: Sequence[Sighting], turned: Sequence[Sighting]) -> list[Sighting]:
    """Everybody who was seen upright, and those whom the turned picture shows better or alone. A doubtful
    find around somebody who is surely upright is nobody, and so is any around two of them."""
    everybody = list(found)
    sure = [other.box for other in found if other.body and other.solid]
    for one in turned:
        if sum(one.box.covers(box) >= _AROUND for box in sure) > one.solid:
            continue
        rivals = [i for i, other in enumerate(everybody) if other.body]
        same = max(rivals, key=lambda i: iou(one.box, everybody[i].box), default=None)
        if same is not None and iou(one.box, everybody[same].box) >= SAME:
            known = everybody[same]
            if len(known.sources) == 1 and known.score < one.score:
                box = replace(hull([known.box, one.box]), score=one.score)
                everybody[same] = replace(one, box=box)
        elif not any(everybody[i].box.covers(one.box) >= _PART for i in rivals):
            everybody.append(one)
    return everybody
