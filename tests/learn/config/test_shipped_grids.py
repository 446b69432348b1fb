"""The papers' grids on NTU, Toyota Smarthome, UCF101 and HMDB51: every cell of them makes a plan."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from sfumato.learn import make_job, read_config
from sfumato.privacy import Guarantee, NoGuarantee

CONFIGS = Path(__file__).resolve().parents[3] / "docs" / "configs"
ROOMS, FILMS = (0.1, 0.25, 0.5, 0.75, 1, 5), (0.5, 1, 2, 3, 5, 10)
# file -> model, and the epsilons that papers have on these recordings
SHIPPED = {
    "maskdp-ntu": ("mvit_v2_s", ROOMS),
    "maskdp-ntu-mvit-b": ("mvit_b", ROOMS),
    "maskdp-toyota": ("mvit_v2_s", ROOMS),
    "maskdp-toyota-mvit-b": ("mvit_b", ROOMS),
    "maskdp-ucf101": ("mvit_v2_s", (*ROOMS, *FILMS)),
    "maskdp-ucf101-mvit-b": ("mvit_b", (*ROOMS, *FILMS)),
    "maskdp-hmdb51": ("mvit_v2_s", (*ROOMS, *FILMS)),
    "maskdp-hmdb51-mvit-b": ("mvit_b", (*ROOMS, *FILMS)),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_epsilon_that_a_file_names_makes_a_plan(name: str) -> None:
    path = CONFIGS / f"{name}.yaml"
    model, grid = SHIPPED[name]
    named = re.search(r"epsilons: ([\d., ]+), infinity", path.read_text())
    assert named is not None
    epsilons = [float(each) for each in named[1].split(",")]
    assert epsilons == sorted(set(grid))
    for epsilon in epsilons:
        config = read_config(path, [f"privacy.epsilon={epsilon:g}"])
        assert config.model.name == model
        plan = make_job(config).plan
        assert (plan.epsilon, str(plan.unit)) == (epsilon, "masked-tokens")
        assert plan.delta <= 1 / (2 * plan.records)
    # infinity, as the files' own line says it
    ways = re.findall(r"^# (?:Infinity|DP on the originals)[^:]*:  (.+)$", path.read_text(), re.M)
    assert len(ways) == 2
    originals, without = (make_job(read_config(path, way.split())).plan for way in ways)
    assert isinstance(without.guarantee, NoGuarantee)
    assert str(originals.unit) == "record"


def test_the_ends_of_the_grid_are_kept() -> None:
    """Calibrating is the same for all files: one of them, the smallest and the largest epsilon."""
    noise = []
    for epsilon in (0.1, 10.0):
        changes = [f"privacy.epsilon={epsilon}"]
        plan = make_job(read_config(CONFIGS / "maskdp-hmdb51.yaml", changes)).plan
        assert isinstance(plan.guarantee, Guarantee)
        assert 0.95 * epsilon < plan.guarantee.epsilon <= epsilon * (1 + 1e-9)
        noise.append(plan.noise_multiplier)
    assert math.isfinite(noise[0])
    assert noise[0] > noise[1] > 0
