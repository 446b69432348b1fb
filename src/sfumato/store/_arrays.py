"""Checkpoints as named arrays: read once without running anything, then kept as safetensors."""

from __future__ import annotations

import hashlib
import json
import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from sfumato.errors import SfumatoError
from sfumato.files import atomic_output
from sfumato.store._cache import cache_folder, entry, paths
from sfumato.store._errors import DigestError, UnsafePickleError
from sfumato.store._registry import ModelEntry

Arrays = dict[str, npt.NDArray[Any]]


def load_arrays(name: str, offline: bool = False, progress: bool = True) -> Arrays:
    """The arrays of a checkpoint by name; nested names are joined by ``/``.

    The first call converts the pinned original to safetensors in the cache. Every call compares the
    content with its own pinned digest, and a copy that differs is made again from the original.
    """
    wanted = entry(name)
    if wanted.arrays is None:
        raise SfumatoError(
            f"Expected a model that is a set of arrays, but {name!r} is a file for another runtime: "
            f"use sfumato.store.path({name!r})."
        )
    copy = cache_folder() / f"{wanted.name}-{wanted.sha256[:12]}.safetensors"
    arrays = _read_copy(copy)
    if arrays is not None and arrays_digest(arrays) == wanted.arrays_sha256:
        return arrays
    arrays = _read_original(wanted, *paths(name, offline=offline, progress=progress))
    if arrays_digest(arrays) != wanted.arrays_sha256:
        raise DigestError(
            f"Expected the arrays of {name!r} with the pinned SHA-256 {wanted.arrays_sha256}, but "
            "reading the checkpoint gave others: report this with the versions of numpy and torch."
        )
    _write_copy(copy, arrays)
    return arrays


def arrays_digest(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """SHA-256 over names, types, shapes and little-endian values, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def unpickle_arrays(stream: IO[bytes]) -> Arrays:
    """Read a pickle of nested dictionaries of numpy arrays, and nothing else.

    The only things a pickle may name are the three that rebuild a plain array. Everything else
    raises :class:`UnsafePickleError` before it could run.
    """
    try:
        tree = _ArraysOnly(stream).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, KeyError) as e:
        if isinstance(e, UnsafePickleError):
            raise
        raise UnsafePickleError(
            f"Expected a pickle of numpy arrays, but it cannot be read as one ({type(e).__name__}): "
            "use the original checkpoint."
        ) from e
    flat: Arrays = {}
    _flatten("", tree, flat)
    return flat


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("numpy", "ndarray"):
            return _PLAIN
        if (module, name) == ("numpy", "dtype"):
            return _plain_dtype
        if module in _MULTIARRAY and name == "_reconstruct":
            return _empty_array
        raise UnsafePickleError(
            f"Expected a pickle of numpy arrays only, but it asks for {module}.{name}: "
            "nothing was run; do not use this file."
        )

    def persistent_load(self, pid: Any) -> Any:
        raise UnsafePickleError(
            "Expected a pickle of numpy arrays only, but it refers to outside objects: "
            "nothing was run; do not use this file."
        )


# Stands for the class numpy.ndarray, which a pickle may name but not call.
_PLAIN = object()
_MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")


def _plain_dtype(code: Any, *flags: Any) -> np.dtype[Any]:
    """A number type by its code: no objects, records or strings."""
    dtype = np.dtype(code) if isinstance(code, str) else None
    if dtype is None or dtype.kind not in "biufc" or dtype.names:
        raise UnsafePickleError(
            "Expected a pickle of arrays of numbers, but it holds another type: "
            "nothing was run; do not use this file."
        )
    return np.dtype(dtype.str)


def _empty_array(subtype: Any, shape: Any, code: Any) -> npt.NDArray[Any]:
    """The empty array that numpy's own pickles start from; its state follows in the pickle."""
    if subtype is not _PLAIN or shape != (0,):
        raise UnsafePickleError(
            "Expected a pickle of plain numpy arrays, but it holds a subclass: "
            "nothing was run; do not use this file."
        )
    return np.empty((0,), np.int8)


def _flatten(prefix: str, tree: Any, flat: Arrays) -> None:
    if isinstance(tree, dict) and all(isinstance(key, str) for key in tree):
        for key, value in tree.items():
            _flatten(f"{prefix}/{key}" if prefix else key, value, flat)
    elif isinstance(tree, np.ndarray) and tree.dtype.kind in "biufc" and prefix:
        flat[prefix] = tree
    else:
        raise UnsafePickleError(
            f"Expected nested dictionaries of arrays of numbers, but found {type(tree).__name__}: "
            "nothing was run; do not use this file."
        )


def graph_weights(described: dict[str, Any], content: bytes) -> Arrays:
    """The constants of a TensorFlow.js graph model: what its json says of them, and the bytes beside it.

    They are widened, never changed: ``float16`` to 32 bits, ``uint8`` and ``uint16`` by the scale and
    the least value that the json states.
    """
    arrays: Arrays = {}
    at = 0
    for each in (each for group in described["weightsManifest"] for each in group["weights"]):
        packed = each.get("quantization")
        kind = np.dtype(_GRAPH_KINDS[(packed or each)["dtype"]])
        count = math.prod(each["shape"])
        if at + count * kind.itemsize > len(content):
            raise ValueError("too few weights")
        values = np.frombuffer(content, kind, count, at).reshape(each["shape"])
        at += count * kind.itemsize
        if packed is not None:
            values = values.astype(np.float32)
            if packed["dtype"] != "float16":
                values = values * np.float32(packed["scale"]) + np.float32(packed["min"])
        arrays[each["name"]] = values.astype(_GRAPH_KINDS[each["dtype"]])
    if at != len(content):
        raise ValueError("more weights than the network has")
    return arrays


_GRAPH_KINDS = {
    "float32": "<f4",
    "int32": "<i4",
    "bool": "?",
    "float16": "<f2",
    "uint8": "u1",
    "uint16": "<u2",
}


def _read_original(wanted: ModelEntry, file: Path, weights: Path | None = None) -> Arrays:
    if wanted.arrays == "tfjs":
        assert weights is not None
        return graph_weights(json.loads(file.read_bytes()), weights.read_bytes())
    if wanted.arrays == "pickle":
        with open(file, "rb") as stream:
            return unpickle_arrays(stream)
    import torch  # only here, and only the first time: everything else in this room works without

    state = torch.load(file, map_location="cpu", weights_only=True)
    state = state.get("model_state", state)  # a checkpoint of a training holds more than weights
    return {name: tensor.detach().numpy() for name, tensor in state.items()}


def _read_copy(copy: Path) -> Arrays | None:
    try:
        return dict(load_file(copy))
    except (FileNotFoundError, SafetensorError, ValueError):
        return None


def _write_copy(copy: Path, arrays: Arrays) -> None:
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with atomic_output(copy, force=True) as temporary:
        save_file(contiguous, temporary)
