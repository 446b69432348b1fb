"""The public view of MaskDP: pixels under the public mask; label and mask are public too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor, nn

from sfumato.data import Record
from sfumato.learn.views._prepare import Preparation
from sfumato.learn.views._public_view import Canaries, PublicView, ViewError, masked
from sfumato.privacy import Unit


@dataclass(frozen=True)
class MaskedPixels(PublicView):
    """Pixels under the public mask.

    ``private`` is what the other stream sees: the ``whole`` clip (more signal, equally sound) or
    the ``rest`` (cheaper: a model that can drop tokens sees only those that are not public).
    ``drop``: tokens that a view does not see are removed where the model can, and black elsewhere.
    """

    private: Literal["whole", "rest"] = "whole"
    drop: bool = True
    kind: ClassVar[str] = "masked-pixels"

    def __post_init__(self) -> None:
        if self.private not in {"whole", "rest"}:
            raise ViewError(f"Expected private='whole' or 'rest', got {self.private!r}.")

    @property
    def name(self) -> str:
        return "public pixels"

    @property
    def unit(self) -> Unit:
        return Unit.masked_tokens()

    def public_input(
        self, record: Record, prepare: Preparation, model: nn.Module, clips: int
    ) -> Any:
        mask = _mask(record)
        pixels = prepare(masked(record.x, mask), clips)
        if not (self.drop and _drops(model)):
            return pixels
        return pixels, _tokens(model, prepare.mask(mask, clips), clips)

    def private_input(
        self, record: Record, prepare: Preparation, model: nn.Module, clips: int
    ) -> Any:
        if self.private == "whole":
            return prepare(record.x, clips)
        mask = _mask(record)
        if not (self.drop and _drops(model)):
            return prepare(masked(record.x, ~mask), clips)
        return prepare(record.x, clips), _tokens(model, ~prepare.mask(mask, clips), clips)

    def is_blank(self, record: Record) -> bool:
        return record.mask is not None and bool(record.mask.all())

    def canary(self, count: int) -> Canaries:
        """A public value beside each private one, and no value in common."""
        rows = np.eye(2 * count, dtype=np.float32)
        return Canaries(rows[count:], rows[:count])

    def mechanism(self, *, projected: bool) -> str:
        return "maskdp-sgd" + (" with projection" if projected else "")

    @property
    def assumptions(self) -> tuple[str, ...]:
        return ("the masks were not computed from private pixels",)

    @property
    def not_covered(self) -> tuple[str, ...]:
        return ("whoever is visible in public pixels, and the silhouette that a mask shows",)


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
