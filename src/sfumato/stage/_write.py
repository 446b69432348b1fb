"""A staged data set on disk: ``split/action/clip_00000.mkv``, its truth beside it, one index.

Videos are lossless RGB. ``clip_00000.npz`` holds mask, alpha, depth, joints, pixels and the empty
room. Every line of ``metadata.jsonl`` describes one clip: file_name, truth, split, action, actor, all
attributes, room and camera.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Sequence
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.jobs import Engine, Needs, run_all
from sfumato.media import VideoWriter, atomic_folder
from sfumato.progress import tell, track
from sfumato.stage._clip import Clip
from sfumato.stage._make import Performance, Staging, clips, trait_classes, traits

INDEX_NAME = "metadata.jsonl"
_TOGETHER = 8  # clips of one task: actors and rooms are made anew for each
_ATTEMPT = "attempt-"
_EVERY = 4  # every fourth round of actions is for testing


def write(
    target: str | os.PathLike[str],
    staging: Staging,
    *,
    performances: Sequence[Performance] = (),
    force: bool = False,
    engine: Engine | None = None,
) -> int:
    """Stage a data set into the folder ``target``; returns the number of clips.

    With ``engine`` clips are made elsewhere, some at a time: each follows from the seed and its number.
    """
    with atomic_folder(Path(target), force=force) as folder:
        if engine is None:
            made = track(clips(staging, performances=performances), "clips", staging.clips)
            rows = [_write_one(folder, n, clip, staging) for n, clip in enumerate(made)]
        else:
            engine.prepare(folder, None, Needs())
            firsts = range(0, staging.clips, _TOGETHER)
            tasks = [(folder, first, staging, tuple(performances)) for first in firsts]
            tell("clips", 0, staging.clips)
            answers = run_all(
                engine, _write_some, tasks,
                answered=lambda done: tell("clips", min(done * _TOGETHER, staging.clips), staging.clips),
            )  # fmt: skip
            rows = []
            for answer in answers:
                if isinstance(answer, SfumatoError):
                    raise answer
                rows += answer
            for left in (*folder.glob(f"{_ATTEMPT}*"), *folder.glob("probe-*")):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
        (folder / INDEX_NAME).write_text(text, encoding="utf-8")
    return len(rows)


def _write_some(
    folder: Path, first: int, staging: Staging, performances: tuple[Performance, ...]
) -> list[dict[str, Any]]:
    """On a node: the next few clips, in a place of this attempt, then whole into theirs.

    A second attempt, or one that was given up and is late, puts the same bytes into the same place.
    """
    own = folder / f"{_ATTEMPT}{secrets.token_hex(8)}"
    own.mkdir()  # raises where the data set was given up, or is another one on this node
    made = islice(clips(staging, performances=performances, first=first), _TOGETHER)
    rows = [_write_one(own, n, clip, staging) for n, clip in enumerate(made, start=first)]
    for file in [file for file in own.rglob("*") if file.is_file()]:
        place = folder / file.relative_to(own)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(file, place)
    shutil.rmtree(own)
    return rows


def _write_one(folder: Path, number: int, clip: Clip, staging: Staging) -> dict[str, Any]:
    split = "test" if (number // len(staging.actions)) % _EVERY == _EVERY - 1 else "train"
    place = Path(split) / clip.action / f"clip_{number:05d}.mkv"
    _write_clip(folder / place, clip, staging)
    return _row(place, split, clip, staging)


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
