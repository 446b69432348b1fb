"""Pairs of original and protected frames, for the operator only.

They hold originals. So they are made on request alone, into a private folder of their own that does
not lie where the release lies, and the card says that they exist.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from sfumato.files import is_within, refuse_overwrite, refuse_replacing, write_text
from sfumato.media import IMAGE_SUFFIXES, Image, open_video, read_image, write_image
from sfumato.privacy import PRIVATE_NOTE, Randomness
from sfumato.protect._method import ProtectError

LABEL = "CONTAINS ORIGINALS: INTERNAL REVIEW ONLY"
_README = f"""{LABEL}
({PRIVATE_NOTE})

Every picture here shows a frame of the recording as it was, beside the same frame as released.
Do not share, publish or back up this folder with the release. Delete it when the review is done.
"""
_BAND = 18  # rows of the label above a pair


def require_private_place(path: Path, source: Path, target: Path, what: str) -> None:
    """Raise unless ``path`` is apart from the original and from the folder that ``target`` is in.

    A folder that holds the original as well is nobody's release.
    """
    refuse_replacing(source, path, what=what)
    folder = target.absolute().parent
    if is_within(path, folder) and not is_within(source, folder):
        raise ProtectError(
            f"Expected the {what} outside the folder of the release, got a place inside: it shows or "
            f"describes the originals, so keep it where nothing is shared, such as beside {source.name}."
        )


@dataclass(frozen=True)
class BeforeAfterPairs:
    """How many pairs to set aside, and in which folder."""

    count: int
    folder: Path

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ProtectError(f"Expected at least one pair to review, got {self.count}.")

    @property
    def sentence(self) -> str:
        """What the card says: it names no place and no frame."""
        return (
            f"Up to {self.count} pairs of original and protected frames were set aside for internal "
            "review; they are no part of this release and must not be shared."
        )

    def refuse(self, source: Path, target: Path) -> None:
        """Raise unless the folder is new and lies outside the folder of the release."""
        require_private_place(self.folder, source, target, "folder for pairs")
        refuse_overwrite(self.folder, force=False)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Make the private folder; it vanishes when what follows fails."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700)
        self.folder.chmod(0o700)
        try:
            yield
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def write(self, source: Path, made: Path, *, tolerant: bool = False) -> None:
        """Set pairs of the recording and its finished, not yet released, output aside."""
        write_text(self.folder / "README.txt", _README)
        for number, (before, after) in enumerate(self._chosen(source, made, tolerant), start=1):
            file = self.folder / f"INTERNAL-pair-{number:03d}.png"
            write_image(file, side_by_side(before, after), note=PRIVATE_NOTE)
            file.chmod(0o600)

    def _chosen(self, source: Path, made: Path, tolerant: bool) -> list[tuple[Image, Image]]:
        """Frames drawn evenly in one pass (reservoir sampling), in their order."""
        # never seeded: which frames a reviewer sees must not be known to who prepared the recording
        draw = Randomness().generator()
        held: list[tuple[int, Image, Image]] = []
        for number, (before, after) in enumerate(_frames(source, made, tolerant)):
            if len(held) < self.count:
                held.append((number, before, after))
            elif (place := int(draw.integers(number + 1))) < self.count:
                held[place] = (number, before, after)
        return [(before, after) for _, before, after in sorted(held, key=lambda each: each[0])]


def _frames(source: Path, made: Path, tolerant: bool) -> Iterator[tuple[Image, Image]]:
    if source.suffix.lower() in IMAGE_SUFFIXES:
        yield read_image(source, tolerant=tolerant), read_image(made)
        return
    with ExitStack() as stack:
        before = stack.enter_context(open_video(source, tolerant=tolerant))
        after = stack.enter_context(open_video(made))
        for one, two in zip(before, after, strict=True):
            yield one.image, two.image


def side_by_side(before: Image, after: Image) -> Image:
    """Original left, protected right, under a band that says what this is."""
    height = max(len(before), len(after))
    wide = before.shape[1] + after.shape[1]
    sheet = np.zeros((_BAND + height, wide, 3), np.uint8)
    sheet[:_BAND] = (200, 0, 0)
    sheet[_BAND : _BAND + len(before), : before.shape[1]] = before
    sheet[_BAND : _BAND + len(after), before.shape[1] :] = after
    font = cv2.FONT_HERSHEY_SIMPLEX
    (across, _), _ = cv2.getTextSize(LABEL, font, 1.0, 1)
    scale = min(0.45, (wide - 8) / across)
    cv2.putText(sheet, LABEL, (4, _BAND - 5), font, scale, (255, 255, 255), 1, cv2.LINE_AA)
    return sheet
