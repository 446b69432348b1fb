"""The papers' tables and the speed tables: ``python -m benchmarks NAME``."""

from benchmarks.tables import A_LOOK, TABLES, Table, files, keep_whole, publish

__all__ = ["A_LOOK", "TABLES", "Table", "files", "keep_whole", "publish"]
