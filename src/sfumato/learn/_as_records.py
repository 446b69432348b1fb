"""Records out of what people have: a torch data set, a pair of arrays, or records already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch.utils.data import Subset as TorchSubset

from sfumato.data import ArrayRecords, Record, Records, RecordsError

Owners = Iterable[Any]
# What no program can see about a data set whose items are made by code.
OWN_ITEMS = (
    "every item of the data set was made from one record alone and every record is one item: no "
    "mixing, no statistics of other records, no record listed twice"
)


class DatasetRecords:
    """A map-style data set of pairs ``(x, y)`` as records; items are asked for when needed."""

    def __init__(self, dataset: Any, owners: Sequence[tuple[str, ...]] | None = None) -> None:
        self._dataset = dataset
        self.owners = None if owners is None else list(owners)
        names = getattr(dataset, "classes", ())
        told = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
        self.classes: tuple[str, ...] = tuple(names) if told else ()

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Record:
        item = self._dataset[index]
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            size = f" of {len(item)}" if isinstance(item, (tuple, list)) else ""
            raise RecordsError(
                f"Expected items (x, y) of a data set, got a {type(item).__name__}{size}: wrap it in "
                "a data set that returns the input and the label of one record."
            )
        owners = () if self.owners is None else self.owners[index]
        return Record(_array(item[0]), _array(item[1]), owners=owners)


def as_records(data: Any, owners: Owners | None = None) -> Records:
    """``data`` as records, or one sentence that says what would do.

    | data | records |
    | --- | --- |
    | ``Records`` of ``sfumato.data`` | as they are; their own owners count |
    | ``(x, y)``, two arrays or tensors | one record a row |
    | a map-style data set of pairs (``TensorDataset``, ``ImageFolder``, your own) | one record an item |
    """
    if isinstance(data, DataLoader):
        raise RecordsError(
            "Expected a data set, got a DataLoader: batches are drawn here, since epsilon counts on "
            "how. Pass loader.dataset."
        )
    if _are_records(data):
        if owners is not None:
            raise RecordsError(
                "Expected owners= with a torch data set or a pair of arrays, got it with records "
                "that name their own: leave it out."
            )
        found: Records = data
        return found
    if isinstance(data, (tuple, list)):
        return _arrays(data, owners)
    if isinstance(data, IterableDataset) or not (
        hasattr(data, "__getitem__") and hasattr(data, "__len__")
    ):
        raise RecordsError(
            f"Expected records, a pair (x, y) of arrays or a map-style data set with a length, got "
            f"{type(data).__name__}: every record is sampled by its own coin, so each must have a "
            "number."
        )
    if isinstance(data, TorchSubset) and len(set(data.indices)) != len(data.indices):
        raise RecordsError(
            "Expected a Subset that names each record once, got one that repeats some: a record "
            "that is drawn twice adds more than epsilon counts."
        )
    return DatasetRecords(data, _named(owners, len(data)))


def _are_records(data: Any) -> bool:
    """A torch data set may have ``classes`` too; its items are pairs all the same."""
    if not isinstance(data, Records) or isinstance(data, Dataset):
        return False
    ours = type(data).__module__.startswith("sfumato.")
    return ours or len(data) == 0 or isinstance(data[0], Record)


def _arrays(pair: Sequence[Any], owners: Owners | None) -> ArrayRecords:
    if len(pair) != 2 or not all(hasattr(part, "shape") and len(part.shape) for part in pair):
        raise RecordsError(
            f"Expected a pair (x, y) of arrays with the records on their first axis, got "
            f"{len(pair)} parts ({', '.join(type(part).__name__ for part in pair[:3])})."
        )
    x, y = (_array(part) for part in pair)
    return ArrayRecords(x, y, owners=_named(owners, len(x)))


def _named(owners: Owners | None, count: int) -> list[tuple[str, ...]] | None:
    """Owners as text: 3 and "3" are one person, and so are a number and its tensor."""
    if owners is None:
        return None
    plain = owners.tolist() if isinstance(owners, (np.ndarray, Tensor)) else list(owners)
    if len(plain) != count:
        raise RecordsError(
            f"Expected {count} owners, one for each record, got {len(plain)}: name the person of "
            "every record, in order."
        )
    return [
        tuple(str(_plain(each)) for each in one)
        if isinstance(one, (tuple, list, set, frozenset))
        else (str(_plain(one)),)
        for one in plain
    ]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, (np.generic, Tensor)) else value


def _array(value: Any) -> npt.NDArray[Any]:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
