"""What the noisy methods share: a unit with its extent, and the words of their promises."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from sfumato.media import Frame
from sfumato.privacy import (
    DRAWN_EXACTLY,
    Card,
    Event,
    Guarantee,
    Relation,
    Unit,
    UnitError,
    UnitKind,
)
from sfumato.protect._method import Method, ProtectError, Shape, SpanRule
from sfumato.protect._setting_kinds import RelationName, UnitName
from sfumato.protect.noise._lattice import Lattice, Reach
from sfumato.settings import Seed

PUBLIC = ("the size and length of the recording", "all settings", DRAWN_EXACTLY)
A_PIXEL = "a pixel is one pixel of the decoded 8-bit RGB picture"
BLIND_SETTINGS = "settings were chosen without looking at the recording"
ELSEWHERE = "the same person or scene in other frames or recordings than the unit covers"


class UnitMethod(Method):
    """A method whose noise is calibrated for a unit of pixels under a relation."""

    audits: ClassVar[frozenset[str]] = Method.audits | {"release-code"}
    # Whether the noise for m pixels is smaller than that for a whole frame.
    counts_pixels: ClassVar[bool] = True

    def __init__(
        self,
        *,
        unit: UnitName,
        relation: RelationName = Relation.REPLACE,
        seed: Seed | None = None,
    ) -> None:
        super().__init__(seed=seed)
        self.unit, self.relation = Unit.parse(unit), Relation.parse(relation)
        self.unit.check(self.relation)
        if self.relation is Relation.ADD_REMOVE:
            raise UnitError(
                "One released recording is there for all to see, so it cannot be added or removed: "
                "expected relation replace or zero-out, got add-remove."
            )

    def spans(self, shape: Shape) -> SpanRule | None:
        """Every frame has noise of its own."""
        return SpanRule(1)

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        return self.transform_from(0, frames, shape)

    @abstractmethod
    def transform_from(self, first: int, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        """The same for a span that begins with frame ``first`` of a recording of this shape."""

    def guarantee(self, event: Event, delta: float, accountant: str, **stated: Any) -> Guarantee:
        """What the noise of one release proves; ``stated`` replaces what methods usually state."""
        usual: dict[str, Any] = {
            "mechanism": self.summary,
            "unit": self.unit,
            "public": PUBLIC,
            "assumptions": (A_PIXEL, BLIND_SETTINGS),
            "not_covered": (ELSEWHERE,),
        }
        return Guarantee(
            relation=self.relation,
            delta=delta,
            event=event,
            accountant=accountant,
            randomness=self.randomness.label,
            **(usual | stated),
        )

    @classmethod
    def settings_on(cls, card: Card) -> dict[str, Any]:
        """A public mask limits where the noise is shown; it does not change the noise."""
        settings = super().settings_on(card)
        unit = Unit.parse(settings["unit"])
        if unit.pixel_count is not None and unit.frame_count is not None:
            settings["unit"] = Unit.pixels(unit.pixel_count, frames=unit.frame_count)
        return settings

    @property
    def needs_length(self) -> bool:
        return self.unit.kind in {UnitKind.CLIP, UnitKind.VIDEO}


class LatticeMethod(UnitMethod):
    """Noise in whole steps of a lattice, as wide as the ``reach`` of the unit asks for."""

    @abstractmethod
    def reach(self, shape: Shape) -> Reach:
        """How far any change of the unit moves the values, before they are put on the lattice."""

    @abstractmethod
    def lattice(self, shape: Shape) -> Lattice:
        """Where the values are rounded to, and how wide the noise is there."""

    def sensitivity(self, shape: Shape) -> float:
        """Largest move of the released values, their rounding included."""
        return self.reach(shape).on(self.lattice(shape).spacing)

    def scale(self, shape: Shape) -> float:
        """Scale of the noise on each released value."""
        return self.lattice(shape).scale


def unit_extent(unit: Unit, shape: Shape) -> tuple[int, int]:
    """How many pixels in how many frames may change; refuses a unit without such an extent."""
    area = shape.height * shape.width
    match unit.kind:
        case UnitKind.PIXELS if not unit.inside_public_mask:
            pixels, frames = unit.pixel_count, unit.frame_count
        case UnitKind.FRAME:
            pixels, frames = area, unit.frame_count
        case UnitKind.CLIP | UnitKind.VIDEO:
            if shape.frames is None:
                raise ProtectError(
                    f"The unit {unit} covers every frame, so their number must be known first: "
                    "pass count=, or protect a file."
                )
            pixels, frames = area, shape.frames
        case _:
            raise ProtectError(
                f"Expected the unit pixels(m, frames=n), frame, clip or video for a noisy picture, "
                f"got {unit}."
            )
    assert pixels is not None
    assert frames is not None
    within = frames if shape.frames is None else min(frames, shape.frames)
    return min(pixels, area), within
