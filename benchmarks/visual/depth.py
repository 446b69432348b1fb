"""Real people in table ``visual``: depth video of UTD-MHAD, where the background is empty."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.attacks.stage import Clips, Truth
from sfumato.audit.attack import Attribute
from sfumato.data import utd_mhad

# every picture at half its size, 60 x 80
SIZE = (60, 80)
FRAMES = 8


def depth_clips(folder: Path, part: int, parts: int) -> tuple[Clips, Truth]:
    """The ``part``-th of ``parts`` disjoint shares of the clips; depth as grey, nobody is black.

    Who it is is the private attribute, asked about people known from other clips; actions are asked
    about people whom the classifier has never seen, as the authors of UTD-MHAD split it.
    """
    records = utd_mhad(folder)
    chosen = range(part, len(records), parts)
    clips, masks, people, actions = [], [], [], []
    for index in chosen:
        record = records[index]
        depth = np.asarray(record.x)[..., 0]
        depth = depth[np.linspace(0, len(depth) - 1, FRAMES).astype(int), ::2, ::2]
        grey = (255 * (depth / max(int(depth.max()), 1))).astype(np.uint8)
        clips.append(np.repeat(grey[..., None], 3, axis=-1))
        masks.append(depth > 0)
        people.append(record.owners[0])
        actions.append(records.classes[record.y])
    who = Attribute.of(people)
    nowhere = np.zeros((len(clips), FRAMES, 4))
    return np.stack(clips), Truth(
        np.stack(masks), nowhere, {"identity": who}, Attribute.of(["one"] * len(clips)), who,
        Attribute.of(actions, people),
    )  # fmt: skip
