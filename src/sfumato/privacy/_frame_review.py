"""What people saw who looked at a release: so many frames, drawn by chance, and on how many somebody is left.

A review binds itself to the content it was made of, and its bound is computed from its counts wherever
it is read: no card can state a better one than its counts give.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.privacy.clopper_pearson import at_most

CONFIDENCE = 0.95
NOBODY_LOOKED = (
    "Nobody has looked at the output: how many of its frames show somebody is not known "
    "(sfumato review OUTPUT)."
)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DRAW = re.compile(r"[0-9a-f]{32}")
_LONGEST_NAME = 80
_IN_NAMES = frozenset(" .,'-_@()&")
_COUNTS = ("recordings", "frames", "sampled", "misses", "unsure", "sampled_here", "misses_here")


class ReviewError(SfumatoError):
    """A review that cannot be made, or must not be recorded."""


def content_digest(digests: Iterable[str]) -> str:
    """One digest for several contents, in whatever order they come."""
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()


def share_at_most(misses: int, sampled: int) -> float:
    """The upper 95 % limit of the share of frames with somebody left (Clopper-Pearson, one-sided).

    It is the limit for draws with replacement. Without replacement the count varies less around the
    same mean, so the limit is too large and never too small.
    """
    return float(at_most(misses, sampled, 1 - CONFIDENCE))


@dataclass(frozen=True, kw_only=True)
class FrameReview:
    """One look by one person at a release of one or more recordings.

    ``frames`` is how many the whole release has, ``sampled`` how many of them were drawn by chance
    and seen, ``misses`` on how many of these somebody is left and ``unsure`` on how many nobody could
    tell, which count as misses. ``sampled_here`` and ``misses_here`` (unsure ones included) are those
    of the recording whose card this stands on. ``output`` and ``release`` are digests of the contents
    of that recording's outputs and of the whole release, ``draw`` the random name of the draw.
    """

    by: str
    at: str
    draw: str
    output: str
    release: str
    recordings: int
    frames: int
    sampled: int
    misses: int
    unsure: int
    sampled_here: int
    misses_here: int

    def __post_init__(self) -> None:
        check_name(self.by)
        for name in _COUNTS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ReviewError(f"Expected whole numbers on a review, got {name} {value!r}.")
        for name, pattern in (("draw", _DRAW), ("output", _DIGEST), ("release", _DIGEST)):
            if not pattern.fullmatch(getattr(self, name)):
                raise ReviewError(f"Expected a digest as {name} of a review, got another text.")
        try:
            datetime.fromisoformat(self.at)
        except ValueError:
            raise ReviewError("Expected the time of a review, got another text.") from None
        whole = self.sampled, self.missed
        if not (
            1 <= self.recordings <= self.frames
            and 1 <= self.sampled <= self.frames
            and self.missed <= self.sampled
            and self.misses_here <= min(self.sampled_here, self.missed)
            and self.sampled_here <= self.sampled
            and (self.recordings > 1 or (self.sampled_here, self.misses_here) == whole)
        ):
            raise ReviewError("The counts of a review contradict each other: it was changed.")

    @property
    def missed(self) -> int:
        """Frames that count as misses: whoever cannot tell has not seen that nobody is left."""
        return self.misses + self.unsure

    @property
    def share_at_most(self) -> float:
        return share_at_most(self.missed, self.sampled)

    def __str__(self) -> str:
        here = f", {self.sampled_here} of them of this one, with {self.misses_here} misses"
        return self._sentence(here if self.recordings > 1 else "")

    @property
    def of_release(self) -> str:
        """The same in words that every card of the release shares."""
        return self._sentence("")

    def _sentence(self, here: str) -> str:
        several = f" of {self.recordings} recordings" if self.recordings > 1 else ""
        doubt = (
            f", and on {self.unsure} it could not be told, which counts as left"
            if self.unsure
            else ""
        )
        return (
            f"{self.by} looked on {self.at[:10]} at {self.sampled} of {self.frames} frames{several}, "
            f"drawn by chance{here}: somebody is left on {self.misses}{doubt}. So with 95 % confidence "
            f"somebody is left on at most {_percent(self.share_at_most)} of the frames. Who looked is "
            "as typed, and not checked."
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "share_at_most": self.share_at_most, "confidence": CONFIDENCE}

    @classmethod
    def from_json(cls, value: Any) -> FrameReview:
        """Read a review; a bound that is better than its counts give is refused."""
        if not isinstance(value, Mapping) or set(value) != {
            *_FIELDS,
            "share_at_most",
            "confidence",
        }:
            raise ValueError("fields")
        stated, confidence = value["share_at_most"], value["confidence"]
        if confidence != CONFIDENCE or isinstance(stated, bool):
            raise ValueError("confidence")
        made = cls(**{name: value[name] for name in _FIELDS})
        if not float(stated) >= made.share_at_most * (1 - 1e-9):
            raise ReviewError(
                "The card states a better result of a review than its counts give: it was changed."
            )
        return made


_FIELDS = tuple(FrameReview.__dataclass_fields__)


def check_name(name: Any) -> None:
    """Raise unless this can be the name of whoever looked: it stands on a public page."""
    allowed = (
        isinstance(name, str)
        and 0 < len(name) <= _LONGEST_NAME
        and name.strip() == name
        and all(each in _IN_NAMES or unicodedata.category(each)[0] in "LMN" for each in name)
    )
    if not allowed:
        raise ReviewError(
            "Expected the name of whoever looked, of letters, digits and spaces, at most "
            f"{_LONGEST_NAME} of them, got another text: pass --by NAME."
        )


def _percent(share: float) -> str:
    """Rounded up: a bound must not get better by being printed."""
    return f"{math.ceil(share * 1000 - 1e-9) / 10:g} %"


def format_reviews(reviews: Iterable[FrameReview]) -> str:
    """What a card says about who looked."""
    said = [str(review) for review in reviews]
    if not said:
        return NOBODY_LOOKED
    if len(said) > 1:
        said.append(
            "Each limit is that of its own draw: the best of several is no 95 % limit any more."
        )
    return " ".join(said)
