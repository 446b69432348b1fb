"""The cross-data protocols of Video-DPRP: attackers taught on VISPR, asked about frames of PA-HMDB51.

Five attributes are in both: skin colour, face, gender, nudity, relationship. PA-HMDB51 grades them;
an attribute counts as shown when its value is above 0, "cannot be told" (or not there). For actions, HMDB51 without the videos of PA-HMDB51 is the training set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.audit.attack._attacker import Attacker, Effort
from sfumato.audit.attack._views import views_of
from sfumato.audit.measure._measure import MeasureError
from sfumato.audit.measure._multi_label import MultiLabel
from sfumato.data import PrivacyAnnotations, Sampling, VideoRecords, Vispr, sampled_frames
from sfumato.media import Frame, Image
from sfumato.protect import make

Protect = Callable[[Image], Image]
# attribute of PA-HMDB51 -> the attributes of VISPR that mean it; any of them counts
FIVE: Mapping[str, tuple[str, ...]] = {
    "skin_color": ("a17_color",),
    "face": ("a9_face_complete", "a10_face_partial"),
    "gender": ("a4_gender",),
    "nudity": ("a12_semi_nudity", "a13_full_nudity"),
    "relationship": (
        "a64_rel_personal",
        "a65_rel_soci",
        "a66_rel_professional",
        "a67_rel_competitors",
        "a68_rel_spectators",
        "a69_rel_views",
    ),
}


@dataclass(frozen=True)
class CrossData:
    """Pictures to learn from and frames to be asked about, with the attributes that both have."""

    attributes: tuple[str, ...]
    taught: Mapping[str, Any]
    taught_truth: npt.NDArray[np.bool_]
    asked: Mapping[str, Any]
    asked_truth: npt.NDArray[np.bool_]
    videos: tuple[str, ...]


def on_pictures(method: str, settings: Mapping[str, Any]) -> Protect:
    """A release method for single pictures, each a recording of one frame, by its name."""
    made = make(method, settings)

    def protect(image: Image) -> Image:
        (shown,) = made.frames([Frame(image, 0, Fraction(0))], count=1)
        return shown.image

    return protect


def vispr_truth(records: Vispr) -> tuple[tuple[str, ...], npt.NDArray[np.bool_]]:
    """Which of the five VISPR knows, and whether each of its pictures shows them."""
    known = {
        name: [records.classes.index(each) for each in meant if each in records.classes]
        for name, meant in FIVE.items()
    }
    names = tuple(name for name, columns in known.items() if columns)
    if not names:
        raise MeasureError("Expected some of the five attributes in VISPR's list, got none.")
    labels = np.stack([np.asarray(record.y) for record in records]) > 0
    return names, np.stack([labels[:, known[name]].any(1) for name in names], 1)


def cross_data(
    pictures: Vispr,
    videos: VideoRecords,
    annotations: PrivacyAnnotations,
    *,
    protect: Protect | None = None,
    protect_taught: bool = True,
    frames: int = 4,
    **look: Any,
) -> CrossData:
    """Views of VISPR's pictures and of annotated frames, both protected by ``protect``.

    ``protect_taught=False`` leaves the pictures as they are: then domain shift is measured.
    """
    names, truth = vispr_truth(pictures)
    change = protect or (lambda image: image)
    study = change if protect_taught else (lambda image: image)
    taught = views_of((study(record.x) for record in pictures), **look)
    shown, values, whose = [], [], []
    for item in videos.items:
        clip, places = sampled_frames(item.path, Sampling(frames))
        notes = annotations[item.path.name]
        assert places is not None
        for image, place in zip(clip, places.tolist(), strict=True):
            at = min(place, len(notes[names[0]]) - 1)
            shown.append(change(image))
            values.append([bool(notes[name][at] > 0) for name in names])
            whose.append(item.path.name)
    asked = views_of(iter(shown), **look)
    return CrossData(names, taught, truth, asked, np.array(values), tuple(whose))


def cross_data_attack(data: CrossData, *, effort: Effort | None = None) -> MultiLabel:
    """cMAP and F1 on PA-HMDB51 of an attacker who learned every attribute on VISPR."""
    columns = []
    for k in range(len(data.attributes)):
        codes = data.taught_truth[:, k].astype(np.int64)
        if len(np.unique(codes)) < 2:
            raise MeasureError(
                f"Expected pictures with and without {data.attributes[k]} to learn from, got one kind."
            )
        columns.append(Attacker(2, effort).fit(data.taught, codes).predict(data.asked)[:, 1])
    measure = MultiLabel(data.attributes)
    measure.update(np.stack(columns, 1), data.asked_truth, data.videos)
    return measure


def without_annotated(actions: VideoRecords, annotations: PrivacyAnnotations) -> VideoRecords:
    """HMDB51 without the videos of PA-HMDB51: the training set of its action protocol."""
    kept = [item for item in actions.items if item.path.name not in annotations]
    if len(kept) == len(actions.items):
        raise MeasureError(
            "Expected videos of PA-HMDB51 among those of HMDB51, got none: check their names."
        )
    return VideoRecords(kept, actions.classes, sampling=actions.sampling, problems=actions.problems)
