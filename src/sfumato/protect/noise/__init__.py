"""Methods that add noise and prove it: one noisy transform in several bases, and random pixels."""

from __future__ import annotations

from sfumato.protect.noise._bases import GREY, PEAK, Array, Basis, reach_of
from sfumato.protect.noise._dp_image import DpImage
from sfumato.protect.noise._dprp import VideoDprp
from sfumato.protect.noise._extent import unit_extent
from sfumato.protect.noise._laplace import DpPix, LaplaceNoise
from sfumato.protect.noise._latent import Latent, dct_latent, learn_latent
from sfumato.protect.noise._lattice import Lattice, Numbers, Points
from sfumato.protect.noise._noisy_blocks import NoisyBlocks
from sfumato.protect.noise._random_pixels import LEVELS, SNOW_GREY, GreyLevelResponse, Snow

__all__ = [
    "GREY",
    "LEVELS",
    "PEAK",
    "SNOW_GREY",
    "Array",
    "Basis",
    "DpImage",
    "DpPix",
    "GreyLevelResponse",
    "LaplaceNoise",
    "Latent",
    "Lattice",
    "NoisyBlocks",
    "Numbers",
    "Points",
    "Snow",
    "VideoDprp",
    "dct_latent",
    "learn_latent",
    "reach_of",
    "unit_extent",
]
