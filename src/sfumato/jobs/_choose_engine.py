"""An engine by its name, as people type it."""

from __future__ import annotations

import re

from sfumato.errors import SfumatoError
from sfumato.jobs._engine import Engine
from sfumato.jobs._processes import Processes

LOCAL = "local"


def choose_engine(name: str = LOCAL, workers: int | None = None) -> Engine:
    """``local``: ``workers`` processes (else one a core); ``ray``, ``ray://HOST:PORT``: a cluster."""
    if name == LOCAL:
        return Processes(workers)
    if name == "ray" or re.fullmatch(r"ray://[^/\s:]+:\d{1,5}", name):
        from sfumato.jobs._ray import RayCluster

        return RayCluster(name, workers)
    raise SfumatoError(
        f"Expected an engine out of local, ray, ray://HOST:PORT, got {name!r}: choose one of them."
    )
