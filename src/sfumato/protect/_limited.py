"""A method limited to a region: its output inside, the recording outside (R9)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.media import Frame
from sfumato.privacy import Guarantee, NoGuarantee, Unit, UnitKind
from sfumato.protect._method import Method, Promise, ProtectError, Shape
from sfumato.protect.hide._region import Place, Region

BLANK = np.uint8(128)


class Limited(Method):
    """The method ``inner`` inside ``region`` only.

    Guarantee: none if a detector finds the region, for its support then depends on the recording
    and the rest is in the clear. With a mask declared public, the inner guarantee for
    ``pixels(m, frames=n)`` holds for pixels inside the mask: whatever differs between neighbours lies
    inside, where only the inner output is shown.
    """

    region: Region

    def __init__(self, inner: Method, region: Region) -> None:
        super().__init__()
        self.inner, self.region, self.watchers = inner, region, region.watchers
        # a wrapper speaks under the name of what it wraps
        self.name = inner.name  # type: ignore[misc]
        self.summary = f"{inner.summary}, limited to {self._where}"  # type: ignore[misc]
        self.randomness = inner.randomness
        self.draws_at_random = inner.draws_at_random  # type: ignore[misc]

    @property
    def _where(self) -> str:
        text = self.region.covers_text and self.region.kind != "text"
        return self.region.words + (" and the text that was found" if text else "")

    @property
    def lookahead(self) -> int:
        return self.inner.lookahead + self.region.lookahead

    def lookahead_for(self, shape: Shape) -> int:
        return self.inner.lookahead_for(shape) + self.region.lookahead

    @property
    def uses_side_files(self) -> bool:
        return self.inner.uses_side_files or self.region.uses_side_files

    @property
    def needs_length(self) -> bool:
        return self.inner.needs_length

    @property
    def settings(self) -> dict[str, Any]:
        return self.inner.settings | self.region.settings

    @property
    def packages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.inner.packages, *self.region.packages)))

    @property
    def temporary_files(self) -> tuple[str, ...]:
        return self.inner.temporary_files

    @property
    def detectors_used(self) -> tuple[tuple[str, str], ...]:
        return (*self.inner.detectors_used, *self.region.detectors_used)

    def promise(self, shape: Shape) -> Promise:
        promise = self.inner.promise(shape)
        not_covered = (*self.region.not_covered(shape.frames), *promise.not_covered)
        if isinstance(promise, NoGuarantee):
            reason = f"{promise.reason} It is limited to {self._where}: the rest is as recorded."
            reason = " ".join([reason, *self.region.by_hand.left_open])
            return replace(promise, reason=reason, not_covered=not_covered)
        if not self.region.public_mask:
            found = "a mask from a file" if self.region.kind == "mask" else "a detector"
            return NoGuarantee(
                mechanism=f"{promise.mechanism}, limited to a region",
                reason=(
                    f"The noise is only where {found} says, which may depend on the recording, and "
                    "the rest is in the clear: only a mask declared public keeps a guarantee."
                ),
                not_covered=not_covered,
                randomness=promise.randomness,
            )
        return _inside(promise, not_covered)

    @property
    def on_purpose(self) -> tuple[str, ...]:
        return self.region.by_hand.sentences

    def remarks(self, shape: Shape) -> list[str]:
        return self.inner.remarks(shape)

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        waiting: deque[tuple[Frame, Place]] = deque()

        def originals() -> Iterator[Frame]:
            for frame, place in self.region.find(frames):
                waiting.append((frame, place))
                yield frame

        for made in self.inner.transform(originals(), shape):
            frame, place = waiting.popleft()
            shown = np.where(place.covered()[..., None], made.image, frame.image)
            if place.blank:
                shown = np.full_like(frame.image, BLANK)
            yield replace(frame, image=shown)

    def check_output(self, source: Path, made: Path, *, tolerant: bool = False) -> None:
        self.inner.check_output(source, made, tolerant=tolerant)


def _inside(promise: Guarantee, not_covered: tuple[str, ...]) -> Guarantee:
    unit = promise.unit
    if unit.kind is not UnitKind.PIXELS:
        raise ProtectError(
            f"Expected the unit pixels(m, frames=n) with a public mask, got {unit}: outside the "
            "mask the recording is shown as it is, so nothing larger can be promised."
        )
    assert unit.pixel_count is not None
    assert unit.frame_count is not None
    inside = Unit.pixels(unit.pixel_count, frames=unit.frame_count, inside_public_mask=True)
    return replace(
        promise,
        unit=inside,
        public=(*promise.public, "the mask, and every pixel outside it"),
        assumptions=(*promise.assumptions, "the mask was made without looking at the recording"),
        not_covered=not_covered,
    )
