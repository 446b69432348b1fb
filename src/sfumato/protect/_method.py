"""What every release method of pictures is: settings first, private frames as arguments only."""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, wraps
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_type_hints

from sfumato.errors import SfumatoError
from sfumato.jobs import Needs
from sfumato.media import Frame, VideoInfo
from sfumato.privacy import Card, Guarantee, NoGuarantee, Randomness, Relation, Unit
from sfumato.settings import Seed, Settings, checked, schema_from

if TYPE_CHECKING:
    from sfumato.protect.hide._region import Filter, Region, Watcher

Promise = Guarantee | NoGuarantee
NOTHING_DRAWN = "nothing is drawn at random"


class ProtectError(SfumatoError):
    """A recording that cannot be protected as asked; nothing was released for it."""


class StillVisibleError(ProtectError):
    """Somebody can still be found in the output; nothing was released for it."""


@dataclass(frozen=True)
class Shape:
    """What is public about a recording before it is read: its size and, if known, its length."""

    height: int
    width: int
    frames: int | None = None


@dataclass(frozen=True)
class SpanRule:
    """How a long recording may be cut into spans that are worked on apart, with the result of one run.

    Spans begin at multiples of ``block`` frames and leave whole blocks before them; the last two blocks
    stay together, for they may share their frames (R11).
    """

    block: int
    # Whether people are searched for first: such a method is a SearchedMethod.
    searched: bool = False

    def cuts(self, frames: int, longest: int) -> list[tuple[int, int]]:
        """First frame and end of each span of a recording: about equal, and none longer than
        ``longest`` frames by a block or more."""
        last = (frames // self.block - 1) * self.block  # where the last span may begin
        wanted = max(1, -(-frames // max(longest, 1)))
        step = max(1, -(-frames // (wanted * self.block))) * self.block
        begins = [0, *range(step, last + 1, step)]
        return list(zip(begins, [*begins[1:], frames], strict=True))


class Stream(Iterator[Frame]):
    """Protected frames. The promise is final only when the last frame has been taken."""

    def __init__(self, frames: Iterator[Frame], promise: Promise, lookahead: int) -> None:
        self._frames = frames
        self._promise = promise
        self._exhausted = False
        self.lookahead = lookahead

    def __next__(self) -> Frame:
        try:
            return next(self._frames)
        except StopIteration:
            self._exhausted = True
            raise

    @property
    def guarantee(self) -> Promise:
        if not self._exhausted:
            raise ProtectError(
                "The promise of a stream is known once its last frame was taken: read it to the end."
            )
        return self._promise


@cache
def _schema(method: type[Method]) -> type[Settings]:
    hints: dict[str, Any] = {}
    for owner in reversed(method.__mro__):
        if "__init__" in vars(owner) and owner is not object:
            hints |= get_type_hints(owner.__init__, include_extras=True)  # type: ignore[misc]
    accepted = method.accepted_settings()
    return schema_from(
        method.__name__,
        {name: (hints.get(name, Any), each.default) for name, each in accepted.items()},
    )


def _checking(init: Callable[..., None]) -> Callable[..., None]:
    """``init`` behind the check of its settings; what a subclass passes on is checked already."""

    @wraps(init)
    def checking(self: Method, /, *positional: Any, **given: Any) -> None:
        method = type(self)
        if method.__init__ is checking:
            name = getattr(method, "name", method.__name__)
            # what may also be passed by position is an object of another room, no setting
            objects = {
                key
                for key, each in inspect.signature(init).parameters.items()
                if each.kind is each.POSITIONAL_OR_KEYWORD and key != "self"
            }
            typed = {key: value for key, value in given.items() if key not in objects}
            given |= (told := checked(_schema(method), typed, f"the method {name}", ProtectError))
            refuse_without_effect(method, told)
        init(self, *positional, **given)

    return checking


def refuse_without_effect(method: type[Method], given: Mapping[str, Any]) -> None:
    """Nobody may believe in a setting that does nothing beside the others."""
    accepted = method.accepted_settings()
    names, why = method.without_effect(given)
    for name in sorted(names & given.keys()):
        value = given[name]
        typed = isinstance(value, str | int | float)  # no object of Python code
        if typed and value != accepted[name].default:
            raise ProtectError(
                f"Expected settings that have an effect, got {name} {why}, where it has none: leave it "
                "out."
            )


class Method(ABC):
    """One way to release pictures. Subclasses state their guarantee, or none, in their docstring.

    ``lookahead`` is how many frames a stream may hold back; ``settings`` are public. Keyword settings
    are checked against the types and bounds of the constructor's signature before it runs. Whatever
    the release, its reviewers and its audits must know of a method, the method says itself.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    provides: ClassVar[str]
    releases: ClassVar[str] = "recordings"
    # What it works on: "picture" (and videos), or "sound".
    medium: ClassVar[str] = "picture"
    # Why nothing is proven and what is not covered, where ``promise`` is not overridden.
    reason: ClassVar[str] = "Nothing bounds what its output gives away."
    leaves: ClassVar[tuple[str, ...]] = ()
    # What one recording takes while it is worked on: engines of a cluster give it that much.
    needs: Needs = Needs()
    # The distributions that do the work beside numpy, for the versions on the card.
    works_with: ClassVar[tuple[str, ...]] = ()
    # Audits that fit it: attacks of ``audit reconstruct``, and ``release-code`` for proven noise.
    audits: ClassVar[frozenset[str]] = frozenset({"average", "average-near"})
    # Its noise depends on the size of the picture, so that its code is audited at that size.
    noise_needs_size: ClassVar[bool] = False
    # Whether anything in it is drawn at random; where nothing is, a seed has no effect.
    draws_at_random: ClassVar[bool] = True
    # Its output shows people on purpose who are nobody: a person detector is meant to find them.
    draws_people: ClassVar[bool] = False
    # Where it detects people in the original frames; None if it works on whole pictures.
    region: Region | None = None
    # Called with what was detected on each original frame; None if nobody is searched for.
    watchers: list[Watcher] | None = None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "__init__" in vars(cls):
            cls.__init__ = _checking(cls.__init__)  # type: ignore[method-assign]

    @_checking
    def __init__(self, *, seed: Seed | None = None) -> None:
        self.randomness = Randomness(seed)

    @property
    def drawn_from(self) -> str:
        """Where what is drawn at random comes from, for the card."""
        return self.randomness.label if self.draws_at_random else NOTHING_DRAWN

    @classmethod
    def from_card(cls, card: Card) -> Self:
        """The method as its card tells it; what the card leaves out has its default."""
        return cls(**cls.settings_on(card))

    @classmethod
    def settings_on(cls, card: Card) -> dict[str, Any]:
        """What a card of this method says about the settings of the constructor."""
        accepted = cls.accepted_settings()
        return {name: value for name, value in card.settings.items() if name in accepted}

    @property
    def lookahead(self) -> int:
        return 0

    def lookahead_for(self, shape: Shape) -> int:
        """The same for a recording of this shape, where it depends on that."""
        return self.lookahead

    @property
    def needs_length(self) -> bool:
        """Whether the number of frames must be known before the promise can be made."""
        return False

    @property
    def uses_side_files(self) -> bool:
        """Whether it reads another file that may have been made from the recording (boxes, masks)."""
        return False

    @property
    def settings(self) -> dict[str, Any]:
        """For the card: the settings of the constructor, which are attributes, but for the seed."""
        accepted = self.accepted_settings()
        return {name: _plain(getattr(self, name)) for name in accepted if name != "seed"}

    def promise(self, shape: Shape) -> Promise:
        """What releasing a recording of this shape will prove; reads nothing private."""
        return NoGuarantee(
            mechanism=self.name,
            reason=self.reason,
            not_covered=self.leaves,
            randomness=self.drawn_from,
        )

    @abstractmethod
    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        """Protected frames, as many as came and in their order."""

    def spans(self, shape: Shape) -> SpanRule | None:
        """How a recording may be worked on in spans; None: only as a whole."""
        return None

    def transform_from(self, first: int, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        """Of a method with ``spans``: protected frames of a span that begins with frame ``first``."""
        raise ProtectError(f"Expected a method that works on spans, got {self.name}.")

    def sound(self, source: Path, made: Path) -> tuple[str, str]:
        """Write the protected copy of a sound file; the digest of what was read, and what to say."""
        raise ProtectError(
            f"Expected a method for sound (voice), got {self.name}: it is for pictures."
        )

    @property
    def packages(self) -> tuple[str, ...]:
        """The distributions that really ran."""
        return self.works_with

    @property
    def detectors_used(self) -> tuple[tuple[str, str], ...]:
        """Name and device of every detector that ran on the last recording, for the card."""
        return ()

    @property
    def temporary_files(self) -> tuple[str, ...]:
        """What private content lay on disk meanwhile, for the card (R16)."""
        return ()

    def make_filter(self, shape: Shape) -> Filter:
        """What covers the places of one recording, frame by frame; may write into the picture."""
        raise ProtectError(f"Expected a method that covers places, got {self.name}: it has none.")

    @property
    def on_purpose(self) -> tuple[str, ...]:
        """Sentences for the card: what the operator left open, or covered by hand."""
        return ()

    def remarks(self, shape: Shape) -> list[str]:
        """What an honest tool says before it runs; from settings and public priors only (R12)."""
        return []

    def write_sidecars(self, video: Path, info: VideoInfo) -> AbstractContextManager[object]:
        """While this lasts, the sidecars of ``video`` are written along with the stream."""
        return nullcontext()

    def opened(self, source: Path, scratch: Path) -> Method:
        """The method that gives the frames of ``source``; may use the private folder ``scratch``."""
        return self

    def sidecars(self, video: Path) -> tuple[Path, ...]:
        """The other files that are released with ``video``; its card covers them too."""
        return ()

    def check_output(self, source: Path, made: Path, *, tolerant: bool = False) -> None:
        """Check a finished file before it is released; raise and nothing is.

        A ``StillVisibleError`` asks for another try: the method knows by then where to cover more.
        """
        return

    @classmethod
    def accepted_settings(cls) -> dict[str, inspect.Parameter]:
        """The keyword settings of the constructor, and of those that it passes others on to."""
        found: dict[str, inspect.Parameter] = {}
        for owner in cls.__mro__:
            if "__init__" not in vars(owner):
                continue
            parameters = inspect.signature(owner).parameters
            kinds = {each.kind for each in parameters.values()}
            for name, each in parameters.items():
                if each.kind is each.KEYWORD_ONLY:
                    found.setdefault(name, each)
            if inspect.Parameter.VAR_KEYWORD not in kinds:
                break
        return found

    @classmethod
    def without_effect(cls, given: Mapping[str, Any]) -> tuple[frozenset[str], str]:
        """The settings that do nothing beside the other ones that were given, and why."""
        return frozenset(), ""

    @classmethod
    def settings_schema(cls) -> type[Settings]:
        """Types and bounds of the settings, as the constructor's signature has them."""
        return _schema(cls)

    def frames(self, frames: Iterable[Frame], *, count: int | None = None) -> Stream:
        """Protect an iterator of frames; ``count`` is their number where the unit needs it."""
        source = iter(frames)
        first = next(source, None)
        if first is None:
            raise ProtectError("Expected at least one frame to protect, got none.")
        height, width = first.image.shape[:2]
        shape = Shape(height, width, count)
        promise = self.promise(shape)
        guarded = _same_shape(chain([first], source), shape)
        return Stream(self.transform(guarded, shape), promise, self.lookahead_for(shape))

    def apply(
        self, source: str | os.PathLike[str], target: str | os.PathLike[str], *, force: bool = False
    ) -> Promise:
        """Protect a video or picture file and write its card; see ``protect.release`` for more."""
        from sfumato.protect._release import release

        return release(self, source, target, force=force)


def _plain(value: Any) -> Any:
    """A setting as it stands on a card."""
    if isinstance(value, Unit):
        return str(value)
    return value.value if isinstance(value, Relation) else getattr(value, "name", value)


def _same_shape(frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
    """Refuse frames that do not fit what was promised: another size, or more than declared."""
    for number, frame in enumerate(frames, start=1):
        if frame.image.shape != (shape.height, shape.width, 3):
            raise ProtectError(
                f"Expected RGB frames of {shape.width} x {shape.height}, got one of shape "
                f"{frame.image.shape}: a recording has one size."
            )
        if shape.frames is not None and number > shape.frames:
            raise ProtectError(
                f"Expected {shape.frames} frames, got more: the promise was made for that many."
            )
        yield frame
