"""Both files side by side, original and release: one pass for all checks of the output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from sfumato import people
from sfumato.media import IMAGE_SUFFIXES, Image, ahead, open_video, read_image
from sfumato.progress import track

Faces = tuple[people.Box, ...] | None
# the number of a frame, its original, its release and where heads were covered (None: nobody looked)
Check = Callable[[int, Image, Image, Faces], Sequence[Any]]


def what_is_left(
    source: Path,
    made: Path,
    checks: Sequence[Check],
    known: Iterable[Faces] = (),
    *,
    tolerant: bool = False,
) -> list[list[tuple[int, list[Any]]]]:
    """For every check the frames on which it finds something, and what; several frames at once."""
    return left_in(_pairs_of(source, made, tolerant), checks, known)


def left_in(
    pairs_of: Iterable[tuple[Image, Image]],
    checks: Sequence[Check],
    known: Iterable[Faces] = (),
    first: int = 0,
) -> list[list[tuple[int, list[Any]]]]:
    """The same for pairs of pictures, of which the first has the number ``first``."""

    def judged(pair: tuple[int, tuple[tuple[Image, Image], Faces]]) -> list[list[Any]]:
        number, ((original, output), heads) = pair
        return [list(check(number, original, output, heads)) for check in checks]

    left: list[list[tuple[int, list[Any]]]] = [[] for _ in checks]
    # the thread that decodes has ended when this does, whatever happens
    with closing(ahead(pairs_of)) as pairs:
        frames = enumerate(zip(pairs, chain(known, repeat(None))), first)
        for (number, _), found in people.in_parallel(frames, judged, people.threads()):
            for mine, each in zip(left, found, strict=True):
                if each:
                    mine.append((number, each))
    return left


def _pairs_of(source: Path, made: Path, tolerant: bool) -> Iterator[tuple[Image, Image]]:
    """Original and released pictures."""
    if source.suffix.lower() in IMAGE_SUFFIXES:
        yield read_image(source, tolerant=tolerant), read_image(made)
        return
    with open_video(source, tolerant=tolerant) as originals, open_video(made) as outputs:
        frames = zip(originals, outputs, strict=True)
        for original, output in track(frames, "checking", outputs.info.expected_frames):
            yield original.image, output.image
