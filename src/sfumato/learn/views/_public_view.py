"""What each stream sees of a record: the private view, and the public one where there is one.

The private stream may see everything (its influence is clipped whatever it sees, SOUNDNESS F10).
The public stream sees ``x * mask`` or ``psi(x)``, computed on decoded pixels before anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sfumato.data import Record
from sfumato.errors import SfumatoError
from sfumato.learn.views._feature_maps import FeatureMap
from sfumato.learn.views._prepare import Preparation

# A record with this attribute is blank: a symbol whose private gradient is defined as exactly zero
# (R2). Black pixels are not a blank.
BLANK = "blank"


class ViewError(SfumatoError):
    """A record that lacks what its view needs."""


@dataclass(frozen=True)
class MaskedPixels:
    """The public view of MaskDP: pixels under the public mask; label and mask are public too.

    ``private`` is what the other stream sees: the ``whole`` clip (more signal, equally sound) or
    the ``rest`` (cheaper: a model that can drop tokens sees only those that are not public).
    ``drop``: tokens that a view does not see are removed where the model can, and black elsewhere.
    """

    private: str = "whole"
    drop: bool = True

    def __post_init__(self) -> None:
        if self.private not in {"whole", "rest"}:
            raise ViewError(f"Expected private='whole' or 'rest', got {self.private!r}.")

    @property
    def name(self) -> str:
        return "public pixels"


PublicView = MaskedPixels | FeatureMap


def is_blank(record: Record, view: PublicView | None) -> bool:
    """True when the private stream has nothing to see: blanked out, or every pixel public."""
    if bool(record.attributes.get(BLANK, False)):
        return True
    return isinstance(view, MaskedPixels) and record.mask is not None and bool(record.mask.all())


def blanked(record: Record) -> Record:
    """The zero-out neighbour of a record: its private part replaced by the blank symbol."""
    mask = record.mask
    x = np.zeros_like(record.x) if mask is None else _masked(record.x, mask)
    return Record(x, record.y, mask, record.owners, {**record.attributes, BLANK: True})


def public_input(
    record: Record, view: PublicView, prepare: Preparation, model: nn.Module, clips: int
) -> Any:
    """What the un-noised stream sees. A function of public things alone."""
    if isinstance(view, MaskedPixels):
        mask = _mask(record)
        pixels = prepare(_masked(record.x, mask), clips)
        if not (view.drop and _drops(model)):
            return pixels
        return pixels, _tokens(model, prepare.mask(mask, clips), clips)
    return prepare(view(record.x), clips)


def private_input(
    record: Record, view: PublicView | None, prepare: Preparation, model: nn.Module, clips: int
) -> Any:
    """What the clipped and noised stream sees."""
    if not isinstance(view, MaskedPixels) or view.private == "whole":
        return prepare(record.x, clips)
    mask = _mask(record)
    if not (view.drop and _drops(model)):
        return prepare(_masked(record.x, ~mask), clips)
    return prepare(record.x, clips), _tokens(model, ~prepare.mask(mask, clips), clips)


def _mask(record: Record) -> Any:
    if record.mask is None:
        raise ViewError(
            "Expected a public mask with every record for the view of public pixels, got a record "
            "without one: add masks, or train without a public view."
        )
    expected = record.x.shape[: record.mask.ndim]
    if record.mask.shape != expected:
        raise ViewError(
            f"Expected a mask shaped like the record, {expected}, got {record.mask.shape}."
        )
    return record.mask


def _masked(x: Any, mask: Any) -> Any:
    shape = mask.shape + (1,) * (x.ndim - mask.ndim)
    return np.where(mask.reshape(shape), x, np.zeros((), dtype=x.dtype))


def _drops(model: nn.Module) -> bool:
    return hasattr(model, "kept_tokens")


def _tokens(model: nn.Module, seen: Tensor, clips: int) -> Tensor:
    """Tokens with at least one pixel to see.

    Any rule is safe for the public view, because its other pixels are black already (F8): a token
    on the border shows its public pixels only.
    """
    stacked = seen if clips > 1 else seen[None]
    unseen: Tensor = model.kept_tokens(~stacked)  # type: ignore[operator]
    return ~unseen if clips > 1 else ~unseen[0]


def stack(inputs: list[Any]) -> Any:
    """One batch out of single inputs, which may be pairs."""
    if isinstance(inputs[0], tuple):
        return tuple(torch.stack(part) for part in zip(*inputs))
    return torch.stack(inputs)
