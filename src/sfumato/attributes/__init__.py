"""Private attributes: PASS, its proven variant, the methods it is compared with, and the theory."""

from sfumato.attributes._best_channel import BestChannel, best_channel
from sfumato.attributes._command import (
    AttributeRequest,
    dry_run,
    run,
)
from sfumato.attributes._donors import DonorSet
from sfumato.attributes._draws import DrawMemory
from sfumato.attributes._encoders import Encoder, whitening
from sfumato.attributes._layouts import read_dataset
from sfumato.attributes._ldp import PassLDP
from sfumato.attributes._pass import Pass
from sfumato.attributes._pictures import picture_features
from sfumato.attributes._release import release
from sfumato.attributes._state import PassState, open_state
from sfumato.attributes._tasks import AttributesError, AttributeTable, Task, read_table
from sfumato.attributes._theory import GuessBound, Theory, guess_bound
from sfumato.attributes._training import PassTraining

__all__ = [
    "AttributeRequest",
    "AttributeTable",
    "AttributesError",
    "BestChannel",
    "DonorSet",
    "DrawMemory",
    "Encoder",
    "GuessBound",
    "Pass",
    "PassLDP",
    "PassState",
    "PassTraining",
    "Task",
    "Theory",
    "best_channel",
    "dry_run",
    "guess_bound",
    "open_state",
    "picture_features",
    "read_dataset",
    "read_table",
    "release",
    "run",
    "whitening",
]
