"""From one recording to one release: output and card appear together, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from sfumato.files import refuse_overwrite
from sfumato.media import (
    AUDIO_NOTE,
    IMAGE_SUFFIXES,
    Frame,
    VideoWriter,
    open_video,
    read_image,
    staging_folder,
    write_image,
)
from sfumato.privacy import Card, NoGuarantee, Output, UnitKind, card_path
from sfumato.protect._method import (
    Method,
    Promise,
    ProtectError,
    Shape,
    StillVisibleError,
    WholeFile,
)
from sfumato.protect._pairs import Pairs

_TRIES = 3
Spend = Callable[[Promise], AbstractContextManager[object]]


@dataclass(frozen=True)
class OutputSettings:
    """How a protected video is stored; none of it depends on the recording."""

    codec: str = "h264"
    quality: int | None = None
    keep_audio: bool = False
    tolerant: bool = False


def shape_of(source: str | os.PathLike[str], *, count: bool, tolerant: bool = False) -> Shape:
    """Public facts of a recording; ``count`` decodes it once to know its true length."""
    path = Path(source)
    if path.suffix.lower() in IMAGE_SUFFIXES:
        height, width = read_image(path, tolerant=tolerant).shape[:2]
        return Shape(height, width, 1)
    with open_video(path, tolerant=tolerant) as reader:
        info = reader.info
        frames = sum(1 for _ in reader) if count else None
        return Shape(info.height, info.width, frames)


def release(
    method: Method,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    output: OutputSettings | None = None,
    force: bool = False,
    spend: Spend | None = None,
    pairs: Pairs | None = None,
) -> Promise:
    """Protect one video or picture file; returns what was promised and is written on the card.

    Nothing appears at ``target`` unless every frame was protected and the card was written.
    ``spend`` is entered with the promise before any noise is drawn (the ledger's reservation).
    ``pairs`` of original and protected frames are set aside elsewhere, and the card says so.
    """
    how = output or OutputSettings()
    source, target = Path(source), Path(target)
    is_picture = source.suffix.lower() in IMAGE_SUFFIXES
    beside = () if is_picture else method.companions(target)
    for path in (target, *beside, card_path(target), card_path(target).with_suffix(".md")):
        refuse_overwrite(path, force=force)
    if pairs is not None:
        pairs.refuse(target)
    if is_picture != (target.suffix.lower() in IMAGE_SUFFIXES):
        raise ProtectError(
            "Expected a picture as output for a picture and a video for a video, got "
            f"{source.suffix!r} and {target.suffix!r}: rename the output."
        )
    shape = shape_of(source, count=method.needs_length, tolerant=how.tolerant)
    promise = narrowed_by_sound(method.promise(shape)) if how.keep_audio else method.promise(shape)
    with staging_folder(target) as staging, pairs.kept() if pairs else nullcontext():
        # the budget is committed before anybody can see the output, never after
        with (spend or _free)(promise):
            made = staging / target.name
            _make(method, source, made, shape, how)
            if isinstance(promise, NoGuarantee):
                # under a guarantee, whether something is released may not depend on the original
                _checked(method, source, made, shape, how)
            done = f"{'A picture' if is_picture else 'A video'} was protected: {method.summary}."
            if pairs is not None:
                pairs.write(source, made, tolerant=how.tolerant)
                done = f"{done} {pairs.sentence}"
            card = Card(
                method=method.name,
                done=done,
                promise=promise,
                outputs=tuple(Output.of(path) for path in (made, *_beside(made, beside))),
                settings=method.settings | {"codec": how.codec, "keep_audio": how.keep_audio},
            )
            card.write(made)
        _publish(staging, target, force)
    return promise


def _beside(made: Path, companions: tuple[Path, ...]) -> list[Path]:
    return [made.with_name(path.name) for path in companions]


def _checked(method: Method, source: Path, made: Path, shape: Shape, how: OutputSettings) -> None:
    """Let the method look at what it made; it may try again with what it saw."""
    for _ in range(_TRIES - 1):
        try:
            method.check_output(source, made, tolerant=how.tolerant)
        except StillVisibleError:
            for path in (made, *method.companions(made)):
                path.unlink(missing_ok=True)
            _make(method, source, made, shape, how)
        else:
            return
    method.check_output(source, made, tolerant=how.tolerant)


def _make(method: Method, source: Path, made: Path, shape: Shape, how: OutputSettings) -> None:
    """The protected file; what another tool makes is written anew, so that its metadata is lost."""
    copy = _picture if source.suffix.lower() in IMAGE_SUFFIXES else _video
    if not isinstance(method, WholeFile):
        copy(method, source, made, shape, how)
        return
    with staging_folder(made) as workshop:
        copy(method.after(source, workshop), source, made, shape, how)


def _free(promise: Promise) -> AbstractContextManager[object]:
    return nullcontext()


def narrowed_by_sound(promise: Promise) -> Promise:
    """R14: kept sound is in the clear; it voids a promise about a whole recording."""
    if isinstance(promise, NoGuarantee):
        return replace(promise, not_covered=(*promise.not_covered, AUDIO_NOTE))
    if promise.unit.kind in {UnitKind.PIXELS, UnitKind.FRAME}:
        return replace(promise, not_covered=(*promise.not_covered, AUDIO_NOTE))
    return NoGuarantee(
        mechanism=promise.mechanism,
        reason=f"The sound was kept, and it is part of {promise.unit.sentence}.",
        not_covered=(*promise.not_covered, AUDIO_NOTE),
        randomness=promise.randomness,
    )


def _video(method: Method, source: Path, made: Path, shape: Shape, how: OutputSettings) -> None:
    audio = source if how.keep_audio else None
    came = 0
    with open_video(source, tolerant=how.tolerant) as reader:

        def counted() -> Iterator[Frame]:
            nonlocal came
            for frame in reader:
                came += 1
                yield frame

        with (
            VideoWriter(
                made, reader.info, codec=how.codec, quality=how.quality, keep_audio_from=audio
            ) as writer,
            method.beside(made, reader.info),
        ):
            for frame in method.frames(counted(), count=shape.frames):
                writer.write(frame.image, frame.pts)
            if writer.frames_written != came:
                raise ProtectError(
                    f"Expected {came} protected frames, got {writer.frames_written}: "
                    "nothing was released."
                )


def _picture(method: Method, source: Path, made: Path, shape: Shape, how: OutputSettings) -> None:
    frame = Frame(read_image(source, tolerant=how.tolerant), 0, Fraction(0))
    (protected,) = method.frames([frame], count=1)
    write_image(made, protected.image)


def _publish(staging: Path, target: Path, force: bool) -> None:
    """Cards first, the output last: an output is never seen without its card."""
    names = sorted(path.name for path in staging.iterdir() if path.name != target.name)
    for name in (*names, target.name):
        final = target.with_name(name)
        refuse_overwrite(final, force=force)
        os.replace(staging / name, final)
