"""Table ``guarantees``: every row runs the code of its method and certifies no more than promised."""

from __future__ import annotations

import pytest

from benchmarks.guarantees import run as guarantees
from sfumato.errors import SfumatoError


def test_rows_stay_below_their_promises() -> None:
    result = guarantees.run(only="dppix; pass-ldp; multiclip", trials=1000)
    assert [row["method"] for row in result["rows"]] == ["dppix", "pass-ldp", "multiclip"]
    for row in result["rows"]:
        assert 0 < row["certified_99"] <= row["certified_95"] <= row["promised"]
        assert row["conforming_checks"] == row["checks"] >= 2
        assert row["verdict"] == "not refuted"
    with pytest.raises(SfumatoError, match="nothing"):
        guarantees.run(only="nothing")
