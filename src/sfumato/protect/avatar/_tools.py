"""Where a part of the pipeline comes from: a file that another tool wrote, or a command to run.

A command is called once a window of frames, without a shell, in a private folder that vanishes. It
gets the window as a lossless video and writes one file; what that file must hold stands with the part
that reads it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import reading
from sfumato.media import Image, MediaError, VideoWriter, read_frames
from sfumato.protect._method import ProtectError
from sfumato.protect.avatar._phalp import detectron_masks, phalp_masks
from sfumato.protect.hide._external import command_words, run_tool

_RATE = Fraction(25)


@dataclass(frozen=True)
class ToolSource:
    """``path:FILE`` (or a bare path) or ``command:WORDS``."""

    file: Path | None = None
    words: tuple[str, ...] = ()
    timeout: float = 3600.0

    @classmethod
    def of(cls, text: str, needed: Sequence[str], timeout: float) -> ToolSource:
        kind, colon, rest = text.partition(":")
        if colon and kind == "command":
            return cls(words=tuple(command_words(rest, needed)), timeout=timeout)
        return cls(file=Path(rest if colon and kind == "path" else text), timeout=timeout)

    @property
    def label(self) -> str:
        """For the card: the tool's name, never the files or folders it was called with."""
        return "file" if self.file is not None else f"command {Path(self.words[0]).name}"

    @contextmanager
    def made(self, name: str, videos: Mapping[str, Sequence[Image]]) -> Iterator[Path]:
        """Run the command on these videos; the file ``name`` that it wrote, until the block ends."""
        with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:  # for the owner only
            files = {"output": Path(folder) / name}
            for each, images in videos.items():
                files[each] = write_video(Path(folder) / f"{each}.mkv", images)
            run_tool(self.words, files, timeout=self.timeout)
            yield files["output"]


def write_video(path: Path, images: Sequence[Image]) -> Path:
    """Frames as lossless RGB video."""
    height, width = images[0].shape[:2]
    with VideoWriter(path, rate=_RATE, size=(width, height), codec="ffv1") as video:
        for image in images:
            video.write(image)
    return path


def read_masks(path: Path) -> npt.NDArray[np.bool_]:
    """Masks (T, H, W) of a video, a folder of pictures, an ``.npz`` with ``masks``, a PHALP ``.pkl`` or a
    ``coco_instances_results.json``."""
    if path.suffix == ".pkl":
        return phalp_masks(require_file(path))
    if path.suffix == ".json":
        return detectron_masks(require_file(path))
    if path.suffix != ".npz":
        return np.asarray(read_pictures(path, "masks")[..., 0] > 127)
    stored = read_npz(path, ("masks",))["masks"]
    if stored.ndim != 3 or stored.dtype not in (np.dtype(bool), np.dtype(np.uint8)):
        raise ProtectError(
            f"Expected masks (frames, height, width) of bool or uint8, got {stored.dtype} of shape "
            f"{stored.shape}: everything above 0 is a person."
        )
    return np.asarray(stored > 0)


def read_pictures(path: Path, what: str) -> npt.NDArray[np.uint8]:
    """The frames that another tool wrote; the sentence about a bad file says whose it is."""
    try:
        return read_frames(path)
    except MediaError as error:
        raise ProtectError(
            f"Expected the {what} of another tool as a whole video or a folder of pictures, got something "
            "else, or nothing, at the name that was given: check it."
        ) from error


def read_npz(path: Path, fields: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an ``.npz``, never unpickled; refuses one that lacks a field."""
    wanted = ", ".join(fields)
    if path.suffix != ".npz":
        raise ProtectError(
            f"Expected an .npz file with {wanted}, got one with another ending: write it with numpy.savez."
        )
    with (
        reading(f"an .npz file with plain arrays {wanted}, as numpy.savez writes it", ProtectError),
        np.load(require_file(path), allow_pickle=False) as stored,
    ):
        missing = sorted(set(fields) - set(stored.files))
        if missing:
            raise ProtectError(f"Expected the fields {wanted}, missing {missing}.")
        return {name: stored[name] for name in stored.files}


def require_file(path: Path) -> Path:
    """``path`` if it is a file: a folder cannot be read so, a pipe waits and a device never ends."""
    if not path.is_file():
        raise ProtectError(
            f"Expected a file with the poses or masks of another tool, {path.suffix}, got none at the "
            "name that was given, or a folder or device: check it."
        )
    return path
