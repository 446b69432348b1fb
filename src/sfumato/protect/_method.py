"""What every release method of pictures is: settings first, private frames as arguments only."""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, wraps
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

from sfumato.errors import SfumatoError
from sfumato.media import Frame, VideoInfo
from sfumato.privacy import Guarantee, NoGuarantee, Randomness
from sfumato.settings import Seed, Settings, checked, schema_from

Promise = Guarantee | NoGuarantee


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
            given |= checked(_schema(method), typed, f"the method {name}", ProtectError)
        init(self, *positional, **given)

    return checking


class Method(ABC):
    """One way to release pictures. Subclasses state their guarantee, or none, in their docstring.

    ``lookahead`` is how many frames a stream may hold back; ``settings`` are public. Keyword settings
    are checked against the types and bounds of the constructor's signature before it runs.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    provides: ClassVar[str]

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "__init__" in vars(cls):
            cls.__init__ = _checking(cls.__init__)  # type: ignore[method-assign]

    @_checking
    def __init__(self, *, seed: Seed | None = None) -> None:
        self.randomness = Randomness(seed)

    @property
    @abstractmethod
    def lookahead(self) -> int: ...

    def lookahead_for(self, shape: Shape) -> int:
        """The same for a recording of this shape, where it depends on that."""
        return self.lookahead

    @property
    def needs_length(self) -> bool:
        """Whether the number of frames must be known before the promise can be made."""
        return False

    @property
    def reads_beside(self) -> bool:
        """Whether it reads another file that may have been made from the recording (boxes, masks)."""
        return False

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]: ...

    @abstractmethod
    def promise(self, shape: Shape) -> Promise:
        """What releasing a recording of this shape will prove; reads nothing private."""

    @abstractmethod
    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        """Protected frames, as many as came and in their order."""

    @property
    def packages(self) -> tuple[str, ...]:
        """The distributions that do the work beside numpy, for the versions on the card."""
        return ()

    @property
    def looked(self) -> tuple[tuple[str, str], ...]:
        """Name and device of whatever looked for people in the last recording, for the card."""
        return ()

    def remarks(self, shape: Shape) -> list[str]:
        """What an honest tool says before it runs; from settings and public priors only (R12)."""
        return []

    def beside(self, video: Path, info: VideoInfo) -> AbstractContextManager[object]:
        """While this lasts, what belongs beside ``video`` is written along with the stream."""
        return nullcontext()

    def companions(self, video: Path) -> tuple[Path, ...]:
        """The other files that are released with ``video``; its card covers them too."""
        return ()

    def check_output(self, source: Path, made: Path, *, tolerant: bool = False) -> None:
        """Look at a finished file before it is released; raise and nothing is.

        A ``StillVisibleError`` asks for another try: the method knows by then where to cover more.
        """
        return

    @classmethod
    def accepted_settings(cls) -> dict[str, inspect.Parameter]:
        """The keyword settings of the constructor, by name."""
        return {
            name: parameter
            for name, parameter in inspect.signature(cls).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }

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


class WholeFile(Method):
    """A method that needs the file itself: another tool, which reads and writes files."""

    @abstractmethod
    def after(self, source: Path, workshop: Path) -> Method:
        """Run on ``source`` inside a private folder; the method that gives the frames it made."""

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        raise ProtectError(
            f"Expected a file for the method {self.name}, got frames: use apply(source, target)."
        )


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
