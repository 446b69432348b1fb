"""Methods that add noise and prove it: one noisy transform in several bases, and random pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.protect._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from sfumato.protect.noise._bases import GREY as GREY
    from sfumato.protect.noise._bases import PEAK as PEAK
    from sfumato.protect.noise._bases import Array as Array
    from sfumato.protect.noise._bases import Basis as Basis
    from sfumato.protect.noise._bases import reach_of as reach_of
    from sfumato.protect.noise._dp_image import DpImage as DpImage
    from sfumato.protect.noise._dprp import VideoDprp as VideoDprp
    from sfumato.protect.noise._extent import unit_extent as unit_extent
    from sfumato.protect.noise._laplace import DpPix as DpPix
    from sfumato.protect.noise._laplace import LaplaceNoise as LaplaceNoise
    from sfumato.protect.noise._latent import Latent as Latent
    from sfumato.protect.noise._latent import dct_latent as dct_latent
    from sfumato.protect.noise._latent import learn_latent as learn_latent
    from sfumato.protect.noise._lattice import Lattice as Lattice
    from sfumato.protect.noise._lattice import Numbers as Numbers
    from sfumato.protect.noise._lattice import Points as Points
    from sfumato.protect.noise._noisy_blocks import NoisyBlocks as NoisyBlocks
    from sfumato.protect.noise._random_pixels import LEVELS as LEVELS
    from sfumato.protect.noise._random_pixels import SNOW_GREY as SNOW_GREY
    from sfumato.protect.noise._random_pixels import GreyLevelResponse as GreyLevelResponse
    from sfumato.protect.noise._random_pixels import Snow as Snow

__getattr__ = lazy_exports(
    __name__,
    {
        "_bases": "GREY PEAK Array Basis reach_of",
        "_dp_image": "DpImage",
        "_dprp": "VideoDprp",
        "_extent": "unit_extent",
        "_laplace": "DpPix LaplaceNoise",
        "_latent": "Latent dct_latent learn_latent",
        "_lattice": "Lattice Numbers Points",
        "_noisy_blocks": "NoisyBlocks",
        "_random_pixels": "LEVELS SNOW_GREY GreyLevelResponse Snow",
    },
)
