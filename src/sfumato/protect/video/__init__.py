"""Release methods for video and pictures."""

from sfumato.protect.video._dp_image import DpImage
from sfumato.protect.video._dprp import VideoDprp
from sfumato.protect.video._laplace import DpPix, LaplaceNoise
from sfumato.protect.video._latent import Latent, dct_latent, learn_latent
from sfumato.protect.video._random_pixels import GreyLevelResponse, Snow

__all__ = [
    "DpImage",
    "DpPix",
    "GreyLevelResponse",
    "LaplaceNoise",
    "Latent",
    "Snow",
    "VideoDprp",
    "dct_latent",
    "learn_latent",
]
