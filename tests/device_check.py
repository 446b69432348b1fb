"""A device that is not there: tensors are tagged as lying on it, and every mixture is an error.

``with FakeCuda():`` makes ``cuda`` a device on a machine without one. Values are computed by the CPU,
but a tensor is on ``cuda`` only if it was put there, says so (``.device``), and may meet only tensors
that are there too, as torch has it: indices and single numbers may come from the CPU, ``copy_`` and
``.to`` cross over, ``.numpy()`` refuses. Random numbers for tensors there come from a generator of its
own (``torch.cuda.get_rng_state``). What autograd computes is followed as well. No kernel of a GPU
runs: this shows that nothing is left behind on another device, and nothing about numbers or speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as tree
from torch.utils._python_dispatch import TorchDispatchMode

CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")
_DEVICE, _IS_CUDA = Tensor.device.__get__, Tensor.is_cuda.__get__  # type: ignore[attr-defined]
_CROSSING = {"aten.copy_.default", "aten._to_copy.default", "aten.set_.source_Storage"}
_INDEXING = ("aten.index", "aten._index_put", "aten.embedding")


class WrongDeviceError(RuntimeError):
    """What torch would say on a machine with a GPU."""


class Tags:
    """Which memory lies on the device; an entry dies with its memory, whoever gets that next."""

    def __init__(self) -> None:
        self._there: dict[int, StorageWeakRef] = {}

    def put(self, tensor: Tensor, there: bool) -> None:
        storage = _storage(tensor)
        if storage is not None:
            self._there.pop(storage._cdata, None)
            if there:
                self._there[storage._cdata] = StorageWeakRef(storage)

    def of(self, tensor: Tensor) -> bool:
        storage = _storage(tensor)
        found = None if storage is None else self._there.get(storage._cdata)
        return found is not None and not found.expired()


def _storage(tensor: Tensor) -> Any:
    try:
        with torch._C._DisableFuncTorch():
            return tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):  # a tensor without memory of its own (vmap)
        return None


def _memory(tensor: Tensor) -> int:
    storage = _storage(tensor)
    return 0 if storage is None else int(storage._cdata)


class _Generator:
    """The device's random numbers: the CPU's algorithm, a state of its own."""

    def __init__(self) -> None:
        self._state = torch.Generator().manual_seed(0).get_state()

    def seed(self, seed: int) -> None:
        self._state = torch.Generator().manual_seed(seed).get_state()

    def get_state(self, device: Any = "cuda") -> Tensor:
        return self._state.clone()

    def set_state(self, state: Tensor, device: Any = "cuda") -> None:
        self._state = state.clone()

    @contextmanager
    def drawn_from(self) -> Iterator[None]:
        cpu = torch.default_generator.get_state()
        torch.default_generator.set_state(self._state)
        try:
            yield
        finally:
            self._state = torch.default_generator.get_state()
            torch.default_generator.set_state(cpu)


class _Operations(TorchDispatchMode):
    def __init__(self, tags: Tags) -> None:
        super().__init__()
        self.tags = tags
        self.seen: dict[str, int] = {"cuda": 0, "cpu": 0}
        self.generator = _Generator()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name, tags = str(func), self.tags
        asked = kwargs.get("device")
        if asked is not None:
            kwargs["device"] = CPU
        given = [each for each in tree.tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        owner = given[:1] if name.startswith(_INDEXING) else given
        sized = [each for each in owner if each.dim() > 0 and each.numel() > 0]
        there = {tags.of(each) for each in sized} or {any(map(tags.of, given))}
        if len(there) > 1 and name not in _CROSSING and not name.startswith("c10d"):
            shapes = [(tuple(each.shape), "cuda" if tags.of(each) else "cpu") for each in given]
            raise WrongDeviceError(f"{name} was given tensors on two devices: {shapes}")
        on = asked.type == "cuda" if asked is not None else there.pop()
        if name in _CROSSING and asked is None and given:
            on = tags.of(given[0])
        before = {_memory(each) for each in given}
        draws = torch.Tag.nondeterministic_seeded in func.tags and kwargs.get("generator") is None
        with self.generator.drawn_from() if on and draws else nullcontext():
            result = func(*args, **kwargs)
        self.seen["cuda" if on else "cpu"] += 1
        for each in tree.tree_leaves(result):
            if isinstance(each, Tensor) and _memory(each) not in before:
                tags.put(each, on)
        return result


class FakeCuda(TorchFunctionMode):
    """What Python sees of it; operations below are followed by ``_Operations``."""

    def __init__(self) -> None:
        super().__init__()
        self.tags = Tags()
        self._operations = _Operations(self.tags)

    @property
    def operations(self) -> dict[str, int]:
        """How many operations ran where."""
        return self._operations.seen

    def __enter__(self) -> Self:
        self._operations.__enter__()
        generator = self._operations.generator
        replaced = {
            "get_rng_state": generator.get_state,
            "set_rng_state": generator.set_state,
            "manual_seed_all": generator.seed,
        }
        self._kept = {name: getattr(torch.cuda, name) for name in replaced}
        for name, function in replaced.items():
            setattr(torch.cuda, name, function)
        super().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        for name, function in self._kept.items():
            setattr(torch.cuda, name, function)
        self._operations.__exit__(kind, error, trace)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func == _DEVICE:
            return CUDA if self.tags.of(args[0]) else func(*args)
        if func == _IS_CUDA:
            return self.tags.of(args[0])
        if func in (Tensor.numpy, Tensor.__array__) and self.tags.of(args[0]):
            raise WrongDeviceError("a tensor on cuda cannot become a NumPy array: .cpu() first")
        if func in (Tensor.cpu, Tensor.cuda):
            return self._moved(args[0], func is Tensor.cuda)
        if func is Tensor.to:
            words = [*args[1:], *kwargs.values()]
            like = next((w for w in words if isinstance(w, Tensor)), None)
            kind = next((w for w in words if isinstance(w, torch.dtype)), None)
            wanted = next((w for w in map(_as_device, words) if w is not None), None)
            if like is not None:
                kind, wanted = like.dtype, CUDA if self.tags.of(like) else CPU
            moved = args[0] if kind is None else func(args[0], kind)
            return moved if wanted is None else self._moved(moved, wanted.type == "cuda")
        device = _as_device(kwargs.get("device"))
        if device is not None:
            # a factory: made by the CPU, then put where it was asked for
            kwargs["device"] = CPU
            there = device.type == "cuda"
            with self._operations.generator.drawn_from() if there else nullcontext():
                made = func(*args, **kwargs)
            for each in tree.tree_leaves(made):
                if isinstance(each, Tensor):
                    self.tags.put(each, there)
            return made
        made = func(*args, **kwargs)
        if func is torch.as_tensor and isinstance(args[0], Tensor):
            return made
        if func in (torch.from_numpy, torch.tensor, torch.frombuffer, torch.as_tensor):
            self.tags.put(made, False)
        return made

    def _moved(self, tensor: Tensor, there: bool) -> Tensor:
        if self.tags.of(tensor) == there:
            return tensor
        copied = tensor.clone()
        self.tags.put(copied, there)
        return copied


def _as_device(word: Any) -> torch.device | None:
    if isinstance(word, torch.device):
        return word
    return (
        torch.device(word)
        if isinstance(word, str) and word.split(":")[0] in ("cpu", "cuda")
        else None
    )
