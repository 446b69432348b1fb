"""What a guarantee protects (the unit) and how two data sets may differ (the relation)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from sfumato.errors import SfumatoError


class UnitError(SfumatoError):
    """A unit, or a pairing of unit and relation, that has no sound meaning."""


class UnitMismatchError(UnitError):
    """Two guarantees that speak of different things were to be combined."""


class Relation(StrEnum):
    """How neighbouring data sets differ. There is no default: SOUND accounting depends on it.

    ``ADD_REMOVE``: one unit is present or absent. ``REPLACE``: one unit is exchanged for any other.
    ``ZERO_OUT``: one unit is exchanged for a blank whose contribution is exactly zero.
    """

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"
    ZERO_OUT = "zero-out"

    @classmethod
    def parse(cls, value: Relation | str) -> Relation:
        try:
            return cls(value)
        except ValueError:
            expected = ", ".join(member.value for member in cls)
            raise UnitError(
                f"Expected a relation out of {expected}, got {str(value)!r}: "
                "say how two neighbouring data sets differ."
            ) from None

    @property
    def sentence(self) -> str:
        return {
            Relation.ADD_REMOVE: "whether or not it is in the data",
            Relation.REPLACE: "if it is exchanged for any other one",
            Relation.ZERO_OUT: "if it is blanked out",
        }[self]


class UnitKind(StrEnum):
    PIXELS = "pixels"
    FRAME = "frame"
    CLIP = "clip"
    VIDEO = "video"
    MASKED_TOKENS = "masked-tokens"
    FEATURES = "features"
    RECORD = "record"
    PERSON = "person"


# R1 of the soundness rules: beside an un-noised public view, presence itself is public, so
# add-remove has no meaning; pixels and frames live inside a picture whose size is public.
_RELATIONS: dict[UnitKind, frozenset[Relation]] = {
    UnitKind.PIXELS: frozenset({Relation.REPLACE, Relation.ZERO_OUT}),
    UnitKind.FRAME: frozenset({Relation.REPLACE, Relation.ZERO_OUT}),
    UnitKind.CLIP: frozenset(Relation),
    UnitKind.VIDEO: frozenset(Relation),
    UnitKind.MASKED_TOKENS: frozenset({Relation.REPLACE, Relation.ZERO_OUT}),
    UnitKind.FEATURES: frozenset({Relation.REPLACE, Relation.ZERO_OUT}),
    UnitKind.RECORD: frozenset(Relation),
    UnitKind.PERSON: frozenset(Relation),
}


@dataclass(frozen=True)
class Unit:
    """The thing whose change a guarantee hides. Build one with the constructors below.

    | unit | what may change |
    | --- | --- |
    | ``pixels(m, frames=n)`` | any m pixels in each of n frames (inside a public mask, if said so) |
    | ``frame(n)`` | n whole frames of one recording |
    | ``clip()`` / ``video()`` | every frame of one clip / of one whole recording |
    | ``masked_tokens()`` | the private pixels of one clip; its mask and label are public |
    | ``features(psi)`` | what the public map psi does not determine of one record |
    | ``record()`` | one training record |
    | ``person()`` | all records of one owner; ``person(m)``: of an owner held to m records |
    """

    kind: UnitKind
    pixel_count: int | None = None
    frame_count: int | None = None
    inside_public_mask: bool = False
    view: str | None = None
    max_records: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", UnitKind(self.kind))
        for name, owner in (
            ("pixel_count", {UnitKind.PIXELS}),
            ("frame_count", {UnitKind.PIXELS, UnitKind.FRAME}),
            ("max_records", {UnitKind.PERSON}),
            ("view", {UnitKind.FEATURES}),
        ):
            value = getattr(self, name)
            required = self.kind in owner and name != "max_records"
            if required and value is None:
                raise UnitError(f"A unit of {self.kind.value} needs {name}, got nothing.")
            if value is not None and self.kind not in owner:
                raise UnitError(f"A unit of {self.kind.value} has no {name}, got {value!r}.")
            if name != "view" and value is not None:
                if not _positive_integer(value):
                    raise UnitError(f"Expected {name} to be a whole number >= 1, got {value!r}.")
                object.__setattr__(self, name, int(value))
        if self.view is not None and not re.fullmatch(r"[\w .:;=,\[\]+*/-]{1,200}", self.view):
            raise UnitError(
                f"Expected the public view's name in plain characters, got {self.view!r}: "
                "letters, digits and simple punctuation only."
            )
        if self.inside_public_mask and self.kind is not UnitKind.PIXELS:
            raise UnitError("Only a unit of pixels can be limited to a public mask.")

    @classmethod
    def pixels(cls, m: int, *, frames: int, inside_public_mask: bool = False) -> Unit:
        """Any ``m`` pixels (all channels) in each of ``frames`` frames."""
        return cls(
            UnitKind.PIXELS,
            pixel_count=m,
            frame_count=frames,
            inside_public_mask=inside_public_mask,
        )

    @classmethod
    def frame(cls, count: int = 1) -> Unit:
        """``count`` whole frames of one recording."""
        return cls(UnitKind.FRAME, frame_count=count)

    @classmethod
    def clip(cls) -> Unit:
        return cls(UnitKind.CLIP)

    @classmethod
    def video(cls) -> Unit:
        return cls(UnitKind.VIDEO)

    @classmethod
    def masked_tokens(cls) -> Unit:
        return cls(UnitKind.MASKED_TOKENS)

    @classmethod
    def features(cls, psi: str) -> Unit:
        """What the public, many-to-one map named ``psi`` leaves open."""
        return cls(UnitKind.FEATURES, view=psi)

    @classmethod
    def record(cls) -> Unit:
        return cls(UnitKind.RECORD)

    @classmethod
    def person(cls, max_records: int | None = None) -> Unit:
        """All records of one owner; with ``max_records``, owners are truncated to that many."""
        return cls(UnitKind.PERSON, max_records=max_records)

    @classmethod
    def parse(cls, value: Unit | str) -> Unit:
        """Read what ``str(unit)`` writes: ``record``, ``pixels(16, frames=1)``, ``person(3)`` ..."""
        if isinstance(value, Unit):
            return value
        match = re.fullmatch(r"\s*([a-z-]+)\s*(?:\((.*)\))?\s*", str(value), re.DOTALL)
        if match is None or match[1] not in set(UnitKind):
            raise _unknown_unit(value)
        kind, inside = UnitKind(match[1]), (match[2] or "").strip()
        if kind is UnitKind.FEATURES and inside:
            return cls.features(inside)
        if kind is UnitKind.PIXELS:
            pixels = re.fullmatch(
                r"(\d{1,15})\s*,\s*frames\s*=\s*(\d{1,15})(\s*,\s*inside public mask)?", inside
            )
            if pixels is None:
                raise _unknown_unit(value)
            return cls.pixels(
                int(pixels[1]), frames=int(pixels[2]), inside_public_mask=bool(pixels[3])
            )
        if inside and (
            kind not in {UnitKind.FRAME, UnitKind.PERSON} or not re.fullmatch(r"\d{1,15}", inside)
        ):
            raise _unknown_unit(value)
        if kind is UnitKind.FRAME:
            return cls.frame(int(inside) if inside else 1)
        if kind is UnitKind.PERSON:
            return cls.person(int(inside) if inside else None)
        return cls(kind)

    def __str__(self) -> str:
        match self.kind:
            case UnitKind.PIXELS:
                tail = ", inside public mask" if self.inside_public_mask else ""
                return f"pixels({self.pixel_count}, frames={self.frame_count}{tail})"
            case UnitKind.FRAME:
                return "frame" if self.frame_count == 1 else f"frame({self.frame_count})"
            case UnitKind.FEATURES:
                return f"features({self.view})"
            case UnitKind.PERSON if self.max_records is not None:
                return f"person({self.max_records})"
            case _:
                return self.kind.value

    @property
    def sentence(self) -> str:
        """The unit in plain words, for people who do not read code."""
        match self.kind:
            case UnitKind.PIXELS:
                where = " inside the public mask" if self.inside_public_mask else ""
                frames = (
                    "one frame" if self.frame_count == 1 else f"each of {self.frame_count} frames"
                )
                pixels = "one pixel" if self.pixel_count == 1 else f"any {self.pixel_count} pixels"
                return f"{pixels} in {frames}{where}"
            case UnitKind.FRAME:
                return (
                    "one whole frame"
                    if self.frame_count == 1
                    else f"{self.frame_count} whole frames"
                )
            case UnitKind.CLIP:
                return "one whole clip"
            case UnitKind.VIDEO:
                return "one whole recording"
            case UnitKind.MASKED_TOKENS:
                return "the private pixels of one clip (its mask and its label are public)"
            case UnitKind.FEATURES:
                return (
                    f"whatever the public view {self.view} leaves open about one record "
                    "(the view itself and the label are public)"
                )
            case UnitKind.RECORD:
                return "one record"
            case UnitKind.PERSON:
                held = "" if self.max_records is None else f" (held to {self.max_records} records)"
                return f"everything one person contributed{held}"

    @property
    def public(self) -> tuple[str, ...]:
        """What this unit concedes to be public by its very meaning."""
        match self.kind:
            case UnitKind.MASKED_TOKENS:
                return ("the mask of every clip", "the label of every clip", "all public pixels")
            case UnitKind.FEATURES:
                return (f"the view {self.view} of every record", "the label of every record")
            case _:
                return ("the public mask",) if self.inside_public_mask else ()

    @property
    def has_public_view(self) -> bool:
        return self.kind in {UnitKind.MASKED_TOKENS, UnitKind.FEATURES}

    def needed_for(self, larger: Unit) -> int | None:
        """How many of this unit make up one ``larger`` unit at most; None if no number is known to.

        A person held to m records is m of them; more frames, or more pixels of more frames, are so many
        groups of fewer. Nothing is known about frames in a clip, clips in a recording, or records of a
        person without a limit; and what is private beside a public view never becomes a whole record.
        """
        if self == larger:
            return 1
        if self.kind is UnitKind.RECORD and larger.kind is UnitKind.PERSON:
            return larger.max_records
        if self.kind is not larger.kind or self.kind not in {UnitKind.PIXELS, UnitKind.FRAME}:
            return None
        if self.inside_public_mask and not larger.inside_public_mask:
            return None
        groups = [
            -(-many // few)
            for few, many in (
                (self.pixel_count, larger.pixel_count),
                (self.frame_count, larger.frame_count),
            )
            if few is not None and many is not None
        ]
        return math.prod(groups)

    def check(self, relation: Relation) -> None:
        """Raise unless ``relation`` is meaningful for this unit."""
        allowed = _RELATIONS[self.kind]
        if relation not in allowed:
            names = " or ".join(sorted(member.value for member in allowed))
            raise UnitError(
                f"Expected relation {names} for unit {self}, got {relation.value}: "
                "what is public about this unit already shows that it is present."
            )


def _positive_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _unknown_unit(value: object) -> UnitError:
    return UnitError(
        f"Expected a unit such as record, person, person(3), clip, video, frame, frame(4), "
        f"masked-tokens, features(NAME) or pixels(16, frames=1), got {str(value)!r}."
    )
