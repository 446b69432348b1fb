"""A staged data set on disk: ``split/action/clip_00000.mkv``, its truth beside it, one index.

Videos are lossless RGB. ``clip_00000.npz`` holds mask, alpha, depth, joints, pixels and the empty
room. Every line of ``metadata.jsonl`` describes one clip: file_name, truth, split, action, actor, all
attributes, room and camera.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.media import VideoWriter, atomic_folder
from sfumato.progress import track
from sfumato.stage._clip import Clip
from sfumato.stage._make import Performance, Staging, clips, trait_classes, traits

INDEX_NAME = "metadata.jsonl"
_EVERY = 4  # every fourth round of actions is for testing


def write(
    target: str | os.PathLike[str],
    staging: Staging,
    *,
    performances: Sequence[Performance] = (),
    force: bool = False,
) -> int:
    """Stage a data set into the folder ``target``; returns the number of clips."""
    with atomic_folder(Path(target), force=force) as folder:
        rows = []
        made = clips(staging, performances=performances)
        for number, clip in enumerate(track(made, "clips", staging.clips)):
            split = "test" if (number // len(staging.actions)) % _EVERY == _EVERY - 1 else "train"
            place = Path(split) / clip.action / f"clip_{number:05d}.mkv"
            _write_clip(folder / place, clip, staging)
            rows.append(_row(place, split, clip, staging))
        text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
        (folder / INDEX_NAME).write_text(text, encoding="utf-8")
    return len(rows)


def _write_clip(file: Path, clip: Clip, staging: Staging) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    rate = Fraction(staging.fps).limit_denominator(1001)
    size = (staging.width, staging.height)
    with VideoWriter(file, rate=rate, size=size, codec="ffv1") as video:
        for image in clip.frames:
            video.write(image)
    np.savez_compressed(
        file.with_suffix(".npz"),
        mask=clip.mask,
        alpha=clip.alpha,
        depth=clip.depth,
        joints=clip.joints,
        pixels=clip.pixels,
        empty=clip.empty,
    )


def _row(place: Path, split: str, clip: Clip, staging: Staging) -> dict[str, Any]:
    numbers, names = traits(clip, staging), trait_classes(staging)
    return {
        "file_name": place.as_posix(),
        "label": clip.action,
        "truth": place.with_suffix(".npz").as_posix(),
        "split": split,
        "action": clip.action,
        "actor": clip.actor,
        "owners": [clip.actor],
        "attributes": {name: names[name][value] for name, value in numbers.items()},
        "person": clip.person.to_json(),
        "room": {"name": names["room"][numbers["room"]], "kind": clip.room.kind},
        "camera": {
            "focal": clip.camera.focal,
            "rotation": np.asarray(clip.camera.rotation).tolist(),
            "translation": np.asarray(clip.camera.translation).tolist(),
        },
        "fps": staging.fps,
        "seed": staging.seed,
    }
