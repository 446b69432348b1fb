"""Recordings with labels as random-access records, whatever they were read from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.data._problems import Problems


class RecordsError(SfumatoError):
    """Records that do not fit together."""


@dataclass(frozen=True)
class Record:
    """One record as decoded: nothing resized, normalised or masked yet.

    ``x`` is video (T, H, W, C) uint8, an image (H, W, C) uint8, or a window (time, channels) float32.
    ``mask`` is True where a pixel is public, shaped like ``x`` without channels. ``owners`` are the
    people whose data this is; ``attributes`` maps a name to a class index or number.
    """

    x: npt.NDArray[Any]
    y: Any
    mask: npt.NDArray[np.bool_] | None = None
    owners: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Records(Protocol):
    """A finite, ordered, random-access collection of records."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the label's classes, in index order; empty where the label is not a class."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Record: ...


class IterableRecords(ABC):
    """Iteration for collections that give their length and single records."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> Record: ...

    def __iter__(self) -> Iterator[Record]:
        return (self[index] for index in range(len(self)))


class ArrayRecords(IterableRecords):
    """Records held in arrays: first axis = records."""

    def __init__(
        self,
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        *,
        mask: npt.ArrayLike | None = None,
        owners: Sequence[str | tuple[str, ...]] | None = None,
        attributes: Mapping[str, npt.ArrayLike] | None = None,
        classes: Sequence[str] = (),
    ) -> None:
        self.x = np.asarray(x)
        self.y = np.asarray(y)
        self.mask = None if mask is None else np.asarray(mask, dtype=bool)
        self.owners = None if owners is None else [_owners(each) for each in owners]
        self.attributes = {name: np.asarray(value) for name, value in (attributes or {}).items()}
        self.classes = tuple(classes)
        columns = {"y": self.y, "mask": self.mask, "owners": self.owners, **self.attributes}
        for name, column in columns.items():
            if column is not None and len(column) != len(self.x):
                raise RecordsError(
                    f"Expected {len(self.x)} entries in {name}, one for each record, "
                    f"got {len(column)}."
                )

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Record:
        if not -len(self) <= index < len(self):
            raise IndexError(f"record {index} of {len(self)}")
        return Record(
            x=self.x[index],
            y=self.y[index],
            mask=None if self.mask is None else self.mask[index],
            owners=() if self.owners is None else self.owners[index],
            attributes={name: value[index] for name, value in self.attributes.items()},
        )


class AttributeRecords(ArrayRecords):
    """Arrays with several attributes, of which ``label`` is predicted; ``problems`` is what was bad."""

    def __init__(
        self,
        x: npt.ArrayLike,
        label: str,
        attributes: Mapping[str, npt.ArrayLike],
        attribute_classes: Mapping[str, tuple[str, ...]],
        *,
        owners: Sequence[str],
        problems: Problems,
    ) -> None:
        classes = attribute_classes[label]
        super().__init__(
            x, attributes[label], owners=owners, attributes=attributes, classes=classes
        )
        self.attribute_classes, self.problems = dict(attribute_classes), problems

    def labelled_by(self, label: str | None) -> Self:
        """The same records with another attribute as their label."""
        if label is not None:
            if label not in self.attributes:
                raise RecordsError(
                    f"Expected a label out of {', '.join(self.attributes)}, got {label!r}."
                )
            self.y, self.classes = self.attributes[label], self.attribute_classes[label]
        return self


class Subset(IterableRecords):
    """Some records of another collection, in the order given."""

    def __init__(self, records: Records, indices: Sequence[int]) -> None:
        self.records = records
        self.indices = tuple(int(index) for index in indices)
        self.classes = tuple(records.classes)

    @property
    def owners(self) -> list[tuple[str, ...]] | None:
        """Owners of every record, without reading one; None where the collection does not list them."""
        listed = getattr(self.records, "owners", None)
        return None if listed is None else [tuple(listed[index]) for index in self.indices]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Record:
        return self.records[self.indices[index]]


def _owners(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
