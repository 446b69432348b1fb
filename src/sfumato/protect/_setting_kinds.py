"""Types and bounds of settings that several release methods share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PlainValidator

from sfumato.privacy import Relation, Unit
from sfumato.settings import Named

# Beyond these ends the accountants' arithmetic says nothing that anybody could use.
Epsilon = Annotated[float, Field(ge=1e-6, le=1e6)]
Delta = Annotated[float, Field(ge=1e-30, lt=1)]
DeltaOrZero = Annotated[float, Field(ge=0, lt=1)]
UnitName = Annotated[Unit | str, PlainValidator(Unit.parse)]
RelationName = Annotated[Relation | str, PlainValidator(Relation.parse)]
Probability = Annotated[float, Field(gt=0, le=1)]
FrameCount = Annotated[int, Field(ge=1, le=1024)]
OnMissName = Literal["hold", "blank", "fail"]
OutputCheck = Annotated[
    Literal[False] | Named | None,
    Field(description="the name of a detector, or false", union_mode="left_to_right"),
]
