"""What each stream sees of a record: the contract of public views, and records without a private part.

The private stream may see everything (its influence is clipped whatever it sees, SOUNDNESS F10).
The public stream sees a function of public things alone, computed on decoded pixels before anything
else (SOUNDNESS F8).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sfumato.data import Record
from sfumato.errors import SfumatoError
from sfumato.learn.views._prepare import Preparation
from sfumato.privacy import Unit

# A record with this attribute is blank: a symbol whose private gradient is defined as exactly zero
# (R2). Black pixels are not a blank.
BLANK = "blank"


class ViewError(SfumatoError):
    """A record that lacks what its view needs."""


@dataclass(frozen=True)
class Canaries:
    """Directions in which an audit may change records and find them again.

    ``private`` (canaries, values): orthonormal rows, none of which changes the public view.
    ``public`` (canaries, values), where the view shows a part of a record as it is: one row a canary,
    public in every place where any of the rows is not zero.
    """

    private: npt.NDArray[np.float32]
    public: npt.NDArray[np.float32] | None = None

    @property
    def mask(self) -> npt.NDArray[np.bool_] | None:
        """True in the public places, for every canary."""
        if self.public is None:
            return None
        return np.broadcast_to((self.public != 0).any(0), self.public.shape).copy()


class PublicView(ABC):
    """What trains without noise, and all that plans, training and audits must know about it.

    A view decides what is shown; it has no part in clipping, sampling or noise. A new one is a frozen
    dataclass with its own file and a line in ``VIEWS`` (or ``register_view``).
    """

    kind: ClassVar[str] = ""

    @property
    @abstractmethod
    def name(self) -> str:
        """The kind with its settings, ``pixelate block=16``: it stands in the unit of the promise."""

    @property
    def unit(self) -> Unit:
        """What a guarantee beside this view is about: by default what the view does not determine."""
        return Unit.features(self.name)

    @abstractmethod
    def public_input(
        self, record: Record, prepare: Preparation, model: nn.Module, clips: int
    ) -> Any:
        """What the un-noised stream sees. A function of public things alone."""

    def private_input(
        self, record: Record, prepare: Preparation, model: nn.Module, clips: int
    ) -> Any:
        """What the clipped and noised stream sees."""
        return prepare(record.x, clips)

    def is_blank(self, record: Record) -> bool:
        """True when nothing of this record is private, so that its private gradient is zero."""
        return False

    @abstractmethod
    def canary(self, count: int) -> Canaries | None:
        """``count`` directions for audits; None where the view determines the record."""

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise if the view shows all of a record of this shape, and its card would not say so."""
        if self.canary(1) is None and not self.not_covered:
            raise ViewError(
                "Expected a public view that loses something, or that says on the card what it "
                f"gives away, got {self.name}."
            )

    def mechanism(self, *, projected: bool) -> str:
        """What a training with this view is called on its card."""
        return "feature-projective dp-sgd" if projected else "feature dp-sgd"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the card says that the promise takes for granted about this view."""
        return ()

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the card says that this view gives away."""
        return ()

    @property
    def stored(self) -> str:
        """As plans store it; a resumed run must find the same text."""
        return repr(self)


def is_blank(record: Record, view: PublicView | None) -> bool:
    """True when the private stream has nothing to see: blanked out, or nothing of it is private."""
    if bool(record.attributes.get(BLANK, False)):
        return True
    return view is not None and view.is_blank(record)


def blanked(record: Record) -> Record:
    """The zero-out neighbour of a record: its private part replaced by the blank symbol."""
    mask = record.mask
    x = np.zeros_like(record.x) if mask is None else masked(record.x, mask)
    return Record(x, record.y, mask, record.owners, {**record.attributes, BLANK: True})


def masked(x: Any, mask: Any) -> Any:
    """``x`` where the mask is True, zero elsewhere."""
    shape = mask.shape + (1,) * (x.ndim - mask.ndim)
    return np.where(mask.reshape(shape), x, np.zeros((), dtype=x.dtype))


def stack(inputs: list[Any]) -> Any:
    """One batch out of single inputs, which may be pairs."""
    if isinstance(inputs[0], tuple):
        return tuple(torch.stack(part) for part in zip(*inputs))
    return torch.stack(inputs)
