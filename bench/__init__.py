"""Measured comparisons; run one with ``python -m bench.NAME``."""
