"""Reading a TensorFlow.js graph model: its operations (json) and its weights (bin)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from sfumato import store
from sfumato.errors import SfumatoError

Weights = npt.NDArray[Any]
Setting = int | float | bool | str | tuple[int, ...] | tuple[str, ...]


@dataclass(frozen=True)
class Operation:
    """One node of the graph: what it is, what it reads, and its settings.

    An input is a name, or ``name:1`` for a second result of an operation that makes several.
    """

    kind: str
    name: str
    inputs: tuple[str, ...]
    settings: Mapping[str, Setting]


@dataclass(frozen=True)
class GraphModel:
    """The operations by name, and every constant by its name, as floats of 32 bits or integers."""

    operations: Mapping[str, Operation]
    weights: Mapping[str, Weights]


def load_graph_model(name: str, *, offline: bool = False) -> GraphModel:
    """A graph model of the store, pulled first if need be."""
    network, weights = store.paths(name, offline=offline)
    return read_graph_model(network, weights)


def read_graph_model(network: Path, weights: Path) -> GraphModel:
    """The model of a json file and the one file of weights beside it."""
    try:
        described = json.loads(network.read_bytes())
        if described["format"] != "graph-model":
            raise ValueError("another format")
        nodes = [_operation(node) for node in described["modelTopology"]["node"]]
        arrays = store.graph_weights(described, weights.read_bytes())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SfumatoError(
            f"Expected a TensorFlow.js graph model and its weights, got files that are none "
            f"({error}): pull the model again."
        ) from None
    return GraphModel({node.name: node for node in nodes}, arrays)


def _operation(node: dict[str, Any]) -> Operation:
    # an input that starts with ^ says what comes first and carries no values
    inputs = tuple(
        name.removesuffix(":0") for name in node.get("input", []) if not name.startswith("^")
    )
    settings = {key: _setting(value) for key, value in node.get("attr", {}).items()}
    known = {key: value for key, value in settings.items() if value is not None}
    return Operation(node["op"], node["name"], inputs, known)


def _setting(value: dict[str, Any]) -> Setting | None:
    """An attribute in protobuf's JSON form: whole numbers are texts, texts are base64."""
    if "i" in value:
        return int(value["i"])
    if "s" in value:
        return base64.b64decode(value["s"]).decode()
    if "shape" in value:
        return tuple(int(dim["size"]) for dim in value["shape"].get("dim", []))
    if "list" in value:
        if "s" in value["list"]:
            return tuple(base64.b64decode(each).decode() for each in value["list"]["s"])
        return tuple(int(each) for each in value["list"].get("i", []))
    for key in ("f", "b", "type"):
        if key in value:
            plain: float | bool | str = value[key]
            return plain
    return None
