"""Records that will be asked for soon, read by threads meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from sfumato.data._records import Record, Records

_MOST = 64  # records that wait in memory


class ReadAhead:
    """``expect`` says which records come next; ``get`` gives one, read already or read now.

    Decoders leave Python's lock while they work, so that threads really read beside the step.
    """

    def __init__(self, records: Records, threads: int) -> None:
        self._records = records
        slow = threads > 0 and getattr(records, "read_slowly", False)
        self._pool = ThreadPoolExecutor(threads, "sfumato-read") if slow else None
        self._coming: dict[int, Future[Record]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    @property
    def is_open(self) -> bool:
        """Whether it reads anything ahead at all."""
        return self._pool is not None

    def expect(self, indices: Iterable[int]) -> None:
        """Begin to read these; as many as may wait in memory, the first ones first."""
        if self._pool is None:
            return
        for index in map(int, indices):
            if len(self._coming) >= _MOST:
                return
            if index not in self._coming:
                self._coming[index] = self._pool.submit(self._records.__getitem__, index)

    def get(self, index: int) -> Record:
        """The record; what reading it raised is raised here."""
        coming = self._coming.pop(index, None)
        return self._records[index] if coming is None else coming.result()
