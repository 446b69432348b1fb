"""Avatars: a synthetic person in the place of every real one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.protect._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from sfumato.protect.avatar._avatar import NOT_COVERED as NOT_COVERED
    from sfumato.protect.avatar._avatar import Avatar as Avatar
    from sfumato.protect.avatar._erase_mask import EraseMask as EraseMask
    from sfumato.protect.avatar._erase_mask import erase_mask as erase_mask
    from sfumato.protect.avatar._erase_mask import unreplaced as unreplaced
    from sfumato.protect.avatar._imported import ImportedFinder as ImportedFinder
    from sfumato.protect.avatar._inpaint import Erased as Erased
    from sfumato.protect.avatar._inpaint import SceneEraser as SceneEraser
    from sfumato.protect.avatar._inpaint import background as background
    from sfumato.protect.avatar._inpaint import erase as erase
    from sfumato.protect.avatar._layers import layer_paths as layer_paths
    from sfumato.protect.avatar._layers import read_layers as read_layers
    from sfumato.protect.avatar._replace import ComposedFrame as ComposedFrame
    from sfumato.protect.avatar._replace import Replaced as Replaced
    from sfumato.protect.avatar._replace import Replacement as Replacement
    from sfumato.protect.avatar._replace import Rules as Rules
    from sfumato.protect.avatar._replace import merge as merge
    from sfumato.protect.avatar._replace import replace as replace
    from sfumato.protect.avatar._residual_face_check import ResidualFaceCheck as ResidualFaceCheck
    from sfumato.protect.avatar._scene import Finder as Finder
    from sfumato.protect.avatar._scene import Known as Known
    from sfumato.protect.avatar._scene import OwnPixels as OwnPixels
    from sfumato.protect.avatar._scene import Scene as Scene
    from sfumato.protect.avatar._scene import Track as Track
    from sfumato.protect.avatar._scene import place as place

__getattr__ = lazy_exports(
    __name__,
    {
        "_avatar": "NOT_COVERED Avatar",
        "_erase_mask": "EraseMask erase_mask unreplaced",
        "_imported": "ImportedFinder",
        "_inpaint": "Erased SceneEraser background erase",
        "_layers": "layer_paths read_layers",
        "_replace": "ComposedFrame Replaced Replacement Rules merge replace",
        "_residual_face_check": "ResidualFaceCheck",
        "_scene": "Finder Known OwnPixels Scene Track place",
    },
)
