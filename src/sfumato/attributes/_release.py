"""A data set released through donors: their records under new names, and the card beside them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attributes._draws import Indices
from sfumato.attributes._pass import Pass
from sfumato.attributes._tasks import named
from sfumato.data import Record, Records
from sfumato.files import atomic_output, refuse_overwrite, write_json
from sfumato.privacy import Guarantee, NoGuarantee


def release(
    method: Pass,
    records: Records,
    folder: str | os.PathLike[str],
    *,
    force: bool = False,
    measured: dict[str, Any] | None = None,
) -> Guarantee | NoGuarantee:
    """Write ``records.npz`` and ``promise.json`` into ``folder`` and return the promise.

    Row i of the release is the donor of some record: the order is shuffled, so that it tells
    nothing about who was where in the input, and no name, owner, path or label of an input is
    written. ``x`` is the donor's record as it is, the useful attributes are the *donor's* own.
    ``measured`` is what an audit found; it stands beside the promise, labelled as measured.
    """
    target = Path(folder)
    files = target / "records.npz", target / "promise.json"
    for each in files:
        refuse_overwrite(each, force=force)
    drawn: Indices = method.protect(records)
    promise = method.guarantee
    order = method.randomness.generator().permutation(len(drawn))
    kept = drawn[order]
    chosen, position = np.unique(kept, return_inverse=True)
    donors = [method.donors[int(index)] for index in chosen]
    columns: dict[str, Any] = {
        f"attribute_{name}": np.array([str(_label(donor, name)) for donor in donors])[position]
        for name in method.task.useful
    }
    with atomic_output(files[0], force=force) as temporary, open(temporary, "wb") as stream:
        x = np.stack([donor.x for donor in donors])[position]
        np.savez_compressed(stream, x=x, donor=kept, **columns)
    body = {
        "promise": promise.to_json(),
        "words": str(promise),
        "donors": {"count": len(method.donors), "declared": method.donors.declared},
        "private": list(method.task.private),
        "useful": list(method.task.useful),
        "measured": measured or {},
        "measured_note": "empirical, not a bound",
    }
    write_json(files[1], body, force=force)
    return promise


def _label(donor: Record, name: str) -> Any:
    found = named(name, donor.attributes)
    return donor.y if found is None else donor.attributes[found]
