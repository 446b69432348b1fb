"""From one recording to one release: output and card appear together, or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sfumato.devices import used_words, using
from sfumato.files import refuse_overwrite, refuse_replacing, staging_folder
from sfumato.jobs import NAMES_NOTE
from sfumato.media import (
    AUDIO_NOTE,
    AUDIO_SUFFIXES,
    IMAGE_SUFFIXES,
    USUAL_RATES,
    Frame,
    SoundChanges,
    SoundReader,
    VideoJoiner,
    VideoWriter,
    open_video,
    read_image,
    require_image_name,
    require_sound_name,
    require_video_name,
    write_image,
)
from sfumato.people import runtime_packages
from sfumato.privacy import (
    Card,
    NoGuarantee,
    Output,
    UnitKind,
    card_path,
    control_character,
    counted_under,
    versions_of,
)
from sfumato.progress import tell
from sfumato.protect._before_after import BeforeAfterPairs
from sfumato.protect._method import (
    NOTHING_DRAWN,
    Method,
    Promise,
    ProtectError,
    Shape,
    StillVisibleError,
)

if TYPE_CHECKING:
    from sfumato.protect._spans import InSpans, SpanRun

_TRIES = 3
# R22: what leaves without noise is named. Where a unit is all there is to see, times are not kept.
_PUBLIC_PICTURE = "the size of the picture and the kind of file"
_PUBLIC_SOUND = "the length, the rate, the number of channels (one or two) and the kind of file"
_PUBLIC_GRID = (
    "the size of the picture, the number of frames, the kind of file, and the nominal frame rate "
    f"rounded to one of {len(USUAL_RATES)} usual rates (times and pixel shape are not kept)"
)
_PUBLIC_TIMES = (
    "the size of the picture, the number of frames, the exact time of every frame, the frame rate, "
    "the shape of the pixels and the kind of file"
)
# Replacing a recording by a copy of another one of its folder shows: there is one output less.
_PUBLIC_COPIES = "which recordings of the folder are one and the same (each is released once)"
_INSIDE_A_RECORDING = {UnitKind.PIXELS, UnitKind.FRAME}
Spend = Callable[[Promise], AbstractContextManager[object]]
Audio = Literal["drop", "keep", "anonymize"]
_IF_KEPT = "sound, if it is kept"  # how a method names what is not covered only then
_VOICES_AS_THEY_WERE = "Voices are as they were: the sound was kept."
# a promise is made before anybody looks whether there is sound
_VOICES_IF_ANY = {
    "keep": "Voices are as they were: any sound was kept.",
    "anonymize": "Any voices were changed, and nothing bounds what can still be recognised in them.",
}
_ANONYMIZED_NOTE = (
    "any sound, which was anonymized, and that proves nothing: words and names that are spoken, accent, "
    "and who speaks when are not protected"
)


@dataclass(frozen=True)
class OutputSettings:
    """How a protected video is stored; none of it depends on the recording."""

    codec: str = "h264"
    quality: int | None = None
    audio: Audio = "drop"
    tolerant: bool = False
    keep_names: bool = False
    of_folder: bool = False
    # settings of the method voice, where the sound of a video is anonymized
    voice: dict[str, Any] = field(default_factory=dict)


@dataclass
class Reading:
    """What was read of a recording, for the operator only.

    ``content`` is the digest of its decoded pictures, ``damage`` what a tolerant reader passed over.
    """

    content: str = ""
    damage: str = ""


def shape_of(source: str | os.PathLike[str], *, count: bool, tolerant: bool = False) -> Shape:
    """Public facts of a recording; ``count`` decodes it once to know its true length."""
    path = Path(source)
    if _kind(path) == "sound":
        with SoundReader(path):
            return Shape(0, 0)  # there is nothing to see
    if path.suffix.lower() in IMAGE_SUFFIXES:
        height, width = read_image(path, tolerant=tolerant).shape[:2]
        return Shape(height, width, 1)
    with open_video(path, tolerant=tolerant) as reader:
        info = reader.info
        frames = sum(1 for _ in reader) if count else None
        return Shape(info.height, info.width, frames)


def _kind(path: Path) -> Literal["picture", "sound", "video"]:
    """By its name, as everywhere."""
    suffix = path.suffix.lower()
    if suffix in IMAGE_SUFFIXES:
        return "picture"
    return "sound" if suffix in AUDIO_SUFFIXES else "video"


def release(
    method: Method,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    output: OutputSettings | None = None,
    force: bool = False,
    spend: Spend | None = None,
    pairs: BeforeAfterPairs | None = None,
    reading: Reading | None = None,
    counted: dict[str, str] | None = None,
    spans: InSpans | None = None,
) -> Promise:
    """Protect one video or picture file; returns what was promised and is written on the card.

    Nothing appears at ``target`` unless every frame was protected and the card was written.
    ``spend`` is entered with the promise before any noise is drawn (the ledger's reservation), and
    after everything that can be known to fail beforehand: names, places, codec, and the whole
    recording, which is read once more for it. ``pairs`` of original and protected frames are set
    aside elsewhere, and the card says so. ``reading`` is filled with what was read. ``counted``
    is what the card says where others entered the ledger for this and more (a folder). ``spans`` says who
    works on the parts of a long video.
    """
    how = output or OutputSettings()
    source, target = Path(source), Path(target)
    is_picture, kind = source.suffix.lower() in IMAGE_SUFFIXES, _kind(source)
    sidecars = () if is_picture else method.sidecars(target)
    require_target(source, target, how, sidecars=sidecars, force=force)
    if pairs is not None:
        pairs.refuse(source, target)
    length = method.needs_length or spend is not None
    shape = shape_of(source, count=length, tolerant=how.tolerant)
    promise = promise_of_release(method, source, shape, how)
    work = _Work(method, source, shape, how, keeps_times(promise), reading or Reading(), spans)
    with staging_folder(target) as staging, pairs.kept() if pairs else nullcontext():
        if spend is not None:
            _try_writing(staging, source, target, shape, how)
        # the budget is committed before anybody can see the output, never after
        with (spend or _free)(promise) as held:
            made = staging / target.name
            with using() as used:
                work.make(made, staging)
                if isinstance(promise, NoGuarantee):
                    # under a guarantee, whether something is released may not depend on the original
                    _checked(work, made, staging)
            done = f"A {kind}{' file' * (kind == 'sound')} was protected: {method.summary}."
            done = " ".join([done, *work.said, *method.on_purpose])
            if pairs is not None:
                pairs.write(source, made, tolerant=how.tolerant)
                done = f"{done} {pairs.sentence}"
            card = Card(
                method=method.name,
                done=done,
                promise=promise,
                outputs=tuple(Output.of(path) for path in (made, *_staged(made, sidecars))),
                settings=method.settings
                | ({} if kind == "sound" else {"codec": how.codec, "audio": work.audio})
                | ({"voice": work.voice} if work.voice else {})
                | (counted or counted_under(held)),
                device=used_words(used),
                detectors=tuple(f"{name} on {device}" for name, device in method.detectors_used),
                # a review is of frames, which sound has none of
                reviews=None if kind == "sound" else (),
                temporary_files=(*method.temporary_files, *work.temporary_files),
                versions=_versions(method, is_picture),
            )
            card.write(made)
        if work.in_spans is not None:
            shutil.rmtree(work.in_spans.place)
        _publish(staging, target, force)
    return promise


def _versions(method: Method, is_picture: bool) -> dict[str, str]:
    """Of what really ran: the codec, what the method works with, and the detectors' runtimes."""
    runtimes = runtime_packages(device for _, device in method.detectors_used)
    codec = "opencv-python-headless" if is_picture else "av"
    return versions_of(*dict.fromkeys((codec, *method.packages, *runtimes)))


def _staged(made: Path, sidecars: tuple[Path, ...]) -> list[Path]:
    return [made.with_name(path.name) for path in sidecars]


def require_target(
    source: Path,
    target: Path,
    how: OutputSettings,
    *,
    sidecars: tuple[Path, ...] = (),
    force: bool = False,
) -> None:
    """Raise unless a protected copy can be put there; reads nothing of the recording."""
    if character := control_character(target.name):
        raise ProtectError(
            f"Expected an output name of plain characters, got one with {character!r}, which no card "
            "may hold: rename the output."
        )
    places = (target, *sidecars, card_path(target), card_path(target).with_suffix(".md"))
    refuse_replacing(source, *places)
    for path in places:
        if path.is_dir():
            raise ProtectError(
                f"Expected a file name as the output, got the folder {str(path)!r}: name a file in it."
            )
        refuse_overwrite(path, force=force)
    kind = _kind(source)
    if kind != _kind(target):
        raise ProtectError(
            "Expected a picture as output for a picture, a video for a video and a sound file for sound, "
            f"got {source.suffix!r} and {target.suffix!r}: rename the output."
        )
    if kind == "picture":
        require_image_name(target)
    elif kind == "sound":
        require_sound_name(target)
    else:
        require_video_name(target, how.codec, how.quality)


def _try_writing(
    staging: Path, source: Path, target: Path, shape: Shape, how: OutputSettings
) -> None:
    """Write a grey picture of that size under the names to come: what cannot be written is known."""
    with staging_folder(staging / "trial") as trial:
        (trial / card_path(target).name).touch()
        if _kind(target) == "sound":
            return
        grey = np.full((shape.height, shape.width, 3), 128, np.uint8)
        if target.suffix.lower() in IMAGE_SUFFIXES:
            write_image(trial / target.name, grey)
            return
        with VideoWriter(
            trial / target.name,
            rate=25,
            size=(shape.width, shape.height),
            codec=how.codec,
            quality=how.quality,
            keep_audio_from=source if how.audio == "keep" else None,
        ) as writer:
            writer.write(grey)


def _checked(work: _Work, made: Path, staging: Path) -> None:
    """Let the method check what it made; it may try again with what it found."""
    for _ in range(_TRIES - 1):
        try:
            work.check(made)
        except StillVisibleError:
            for path in (made, *work.method.sidecars(made)):
                path.unlink(missing_ok=True)
            work.make(made, staging)
        else:
            return
    work.check(made)


def _free(promise: Promise) -> AbstractContextManager[object]:
    return nullcontext()


def narrowed_by_sound(
    promise: Promise, audio: Audio = "keep", drawn_from: str | None = None
) -> Promise:
    """R14: sound has no noise; whatever is left of it voids a promise about a whole recording.

    ``drawn_from`` is where the secrets of changed voices come from: a card must not say that nothing is
    drawn at random where only the picture draws nothing.
    """
    note = AUDIO_NOTE if audio == "keep" else _ANONYMIZED_NOTE
    not_covered = (*promise.not_covered, note)
    said = f" {_VOICES_IF_ANY[audio]}"
    if isinstance(promise, NoGuarantee):
        randomness = promise.randomness
        if drawn_from is not None and randomness == NOTHING_DRAWN:
            randomness = drawn_from
        return replace(promise, reason=f"{promise.reason}{said}", not_covered=not_covered,
                       randomness=randomness)  # fmt: skip
    if promise.unit.kind in {UnitKind.PIXELS, UnitKind.FRAME}:
        return replace(promise, not_covered=not_covered)
    left = "kept" if audio == "keep" else "anonymized, without a proof"
    return NoGuarantee(
        mechanism=promise.mechanism,
        reason=f"Any sound was {left}, and it is part of {promise.unit.sentence}.{said}",
        not_covered=not_covered,
        randomness=promise.randomness,
    )


def keeps_times(promise: Promise) -> bool:
    """Whether frame times and pixel shape are public: not where the unit is a whole recording."""
    return isinstance(promise, NoGuarantee) or promise.unit.kind in _INSIDE_A_RECORDING


def promise_of_release(method: Method, source: Path, shape: Shape, how: OutputSettings) -> Promise:
    """The method's promise with everything named that leaves without its noise (R14, R22)."""
    promise = method.promise(shape)
    kind = _kind(source)
    if kind == "video" and how.audio != "drop":
        drawn_from = None
        if how.audio == "anonymize":
            from sfumato.protect.voice import Voice

            drawn_from = Voice(**how.voice).drawn_from
        promise = narrowed_by_sound(promise, how.audio, drawn_from)
    if kind != "video" or how.audio != "keep":
        open_ears = tuple(each for each in promise.not_covered if _IF_KEPT not in each)
        promise = replace(promise, not_covered=open_ears)
    if kind != "video":
        kept = _PUBLIC_PICTURE if kind == "picture" else _PUBLIC_SOUND
    else:
        kept = _PUBLIC_TIMES if keeps_times(promise) else _PUBLIC_GRID
    if how.keep_names:
        promise = replace(promise, not_covered=(*promise.not_covered, NAMES_NOTE))
    if isinstance(promise, NoGuarantee):
        return replace(promise, not_covered=(*promise.not_covered, f"{kept}: as in the recording"))
    copies = (_PUBLIC_COPIES,) if how.of_folder else ()
    return replace(promise, public=(*promise.public, kept, *copies))


@dataclass
class _Work:
    """One recording on its way through a method."""

    method: Method
    source: Path
    shape: Shape
    how: OutputSettings
    keeps_times: bool
    reading: Reading
    spans: InSpans | None = None
    in_spans: SpanRun | None = None  # once the recording was cut
    # what the card says of the sound, and with which settings it was anonymized
    said: tuple[str, ...] = ()
    audio: str = "drop"
    voice: dict[str, Any] = field(default_factory=dict)

    def make(self, made: Path, staging: Path) -> None:
        """Write the protected file; what another tool makes is written anew, without metadata."""
        if self.spans is not None and _kind(self.source) == "video":
            self._video_in_spans(self.spans, made, staging)
            return
        copy = {"picture": self._picture, "sound": self._sound, "video": self._video}[
            _kind(self.source)
        ]
        with staging_folder(made) as scratch:
            copy(self.method.opened(self.source, scratch), made)

    @property
    def temporary_files(self) -> tuple[str, ...]:
        from sfumato.protect._spans import SEARCH_FILES

        searched = self.in_spans is not None and self.in_spans.searches
        return (SEARCH_FILES,) if searched else ()

    def check(self, made: Path) -> None:
        """Raise if somebody can still be found in the output."""
        if self.in_spans is not None:
            self.in_spans.check()  # workers looked at what they made
        else:
            self.method.check_output(self.source, made, tolerant=self.how.tolerant)

    def _video_in_spans(self, spans: InSpans, made: Path, staging: Path) -> None:
        from sfumato.protect._spans import SpanRun

        how = self.how
        if self.in_spans is None:
            place = staging / "spans"
            place.mkdir(mode=0o700)
            self.in_spans = SpanRun(
                spans,
                self.method,
                self.source,
                self.shape,
                place,
                how.codec,
                how.quality,
                made.suffix,
            )
            digest = hashlib.sha256()
            with open_video(self.source) as reader:
                digest.update(f"{reader.info.width}x{reader.info.height}".encode())
            self.in_spans.read(lambda frame: digest.update(frame.image.data))
            self.reading.content = digest.hexdigest()
        run, read = self.in_spans, self.in_spans.timeline
        info = read.info if self.keeps_times else read.info.on_usual_grid()
        times: list[int | None] = list(read.frames.pts) if self.keeps_times else [None] * len(read)
        heard = None if how.audio == "drop" or not info.has_audio else self.source
        changes = self._sound_of_video(heard is not None, info.has_audio)
        settings: dict[str, Any] = {"codec": how.codec, "quality": how.quality}
        VideoWriter(made, info, **settings).require_times(times)
        pieces, begin = [], 0
        for path, count in run.make(info):
            pieces.append((path, times[begin : begin + count]))
            begin += count
        with VideoJoiner(
            made, info, pieces, keep_audio_from=heard, change_audio=changes, **settings
        ) as joiner:
            joiner.join(lambda joined: tell("joining", joined, len(read)))
            if joiner.frames_written != len(read):
                raise ProtectError(
                    f"Expected {len(read)} protected frames, got {joiner.frames_written}: nothing was "
                    "released."
                )

    def _video(self, method: Method, made: Path) -> None:
        how, came, digest = self.how, 0, hashlib.sha256()
        with open_video(self.source, tolerant=how.tolerant) as reader:
            info = reader.info if self.keeps_times else reader.info.on_usual_grid()
            digest.update(f"{info.width}x{info.height}".encode())
            # a frame is read once and written once; a method may read far ahead
            parts = 2 * (self.shape.frames or info.expected_frames or 0) or None

            def counted() -> Iterator[Frame]:
                nonlocal came
                for frame in reader:
                    came += 1
                    digest.update(frame.image.data)
                    yield frame
                    tell("protecting", came + writer.frames_written, parts)

            heard = None if how.audio == "drop" or not info.has_audio else self.source
            changes = self._sound_of_video(heard is not None, info.has_audio)
            with (
                VideoWriter(
                    made,
                    info,
                    codec=how.codec,
                    quality=how.quality,
                    keep_audio_from=heard,
                    change_audio=changes,
                ) as writer,
                method.write_sidecars(made, info),
            ):
                for frame in method.frames(counted(), count=self.shape.frames):
                    writer.write(frame.image, frame.pts if self.keeps_times else None)
                    tell("protecting", came + writer.frames_written, parts)
                if writer.frames_written != came:
                    raise ProtectError(
                        f"Expected {came} protected frames, got {writer.frames_written}: "
                        "nothing was released."
                    )
            self.reading.content, self.reading.damage = digest.hexdigest(), str(reader.damage)

    def _sound_of_video(self, heard: bool, there: bool) -> SoundChanges | None:
        """What is done to each track of a video's sound, and what the card says of it."""
        how = self.how
        self.audio = how.audio if heard else "drop"
        if not heard:
            # whether there was any is part of a whole recording, and no noise hides it (R22)
            told = "Its sound was dropped." if there else "It had no sound."
            self.said = (told if self.keeps_times else "Any sound was dropped.",)
            return None
        if how.audio == "keep":
            self.said = (_VOICES_AS_THEY_WERE,)
            return None
        from sfumato.protect.voice import Voice

        voice = Voice(**how.voice)
        self.voice = voice.settings
        self.said = (
            f"Every track of its sound was anonymized ({voice.algorithm}).",
            voice.measured,
        )
        return lambda track, rate: voice.change(self.source, track, rate)

    def _sound(self, method: Method, made: Path) -> None:
        self.reading.content, said = method.sound(self.source, made)
        self.said = (said,) if said else ()

    def _picture(self, method: Method, made: Path) -> None:
        image = read_image(self.source, tolerant=self.how.tolerant)
        (protected,) = method.frames([Frame(image, 0, Fraction(0))], count=1)
        write_image(made, protected.image)
        digest = hashlib.sha256(f"{image.shape[1]}x{image.shape[0]}".encode())
        digest.update(image.data)
        self.reading.content = digest.hexdigest()


def _publish(staging: Path, target: Path, force: bool) -> None:
    """Cards first, the output last: an output is never seen without its card."""
    names = sorted(path.name for path in staging.iterdir() if path.name != target.name)
    for name in (*names, target.name):
        final = target.with_name(name)
        refuse_overwrite(final, force=force)
        os.replace(staging / name, final)
