"""Per-sample gradients, clipping, sampling and noise: the one private step and its switches."""

from sfumato.learn.engine._routes import forward
from sfumato.learn.engine._sampling import PoissonSampler, records_by_owner
from sfumato.learn.engine._step import StepEngine, units_of
from sfumato.learn.engine._streams import Streams

__all__ = ["PoissonSampler", "StepEngine", "Streams", "forward", "records_by_owner", "units_of"]
