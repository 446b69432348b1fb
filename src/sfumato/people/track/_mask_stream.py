"""Person masks along a video, closed over time so that no frame is left open.

The mask of a frame is what was found on it, on the frame before and on the frame after, and every
pixel that was masked both earlier and later within the window (a closing along time). Where the
mask collapses, that is, shrinks to less than half of what both sides show, somebody was missed: the
nearest whole masks of both sides are held there, or of the one side that has one.

Where masks hide somebody they may also ``fade``: what leaves the mask is eaten away from its edges,
a little each frame, and comes in the same way, instead of all at once.

A slow segmenter may look at every n-th frame only: a frame between two looks has the masks of both,
and what a faster segmenter glances on the frame itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import cv2
import numpy as np

from sfumato.errors import SfumatoError
from sfumato.media import Frame
from sfumato.people.detect._protocols import Mask, PersonSegmenter
from sfumato.people.track._batches import with_last
from sfumato.people.track._status import DetectorStatus, OnMiss, Review
from sfumato.people.track._tracker import MissedPersonError, Seen

_COLLAPSED = 0.5  # of the smaller neighbour's area
_FADE, _FADE_STEP = 4, 0.02  # frames before it comes; what goes in a frame, of the shorter side


@dataclass(frozen=True, slots=True, eq=False)
class TrackedMask:
    """The people of one frame. A ``blank`` frame must not be shown at all."""

    index: int
    mask: Mask
    state: Seen
    blank: bool = False


@dataclass(slots=True, eq=False)
class _Raw:
    frame: Frame
    mask: Mask
    looked: bool
    area: int = 0

    def __post_init__(self) -> None:
        self.area = int(np.count_nonzero(self.mask))

    def add(self, mask: Mask) -> None:
        self.mask = self.mask | mask
        self.area = int(np.count_nonzero(self.mask))


def masks_held_back(lookahead: int, every: int, fade: bool) -> int:
    """Frames that a stream keeps: to close masks over time, to know the last frame, to fade."""
    return lookahead + (every > 1) + (_FADE if fade else 0)


class MaskStream(Iterator[tuple[Frame, TrackedMask]]):
    """Iterates over (frame, mask); at most 2 x ``lookahead`` + 1 masks are in memory."""

    def __init__(
        self,
        frames: Iterable[Frame],
        segmenter: PersonSegmenter,
        *,
        every: int,
        between: PersonSegmenter | None,
        on_miss: OnMiss,
        lookahead: int,
        threshold: float,
        margin: float,
        fade: bool,
    ) -> None:
        if lookahead < 1 or not 0 < threshold < 1 or margin < 0:
            raise SfumatoError(
                f"Expected a lookahead of at least 1, a threshold between 0 and 1 and no negative "
                f"margin, got {lookahead}, {threshold} and {margin}: correct them."
            )
        if not 1 <= every <= lookahead:
            raise SfumatoError(
                f"Expected to look on every n-th frame, n from 1 to the lookahead of {lookahead}, got "
                f"{every}: a skipped frame needs the next look."
            )
        self.lookahead = masks_held_back(lookahead, every, fade)
        name = segmenter.name
        if every > 1:
            name += f" every {every} frames" + (f", {between.name} between" if between else "")
        devices = (each.device for each in (segmenter, between) if each is not None)
        self.status = DetectorStatus(name, ", ".join(dict.fromkeys(devices)))
        self.review = Review()
        self._segmenter, self._every, self._between = segmenter, every, between
        self._window, self._on_miss = lookahead, on_miss
        self._threshold, self._margin = threshold, margin
        self._answers = _fading(self._run(frames)) if fade else self._run(frames)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Frame, TrackedMask]:
        return next(self._answers)

    def _run(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, TrackedMask]]:
        past: deque[_Raw] = deque(maxlen=self._window)
        future: deque[_Raw] = deque()
        skipped: list[_Raw] = []
        before: _Raw | None = None
        index = 0
        for number, (frame, last) in enumerate(with_last(frames, self._every > 1)):
            # the last frame is always looked at: nothing after it could lead back to it
            raw = self._look(frame, looked=number % self._every == 0 or last)
            future.append(raw)
            if raw.looked:
                for one in skipped:
                    one.add(raw.mask if before is None else before.mask | raw.mask)
                skipped, before = [], raw
            else:
                skipped.append(raw)
            if len(future) > self._window:
                yield self._answer(index, past, future)
                past.append(future.popleft())
                index += 1
        while future:
            yield self._answer(index, past, future)
            past.append(future.popleft())
            index += 1
        self.review.close()

    def _look(self, frame: Frame, *, looked: bool) -> _Raw:
        segmenter = self._segmenter if looked else self._between
        if segmenter is None:
            mask = np.zeros(frame.image.shape[:2], dtype=bool)
        else:
            mask = np.asarray(segmenter.segment(frame.image) > self._threshold)
        raw = _Raw(frame, mask, looked)
        self.status.frames += 1
        self.status.looked_at += looked
        self.status.empty += looked and raw.area == 0
        return raw

    def _answer(
        self, index: int, past: deque[_Raw], future: deque[_Raw]
    ) -> tuple[Frame, TrackedMask]:
        now, ahead = future[0], list(future)[1:]
        mask = now.mask.copy()
        for near in (*list(past)[-1:], *ahead[:1]):
            mask |= near.mask
        if past and ahead:
            mask |= _any(past) & _any(ahead)
        state, held = self._continue(now, list(past), ahead)
        for whole in held:
            mask |= whole.mask
        blank = state == "bridged" and self._missed(index)
        if state == "held":
            self.status.held += 1
            self.review.note(index, "held")
        return now.frame, TrackedMask(index, self._widen(mask), state, blank)

    def _continue(self, now: _Raw, past: list[_Raw], ahead: list[_Raw]) -> tuple[Seen, list[_Raw]]:
        """Whether the mask collapsed here, and the whole masks that stand in for it."""
        before = _nearest_whole(now, past[::-1])
        after = _nearest_whole(now, ahead)
        if before and after:
            return "bridged", [before, after]
        if before or after:
            return "held", [one for one in (before, after) if one]
        return "seen", []

    def _missed(self, index: int) -> bool:
        if self._on_miss is OnMiss.FAIL:
            raise MissedPersonError(
                f"Expected people on every frame, but on frame {index} the mask collapses between "
                "two whole ones: use --on-miss hold or blank, unite segmenters (a+b), or correct "
                "the masks by hand and import them."
            )
        self.status.bridged += 1
        self.review.note(index, "bridged")
        blank = self._on_miss is OnMiss.BLANK
        self.status.blanked += blank
        return blank

    def _widen(self, mask: Mask) -> Mask:
        reach = round(self._margin * min(mask.shape))
        if reach == 0:
            return mask
        side = 2 * reach + 1
        kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
        return np.asarray(cv2.dilate(mask.view(np.uint8), kernel) > 0)


def _nearest_whole(now: _Raw, others: list[_Raw]) -> _Raw | None:
    """The nearest mask that shows at least twice as much as this one."""
    for other in others:
        if other.area and now.area < _COLLAPSED * other.area:
            return other
    return None


def _any(raws: deque[_Raw] | list[_Raw]) -> Mask:
    return np.asarray(np.logical_or.reduce([raw.mask for raw in raws]))


def _fading(
    answers: Iterable[tuple[Frame, TrackedMask]],
) -> Iterator[tuple[Frame, TrackedMask]]:
    """The same masks, never smaller; what comes and goes does so from the middle outwards."""
    waiting: deque[tuple[Frame, TrackedMask]] = deque()
    going: Mask | None = None
    for answer in answers:
        waiting.append(answer)
        if len(waiting) > _FADE:
            frame, found, going = _faded(waiting, going)
            yield frame, found
    while waiting:
        frame, found, going = _faded(waiting, going)
        yield frame, found


def _faded(
    waiting: deque[tuple[Frame, TrackedMask]], going: Mask | None
) -> tuple[Frame, TrackedMask, Mask]:
    frame, found = waiting.popleft()
    left = found.mask if going is None else found.mask | _eaten(going)
    coming: Mask | None = None
    for _, later in reversed(waiting):
        coming = later.mask if coming is None else later.mask | _eaten(coming)
    whole = left if coming is None else left | _eaten(coming)
    return frame, replace(found, mask=whole), left


def _eaten(mask: Mask) -> Mask:
    side = 2 * max(1, round(_FADE_STEP * min(mask.shape))) + 1
    # beyond the picture there may be more of it
    kernel = np.ones((side, side), np.uint8)
    return np.asarray(cv2.erode(mask.view(np.uint8), kernel) > 0)


def person_masks(
    frames: Iterable[Frame],
    segmenter: PersonSegmenter,
    *,
    every: int = 1,
    between: PersonSegmenter | None = None,
    policy: OnMiss | str = OnMiss.HOLD,
    lookahead: int = 6,
    threshold: float = 0.4,
    margin: float = 0.015,
    fade: bool = False,
) -> MaskStream:
    """Masks of people on every frame; ``margin`` widens them, as a part of the shorter side.

    With ``fade`` they cover more around every change, so that they do not flicker.

    With ``every`` the segmenter looks at every n-th frame; ``between`` may name a faster one that
    glances at the others.
    """
    return MaskStream(
        frames,
        segmenter,
        every=every,
        between=between,
        on_miss=OnMiss(policy),
        lookahead=lookahead,
        threshold=threshold,
        margin=margin,
        fade=fade,
    )
