"""Methods that release records of a data set instead of frames: the other half of the registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from sfumato.protect._method import Promise
from sfumato.settings import Settings

if TYPE_CHECKING:
    from sfumato.data import Records


class DatasetMethod(ABC):
    """One way to release the records of a data set: fitted once, then asked for a promise.

    It is listed, described and checked as a ``Method`` is. Which people it is fitted on, and what
    its other inputs are, the room that runs it says (``sfumato.attributes`` for PASS).
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    provides: ClassVar[str]
    releases: ClassVar[str] = "data sets"

    @classmethod
    @abstractmethod
    def settings_schema(cls) -> type[Settings]:
        """Types and bounds of the settings that may be typed."""

    @abstractmethod
    def promise_for(self, records: Records) -> Promise:
        """What a release of these records will come with, before anything is drawn."""
