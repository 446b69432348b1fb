"""Private attributes: PASS, its proven variant, the methods it is compared with, and the theory."""

from sfumato.protect.attributes._attributes import AttributesError, Table, Task, read_table
from sfumato.protect.attributes._donors import DonorSet
from sfumato.protect.attributes._encoders import ENCODERS, Encoder, whitening
from sfumato.protect.attributes._ldp import PassLDP
from sfumato.protect.attributes._memo import DrawMemory
from sfumato.protect.attributes._pass import Pass
from sfumato.protect.attributes._release import release
from sfumato.protect.attributes._theory import GuessBound, Theory, guess_bound
from sfumato.protect.attributes._training import Training

__all__ = [
    "ENCODERS",
    "AttributesError",
    "DonorSet",
    "DrawMemory",
    "Encoder",
    "GuessBound",
    "Pass",
    "PassLDP",
    "Table",
    "Task",
    "Theory",
    "Training",
    "guess_bound",
    "read_table",
    "release",
    "whitening",
]
