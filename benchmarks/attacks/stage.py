"""The people who are attacked in the table ``attacks``: staged clips, protected in every way.

People are found by their exact masks and heads, which only a stage knows: what is measured is what a
method itself leaves, not what a detector misses (``sfumato audit leaks`` looks for that).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato import protect, stage
from sfumato.audit.attack import Attribute
from sfumato.body import INDEX
from sfumato.media import Frame
from sfumato.people import Box
from sfumato.protect.hide import Place, Region

Clips = npt.NDArray[np.uint8]
_WARM = ("red", "orange", "yellow", "pink", "brown")
_COOL = ("green", "teal", "blue", "purple", "navy")

STAGING = stage.Staging(
    clips=240, actors=48, rooms=6, actions=("walk", "march", "jump", "wave", "sit", "stretch"),
    frames=8, fps=6.0, width=96, height=96, habit=0.0, seed=41,
)  # fmt: skip
QUICK = replace(STAGING, clips=24, actors=8, rooms=3, frames=4, width=64, height=64)

_PIXELS = {"unit": "pixels(16, frames=1)"}
_FRAME = {"unit": "frame", "delta": 1e-5}
# row of the table -> (method, settings); "found" settings get the exact finders of the stage
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "blur, faces": ("blur", {"region": "faces"}),
    "blur, people": ("blur", {"region": "people"}),
    "pixelate, people": ("pixelate", {"region": "people"}),
    "silhouette": ("silhouette", {"region": "people"}),
    "selective": ("selective", {"region": "people"}),
    "skeleton": ("skeleton", {}),
    "avatar": ("avatar", {"body": "procedural"}),
    "appearance-free": ("appearance-free", {}),
    "edges": ("edges", {}),
    "isr": ("isr", {}),
    "dppix, 16 pixels, epsilon 8": ("dppix", {"epsilon": 8.0, **_PIXELS}),
    "laplace, 16 pixels, epsilon 8": ("laplace", {"epsilon": 8.0, **_PIXELS}),
    "randomized-response, 16 pixels, epsilon 8": (
        "randomized-response", {"epsilon": 8.0, **_PIXELS},
    ),
    "snow, nine pixels in ten": ("snow", {"p": 0.9, **_PIXELS}),
    "dp-image, frame, epsilon 8": ("dp-image", {"epsilon": 8.0, **_FRAME}),
    "dprp, 16 pixels, epsilon 8": ("dprp", {"epsilon": 8.0, "delta": 1e-5, **_PIXELS}),
    "dprp, 16 pixels, epsilon 2": ("dprp", {"epsilon": 2.0, "delta": 1e-5, **_PIXELS}),
    "dprp, frame, epsilon 8": ("dprp", {"epsilon": 8.0, **_FRAME}),
    "dprp, frame, epsilon 1": ("dprp", {"epsilon": 1.0, **_FRAME}),
}  # fmt: skip
QUICK_WAYS = ("blur, faces", "silhouette", "dprp, frame, epsilon 1")


@dataclass(frozen=True)
class Truth:
    """What is so in the clips: where people are, what is private about them, what they do."""

    masks: npt.NDArray[np.bool_]
    heads: npt.NDArray[np.float64]
    attributes: Mapping[str, Attribute]
    rooms: Attribute
    identity: Attribute
    actions: Attribute


def staged_clips(staging: stage.Staging, keep: Path) -> tuple[Clips, Truth]:
    """The clips and their truth, staged once into ``keep``."""
    file = keep / "staged.npz"
    if not file.is_file():
        made = list(stage.clips(staging))
        part = keep / "staged.part.npz"
        np.savez_compressed(
            part,
            clips=np.stack([clip.frames for clip in made]),
            masks=np.stack([clip.alpha > 0 for clip in made]),
            heads=np.stack([_heads(clip) for clip in made]),
            facts=np.array([_facts(clip) for clip in made]),
        )
        part.replace(file)
    with np.load(file, allow_pickle=False) as stored:
        clips, facts = stored["clips"], stored["facts"].T
        who, action, room, face, sex, build, skin, clothing = (row.tolist() for row in facts)
        # strangers show their skin and their clothes; sex and build take knowing the person
        private = {
            "face": Attribute.of(face),
            "skin": Attribute.of(skin, who),
            "clothing": Attribute.of(clothing, who),
            "sex": Attribute.of(sex),
            "build": Attribute.of(build),
        }
        return clips, Truth(
            stored["masks"], stored["heads"], private, Attribute.of(room), Attribute.of(who),
            Attribute.of(action),
        )  # fmt: skip


def _heads(clip: stage.Clip) -> npt.NDArray[np.float64]:
    """x0, y0, x1, y1 around the head in every frame."""
    crown, neck = (clip.pixels[:, INDEX[name]].astype(float) for name in ("crown", "neck"))
    centre, half = (crown + neck) / 2, 0.75 * np.linalg.norm(crown - neck, axis=1)[:, None]
    return np.concatenate([centre - half, centre + half], 1)


def _facts(clip: stage.Clip) -> tuple[str, ...]:
    person = clip.person
    left, right = (clip.joints[:, INDEX[f"{side}_shoulder"]].mean(0) for side in ("left", "right"))
    forward = np.cross(left - right, [0.0, 1.0, 0.0])
    eye = -np.asarray(clip.camera.rotation).T @ np.asarray(clip.camera.translation)
    way = eye - (left + right) / 2
    turned = (
        forward[[0, 2]]
        @ way[[0, 2]]
        / np.linalg.norm(forward[[0, 2]])
        / np.linalg.norm(way[[0, 2]])
    )
    return (
        clip.actor,
        clip.action,
        str(clip.room.seed),
        "seen" if turned > np.cos(np.deg2rad(40)) else "turned",
        person.sex,
        "heavy" if person.build > 0.05 else "slight",
        "dark" if person.skin > 2 else "light",
        "warm" if person.top in _WARM else "cool" if person.top in _COOL else "grey",
    )


class _Known:
    """Finds exactly the heads that the stage knows; asked for one clip, frame by frame in any order."""

    name, device = "the stage's truth", "none"

    def __init__(self, frames: Clips, heads: Any) -> None:
        self._number = {frame.tobytes(): i for i, frame in enumerate(frames)}
        self._heads = heads

    def detect(self, image: npt.NDArray[np.uint8]) -> list[Box]:
        x0, y0, x1, y1 = self._heads[self._number[image.tobytes()]]
        return [Box(x0, y0, x1, y1, 1.0, "stage")]


def protected_clips(way: str, clips: Clips, truth: Truth) -> Clips:
    """Every clip protected; noise is fresh, as in a real release."""
    return released(*WAYS[way], clips, truth)


def released(name: str, settings: dict[str, Any], clips: Clips, truth: Truth) -> Clips:
    """The same by any method."""
    return np.stack(
        [_protected(name, settings, *each) for each in zip(clips, truth.masks, truth.heads)]
    )


def _protected(
    name: str, settings: dict[str, Any], frames: Clips, masks: npt.NDArray[np.bool_], heads: Any
) -> Clips:
    if "region" in settings:
        settings = settings | {"detector": _Known(frames, heads), "check": False}
    rate = Fraction(1, 6)
    shown = [Frame(image, number, number * rate) for number, image in enumerate(frames)]
    method = protect.make(name, settings)
    if method.region is not None and method.region.kind == "people":
        with_known_people(method.region, masks)
    made = method.frames(iter(shown), count=len(shown))
    return np.stack([frame.image for frame in made])


def with_known_people(region: Region, masks: npt.NDArray[np.bool_]) -> None:
    """Let a region be the stage's true masks instead of what detectors find."""

    def find(frames: Iterable[Frame]) -> Iterator[tuple[Frame, Place]]:
        for frame, mask in zip(frames, masks):
            yield frame, Place(mask, False)

    region.find = find  # type: ignore[method-assign]
