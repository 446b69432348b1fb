"""Records as tensors with class numbers: what every attribute method trains on and attacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sfumato.data import ArrayRecords, Record, Records
from sfumato.errors import SfumatoError

Classes = Mapping[str, tuple[str, ...]]

# Data sets name the same attribute differently; a person may use either word.
_SAME = {"gender": "sex", "sex": "gender"}


class AttributesError(SfumatoError):
    """Attributes, donors or records that do not fit the task."""


@dataclass(frozen=True)
class Task:
    """Which attributes must disappear and which must survive; everything else is hidden."""

    private: Sequence[str]
    useful: Sequence[str]

    def __post_init__(self) -> None:
        for name, value in (("private", self.private), ("useful", self.useful)):
            if isinstance(value, str) or not value:
                raise AttributesError(
                    f"Expected a list with at least one {name} attribute, got {value!r}: "
                    f"pass {name}=['NAME', ...]."
                )
            object.__setattr__(self, name, tuple(value))
        both = [name for name in self.private if name in self.useful]
        if both:
            raise AttributesError(
                f"Expected private and useful attributes to differ, got {both[0]!r} in both: "
                "an attribute cannot be hidden and kept at the same time."
            )
        for names in (self.private, self.useful):
            if len(set(names)) != len(names):
                raise AttributesError(
                    f"Expected every attribute once, got {', '.join(names)}: drop the repetition."
                )

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.private, *self.useful)


@dataclass(frozen=True)
class AttributeTable:
    """Tensors of all records, first axis = records. ``labels`` holds class numbers by attribute."""

    x: Tensor
    labels: Mapping[str, Tensor]
    classes: Classes
    owners: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.x)

    def class_count(self, name: str) -> int:
        return len(self.classes[name])

    def only(self, names: Iterable[str]) -> AttributeTable:
        """The same records with some of the attributes."""
        chosen = tuple(names)
        return AttributeTable(
            x=self.x,
            labels={name: self.labels[name] for name in chosen},
            classes={name: self.classes[name] for name in chosen},
            owners=self.owners,
        )

    def take(self, indices: Tensor) -> AttributeTable:
        """The named rows, in that order."""
        return AttributeTable(
            x=self.x[indices],
            labels={name: codes[indices] for name, codes in self.labels.items()},
            classes=self.classes,
            owners=tuple(self.owners[int(index)] for index in indices),
        )


def read_table(
    records: Records, names: Iterable[str], *, classes: Classes | None = None
) -> AttributeTable:
    """Read ``records`` into tensors. ``classes`` fixes the class numbers of a fitted method.

    The attribute ``label`` means the records' own label ``y`` where no attribute has that name.
    """
    if len(records) == 0:
        raise AttributesError(
            "Expected at least one record, got none: check the data set's folder."
        )
    x = records_tensor(records)
    labels: dict[str, Tensor] = {}
    found: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys(names):
        values = [str(value) for value in _column(records, name)]
        known = tuple(sorted(set(values), key=_natural)) if classes is None else classes[name]
        number = {value: index for index, value in enumerate(known)}
        unknown = [value for value in values if value not in number]
        if unknown:
            raise AttributesError(
                f"Expected the {len(known)} classes of {name!r} seen in training, got another one "
                f"in {len(unknown)} records: fit on data that has all classes."
            )
        labels[name] = torch.tensor([number[value] for value in values], dtype=torch.int64)
        found[name] = known
    return AttributeTable(x=x, labels=labels, classes=found, owners=owners_of(records))


def records_tensor(records: Records | Sequence[Record]) -> Tensor:
    """All ``x`` as one float32 tensor; refuses what is not finite or not of one shape."""
    if isinstance(records, ArrayRecords):
        stacked = records.x
    else:
        arrays = [records[index].x for index in range(len(records))]
        shapes = {array.shape for array in arrays}
        if len(shapes) > 1:
            one, other = sorted(shapes)[:2]
            raise AttributesError(
                f"Expected records of one shape, got {one} and {other}: cut them into windows first."
            )
        stacked = np.stack(arrays)
    x = torch.from_numpy(np.ascontiguousarray(stacked, dtype=np.float32))
    if not bool(torch.isfinite(x).all()):
        raise AttributesError(
            "Expected finite values in every record, got NaN or infinity: repair or drop them."
        )
    return x


def require_two_classes(table: AttributeTable, names: Iterable[str]) -> None:
    """An attribute with one class can neither leak nor be kept."""
    for name in names:
        present = int(torch.unique(table.labels[name]).numel())
        if present < 2:
            raise AttributesError(
                f"Expected at least two classes of the attribute {name!r}, got {present}: "
                "there is nothing to hide or to keep."
            )


def _column(records: Records, name: str) -> Iterable[object]:
    if isinstance(records, ArrayRecords):
        found = named(name, records.attributes)
        if found is not None:
            return list(records.attributes[found].tolist())
        if name == "label":
            return list(records.y.tolist())
        raise _no_such(name, records.attributes)
    column = []
    for index in range(len(records)):
        record = records[index]
        found = named(name, record.attributes)
        if found is not None:
            column.append(_plain(record.attributes[found]))
        elif name == "label":
            column.append(_plain(record.y))
        else:
            raise _no_such(name, record.attributes)
    return column


def named(name: str, known: Iterable[str]) -> str | None:
    present = set(known)
    return next((each for each in (name, _SAME.get(name, "")) if each in present), None)


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def _no_such(name: str, known: Iterable[str]) -> AttributesError:
    listed = ", ".join(sorted(known)) or "none"
    return AttributesError(
        f"Expected an attribute of the records, got {name!r}: they have {listed} "
        "(and 'label' for their own label)."
    )


def owners_of(records: Records) -> tuple[tuple[str, ...], ...]:
    """The people of every record; nobody where they are not known."""
    if isinstance(records, ArrayRecords):
        return tuple(records.owners) if records.owners is not None else ((),) * len(records)
    return tuple(records[index].owners for index in range(len(records)))


def _natural(value: str) -> tuple[int, float, str]:
    try:
        return (0, float(value), value)
    except ValueError:
        return (1, 0.0, value)
