"""Reconstruction: how much of the original comes back when somebody tries to undo a protection.

The truth is used to score alone. Gains are counted inside the changed places, in decibel and SSIM over
the protected frames as they are; and a face that is found and recognised again counts more than both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.audit.attack._undo import Frames, Masks, Undo
from sfumato.audit.measure._accuracy import ssim
from sfumato.audit.measure._measure import MeasureError, Result
from sfumato.audit.measure._scores import auc
from sfumato.people import FaceDetector, FaceEmbedder
from sfumato.progress import track

_LEAST_CHANGE, _CODED_CHANGE = 2, 12
_SMALL = 240
_BEST_DECIBEL = 99.0


@dataclass(frozen=True)
class Reconstruction:
    """One attack: quality inside the changed places before and after it, and faces again."""

    attack: str
    psnr: tuple[float, float]
    ssim: tuple[float, float]
    faces: tuple[int, int] | None = None
    recognised: tuple[int, int] | None = None
    originals: int = 0

    @property
    def gain(self) -> float:
        """Decibel won inside the changed places."""
        return self.psnr[1] - self.psnr[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "attack": self.attack, "gain_decibel": self.gain,
            "psnr": list(self.psnr), "ssim": list(self.ssim),
            "faces_found": None if self.faces is None else list(self.faces),
            "faces_recognised": None if self.recognised is None else list(self.recognised),
            "faces_in_originals": self.originals,
        }  # fmt: skip

    def results(self, **facts: Any) -> list[Result]:
        shared: dict[str, Any] = {"target": "reconstruction", **facts}
        found = [
            Result(f"{self.attack}: gain in dB", "privacy", False, (-np.inf, np.inf),
                   value=self.gain, chance=0.0, **shared),
            Result(f"{self.attack}: SSIM", "privacy", False, (-1.0, 1.0), value=self.ssim[1],
                   chance=self.ssim[0], **shared),
        ]  # fmt: skip
        if self.recognised is not None and self.originals:
            found.append(
                Result(f"{self.attack}: faces recognised", "privacy", False, (0.0, 1.0),
                       value=self.recognised[1] / self.originals,
                       chance=self.recognised[0] / self.originals, **shared)
            )  # fmt: skip
        return found

    def __str__(self) -> str:
        said = (
            f"{self.attack}: {self.psnr[0]:.1f} dB became {self.psnr[1]:.1f} dB, SSIM "
            f"{self.ssim[0]:.2f} became {self.ssim[1]:.2f} in the changed places"
        )
        if self.faces is not None:
            said += f"; faces found {self.faces[0]} then {self.faces[1]} of {self.originals}"
        if self.recognised is not None:
            said += f", recognised {self.recognised[0]} then {self.recognised[1]}"
        return said + "."


def changed_places(
    originals: Frames, protected: Frames, grow: int = 1, *, coded: bool = False
) -> Masks:
    """Where protection changed a frame. An attacker sees it too: covers have edges.

    ``coded`` frames went through a lossy codec, which changes a little everywhere: then a place is
    where the mean difference of a neighbourhood stands out, without holes and specks.
    """
    apart = np.abs(originals.astype(np.int16) - protected).max(-1)
    if coded:
        return np.stack([_standing_out(each.astype(np.uint8)) for each in apart])
    kernel = np.ones((2 * grow + 1, 2 * grow + 1), np.uint8)
    closed = [
        cv2.morphologyEx((each > _LEAST_CHANGE).astype(np.uint8), cv2.MORPH_CLOSE, kernel)
        for each in apart
    ]
    return np.stack(closed).astype(bool)


def _standing_out(apart: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    side = max(5, min(apart.shape) // 48) | 1
    near = (cv2.blur(apart, (side, side)) > _CODED_CHANGE).astype(np.uint8)
    kernel = np.ones((2 * side + 1, 2 * side + 1), np.uint8)
    closed = cv2.morphologyEx(near, cv2.MORPH_CLOSE, kernel)
    opened = cv2.morphologyEx(closed, cv2.MORPH_OPEN, kernel)
    outlines, _ = cv2.findContours(opened, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled = cv2.drawContours(np.zeros_like(opened), outlines, -1, 1, cv2.FILLED)
    return np.asarray(filled, dtype=bool)


def reconstruct(
    originals: Frames,
    protected: Frames,
    attacks: Mapping[str, Undo],
    *,
    masks: Masks | None = None,
    detector: FaceDetector | None = None,
    embedder: FaceEmbedder | None = None,
) -> list[Reconstruction]:
    """Run every attack on ``protected`` (T, H, W, 3) and score it against ``originals``."""
    if originals.shape != protected.shape or originals.ndim != 4 or len(originals) == 0:
        raise MeasureError(
            f"Expected original and protected frames of one shape (T, H, W, 3), got "
            f"{originals.shape} and {protected.shape}."
        )
    places = changed_places(originals, protected) if masks is None else masks
    if not places.any():
        raise MeasureError(
            "Expected protected frames that differ from the originals, got equal ones."
        )
    before = _quality(originals, protected, places)
    truth = _faces(originals, detector, embedder)
    first = _found_again(protected, truth, detector, embedder)
    found = []
    for name, undo in track(attacks.items(), "attacks"):
        back = undo(protected, places)
        after = _quality(originals, back, places)
        again = _found_again(back, truth, detector, embedder)
        found.append(
            Reconstruction(
                name, (before[0], after[0]), (before[1], after[1]),
                None if first is None or again is None else (first[0], again[0]),
                None if embedder is None or first is None or again is None else (first[1], again[1]),
                sum(len(faces) for faces in truth),
            )
        )  # fmt: skip
    return found


def halo(originals: Frames, protected: Frames, *, masks: Masks | None = None) -> float:
    """Does an erased or filled person still stand out? AUC of guessing their pixels.

    The attacker takes the output's own median over time as the scene and calls person what departs
    from it, with its neighbourhood. 0.5: the place cannot be told; 1: its outline is all there.
    """
    places = changed_places(originals, protected) if masks is None else masks
    if not places.any() or places.all():
        raise MeasureError("Expected frames that were changed in some places only.")
    shrink = min(1.0, _SMALL / min(protected.shape[1:3]))
    if shrink < 1:  # an outline needs no single pixels
        size = [round(side * shrink) for side in reversed(protected.shape[1:3])]
        protected = np.stack([cv2.resize(p, size, interpolation=cv2.INTER_AREA) for p in protected])
        places = np.stack([cv2.resize(m.astype(np.uint8), size) > 0 for m in places])
    scene = np.median(protected, axis=0)
    apart = np.abs(protected - scene).max(-1)
    near = np.stack([cv2.GaussianBlur(each.astype(np.float64), (5, 5), 0) for each in apart])
    return auc(near[places], near[~places])


def _quality(originals: Frames, shown: Frames, masks: Masks) -> tuple[float, float]:
    """PSNR over changed pixels; SSIM over the boxes around them."""
    squares = np.square(shown[masks].astype(np.float64) - originals[masks])
    error = float(squares.mean())
    decibel = min(_BEST_DECIBEL, 10 * np.log10(255**2 / error)) if error > 0 else _BEST_DECIBEL
    scores = []
    for picture, clear, mask in zip(shown, originals, masks):
        if not mask.any():
            continue
        rows, columns = (np.flatnonzero(mask.any(axis)) for axis in (1, 0))
        box = (_wide(rows, mask.shape[0]), _wide(columns, mask.shape[1]))
        if min(picture[box].shape[:2]) >= 11:
            scores.append(ssim(picture[box], clear[box]))
    return float(decibel), float(np.mean(scores)) if scores else 0.0


def _wide(places: npt.NDArray[np.int64], length: int) -> slice:
    """At least the window of SSIM."""
    low, high = int(places[0]), int(places[-1]) + 1
    short = max(0, 11 - (high - low))
    low = max(0, low - short)
    return slice(low, min(length, max(high, low + 11)))


Faces = list[list[tuple[Any, Any]]]


def _faces(frames: Frames, detector: FaceDetector | None, embedder: FaceEmbedder | None) -> Faces:
    if detector is None:
        return [[] for _ in frames]
    return [
        [(box, None if embedder is None else embedder.embed(picture, box))
         for box in detector.detect(picture)]
        for picture in frames
    ]  # fmt: skip


def _found_again(
    frames: Frames, truth: Faces, detector: FaceDetector | None, embedder: FaceEmbedder | None
) -> tuple[int, int] | None:
    """Original faces that are found in the same place, and of those, recognised."""
    if detector is None:
        return None
    from sfumato.protect.hide import is_one_of

    found = recognised = 0
    for picture, known in zip(frames, truth):
        boxes = detector.detect(picture) if known else []
        for box, vector in known:
            hits = [each for each in boxes if is_one_of(each, [box])]
            found += bool(hits)
            if embedder is not None and hits:
                distance = min(
                    float(np.linalg.norm(embedder.embed(picture, each) - vector)) for each in hits
                )
                recognised += distance < embedder.same_person
    return found, recognised
