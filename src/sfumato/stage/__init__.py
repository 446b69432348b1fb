"""Synthetic recordings of people with full ground truth, made from a seed."""

from sfumato.body import JOINTS
from sfumato.stage._actions import ACTIONS, UnknownActionError
from sfumato.stage._clip import Clip
from sfumato.stage._make import (
    Actor,
    Performance,
    Recordings,
    StageError,
    Staging,
    cast,
    clips,
    make_records,
    parse_size,
    rooms,
)
from sfumato.stage._performances import performances
from sfumato.stage._poses import any_pose, posed_people
from sfumato.stage._room import KINDS, Room
from sfumato.stage._write import INDEX_NAME, write

__all__ = [
    "ACTIONS", "INDEX_NAME", "JOINTS", "KINDS", "Actor", "Clip", "Performance", "Recordings",
    "Room", "StageError", "Staging", "UnknownActionError", "any_pose", "cast", "clips",
    "make_records", "parse_size", "performances", "posed_people", "rooms", "write",
]  # fmt: skip
