"""Adapters: another tool fills the place of erased people (ProPainter, E2FGVI, ...).

The contract of a command: ``{input}`` is a video in which everything to be filled is grey already,
``{masks}`` one that is white there, ``{output}`` the video to write, of the same size and length. The
tool never sees the person, so it cannot let one through; only filled pixels are taken from it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.media import read_frames
from sfumato.protect._method import ProtectError
from sfumato.protect.avatar._inpaint import Erased
from sfumato.protect.avatar._tools import Part

Frames = npt.NDArray[np.uint8]
Masks = npt.NDArray[np.bool_]
NEEDED = ("input", "masks", "output")
_GREY = 128
_SAME = 8  # grey levels: nearer to the original than this counts as not filled
_MOST = 0.9  # share of the hidden pixels that may look like that: q holds much of the room too


class ImportedInpainting:
    """What another tool puts in the place of people; called with one window after the other."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._shown = read_frames(part.file) if part.file is not None else None
        self._next = 0

    def __call__(self, frames: Frames, hidden: Masks) -> Erased:
        start, self._next = self._next, self._next + len(frames)
        if self._shown is not None:
            filled = self._shown[start : self._next]
            _fits(filled, frames)
            _refuse_untouched(filled, frames, hidden)
        else:
            without = np.where(hidden[..., None], np.uint8(_GREY), frames)
            white = np.repeat(hidden[..., None], 3, -1) * np.uint8(255)
            given = {"input": list(without), "masks": list(white)}
            with self._part.made("output.mkv", given) as file:
                filled = read_frames(file)
            _fits(filled, frames)
        # nothing is known about how a tool fills, so all of it counts as made up
        return Erased(np.where(hidden[..., None], filled, frames), hidden.copy(), False)

    def ended(self) -> None:
        """Refuse a file with more frames than the recording: it belongs to another."""
        if self._shown is not None and len(self._shown) > self._next:
            raise ProtectError(
                f"Expected {self._next} inpainted frames, got {len(self._shown)}: they belong to "
                "another recording."
            )


def _fits(filled: Frames, frames: Frames) -> None:
    if filled.shape != frames.shape:
        count, height, width = frames.shape[:3]
        raise ProtectError(
            f"Expected {count} inpainted frames of {width} x {height}, got "
            f"{len(filled)} of {filled.shape[2]} x {filled.shape[1]}: fill every frame at its size. "
            "Nothing was released."
        )


def _refuse_untouched(filled: Frames, frames: Frames, hidden: Masks) -> None:
    """A file made from the recording may show the person still; refuse one that plainly does."""
    if not hidden.any():
        return
    apart = np.abs(filled[hidden].astype(np.int16) - frames[hidden]).max(axis=1)
    same = float((apart <= _SAME).mean())
    if same > _MOST:
        raise ProtectError(
            f"Expected an inpainted video without people, got one that equals the recording in "
            f"{same:.0%} of what must go: fill all that the masks cover. Nothing was released."
        )
