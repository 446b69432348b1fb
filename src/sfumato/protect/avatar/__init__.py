"""Avatars: a synthetic person in the place of every real one."""

from sfumato.protect.avatar._avatar import NOT_COVERED, Avatar
from sfumato.protect.avatar._erase_mask import Cover, cover, unreplaced
from sfumato.protect.avatar._imported import ImportedFinder
from sfumato.protect.avatar._inpaint import Erased, background, erase
from sfumato.protect.avatar._layers import layer_paths, read_layers
from sfumato.protect.avatar._replace import Replaced, Rules, merge, replace, without
from sfumato.protect.avatar._residual_face_check import LastLook
from sfumato.protect.avatar._scene import Finder, Found, Known, Track, place

__all__ = [
    "NOT_COVERED",
    "Avatar",
    "Cover",
    "Erased",
    "Finder",
    "Found",
    "ImportedFinder",
    "Known",
    "LastLook",
    "Replaced",
    "Rules",
    "Track",
    "background",
    "cover",
    "erase",
    "layer_paths",
    "merge",
    "place",
    "read_layers",
    "replace",
    "unreplaced",
    "without",
]
