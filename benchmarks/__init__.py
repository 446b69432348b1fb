"""The papers' tables and the speed tables: ``python -m benchmarks NAME``."""

from benchmarks.tables import TABLES, Table, publish, results_path

__all__ = ["TABLES", "Table", "publish", "results_path"]
