"""What can go wrong between a package index and the cache, each as one sentence."""

from __future__ import annotations

from sfumato.errors import SfumatoError
from sfumato.store._registry import Archive


class UnknownModelError(SfumatoError):
    """A name the registry does not have."""


class OfflineError(SfumatoError):
    """The model is not in the cache and a download is forbidden."""


class CacheError(SfumatoError):
    """The cache cannot be written: a full disk, a home folder that is read-only."""


class DownloadError(SfumatoError):
    """pip or npm could not bring the archive."""


class DigestError(SfumatoError):
    """The bytes that came are not the bytes that were pinned."""


class UnsafeArchiveError(SfumatoError):
    """The archive does not hold the member as a plain file at a harmless place."""


class UnsafePickleError(SfumatoError):
    """A checkpoint asks for more than numpy arrays."""


def wrong_digest(archive: Archive) -> DigestError:
    return DigestError(
        f"Expected {archive} with the pinned SHA-256 {archive.sha256}, but {archive.origin} gave other "
        f"bytes: nothing was kept; check your {archive.client} configuration "
        f"({archive.client} config list)."
    )
