"""Which attacks fit a release, and the pairs of public pictures that the learned one trains on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from sfumato.audit._epsilon import AuditError
from sfumato.audit._reconstruct import Reconstruction, changed_places, halo, reconstruct
from sfumato.audit._undo import (
    Frames,
    Masks,
    Undo,
    averaged,
    deblurred,
    gathered,
    learned,
    smoothed,
)
from sfumato.media import IMAGE_SUFFIXES, Frame, Image, open_video, read_image
from sfumato.protect import Method, Shape
from sfumato.protect.video import Blur, Hiding, Snow
from sfumato.protect.video._covers import PUBLISHED_KERNEL, PUBLISHED_SIGMA
from sfumato.protect.video._region import Place

METHODS = ("deblur", "smooth", "learned", "average", "halo")


def undo_release(
    original: str | Path,
    protected: str | Path,
    method: Method,
    *,
    attacks: Iterable[str] = METHODS,
    public: Iterable[Image] = (),
    most: int = 64,
    kernel: int = PUBLISHED_KERNEL,
    sigma: float = PUBLISHED_SIGMA,
    detector: Any = None,
    embedder: Any = None,
) -> tuple[list[Reconstruction], float | None]:
    """Attack one protected file; the second value is how far its changed places stand out.

    ``method`` is what protected it (``protect.make``), ``public`` are pictures that the attacker has
    anyway. Attacks that do not fit the method are left out.
    """
    before, after = _frames(original, most), _frames(protected, most)
    if before.shape != after.shape:
        raise AuditError(
            f"Expected the recording that was protected, got frames {before.shape} for {after.shape}."
        )
    wanted = set(attacks)
    if unknown := sorted(wanted - set(METHODS)):
        raise AuditError(f"Expected attacks out of {', '.join(METHODS)}, got {unknown[0]!r}.")
    places = changed_places(before, after)
    hides = isinstance(method, Hiding)
    chosen: dict[str, Undo] = {}
    if "deblur" in wanted and isinstance(method, Blur):
        chosen["Tikhonov deblurring"] = deblurred(kernel, sigma)
    if "smooth" in wanted and hides:
        chosen["smoothing"] = smoothed
    if "average" in wanted and len(after) > 1:
        chosen["mean over time"] = gathered if isinstance(method, Snow) else averaged
    pictures = list(public)
    if "learned" in wanted and pictures:
        chosen["learned inverse"] = learned(_pairs(method, pictures, places))
    found = (
        reconstruct(before, after, chosen, masks=places, detector=detector, embedder=embedder)
        if chosen else []
    )  # fmt: skip
    outline = None
    if "halo" in wanted and hides and len(after) > 2 and not places.all():
        outline = halo(before, after)
    return found, outline


def _pairs(
    method: Method, pictures: list[Image], places: Masks
) -> Iterator[tuple[Image, Image, Any]]:
    """Public pictures, covered where the release is covered; the whole of them under noise."""
    height, width = places.shape[1:]
    shape = Shape(height, width, len(pictures))
    resized = [np.asarray(cv2.resize(each, (width, height)), dtype=np.uint8) for each in pictures]
    if isinstance(method, Hiding):
        cover = method.covering(shape)
        used = [mask for mask in places if mask.any()]
        for number, picture in enumerate(resized):
            mask = used[number % len(used)]
            yield picture, cover(picture.copy(), Place(mask, False)), mask
        return
    frames = (Frame(each, n, Fraction(n, 25)) for n, each in enumerate(resized))
    for picture, frame in zip(resized, method.transform(frames, shape)):
        yield picture, frame.image, np.ones((height, width), dtype=bool)


def _frames(path: str | Path, most: int) -> Frames:
    if Path(path).suffix.lower() in IMAGE_SUFFIXES:
        return read_image(path)[None]
    with open_video(path) as reader:
        kept = [frame.image for number, frame in enumerate(reader) if number < most]
    return np.stack(kept)
