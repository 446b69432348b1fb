"""Reading an ONNX file: its nodes and its weights, and nothing else of the format.

The runtimes run such a file but do not show what is in it. An ONNX file is a protocol-buffer message;
the numbers below are the fields of ``onnx.proto`` (ModelProto, GraphProto, NodeProto, TensorProto).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sfumato.errors import SfumatoError

Floats = npt.NDArray[np.float32]

_GRAPH, _NODE, _WEIGHT = 7, 1, 5
_NODE_INPUT, _NODE_OUTPUT, _NODE_KIND, _NODE_ATTRIBUTE = 1, 2, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_INT, _ATTRIBUTE_INTS = 1, 3, 8
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_FLOATS, _TENSOR_NAME, _TENSOR_RAW = 1, 2, 4, 8, 9
_FLOAT = 1
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5


@dataclass(frozen=True)
class Node:
    """One operation: what it is, what it reads and makes, and its whole-number settings."""

    kind: str
    inputs: tuple[str, ...]
    output: str
    settings: dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Graph:
    nodes: tuple[Node, ...]
    weights: dict[str, Floats]


def read_graph(path: Path) -> Graph:
    """The operations in the order of the file, and every float weight by its name."""
    try:
        (graph,) = _all(memoryview(path.read_bytes()), _GRAPH)
        nodes = tuple(_node(message) for message in _all(graph, _NODE))
        weights = dict(_weight(message) for message in _all(graph, _WEIGHT))
    except (ValueError, IndexError, UnicodeDecodeError):
        raise SfumatoError(
            "Expected an ONNX model, got a file that is none: pull the model again."
        ) from None
    return Graph(nodes, weights)


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Field number and value: a number, or the bytes of a text, a message or packed values."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if wire == _BYTES:
            length, at = _varint(message, at)
        elif wire in (_FOUR_BYTES, _EIGHT_BYTES):
            length = 4 if wire == _FOUR_BYTES else 8
        else:
            raise ValueError("an unknown kind of field")
        if at + length > len(message):
            raise ValueError("a field beyond the end")
        yield number, message[at : at + length]
        at += length


def _all(message: memoryview, wanted: int) -> list[memoryview]:
    return [v for number, v in _fields(message) if number == wanted and isinstance(v, memoryview)]


def _text(message: memoryview, wanted: int) -> str:
    return bytes(_all(message, wanted)[0]).decode()


def _numbers(message: memoryview, wanted: int) -> tuple[int, ...]:
    found: list[int] = []
    for number, value in _fields(message):
        if number != wanted:
            continue
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            one, at = _varint(value, at)
            found.append(one)
    return tuple(found)


def _node(message: memoryview) -> Node:
    settings = {
        _text(each, _ATTRIBUTE_NAME): _numbers(each, _ATTRIBUTE_INTS)
        or _numbers(each, _ATTRIBUTE_INT)
        for each in _all(message, _NODE_ATTRIBUTE)
    }
    inputs = tuple(bytes(name).decode() for name in _all(message, _NODE_INPUT))
    return Node(_text(message, _NODE_KIND), inputs, _text(message, _NODE_OUTPUT), settings)


def _weight(message: memoryview) -> tuple[str, Floats]:
    if _numbers(message, _TENSOR_TYPE) != (_FLOAT,):
        return _text(message, _TENSOR_NAME), np.empty(0, np.float32)
    stored = _all(message, _TENSOR_RAW) or _all(message, _TENSOR_FLOATS)
    values = np.frombuffer(stored[0], dtype="<f4").astype(np.float32)
    return _text(message, _TENSOR_NAME), values.reshape(_numbers(message, _TENSOR_DIMS))
