"""The table of training methods: every method runs, cells are kept, promises are said for a record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import training_tasks
from benchmarks.train import run as table
from sfumato.data import UtdMhad
from sfumato.data._problems import Problems
from sfumato.errors import SfumatoError
from sfumato.learn import METHODS

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("train")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_tasks, "QUICK", training_tasks.Size((10, 16, 8), 2, 2, 4))
        return folder, table.run(quick=True, keep=str(folder))


def test_every_method_has_a_cell_with_scores_and_its_promise(made: Any) -> None:
    cells = {cell["method"]: cell for cell in made[1]["cells"]}
    assert {name.partition(", ")[0] for name in cells} == {*METHODS, table.BEFORE}
    for cell in cells.values():
        assert 0 <= cell["top1"] <= 1
        assert cell["mean_class"] == pytest.approx(np.mean(list(cell["per_class"].values())))
    for name, cell in cells.items():
        if METHODS.get(name) is not None and METHODS[name].private:
            assert cell["epsilon"] <= 8.0
            assert cell["relation"] == "replace"
            shown = name in {"maskdp", "feature", "feature-projective"}
            assert cell["record_epsilon"] == ("inf" if shown else cell["epsilon"]), name
    assert cells["sgd"]["epsilon"] == "inf"
    assert cells["public-only, pixels"]["epsilon"] == 0
    assert cells["public-only, pixels"]["record_epsilon"] == "inf"
    assert cells["person-dp-sgd"]["unit"].startswith("person")
    assert len(list(table.words(made[1]))) == 3


def test_a_stopped_table_goes_on_where_it_was(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, first = made
    monkeypatch.setattr(training_tasks, "QUICK", training_tasks.Size((10, 16, 8), 2, 2, 4))

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("something was trained or staged again")

    monkeypatch.setattr(table, "train", refuse)
    monkeypatch.setattr(training_tasks, "staged", refuse)
    monkeypatch.setattr(training_tasks, "train", refuse)
    assert table.run(quick=True, keep=str(folder)) == first


def test_groups_of_depth_clips_share_nobody_and_one_mask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    keys = [(action, subject, 1) for action in (1, 2) for subject in range(1, 9)]
    pixels = [rng.integers(0, 256, (20, 120, 160)).astype(np.uint8) for _ in keys]
    found = UtdMhad(keys, lambda index: pixels[index], "depth", Problems())
    monkeypatch.setattr(training_tasks, "utd_mhad", lambda *_: found)
    task = training_tasks.depth_task(str(tmp_path), quick=False)
    groups = [task.public, task.private, task.held_out]
    owners = [{name for names in group.owners or () for name in names} for group in groups]
    assert sum(map(len, owners)) == len(set.union(*owners)) == 8
    masks = np.concatenate([group.mask for group in groups if group.mask is not None])
    assert (masks == masks[0]).all(), "a mask that follows a person would tell of the person"
    assert 0 < masks.mean() < 1


def test_unknown_methods_get_a_sentence() -> None:
    with pytest.raises(SfumatoError, match="Expected methods out of"):
        table.run(methods="magic")
