"""The rows of table ``visual``: every obfuscation, and Video-DPRP as published and sound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from benchmarks.attacks.stage import WAYS
from sfumato import protect
from sfumato.privacy import Guarantee

DELTA = 1e-4
EPSILONS = (2.0, 5.0, 8.0)
# The paper's k out of pictures of 320 x 240; other pictures keep the same share of themselves.
PAPER_PICTURE = (240, 320)
GRIDS = {"20x20": 400, "24x32": 768, "32x32": 1024, "50x50": 2500, "64x80": 5120}
BUDGETS = (0.2, 0.4, 0.5, 0.6, 0.8)
USUAL_K, USUAL_B = "32x32", 0.8
# rows of table ``attacks`` that the paper does not have
_OURS = (
    "pixelate, people", "silhouette", "edges", "dppix, 16 pixels, epsilon 8",
    "laplace, 16 pixels, epsilon 8", "randomized-response, 16 pixels, epsilon 8",
    "snow, nine pixels in ten", "dp-image, frame, epsilon 8",
)  # fmt: skip


@dataclass(frozen=True)
class Way:
    """One row: a method, its settings, and which table of the paper it belongs to."""

    part: str
    name: str
    method: str
    settings: dict[str, Any]

    def promise(self, height: int, width: int, frames: int) -> dict[str, Any] | None:
        """What a release really proves, from its own event; None where it proves nothing."""
        made = protect.make(self.method, self.settings)
        promise = made.promise(protect.Shape(height, width, frames))
        if not isinstance(promise, Guarantee):
            return None
        return {"unit": str(promise.unit), "epsilon": promise.epsilon, "delta": promise.delta,
                "relation": promise.relation.value, "accountant": promise.accountant}  # fmt: skip


def ways(height: int, width: int, frames: int) -> list[Way]:
    """Every row for pictures of this size, those of Table 1 first and the slowest last."""

    def dprp(
        how: str, epsilon: float, *, k: str = USUAL_K, b: float | None = None
    ) -> dict[str, Any]:
        shared = {"epsilon": epsilon, "delta": DELTA, "block": frames}
        side = side_of(k, height, width)
        if how == "published":
            return shared | {"unit": "frame", "basis": "gaussian", "calibration": "published",
                             "k": 3 * side**2, "b": USUAL_B if b is None else b}  # fmt: skip
        if b is not None:  # the share 1 - b went to a covariance that no output uses
            shared |= {"epsilon": b * epsilon, "delta": b * DELTA}
        unit = "frame" if how == "frame" else "pixels(16, frames=1)"
        return shared | {"unit": unit, "kept_size": side, "kept_frames": min(4, frames)}

    def isr(share: int) -> dict[str, Any]:
        return {"size": f"{round(width / share)}x{round(height / share)}"}

    rows = [
        Way("table 1", "face blurring", "blur", {"region": "faces", "published": True}),
        Way("table 1", "ISR, a tenth", "isr", isr(10)),
        Way("table 1", "ISR, a twentieth", "isr", isr(20)),
        Way("table 1", "appearance free", "appearance-free", {}),
        Way("table 1", "selective privacy", "selective", {"region": "people"}),
    ]
    for how in ("published", "16 pixels", "frame"):
        rows += [
            Way("table 1", f"Video-DPRP, {how}, epsilon {epsilon:g}", "dprp", dprp(how, epsilon))
            for epsilon in EPSILONS
        ]
    rows += [_of_attacks(name) for name in _OURS]
    for how in ("published", "16 pixels"):
        rows += [Way("table 3", f"{how}, k {k}", "dprp", dprp(how, 8.0, k=k))
                 for k in GRIDS if k != USUAL_K]  # fmt: skip
    rows += [Way("table 4", f"published, b {b:g}", "dprp", dprp("published", 8.0, b=b))
             for b in BUDGETS if b != USUAL_B]  # fmt: skip
    rows += [Way("table 4", f"16 pixels, b {b:g}", "dprp", dprp("16 pixels", 8.0, b=b))
             for b in BUDGETS]  # fmt: skip
    return [*rows, _of_attacks("skeleton"), _of_attacks("avatar")]


def side_of(k: str, height: int, width: int) -> int:
    """The side of a square that is the same share of this picture as ``k`` of the paper's."""
    share = height * width / (PAPER_PICTURE[0] * PAPER_PICTURE[1])
    return max(1, round(math.sqrt(GRIDS[k] * share)))


def _of_attacks(name: str) -> Way:
    method, settings = WAYS[name]
    if "delta" in settings:
        settings = settings | {"delta": DELTA}
    return Way("table 1", name, method, settings)
