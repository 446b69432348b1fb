"""A model of one's own, named in a training file: ``model: {import: my_package.Net, args: {...}}``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import torch
from torch import Tensor, nn

from sfumato.data import Records
from sfumato.learn.config._schema import ConfigError, TrainConfig
from sfumato.learn.engine._independence import evaluating
from sfumato.learn.views._prepare import Preparation
from sfumato.models import freeze_batchnorm, load_weights, replace_batchnorm, select


def imported_model(
    config: TrainConfig, classes: int, made_up: Records, prepare: Preparation, here: bool
) -> nn.Module:
    """The class that the file names, made with its ``args``, and tried on made-up records."""
    chosen = config.model
    assert chosen.import_ is not None
    kind = _found(chosen.import_, here)
    try:
        model = kind(**chosen.args)
    except Exception as error:  # whatever somebody's constructor raises
        raise ConfigError(
            f"Expected model.args that {chosen.import_} takes, got an error when it was made "
            f"({type(error).__name__}: {_first_line(error)})."
        ) from error
    model = freeze_batchnorm(model) if chosen.norms == "frozen" else replace_batchnorm(model)
    if chosen.weights is not None:
        load_weights(model, chosen.weights, new_head=True)
    if chosen.trainable != "everything":
        select(model, chosen.trainable)
    _try_out(model, chosen.import_, classes, made_up, prepare)
    return model


def _found(name: str, here: bool) -> type[nn.Module]:
    module, _, attribute = name.rpartition(".")
    try:
        if not module:
            raise ImportError("a class has a module: my_package.Net")
        with _this_folder_first() if here else _as_it_is():
            found = getattr(import_module(module), attribute)
    except Exception as error:  # a module that is imported may raise anything
        where = "on PYTHONPATH or in this folder" if here else "on PYTHONPATH"
        raise ConfigError(
            f"Expected model.import as a class that Python can import, got {name!r} "
            f"({type(error).__name__}: {_first_line(error)}): install its package, or have it {where}."
        ) from error
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise ConfigError(
            f"Expected model.import as a class of torch models (nn.Module), got {name!r}, which is "
            "something else: wrap a function that makes a model into a class."
        )
    return found


def _try_out(
    model: nn.Module, name: str, classes: int, made_up: Records, prepare: Preparation
) -> None:
    """One look at noise, so that a model that does not fit is one sentence and no traceback."""
    x = torch.stack([prepare(made_up[index].x, 1) for index in range(len(made_up))])
    with evaluating(model), torch.no_grad():
        try:
            output = model(x)
        except Exception as error:  # whatever somebody's forward pass raises
            raise ConfigError(
                f"Expected a model for inputs of shape {tuple(x.shape)} (records first), got {name}, "
                f"which fails on them ({type(error).__name__}: {_first_line(error)}): change its args "
                "or the section input."
            ) from error
    shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if not isinstance(output, Tensor) or output.dim() != 2 or len(output) != len(x):
        raise ConfigError(f"Expected a row of class scores a record from {name}, got {shape}.")
    if output.shape[1] < classes:
        raise ConfigError(
            f"Expected scores for {classes} classes from {name}, got {output.shape[1]}: change "
            "model.args."
        )


@contextmanager
def _this_folder_first() -> Iterator[None]:
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path.remove(os.getcwd())


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
