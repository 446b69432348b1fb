"""Which attacks fit a release, and the pairs of public pictures that the learned one trains on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from sfumato.audit.attack._cover_matrices import cover_matrix
from sfumato.audit.attack._learned_inverse import Mask, Pair, learned
from sfumato.audit.attack._reconstruct import Reconstruction, changed_places, halo, reconstruct
from sfumato.audit.attack._undo import (
    ROUNDING,
    Frames,
    Masks,
    Undo,
    averaged,
    averaged_near,
    deblurred,
    gathered,
    smoothed,
)
from sfumato.audit.certify._epsilon import AuditError
from sfumato.media import IMAGE_SUFFIXES, Frame, Image, open_video, read_image
from sfumato.privacy import Guarantee
from sfumato.protect import Method, Shape
from sfumato.protect.hide import Place

METHODS = ("deblur", "smooth", "learned", "average", "halo")
_LOSSLESS = ("ffv1", "png", ".png")
INVERSION = "Tikhonov inversion"
# How little a picture is trusted that went through a codec, or whose places are only nearly known.
_WEIGHTS = (1e-2, 1e-1, 1.0)
# Noise is the same everywhere, so a part of a large picture tells as much as the whole.
_WINDOW, _LOOKED_AT, _BLANK = 512, 8, 2.0


def undo_release(
    original: str | Path,
    protected: str | Path,
    method: Method,
    *,
    attacks: Iterable[str] = METHODS,
    public: Iterable[tuple[Image, Mask]] = (),
    start: int = 0,
    most: int = 32,
    detector: Any = None,
    embedder: Any = None,
) -> tuple[list[Reconstruction], float | None]:
    """Attack one protected file; the second value is how far its changed places stand out.

    ``method`` is what protected it (``protect.from_card``), ``public`` are pictures that the attacker
    has anyway, with the places that would have been covered in them. Looks at ``most`` frames
    from ``start`` on, and at a few of them where frames are attacked one by one. Attacks that do not
    fit the method are left out.
    """
    before, _ = _frames(original, start, most)
    after, codec = _frames(protected, start, most)
    if before.shape != after.shape:
        raise AuditError(
            f"Expected the recording that was protected, got frames {before.shape} for {after.shape}."
        )
    return undo_frames(
        before, after, method, attacks=attacks, public=public, coded=codec not in _LOSSLESS,
        detector=detector, embedder=embedder,
    )  # fmt: skip


def undo_frames(
    before: Frames,
    after: Frames,
    method: Method,
    *,
    attacks: Iterable[str] = METHODS,
    public: Iterable[tuple[Image, Mask]] = (),
    places: Masks | None = None,
    coded: bool = False,
    detector: Any = None,
    embedder: Any = None,
) -> tuple[list[Reconstruction], float | None]:
    """The same for frames (T, H, W, 3) of one recording; ``coded``: they went through a codec."""
    wanted = set(attacks)
    if unknown := sorted(wanted - set(METHODS)):
        raise AuditError(f"Expected attacks out of {', '.join(METHODS)}, got {unknown[0]!r}.")
    hides = _changes_places(method)
    if not hides:
        before, after = _window(before), _window(after)
    # a frame that was blanked gives nothing to undo and would hide what the others give
    shown = np.array([frame.std() > _BLANK for frame in after])
    if not shown.any():
        raise AuditError("Expected frames that show something, got blank ones: choose others.")
    before, after = before[shown], after[shown]
    if places is not None:
        places = places[shown]
    else:
        places = changed_places(before, after, coded=coded and hides)
    step = -(-len(after) // _LOOKED_AT)
    chosen = single_frame_attacks(method, wanted, public, after.shape, coded=coded)
    tries = {name: undo for name, undo in chosen.items() if name.startswith(INVERSION)}
    if tries:
        # the best of them is what an attacker may hope for
        scored = reconstruct(before[::step], after[::step], tries, masks=places[::step])
        best = max(scored, key=lambda each: each.psnr[1]).attack
        chosen = {INVERSION: tries[best]} | {k: v for k, v in chosen.items() if k not in tries}
    if "average" in wanted and len(after) > 1:
        for name, undo in over_time(method).items():
            chosen[name] = _sampled(undo, after, places, step)
    found = (
        reconstruct(before[::step], after[::step], chosen, masks=places[::step],
                    detector=detector, embedder=embedder)
        if chosen else []
    )  # fmt: skip
    outline = None
    if "halo" in wanted and hides and len(after) > 2 and places.any() and not places.all():
        outline = halo(before, after, masks=places)
    return found, outline


def single_frame_attacks(
    method: Method,
    wanted: Iterable[str],
    public: Iterable[tuple[Image, Mask]],
    shape: tuple[int, ...],
    *,
    coded: bool = False,
) -> dict[str, Undo]:
    """What fits ``method``; an inversion for each of several weights, since none is right for all."""
    asked, hides = set(wanted), _changes_places(method)
    chosen: dict[str, Undo] = {}
    cover = cover_matrix(method)
    if "deblur" in asked and cover is not None:
        for weight in _WEIGHTS if coded else (ROUNDING, *_WEIGHTS):
            chosen[f"{INVERSION}, weight {weight:.0e}"] = deblurred(cover, weight)
    if "smooth" in asked & method.audits:
        chosen["smoothing"] = smoothed
    if "learned" in asked and _learnable(method, shape):
        pairs = list(_pairs(method, public, shape))
        if pairs:
            chosen["learned inverse"] = learned(pairs, at_places=hides)
    return chosen


def head_of(mask: Mask) -> Mask:
    """The box around the uppermost fifth of somebody: where a face would be covered."""
    rows = np.flatnonzero(mask.any(1))
    out = np.zeros_like(mask)
    if len(rows):
        bottom = rows[0] + max((rows[-1] + 1 - rows[0]) // 5, 4)
        columns = np.flatnonzero(mask[rows[0] : bottom].any(0))
        out[rows[0] : bottom, columns[0] : columns[-1] + 1] = True
    return out


def over_time(method: Method) -> dict[str, Undo]:
    """Means that fit ``method``; only where single frames are noised do neighbours help."""
    means = {
        "gather": ("mean over time", gathered),
        "average": ("mean over time", averaged),
        "average-near": ("mean over five frames", averaged_near),
    }
    return dict(mean for audit, mean in means.items() if audit in method.audits)


def _sampled(undo: Undo, frames: Frames, places: Masks, step: int) -> Undo:
    """All frames help, a few of them are looked at."""
    return lambda _frames, _masks: undo(frames, places)[::step]


def _changes_places(method: Method) -> bool:
    """Whether it changes places of a frame and shows the rest as it is."""
    return "halo" in method.audits


def _learnable(method: Method, shape: tuple[int, ...]) -> bool:
    """Whether single pictures can be protected as the recording was; noise that is proven can."""
    frames, height, width = shape[:3]
    return "learned" in method.audits or isinstance(
        method.promise(Shape(height, width, frames)), Guarantee
    )


def _pairs(
    method: Method, public: Iterable[tuple[Image, Mask]], shape: tuple[int, ...]
) -> Iterator[Pair]:
    """Public pictures as the release would show them: covered in their places, or noised whole."""
    pictures = list(public)
    if _changes_places(method):
        faces = method.region is not None and method.region.kind == "faces"
        for picture, mask in pictures:
            place = head_of(mask) if faces and not mask.all() else mask
            cover = method.make_filter(Shape(*mask.shape[:2]))
            yield picture, cover(picture.copy(), Place(place, False)), place
        return
    height, width = shape[1:3]
    resized = [np.asarray(cv2.resize(each, (width, height)), np.uint8) for each, _ in pictures]
    frames = (Frame(each, n, Fraction(n, 25)) for n, each in enumerate(resized))
    size = Shape(height, width, len(resized))
    for picture, frame in zip(resized, method.transform(frames, size)):
        yield picture, frame.image, np.ones((height, width), dtype=bool)


def _window(frames: Frames) -> Frames:
    top, left = (max(0, (side - _WINDOW) // 2) for side in frames.shape[1:3])
    return frames[:, top : top + _WINDOW, left : left + _WINDOW]


def _frames(path: str | Path, start: int, most: int) -> tuple[Frames, str]:
    """Frames, and how they were stored."""
    suffix = Path(path).suffix.lower()
    if suffix in IMAGE_SUFFIXES:
        return read_image(path)[None], suffix
    kept = []
    with open_video(path) as reader:
        for number, frame in enumerate(reader):
            if number >= start + most:
                break
            if number >= start:
                kept.append(frame.image)
        codec = reader.info.codec
    if not kept:
        raise AuditError(f"Expected frames from number {start} on, but the recording is shorter.")
    return np.stack(kept), codec
