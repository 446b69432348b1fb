"""Data sets as random-access records."""

from sfumato.data._records import ArrayRecords, Record, Records, RecordsError, Subset

__all__ = ["ArrayRecords", "Record", "Records", "RecordsError", "Subset"]
