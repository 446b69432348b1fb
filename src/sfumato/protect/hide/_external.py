"""Any other tool as a command per file, so that its output can be audited like the rest."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from sfumato.media import IMAGE_SUFFIXES, Frame, open_video, read_image
from sfumato.privacy import NoGuarantee
from sfumato.protect._method import Method, Promise, ProtectError, Shape
from sfumato.settings import Seconds, Seed, Text, shown

_SUFFIX = r"^\.[A-Za-z0-9]{1,12}$"


def command_words(command: str, needed: Sequence[str] = ("input", "output")) -> list[str]:
    """The words of a command, which must have a place for every file in ``needed``."""
    try:
        words = shlex.split(command)
    except ValueError:
        raise ProtectError(
            f"Expected a command whose quotes are closed, got {shown(command)}: close them."
        ) from None
    if not all(any(f"{{{name}}}" in word for word in words) for name in needed):
        places = " and ".join(f"{{{name}}}" for name in needed)
        example = " ".join(f"--{name} {{{name}}}" for name in needed)
        raise ProtectError(
            f"Expected a command with {places}, such as 'tool {example}', got {shown(command)}."
        )
    return words


def run_tool(words: Sequence[str], files: Mapping[str, Path], *, timeout: float) -> None:
    """Run a command in the folder of its output; what it says is not shown, it may name people."""
    made = files["output"]
    filled = list(words)
    for name, path in files.items():
        filled = [word.replace(f"{{{name}}}", str(path.absolute())) for word in filled]
    try:
        done = subprocess.run(
            filled, cwd=made.parent, capture_output=True, timeout=timeout, check=False
        )
    except OSError as error:
        raise ProtectError(
            f"Expected the command {shown(filled[0])} to run, but {error.strerror}: install it, or name "
            "another. Nothing was released."
        ) from None
    except subprocess.TimeoutExpired:
        raise ProtectError(
            f"Expected the command to end within {timeout:g} seconds, it did not: pass a "
            "larger timeout. Nothing was released."
        ) from None
    if done.returncode or not made.is_file():
        raise ProtectError(
            f"Expected the command to write its output and end well, it ended with code "
            f"{done.returncode}{'' if made.is_file() else ' and wrote nothing'}: run it by hand "
            "to see why. Nothing was released."
        )


class External(Method):
    """Another tool, called once a file as ``command`` with ``{input}`` and ``{output}``.

    Guarantee: none. The tool sees the recording under a neutral name in a private folder. Its output
    is read frame by frame and written anew: metadata is lost, and a wrong size or number of frames
    fails. No shell is involved.

    | edge case | what happens |
    | --- | --- |
    | the command fails, or takes longer than ``timeout`` seconds | nothing is released |
    | it drops or adds frames, or changes their size | nothing is released |
    """

    name: ClassVar[str] = "external"
    summary: ClassVar[str] = "another tool, called once a file"
    provides: ClassVar[str] = "no guarantee"
    draws_at_random: ClassVar[bool] = False

    def __init__(
        self,
        *,
        command: Text,
        suffix: Annotated[str, Field(pattern=_SUFFIX, description="an ending, such as .mp4")]
        | None = None,
        timeout: Seconds = 3600.0,
        seed: Seed | None = None,
    ) -> None:
        super().__init__(seed=seed)
        self._words = command_words(command)
        self.suffix, self.timeout = suffix, timeout

    @property
    def settings(self) -> dict[str, Any]:
        # the card names the tool, not the folders it was called with
        return {"tool": Path(self._words[0]).name, "arguments": len(self._words) - 1}

    @property
    def temporary_files(self) -> tuple[str, ...]:
        return ("what the tool made, in a folder for the owner only that is removed at the end",)

    def promise(self, shape: Shape) -> Promise:
        return NoGuarantee(
            mechanism=f"external tool {Path(self._words[0]).name}",
            reason="Another tool made this output, and nothing is known about what it does.",
            not_covered=(
                "whatever the tool left as it was: nothing here looked for people or text",
            ),
            randomness=self.drawn_from,
        )

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        raise ProtectError(
            f"Expected a file for the method {self.name}, got frames: use apply(source, target)."
        )

    def opened(self, source: Path, scratch: Path) -> Method:
        given = scratch / f"input{source.suffix.lower()}"
        given.symlink_to(source.absolute())
        made = scratch / f"output{self.suffix or source.suffix.lower()}"
        run_tool(self._words, {"input": given, "output": made}, timeout=self.timeout)
        return _Made(made)


class _Made(Method):
    """The frames of a finished file in the place of the originals, with their times."""

    name, summary, provides = External.name, External.summary, External.provides

    def __init__(self, made: Path) -> None:
        super().__init__()
        self._made = made

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        if self._made.suffix.lower() in IMAGE_SUFFIXES:
            pictures = iter([read_image(self._made)])
            yield from self._replaced(frames, pictures, shape)
            return
        with open_video(self._made) as outputs:
            yield from self._replaced(frames, (frame.image for frame in outputs), shape)

    def _replaced(
        self, frames: Iterator[Frame], pictures: Iterator[Any], shape: Shape
    ) -> Iterator[Frame]:
        for frame in frames:
            picture = next(pictures, None)
            if picture is None or picture.shape != frame.image.shape:
                got = (
                    "fewer"
                    if picture is None
                    else f"one of {picture.shape[1]} x {picture.shape[0]}"
                )
                raise ProtectError(
                    f"Expected as many frames of {shape.width} x {shape.height} from the tool as it "
                    f"was given, got {got}. Nothing was released."
                )
            yield replace(frame, image=picture)
        if next(pictures, None) is not None:
            raise ProtectError(
                "Expected as many frames from the tool as it was given, got more. "
                "Nothing was released."
            )
