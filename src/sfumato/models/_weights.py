"""Weights from a file the user has: safetensors, or a .pth read without running anything in it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from sfumato.errors import SfumatoError
from sfumato.models._steps import Sequence


class WeightsError(SfumatoError):
    """A checkpoint that cannot be read or does not fit the model."""


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Tensors by name from ``.safetensors``, ``.pth`` or ``.pt``; nothing in the file is executed.

    A ``.pth`` may keep them under ``state_dict`` or ``model``, as many training scripts do.
    """
    file = Path(path)
    if not file.is_file():
        raise WeightsError(f"Expected a file of weights, but {file.name} is not there.")
    try:
        if file.suffix == ".safetensors":
            return dict(load_file(file))
        if file.suffix not in (".pth", ".pt", ".bin", ".ckpt"):
            raise WeightsError(
                f"Expected weights as .safetensors, .pth or .pt, got {file.suffix or 'no suffix'!r}."
            )
        content = torch.load(file, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, KeyError) as error:
        raise WeightsError(
            f"Expected plain tensors in {file.name}, but it cannot be read as such "
            f"({type(error).__name__}): save it again as safetensors."
        ) from error
    return _tensors(content, file.name)


def _tensors(content: Any, name: str) -> dict[str, Tensor]:
    for key in ("state_dict", "model", "model_state"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping) or not all(isinstance(v, Tensor) for v in content.values()):
        raise WeightsError(f"Expected a mapping of names to tensors in {name}, got something else.")
    return dict(content)


def load_weights(model: nn.Module, path: str | Path, *, new_head: bool = False) -> list[str]:
    """Load weights into a model by name; returns the names that were left as they were.

    Every parameter of the model must be in the file with the same shape. With ``new_head``, those
    of the model's last step (its classifier) may differ or be missing, and keep their values: that
    is how a checkpoint of 400 classes starts a model of 51. Names of the file that the model does
    not know are refused, so that a wrong checkpoint cannot load half.
    """
    state = read_weights(path)
    own = model.state_dict()
    head = _head_names(model) if new_head else set()
    wrong = [n for n in own if n not in head and (n not in state or state[n].shape != own[n].shape)]
    unknown = [n for n in state if n not in own and not _index_buffer(n)]
    if wrong or (unknown and not new_head):
        first = (wrong or unknown)[0]
        raise WeightsError(
            f"Expected the {len(own)} tensors of {type(model).__name__} in {Path(path).name}, but "
            f"{len(wrong)} are missing or have another shape and {len(unknown)} are unknown "
            f"(the first: {first}): use a checkpoint of this model"
            + ("." if new_head else ", or new_head=True if only the classifier differs.")
        )
    kept = [n for n in own if n not in state or state[n].shape != own[n].shape]
    model.load_state_dict({**own, **{n: state[n] for n in own if n not in kept}})
    return kept


def _index_buffer(name: str) -> bool:
    # the original TinyViT release stores this table, which is computed, not learned
    return name.endswith("attention_bias_idxs")


def _head_names(model: nn.Module) -> set[str]:
    if not isinstance(model, Sequence):
        return set()
    last = model.steps()[-1]
    tensors = {id(t) for m in last.modules for t in (*m.parameters(), *m.buffers())}
    everything = [*model.named_parameters(), *model.named_buffers()]
    return {name for name, tensor in everything if id(tensor) in tensors}
