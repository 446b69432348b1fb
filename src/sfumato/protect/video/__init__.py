"""Release methods for video and pictures."""

from sfumato.protect.video._covers import Blur, Pixelate, Silhouette
from sfumato.protect.video._dp_image import DpImage
from sfumato.protect.video._dprp import VideoDprp
from sfumato.protect.video._external import External
from sfumato.protect.video._hiding import Hiding
from sfumato.protect.video._laplace import DpPix, LaplaceNoise
from sfumato.protect.video._latent import Latent, dct_latent, learn_latent
from sfumato.protect.video._motion_only import AppearanceFree, Selective
from sfumato.protect.video._output_check import faces_left
from sfumato.protect.video._random_pixels import GreyLevelResponse, Snow
from sfumato.protect.video._region import Place, Region
from sfumato.protect.video._trail import Trail
from sfumato.protect.video._whole_picture import Edges, InverseSuperResolution, Skeleton

__all__ = [
    "AppearanceFree",
    "Blur",
    "DpImage",
    "DpPix",
    "Edges",
    "External",
    "GreyLevelResponse",
    "Hiding",
    "InverseSuperResolution",
    "LaplaceNoise",
    "Latent",
    "Pixelate",
    "Place",
    "Region",
    "Selective",
    "Silhouette",
    "Skeleton",
    "Snow",
    "Trail",
    "VideoDprp",
    "dct_latent",
    "faces_left",
    "learn_latent",
]
