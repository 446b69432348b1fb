"""The subspace projector: noise keeps only the directions that public gradients span.

Projection after noise is post-processing, as long as the basis comes from public records and the
current parameters alone (SOUNDNESS G4). The basis is found through the m x m Gram matrix of the
public gradients; the p x p matrix is never formed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sfumato.data import Record, Records
from sfumato.errors import SfumatoError
from sfumato.learn._overlap import RecordingIndex

# Directions whose energy is below this share of the largest are rounding errors.
_NEGLIGIBLE = 1e-7


class ProjectorError(SfumatoError):
    """A public set that is not public, or a subspace that cannot be."""


@dataclass(frozen=True, eq=False)
class Subspace:
    """Top ``rank`` directions of the gradients of ``public``, found again every ``refresh`` steps.

    ``public`` must really be public: a set that shares a record with the private one is refused.
    """

    public: Records
    rank: int = 50
    refresh: int = 1

    def __post_init__(self) -> None:
        for name in ("rank", "refresh"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ProjectorError(f"Expected {name} as a whole number >= 1, got {value!r}.")
        if self.rank > len(self.public):
            raise ProjectorError(
                f"Expected at most {len(self.public)} directions, one for each public record, got "
                f"rank {self.rank}: use a larger public set or a smaller rank."
            )

    @property
    def samples(self) -> int:
        return len(self.public)

    @property
    def name(self) -> str:
        return f"subspace rank={self.rank} of {self.samples} refresh={self.refresh}"


class Projector:
    """An orthonormal basis of a subspace of parameter space, (p, k)."""

    def __init__(self, gradients: Tensor, rank: int) -> None:
        """``gradients`` (m, p): one public record's gradient a row."""
        gram = (gradients.double() @ gradients.double().t()).cpu()
        values, vectors = torch.linalg.eigh(gram)
        strong = values > _NEGLIGIBLE * values.max().clamp_min(1e-300)
        kept = strong.nonzero().flatten().flip(0)[:rank]
        weights = vectors[:, kept] / values[kept].sqrt()
        self.basis: Tensor = gradients.t() @ weights.to(gradients.dtype)

    def __call__(self, flat: Tensor) -> Tensor:
        return self.basis @ (self.basis.t() @ flat)

    def energy(self) -> Tensor:
        """Share of an isotropic noise's variance that is left in each coordinate."""
        return self.basis.square().sum(1)


def content_hash(record: Record) -> bytes:
    """Identity of a record's content, whatever file it came from."""
    x = np.ascontiguousarray(record.x)
    digest = hashlib.sha256(f"{x.dtype} {x.shape}".encode())
    digest.update(x.tobytes())
    return digest.digest()


def refuse_overlap(public: Records, private: Records, *, by_person: bool) -> None:
    """G3: records used in the clear have no protection, so they may not be private ones.

    With unit person, everything of a person is promised to be: then their owners may not be either.
    """
    clear = RecordingIndex(public)
    for index in range(len(private)):
        record = private[index]
        if by_person and clear.owners.intersection(record.owners):
            raise ProjectorError(
                "Expected a public set of other people, got at least one who owns records in both: "
                "with unit person all of theirs is protected, and the public set is used in the "
                "clear. Take other people's records."
            )
        if clear.holds(record):
            raise ProjectorError(
                "Expected a public set without private records, got at least one in both: its "
                "gradient would be used in the clear. Take the projector's set from data that is "
                "really public."
            )
