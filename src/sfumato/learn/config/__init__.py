"""Training files: their schema, and what they are made into."""

from sfumato.learn.config._from_config import (
    build_model,
    load_records,
    optimizer_of,
    preparation,
    speed_of,
)
from sfumato.learn.config._job import CONFIG, MODEL

__all__ = [
    "CONFIG", "MODEL", "build_model", "load_records", "optimizer_of", "preparation", "speed_of",
]  # fmt: skip
