"""Private attributes: PASS, its proven variant, the methods it is compared with, and the theory."""

from sfumato.protect.attributes._attributes import AttributesError, Table, Task, read_table
from sfumato.protect.attributes._best_channel import BestChannel, best_channel
from sfumato.protect.attributes._command import (
    ATTRIBUTE_METHODS,
    AttributeOrder,
    AttributeReport,
    carry_out,
    dry_run,
)
from sfumato.protect.attributes._donors import DonorSet
from sfumato.protect.attributes._encoders import ENCODERS, Encoder, whitening
from sfumato.protect.attributes._layouts import Dataset, chosen_rows, read_dataset
from sfumato.protect.attributes._ldp import PassLDP
from sfumato.protect.attributes._memo import DrawMemory
from sfumato.protect.attributes._pass import Pass
from sfumato.protect.attributes._pictures import picture_features
from sfumato.protect.attributes._release import release
from sfumato.protect.attributes._state import State, open_state, save_state
from sfumato.protect.attributes._theory import GuessBound, Theory, guess_bound
from sfumato.protect.attributes._training import Training

__all__ = [
    "ATTRIBUTE_METHODS",
    "ENCODERS",
    "AttributeOrder",
    "AttributeReport",
    "AttributesError",
    "BestChannel",
    "Dataset",
    "DonorSet",
    "DrawMemory",
    "Encoder",
    "GuessBound",
    "Pass",
    "PassLDP",
    "State",
    "Table",
    "Task",
    "Theory",
    "Training",
    "best_channel",
    "carry_out",
    "chosen_rows",
    "dry_run",
    "guess_bound",
    "open_state",
    "picture_features",
    "read_dataset",
    "read_table",
    "release",
    "save_state",
    "whitening",
]
