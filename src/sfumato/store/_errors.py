"""What can go wrong between a package index and the cache, each as one sentence."""

from __future__ import annotations

from sfumato.errors import SfumatoError


class UnknownModelError(SfumatoError):
    """A name the registry does not have."""


class OfflineError(SfumatoError):
    """The model is not in the cache and a download is forbidden."""


class DownloadError(SfumatoError):
    """pip could not bring the archive."""


class DigestError(SfumatoError):
    """The bytes that came are not the bytes that were pinned."""


class UnsafeArchiveError(SfumatoError):
    """The archive does not hold the member as a plain file at a harmless place."""


class UnsafePickleError(SfumatoError):
    """A checkpoint asks for more than numpy arrays."""
