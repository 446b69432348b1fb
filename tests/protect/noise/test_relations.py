"""Relations that mean something for one released recording (R23)."""

from __future__ import annotations

from typing import Any

import pytest

from sfumato.privacy import UnitError
from sfumato.protect import get

SETTINGS: dict[str, dict[str, Any]] = {
    "dp-image": {"epsilon": 8.0, "delta": 1e-5},
    "dppix": {"epsilon": 8.0},
    "dprp": {"epsilon": 8.0, "delta": 1e-5},
    "laplace": {"epsilon": 8.0},
    "randomized-response": {"epsilon": 8.0},
    "snow": {"p": 0.9},
}


@pytest.mark.parametrize("unit", ["clip", "video"])
@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_released_recording_is_not_added_or_removed(name: str, unit: str) -> None:
    for relation in ("replace", "zero-out"):
        get(name)(unit=unit, relation=relation, **SETTINGS[name])
    with pytest.raises(UnitError, match="replace or zero-out, got add-remove"):
        get(name)(unit=unit, relation="add-remove", **SETTINGS[name])
