"""Methods that hide: covers over faces and people, skeletons, sketches, other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.protect._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from sfumato.protect.hide._detection_log import DetectionLog as DetectionLog
    from sfumato.protect.hide._external import External as External
    from sfumato.protect.hide._filters import BLUR_SIZE as BLUR_SIZE
    from sfumato.protect.hide._filters import PUBLISHED_KERNEL as PUBLISHED_KERNEL
    from sfumato.protect.hide._filters import PUBLISHED_SIGMA as PUBLISHED_SIGMA
    from sfumato.protect.hide._filters import Blur as Blur
    from sfumato.protect.hide._filters import Pixelate as Pixelate
    from sfumato.protect.hide._filters import Silhouette as Silhouette
    from sfumato.protect.hide._hiding import Hiding as Hiding
    from sfumato.protect.hide._motion_only import AppearanceFree as AppearanceFree
    from sfumato.protect.hide._motion_only import Selective as Selective
    from sfumato.protect.hide._region import Filter as Filter
    from sfumato.protect.hide._region import Place as Place
    from sfumato.protect.hide._region import Region as Region
    from sfumato.protect.hide._residual_faces import faces_left as faces_left
    from sfumato.protect.hide._residual_faces import is_one_of as is_one_of
    from sfumato.protect.hide._residual_people import still_shows as still_shows
    from sfumato.protect.hide._whole_picture import Edges as Edges
    from sfumato.protect.hide._whole_picture import InverseSuperResolution as InverseSuperResolution
    from sfumato.protect.hide._whole_picture import Skeleton as Skeleton

__getattr__ = lazy_exports(
    __name__,
    {
        "_detection_log": "DetectionLog",
        "_external": "External",
        "_filters": "BLUR_SIZE PUBLISHED_KERNEL PUBLISHED_SIGMA Blur Pixelate Silhouette",
        "_hiding": "Hiding",
        "_motion_only": "AppearanceFree Selective",
        "_region": "Filter Place Region",
        "_residual_faces": "faces_left is_one_of",
        "_residual_people": "still_shows",
        "_whole_picture": "Edges InverseSuperResolution Skeleton",
    },
)
