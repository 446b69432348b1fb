"""Two processes give the sum, the noise and the Guarantee of one; seeded bugs 38-40 are noticed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import step_checks as checks
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from device_check import CPU, CUDA, FakeCuda
from sfumato.data import Record
from sfumato.errors import SfumatoError
from sfumato.learn import Plan, train
from sfumato.learn.engine._noise import GaussianNoise
from sfumato.learn.engine._ranks import Team
from sfumato.privacy import Randomness


def _plan(person: bool) -> Plan:
    return checks.make_plan(
        epsilon=8.0, delta=1e-3, records=20, batch=10, steps=3, clip_norm=0.5,
        relation="replace", unit="person" if person else "record",
    )  # fmt: skip


def _job(person: bool, device: torch.device = CPU) -> dict[str, torch.Tensor]:
    data = checks.wild_records(40 if person else 20, owners=20 if person else 0)
    run = train(checks.make_model().to(device), data, _plan(person), randomness=Randomness(4),
                evaluate_every=100)  # fmt: skip
    tensors = {name: p.detach().cpu().clone() for name, p in run.model.named_parameters()}
    return {**tensors, "epsilon": torch.tensor(run.guarantee.epsilon)}  # type: ignore[union-attr]


def _noise_on_every_rank(patch: pytest.MonkeyPatch) -> None:
    """38: every rank adds its own noise before the sum."""
    real = Team.add_up

    def add_up(self: Any, flat: torch.Tensor) -> torch.Tensor:
        extra = GaussianNoise(Randomness(self.rank)).draw(flat.numel())
        return real(self, flat + (self.rank > 0) * _plan(False).noise_deviation * extra)

    patch.setattr(Team, "add_up", add_up)


def _averaged(patch: pytest.MonkeyPatch) -> None:
    """39: gradients averaged instead of summed."""
    real = Team.add_up
    patch.setattr(Team, "add_up", lambda self, flat: real(self, flat) / self.size)


def _overlapping(patch: pytest.MonkeyPatch) -> None:
    """40: every rank takes all shards."""
    patch.setattr(Team, "share", lambda self, indices: indices)


JOBS: dict[str, tuple[Any, bool]] = {
    "records": (lambda patch: None, False),
    "persons": (lambda patch: None, True),
    "38": (_noise_on_every_rank, False),
    "39": (_averaged, False),
    "40": (_overlapping, False),
}


def _other_records(rank: int) -> dict[str, Any]:
    """Each rank's own version of what should be the same on all."""
    data = checks.wild_records(20)
    shuffled = checks.Listed([data[(i * 7 + rank) % 20] for i in range(20)])
    changed = checks.Listed(data.items)
    if rank:
        x = data[9].x.copy()
        x[3] += 1
        changed.items[9] = Record(x, data[9].y)
    many = checks.Listed([data[i % 20] for i in range(200)])
    many.items[1] = changed.items[9]  # one of many, not at either end
    return {
        "one of many": (many, _plan(False)),
        "shuffled": (shuffled, _plan(False)),
        "shorter": (checks.Listed(data.items[: 20 - rank]), _plan(False)),
        "changed": (changed, _plan(False)),
        "another plan": (data, checks.make_plan(records=20, batch=10 + rank)),
    }


def _refused(rank: int) -> list[str]:
    found = []
    for name, (data, plan) in _other_records(rank).items():
        try:
            train(checks.make_model(), data, plan)
        except SfumatoError as error:
            found.append(f"{name}: {error}")
    return found


def _worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    meet = f"file://{folder}/meet"  # a port may be taken by another test
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=2)
    for name, (bug, person) in JOBS.items():
        with pytest.MonkeyPatch.context() as patch:
            bug(patch)
            save_file(_job(person), f"{folder}/{name}-{rank}.safetensors")
    with FakeCuda():
        save_file(_job(False, CUDA), f"{folder}/device-{rank}.safetensors")
    Path(f"{folder}/refused-{rank}").write_text("\n".join(_refused(rank)))
    dist.destroy_process_group()
    os._exit(0)  # threads of torch's have aborted the interpreter's end, when all was written


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes computed for every job, started once for all tests here."""
    folder = tmp_path_factory.mktemp("together")
    mp.spawn(_worker, (str(folder),), nprocs=2, join=True)
    return folder


def _same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return all(torch.allclose(first[name], second[name], rtol=1e-4, atol=1e-5) for name in first)


@pytest.mark.parametrize("name", ["records", "persons"])
def test_two_processes_give_what_one_gives(together: Path, name: str) -> None:
    alone = _job(JOBS[name][1])
    found = [load_file(together / f"{name}-{rank}.safetensors") for rank in range(2)]
    assert _same(found[0], found[1])
    assert _same(alone, found[0])


def test_two_processes_leave_no_tensor_behind_on_another_device(together: Path) -> None:
    """Sums, noise and parameters of both are where the model is; no GPU is here, so they are followed."""
    found = [load_file(together / f"device-{rank}.safetensors") for rank in range(2)]
    assert _same(found[0], found[1])
    assert _same(_job(False), found[0])


@pytest.mark.parametrize("bug", ["38", "39", "40"])
def test_seeded_bugs_of_distribution_are_noticed(together: Path, bug: str) -> None:
    assert not _same(_job(False), load_file(together / f"{bug}-0.safetensors"))


@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_that_hold_different_records_are_stopped(together: Path, rank: int) -> None:
    """Every rank stops, so that none waits for the other."""
    said = (together / f"refused-{rank}").read_text().splitlines()
    assert [line.split(":")[0] for line in said] == list(_other_records(rank))
    assert all("same records in the same order on every rank" in line for line in said)
