"""Arrays of one's own in a .npz: x, y, and owner, mask, split and attributes by name."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.data._records import ArrayRecords, RecordsError
from sfumato.errors import reading

_SEVERAL = ";"  # between the owners of one record


@reading("arrays of records (.npz)", RecordsError)
def npz(
    file: str | os.PathLike[str],
    split: str | None = None,
    *,
    label: str | None = None,
    classes: Sequence[str] | None = None,
) -> ArrayRecords:
    """The records of a .npz, which is read whole.

    | array | |
    | --- | --- |
    | ``x`` | records first: video (T, H, W, C), pictures (H, W, C) of bytes, windows, features |
    | ``y`` | their labels: names, or whole numbers from 0 |
    | ``owner`` | whose each is, several people with ``;`` between them. For unit person |
    | ``mask`` | True where a pixel is public |
    | ``split`` | names, of which ``split`` asks for one |
    | any other with a value a record | an attribute; ``label`` predicts that instead of y |

    ``classes`` are public and in the order of the model's outputs; unsaid, they are the labels of
    the whole file, sorted. Nothing is unpickled.
    """
    path = Path(file)
    if not path.is_file():
        raise RecordsError(
            f"Expected arrays of records in a .npz, but there is no file {path.name}."
        )
    with np.load(path, allow_pickle=False) as stored:
        if not {"x", label or "y"} <= set(stored.files):
            raise RecordsError(
                f"Expected arrays x and {label or 'y'} in {path.name}, got "
                f"{', '.join(stored.files[:8]) or 'none'}."
            )
        arrays = {name: stored[name] for name in stored.files}
    if any(array.ndim == 0 or len(array) != len(arrays["x"]) for array in arrays.values()):
        raise RecordsError(
            f"Expected {len(np.atleast_1d(arrays['x']))} rows in every array of {path.name}, one a "
            "record, got others: leave out what is not about records."
        )
    y, names = _labels(arrays.pop(label or "y"), classes, path)
    kept = np.ones(len(y), dtype=bool) if split is None else arrays.pop("split", None) == split
    if not np.any(kept):
        raise RecordsError(f"Expected records of the split {split!r} in {path.name}, found none.")
    arrays.pop("split", None)
    owner, mask = arrays.pop("owner", None), arrays.pop("mask", None)
    x = arrays.pop("x")
    _refuse_copies(x, path)
    return ArrayRecords(
        x[kept],
        y[kept],
        mask=None if mask is None else mask[kept],
        owners=None if owner is None else [_people(each) for each in owner[kept].tolist()],
        attributes={name: array[kept] for name, array in arrays.items() if array.ndim == 1},
        classes=names,
    )


def _refuse_copies(x: npt.NDArray[Any], path: Path) -> None:
    """One record in two rows would have two coins, and move the sum twice as far."""
    seen: dict[bytes, int] = {}
    for row, values in enumerate(x):
        content = hashlib.sha256(np.ascontiguousarray(values).tobytes()).digest()
        if content in seen:
            raise RecordsError(
                f"Expected every record once in {path.name}, got row {seen[content]} again as row "
                f"{row}: leave one of them out."
            )
        seen[content] = row


def _people(value: Any) -> tuple[str, ...]:
    return tuple(name.strip() for name in str(value).split(_SEVERAL) if name.strip())


def _labels(
    y: npt.NDArray[Any], classes: Sequence[str] | None, path: Path
) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Labels as numbers of classes, with the classes' names."""
    if y.ndim != 1 or not (np.issubdtype(y.dtype, np.integer) or y.dtype.kind in "U"):
        raise RecordsError(
            f"Expected one name or whole number a record as labels in {path.name}, got {y.dtype} of "
            f"shape {y.shape}."
        )
    if y.dtype.kind == "U":
        names = tuple(classes) if classes is not None else tuple(sorted(set(y.tolist())))
        if not set(y.tolist()) <= set(names):
            raise RecordsError(
                f"Expected labels out of the classes that were named in {path.name}, got another."
            )
        return np.array([names.index(name) for name in y.tolist()], dtype=np.int64), names
    names = tuple(classes or (str(each) for each in range(int(y.max()) + 1)))
    if y.min() < 0 or y.max() >= len(names):
        raise RecordsError(
            f"Expected labels from 0 to {len(names) - 1} in {path.name}, got {y.min()} to {y.max()}."
        )
    return y.astype(np.int64), names
