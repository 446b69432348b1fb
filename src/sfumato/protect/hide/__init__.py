"""Methods that hide: covers over faces and people, skeletons, sketches, other tools."""

from __future__ import annotations

from sfumato.protect.hide._detection_log import Trail
from sfumato.protect.hide._external import External
from sfumato.protect.hide._filters import (
    BLUR_SIZE,
    PUBLISHED_KERNEL,
    PUBLISHED_SIGMA,
    Blur,
    Pixelate,
    Silhouette,
)
from sfumato.protect.hide._hiding import Hiding
from sfumato.protect.hide._motion_only import AppearanceFree, Selective
from sfumato.protect.hide._region import Place, Region
from sfumato.protect.hide._residual_faces import faces_left, is_one_of, still_shows
from sfumato.protect.hide._whole_picture import Edges, InverseSuperResolution, Skeleton

__all__ = [
    "BLUR_SIZE",
    "PUBLISHED_KERNEL",
    "PUBLISHED_SIGMA",
    "AppearanceFree",
    "Blur",
    "Edges",
    "External",
    "Hiding",
    "InverseSuperResolution",
    "Pixelate",
    "Place",
    "Region",
    "Selective",
    "Silhouette",
    "Skeleton",
    "Trail",
    "faces_left",
    "is_one_of",
    "still_shows",
]
