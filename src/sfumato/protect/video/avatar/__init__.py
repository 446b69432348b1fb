"""Avatars: a synthetic person in the place of every real one."""

from sfumato.protect.video.avatar._avatar import NOT_COVERED, Avatar
from sfumato.protect.video.avatar._cover import Cover, cover, unreplaced
from sfumato.protect.video.avatar._found import Finder, Found, Known, Track, place
from sfumato.protect.video.avatar._imported import ImportedFinder
from sfumato.protect.video.avatar._inpaint import Erased, background, erase
from sfumato.protect.video.avatar._last_look import LastLook
from sfumato.protect.video.avatar._layers import layer_paths, read_layers
from sfumato.protect.video.avatar._replace import Replaced, Rules, merge, replace, without

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
