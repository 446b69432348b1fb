"""One finished release of one labelled clip, read from disk and compared with its original."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.people.covers import (
    Image,
    Mask,
    changed,
    codec_noise,
    is_open,
    radius_of,
    wrong_covers,
)
from benchmarks.people.labels import LabelledClip, LabelledFrame
from sfumato.errors import SfumatoError
from sfumato.media import open_video

# what a method promises to hide
PARTS = {"blur": ("head",), "pixelate": ("head",)}
WHOLE = ("head", "torso")


def measured(
    clip: LabelledClip, source: Path, release: Path, parts: tuple[str, ...]
) -> dict[str, Any]:
    """Open points, covered share and wrong covers of a release that was stored without loss."""
    labels = {frame.number: frame for frame in clip.frames}
    masks: list[Mask] = []
    points: list[dict[str, Any]] = []
    for number, (before, after) in enumerate(pairs(source, release)):
        masks.append(changed(before, after))
        if number in labels:
            points += judged_points(labels[number], before, masks[-1], parts)
    if len(masks) <= max(labels):
        raise SfumatoError(f"Expected more than {max(labels)} frames of {clip.name}.")
    return {
        "labelled_frames": len(clip.frames),
        "points": points,
        "covered": float(np.mean([mask.mean() for mask in masks])),
        "covered_on_labelled_frames": float(np.mean([masks[number].mean() for number in labels])),
        "wrong_covers": [
            asdict(wrong) for frame in clip.frames for wrong in wrong_covers(masks, frame)
        ],
    }


def judged_points(
    frame: LabelledFrame, before: Image, mask: Mask, parts: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Every labelled point of a frame, and whether it is still open."""
    return [
        {
            "frame": frame.number, "part": part, "at": list(point), "hard": person.hard,
            "open": is_open(point, radius_of(person, frame, len(before)), before, mask),
        }
        for person in frame.people
        for part in parts
        if person.counted and (point := getattr(person, part)) is not None
    ]  # fmt: skip


def counted(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Points as they are published: how many of each part there are, and the open ones."""
    return {
        "points": {
            part: {"all": len(mine), "hard": sum(point["hard"] for point in mine)}
            for part in WHOLE
            if (mine := [point for point in points if point["part"] == part])
        },
        "open": [
            {name: value for name, value in point.items() if name != "open"}
            for point in points
            if point["open"]
        ],
    }


def default_codec(
    clip: LabelledClip, source: Path, lossless: Path, default: Path, parts: tuple[str, ...]
) -> dict[str, Any]:
    """Whether the file that users get shows the same: the codec's noise, and verdicts that differ."""
    labels = {frame.number: frame for frame in clip.frames}
    noise, verdicts, differ = [], 0, 0
    for number, ((before, exact), (_, after)) in enumerate(
        zip(pairs(source, lossless), pairs(source, default), strict=True)
    ):
        if number not in labels:
            continue
        mask = changed(before, exact)
        noise.append(codec_noise(before, after, ~mask))
        one = judged_points(labels[number], before, mask, parts)
        other = judged_points(labels[number], before, changed(before, after, noise[-1]), parts)
        verdicts += len(one)
        differ += sum(a["open"] != b["open"] for a, b in zip(one, other, strict=True))
    return {"noise": float(np.max(noise)), "verdicts": verdicts, "verdicts_that_differ": differ}


def pairs(source: Path, release: Path) -> Iterator[tuple[Image, Image]]:
    """Original and released pictures; a release of another length is refused."""
    with open_video(source, tolerant=True) as one, open_video(release, tolerant=True) as other:
        try:
            for before, after in zip(one, other, strict=True):
                if before.image.shape != after.image.shape:
                    raise SfumatoError(f"Expected {release.name} to be as large as its original.")
                yield before.image, after.image
        except ValueError as error:
            raise SfumatoError(f"Expected {release.name} to be as long as its original.") from error
