"""Avatars: a synthetic person in the place of every real one."""

from sfumato.protect.avatar._avatar import NOT_COVERED, Avatar
from sfumato.protect.avatar._erase_mask import EraseMask, erase_mask, unreplaced
from sfumato.protect.avatar._imported import ImportedFinder
from sfumato.protect.avatar._inpaint import Erased, background, erase
from sfumato.protect.avatar._layers import layer_paths, read_layers
from sfumato.protect.avatar._replace import Replaced, Rules, grey_out, merge, replace
from sfumato.protect.avatar._residual_face_check import ResidualFaceCheck
from sfumato.protect.avatar._scene import Finder, Known, Scene, Track, place

__all__ = [
    "NOT_COVERED",
    "Avatar",
    "EraseMask",
    "Erased",
    "Finder",
    "ImportedFinder",
    "Known",
    "Replaced",
    "ResidualFaceCheck",
    "Rules",
    "Scene",
    "Track",
    "background",
    "erase",
    "erase_mask",
    "grey_out",
    "layer_paths",
    "merge",
    "place",
    "read_layers",
    "replace",
    "unreplaced",
]
