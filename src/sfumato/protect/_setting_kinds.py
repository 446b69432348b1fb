"""Types and bounds of settings that several release methods share, and times as people type them."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainValidator

from sfumato.privacy import Relation, Unit
from sfumato.protect._method import ProtectError
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
    Field(description="the name of a detector, or none", union_mode="left_to_right"),
    BeforeValidator(lambda value: None if isinstance(value, str) and value == "none" else value),
]
_TIME = re.compile(r"(?:(?:(\d+):)?(\d{1,2}):)?(\d+(?:\.\d+)?)")


def seconds_of(text: str) -> float:
    """``12.5``, ``1:02.5`` or ``0:01:02`` in seconds."""
    found = _TIME.fullmatch(text.strip())
    if not found or (found[2] is not None and float(found[3]) >= 60):
        raise ProtectError(
            f"Expected a time in the recording as 12.5 (seconds) or 1:02.5 (minutes), got {text!r}."
        )
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return 3600 * hours + 60 * minutes + seconds
