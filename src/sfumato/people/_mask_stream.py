"""Person masks along a video, closed over time so that no frame is left open.

The mask of a frame is what was found on it, on the frame before and on the frame after, and every
pixel that was masked both earlier and later within the window (a closing along time). Where the
mask collapses, that is, shrinks to less than half of what both sides show, somebody was missed: the
nearest whole masks of both sides are held there, or of the one side that has one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import cv2
import numpy as np

from sfumato.errors import SfumatoError
from sfumato.media import Frame
from sfumato.people._protocols import Mask, PersonSegmenter
from sfumato.people._status import DetectorStatus, OnMiss, Review
from sfumato.people._tracker import MissedPersonError, Seen

_COLLAPSED = 0.5  # of the smaller neighbour's area


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
    area: int


class MaskStream(Iterator[tuple[Frame, TrackedMask]]):
    """Iterates over (frame, mask); at most 2 x ``lookahead`` + 1 masks are in memory."""

    def __init__(
        self,
        frames: Iterable[Frame],
        segmenter: PersonSegmenter,
        *,
        on_miss: OnMiss,
        lookahead: int,
        threshold: float,
        margin: float,
    ) -> None:
        if lookahead < 1 or not 0 < threshold < 1 or margin < 0:
            raise SfumatoError(
                f"Expected a lookahead of at least 1, a threshold between 0 and 1 and no negative "
                f"margin, got {lookahead}, {threshold} and {margin}: correct them."
            )
        self.lookahead = lookahead
        self.status = DetectorStatus(segmenter.name, segmenter.device)
        self.review = Review()
        self._segmenter, self._on_miss = segmenter, on_miss
        self._threshold, self._margin = threshold, margin
        self._answers = self._run(frames)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Frame, TrackedMask]:
        return next(self._answers)

    def _run(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, TrackedMask]]:
        past: deque[_Raw] = deque(maxlen=self.lookahead)
        future: deque[_Raw] = deque()
        index = 0
        for frame in frames:
            future.append(self._look(frame))
            if len(future) > self.lookahead:
                yield self._answer(index, past, future)
                past.append(future.popleft())
                index += 1
        while future:
            yield self._answer(index, past, future)
            past.append(future.popleft())
            index += 1
        self.review.close()

    def _look(self, frame: Frame) -> _Raw:
        mask = np.asarray(self._segmenter.segment(frame.image) > self._threshold)
        area = int(np.count_nonzero(mask))
        self.status.frames += 1
        self.status.looked_at += 1
        self.status.empty += area == 0
        return _Raw(frame, mask, area)

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


def person_masks(
    frames: Iterable[Frame],
    segmenter: PersonSegmenter,
    *,
    policy: OnMiss | str = OnMiss.HOLD,
    lookahead: int = 6,
    threshold: float = 0.4,
    margin: float = 0.015,
) -> MaskStream:
    """Masks of people on every frame; ``margin`` widens them, as a part of the shorter side."""
    return MaskStream(
        frames,
        segmenter,
        on_miss=OnMiss(policy),
        lookahead=lookahead,
        threshold=threshold,
        margin=margin,
    )
