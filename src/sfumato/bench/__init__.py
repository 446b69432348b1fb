"""The papers' tables and the speed tables: ``sfumato bench NAME``."""

from sfumato.bench._tables import A_LOOK, TABLES, Table, files, keep_whole, publish

__all__ = ["A_LOOK", "TABLES", "Table", "files", "keep_whole", "publish"]
