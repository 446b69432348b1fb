"""Who takes part in a step: secret Poisson sampling for the private stream, an independent draw for the public one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from sfumato.data import Records
from sfumato.errors import SfumatoError
from sfumato.privacy import Randomness

Indices = npt.NDArray[np.int64]


class OwnersError(SfumatoError):
    """Records whose owners do not allow a promise to persons."""


class PoissonSampler:
    """Each of ``count`` units takes part independently with probability ``rate``, every step anew."""

    def __init__(self, rate: float, count: int, randomness: Randomness) -> None:
        self.rate, self.count = rate, count
        self._generator = randomness.generator()

    def draw(self) -> Indices:
        return np.flatnonzero(self._generator.random(self.count) < self.rate)


class PublicSampler:
    """``size`` of ``count`` public views, drawn independently (SOUNDNESS F1)."""

    def __init__(self, size: int, count: int, randomness: Randomness) -> None:
        self.size, self.count = min(size, count), count
        self._generator = randomness.generator()

    def draw(self) -> Indices:
        return self._generator.choice(self.count, self.size, replace=False).astype(np.int64)


def records_by_owner(
    records: Records, *, most: int | None, shared: str = "refuse"
) -> list[tuple[int, ...]]:
    """Indices of each person's records, at most ``most`` each, in order of first appearance.

    A record with several owners would let one person's choice move another's contribution; it is
    refused, or left out with ``shared="drop"`` (sound: leaving it out concerns that record alone,
    and removing either owner removes it from the data anyway).
    """
    if shared not in {"refuse", "drop"}:
        raise OwnersError(f"Expected shared records to 'refuse' or 'drop', got {shared!r}.")
    found: dict[str, list[int]] = {}
    for index, owners in enumerate(owners_of(records)):
        if not owners:
            raise OwnersError(
                "Expected an owner with every record for unit person, got a record without one: "
                "name the owners, or state unit record."
            )
        if len(set(owners)) > 1:
            if shared == "drop":
                continue
            raise OwnersError(
                "Expected one owner a record for unit person, got a record with several: its "
                "gradient cannot be clipped with two people's at once. Leave such records out "
                "(shared_records='drop') or state unit record."
            )
        found.setdefault(owners[0], []).append(index)
    return [tuple(mine if most is None else mine[:most]) for mine in found.values()]


def owners_of(records: Records) -> Iterable[Sequence[str]]:
    """Owners of every record: as a list where the records keep one, so that no video is decoded."""
    listed: Sequence[Sequence[str]] | None = getattr(records, "owners", None)
    if listed is not None:
        return listed
    return (records[index].owners for index in range(len(records)))
