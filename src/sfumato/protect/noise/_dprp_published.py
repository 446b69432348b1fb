"""Video-DPRP exactly as printed, for comparison: Theorems 3 and 4, budget split, repaired line 10.

Line 10 as printed multiplies matrices whose shapes do not fit. Its repair, P~ V (R V)^+, equals
P~ R^+ for every orthogonal V, so the noisy covariance and its share of the budget have no effect on
the output. The noise is too small for any unit the paper names: theta is divided by sqrt(k) twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from sfumato.errors import SfumatoError

# The paper's grids (Tables 3 and 4).
PUBLISHED_K = {"20x20": 1200, "24x32": 2304, "32x32": 3072, "50x50": 7500, "64x80": 15360}


Coefficients = (
    Annotated[int, Field(ge=1, le=10**8)] | Literal["20x20", "24x32", "32x32", "50x50", "64x80"]
)


def published_k(k: int | str) -> int:
    """A number of coefficients, also by the paper's names such as 32x32."""
    if isinstance(k, str):
        if k not in PUBLISHED_K:
            raise SfumatoError(
                f"Expected k as a number or out of {', '.join(PUBLISHED_K)}, got {k!r}."
            )
        return PUBLISHED_K[k]
    return k


@dataclass(frozen=True)
class PublishedNoise:
    """The two standard deviations that the paper's theorems print."""

    sigma_1: float
    sigma_2: float


def published_noise(epsilon: float, delta: float, k: int, b: float = 0.8) -> PublishedNoise:
    """Theorem 3 and Theorem 4 to the letter, with theta = 255 / sqrt(k)."""
    if not (epsilon > 0 and 0 < delta < 0.5 and 0 < b < 1 and k >= 1):
        raise SfumatoError(
            "Expected epsilon > 0, 0 < delta < 1/2, 0 < b < 1 and k >= 1, "
            f"got epsilon={epsilon:g}, delta={delta:g}, b={b:g}, k={k}."
        )
    theta = 255 / math.sqrt(k)
    epsilon_1, delta_1 = b * epsilon, b * delta
    epsilon_2, delta_2 = (1 - b) * epsilon, (1 - b) * delta
    tail = math.log(2 / delta_1)
    row_norm = math.sqrt(k + 2 * math.sqrt(k * tail) + 2 * tail) / math.sqrt(k)
    sigma_1 = (
        theta * row_norm * math.sqrt(2 * (math.log(1 / (2 * delta_1)) + epsilon_1)) / epsilon_1
    )
    sigma_2 = theta * math.sqrt(math.sqrt(2 * math.log(1.25) / delta_2) / epsilon_2)
    return PublishedNoise(sigma_1, sigma_2)
