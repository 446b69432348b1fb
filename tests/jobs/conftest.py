"""A real Ray cluster of three nodes on this machine: a head and two workers with one CPU each."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Raylets of their own, as ``ray start`` makes them; gone afterwards."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    from ray.cluster_utils import Cluster

    kept = {name: os.environ.get(name) for name in ("PYTHONPATH", "RAY_ADDRESS")}
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # what the nodes must be able to import, as an installed package would be
    source = HERE.parents[1] / "src"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(source), str(HERE)])
    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20}
    made = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    for _ in range(2):
        made.add_node(**node)
    made.wait_for_nodes()
    os.environ["RAY_ADDRESS"] = made.address
    try:
        yield made
    finally:
        import ray

        ray.shutdown()
        made.shutdown()
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _ledger_fixtures() -> Any:
    place = HERE.parent / "ledger" / "conftest.py"
    spec = importlib.util.spec_from_file_location("ledger_conftest", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


postgres_server = _ledger_fixtures().postgres_server


@pytest.fixture
def postgres_address(postgres_server: str) -> str:
    return postgres_server
