"""The papers' tables and the speed tables: ``sfumato bench NAME``."""

from sfumato.bench._tables import TABLES, Table, files, publish

__all__ = ["TABLES", "Table", "files", "publish"]
