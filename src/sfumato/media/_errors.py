"""The one error of this room."""

from __future__ import annotations

from sfumato.errors import SfumatoError


class MediaError(SfumatoError):
    """A recording that cannot be read or written as asked.

    The message says what was expected, what came and what to do. It never holds a path, a name or
    a tag of the input: those may identify people, and messages end up in logs.
    """
