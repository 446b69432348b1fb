"""Donors: the people whose recordings are published in place of everybody else's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from sfumato.attributes._tasks import (
    AttributesError,
    AttributeTable,
    Classes,
    Task,
    named,
    read_table,
)
from sfumato.data import Record, Records, Subset

Declared = Literal["public", "consenting", "synthetic"]

DONORS_PUBLISHED = "the donors, whose pixels or samples are published as they are (the metadata of their files is not)"
_SENTENCES = {
    "public": "the donors' recordings were public before",
    "consenting": "every donor agreed to have the recording published as it is",
    "synthetic": "the donors are synthetic and show nobody",
}


@dataclass(frozen=True)
class DonorSet:
    """The substitution set. What PASS releases are these records, verbatim (finding H11).

    For a donor nothing is hidden, so somebody must say why that is fine: ``declared`` is
    ``public``, ``consenting`` or ``synthetic``, has no default, and stands on the card.
    """

    records: Records
    declared: Declared

    def __post_init__(self) -> None:
        if self.declared not in get_args(Declared):
            raise AttributesError(
                f"Expected donors declared as public, consenting or synthetic, got "
                f"{self.declared!r}: donors are published verbatim, so say why they may be."
            )
        if len(self.records) < 2:
            raise AttributesError(
                f"Expected at least two donors, got {len(self.records)}: "
                "with one donor everything is replaced by the same recording."
            )

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Record:
        return self.records[index]

    @property
    def sentence(self) -> str:
        return _SENTENCES[self.declared]

    @classmethod
    def sample(
        cls, records: Records, size: int = 4096, *, declared: Declared, seed: int = 0
    ) -> DonorSet:
        """``size`` records drawn without replacement; who is a donor is public, so a seed is fine."""
        if size > len(records):
            raise AttributesError(
                f"Expected at least as many records as donors, got {len(records)} records for "
                f"{size} donors: ask for fewer donors or bring more records."
            )
        chosen = np.random.default_rng(seed).choice(len(records), size, replace=False)
        return cls(Subset(records, [int(index) for index in np.sort(chosen)]), declared)

    @classmethod
    def mixed(
        cls,
        records: Records,
        size: int,
        attribute: str,
        shares: Mapping[str, float],
        *,
        declared: Declared,
        seed: int = 0,
    ) -> DonorSet:
        """``size`` records of which classes of ``attribute`` make the given ``shares``.

        Classes that are not named share the rest as they share the records (the paper's Table 12).
        """
        table = read_table(records, [attribute])
        codes, classes = table.labels[attribute].numpy(), table.classes[attribute]
        unknown = [name for name in shares if name not in classes]
        if unknown or not 0 <= sum(shares.values()) <= 1 + 1e-9:
            raise AttributesError(
                f"Expected shares of classes of {attribute!r} ({', '.join(classes)}) that add up to "
                f"at most 1, got {dict(shares)}."
            )
        counts = np.bincount(codes, minlength=len(classes)).astype(np.float64)
        wanted = np.array([shares.get(name, 0.0) for name in classes])
        others = np.array([name not in shares for name in classes])
        if others.any():
            wanted[others] = (1 - wanted.sum()) * counts[others] / counts[others].sum()
        generator = np.random.default_rng(seed)
        chosen: list[int] = []
        for code, share in enumerate(wanted):
            number = round(size * share)
            if number > counts[code]:
                raise AttributesError(
                    f"Expected at least {number} records in every class of {attribute!r} for this "
                    f"mixture of donors, got {int(counts[code])} in one: ask for fewer donors."
                )
            members = np.flatnonzero(codes == code)
            chosen += generator.choice(members, number, replace=False).tolist()
        return cls(Subset(records, sorted(chosen)), declared)

    @classmethod
    def prototypes(
        cls,
        records: Records,
        attribute: str,
        per_class: int = 1,
        *,
        declared: Declared,
        seed: int = 0,
    ) -> DonorSet:
        """A few donors a class, each nearest to the mean of a random share of its class.

        The proven variant needs few donors: at epsilon 8 the best of 4096 donors is drawn with
        probability 0.013 at most, the best of 16 with 0.78 (finding H8).
        """
        table = read_table(records, [attribute])
        flat = table.x.flatten(1)
        generator = np.random.default_rng(seed)
        chosen: list[int] = []
        for code in range(table.class_count(attribute)):
            members = torch.nonzero(table.labels[attribute] == code).flatten().numpy()
            if len(members) < per_class:
                raise AttributesError(
                    f"Expected at least {per_class} records in every class of {attribute!r}, got "
                    f"{len(members)} in one: ask for fewer prototypes a class."
                )
            for share in np.array_split(generator.permutation(members), per_class):
                rows = flat[torch.from_numpy(share)]
                nearest = int((rows - rows.mean(0)).square().sum(1).argmin())
                chosen.append(int(share[nearest]))
        return cls(Subset(records, sorted(chosen)), declared)

    def table(self, task: Task, classes: Classes) -> AttributeTable:
        """The donors' tensors and classes; refuses a set that lacks a useful class.

        Private attributes of donors are read where all donors have them: they only choose where
        training starts.
        """
        known = (*self.records[0].attributes, "label")
        all_known = all(named(name, known) for name in task.private)
        names = [*task.useful, *(task.private if all_known else ())]
        donors = read_table(self.records, names, classes={name: classes[name] for name in names})
        for name in task.useful:
            present = set(torch.unique(donors.labels[name]).tolist())
            missing = [each for code, each in enumerate(classes[name]) if code not in present]
            if missing:
                raise AttributesError(
                    f"Expected donors for each of the {len(classes[name])} classes of {name!r}, got "
                    f"none for {len(missing)} of them: nothing useful could replace those records."
                )
        return donors


def match_matrix(labels: Tensor, donor_labels: Tensor) -> Tensor:
    """1 where donor k has the useful class of record i: 1[u'_k = u_i]."""
    return (labels[:, None] == donor_labels[None, :]).to(torch.float32)
