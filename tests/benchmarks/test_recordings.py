"""What ``data=`` means: the common root, or the folders themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.harness.recordings import recordings
from sfumato.errors import SfumatoError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("utd_mhad", "utkface"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_the_root_and_the_folders_mean_the_same(root: Path) -> None:
    expected = {"utd_mhad": root / "utd_mhad", "utkface": root / "utkface"}
    asked = ("utd_mhad", "utkface", "audiomnist")
    assert recordings(str(root), *asked) == expected
    assert recordings(f"{root / 'utkface'},{root / 'utd_mhad'}", *asked) == expected


def test_one_data_set_may_lie_under_another_name(root: Path) -> None:
    (root / "UTD").mkdir()
    assert recordings(str(root / "UTD"), "utd_mhad") == {"utd_mhad": root / "UTD"}


def test_nothing_found_is_refused(root: Path) -> None:
    with pytest.raises(SfumatoError, match="audiomnist, sisfall"):
        recordings(str(root), "audiomnist", "sisfall")
    with pytest.raises(SfumatoError, match="utd_mhad"):
        recordings(str(root / "nowhere"), "utd_mhad")
