"""Re-identification: is the person (the voice, the room) of a protected record found in a gallery?

Records are vectors. Rank-1 is how often the nearest record of the gallery has the same identity;
the ROC curve ranks all pairs by distance, genuine against impostor. Two galleries are tried: one of
originals, which asks a recogniser as it stands, and one protected in the same way ("parrot"
recognition, Newton, Sweeney, Malin 2005), which is what an attacker who knows the method does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.audit.measure._measure import Estimate, Measure, MeasureError, Result
from sfumato.audit.measure._scores import auc, auc_variance, wilson

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Matches:
    """Rank-1 and the area under the ROC curve, with intervals; and TPR at 1 % false alarms."""

    rank_one: Estimate
    auc: Estimate
    caught: float
    probes: int


class Reidentification(Measure):
    """Probes against a gallery, by Euclidean distance (or distances of your own).

    ``update(probes, probe_ids, gallery, gallery_ids, same=None)``: ``same`` (probes, gallery) is True
    where both come from one recording; such pairs are left out, since finding the very same recording
    again is no recognition. A probe without a vector (no face was found) is a row of NaN: it is never
    recognised, and counts.
    """

    name = "re-identification"
    higher_is_better = False
    bounds = (0.0, 1.0)

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._hits: list[tuple[str, float]] = []
        self._chance: list[float] = []
        self._pairs: list[tuple[Floats, npt.NDArray[np.bool_]]] = []

    def update(
        self,
        probes: npt.ArrayLike,
        probe_ids: Sequence[object],
        gallery: npt.ArrayLike,
        gallery_ids: Sequence[object],
        same: npt.ArrayLike | None = None,
    ) -> None:
        asked, known = np.asarray(probes, np.float64), np.asarray(gallery, np.float64)
        if asked.ndim != 2 or known.ndim != 2 or asked.shape[1] != known.shape[1]:
            raise MeasureError(
                f"Expected vectors of one length, got shapes {asked.shape} and {known.shape}."
            )
        square = (asked**2).sum(1)[:, None] + (known**2).sum(1)[None] - 2 * asked @ known.T
        self.update_distances(np.sqrt(np.maximum(square, 0)), probe_ids, gallery_ids, same)

    def update_distances(
        self,
        distances: npt.ArrayLike,
        probe_ids: Sequence[object],
        gallery_ids: Sequence[object],
        same: npt.ArrayLike | None = None,
    ) -> None:
        """The same from distances (probes, gallery): smaller is more alike, NaN is not found."""
        far = np.asarray(distances, np.float64)
        if far.shape != (len(probe_ids), len(gallery_ids)) or not far.size:
            raise MeasureError(
                f"Expected distances ({len(probe_ids)}, {len(gallery_ids)}), got {far.shape}."
            )
        # as words: an identity is the same whatever type its number has
        whom = np.array([str(each) for each in probe_ids])
        genuine = whom[:, None] == np.array([str(each) for each in gallery_ids])[None]
        allowed = np.ones(far.shape, bool) if same is None else ~np.asarray(same, bool)
        far = np.where(np.isnan(far), np.inf, far)
        asked = (genuine & allowed).any(1)
        if not asked.any():
            raise MeasureError(
                "Expected somebody with records in probes and gallery, got nobody: bring more "
                "recordings of the same people."
            )
        for row in np.flatnonzero(asked):
            here, match = far[row][allowed[row]], genuine[row][allowed[row]]
            nearest = here == here.min()
            found = match[nearest].mean() if np.isfinite(here.min()) else 0.0
            self._hits.append((str(whom[row]), float(found)))
            self._chance.append(float(match.mean()))
        self._pairs.append((far[asked][allowed[asked]], genuine[asked][allowed[asked]]))

    def compute(self) -> Matches:
        if not self._hits:
            raise MeasureError("Expected probes to recognise, got none: call update first.")
        hits = np.array([hit for _, hit in self._hits])
        people = len({who for who, _ in self._hits})
        low, high = wilson(float(hits.mean()) * len(hits), len(hits))
        rank = Estimate(float(hits.mean()), low, high, 0.95, float(np.mean(self._chance)))
        far = np.concatenate([distance for distance, _ in self._pairs])
        genuine = np.concatenate([match for _, match in self._pairs])
        # that a genuine pair is nearer than an impostor's; ties (nothing found) count half
        value = 0.5 if genuine.all() else auc(-far[genuine], -far[~genuine])
        half = 1.96 * _deviation(value, people, int((~genuine).sum()))
        area = Estimate(value, max(0.0, value - half), min(1.0, value + half), 0.95, 0.5)
        alarm = np.quantile(far[~genuine], 0.01, method="lower") if (~genuine).any() else -np.inf
        caught = float((far[genuine] < alarm).mean())
        return Matches(rank, area, caught, len(hits))

    def results(self, **facts: Any) -> list[Result]:
        found = self.compute()
        rows = []
        for name, value in (("rank-1", found.rank_one), ("ROC area of pairs", found.auc)):
            rows.append(self.result(name, **value.parts, **facts))
        return rows


def reidentify(
    vectors: npt.ArrayLike, gallery: npt.ArrayLike, ids: Sequence[object]
) -> Reidentification:
    """Every record of ``vectors`` against every *other* record of ``gallery``, row by row the same
    recordings: protected against originals, or protected against protected."""
    measure = Reidentification()
    measure.update(vectors, ids, gallery, ids, np.eye(len(ids), dtype=bool))
    return measure


def _deviation(area: float, people: int, impostors: int) -> float:
    """With people instead of pairs: pairs of one person fall together."""
    people, others = max(people, 1), max(min(impostors, people), 1)
    spread = auc_variance(area, people, others)
    return float(np.sqrt(max(spread, 0.25 / people) / (people * others)))
