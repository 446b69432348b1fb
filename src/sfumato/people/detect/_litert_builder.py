"""Writing a LiteRT model of one picture size, operation by operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Constant = npt.NDArray[np.float32] | npt.NDArray[np.int32]

# Newer versions of an operation, where the first one lacks what is used here: a transposed
# convolution with an activation, a resize with half-pixel centres.
_VERSIONS = {"TRANSPOSE_CONV": 4, "RESIZE_BILINEAR": 3}
_OLD_CODES_END = 127  # by the format's rule larger codes stand in the newer field only


class LiteRtBuilder:
    """Tensors by name, operations in the order in which they are added."""

    def __init__(self) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.schema: Any = schema
        self._tensors: list[Any] = []
        self._buffers: list[Any] = [schema.BufferT()]  # by the format's rule the first is empty
        self._codes: dict[str, int] = {}
        self._code_list: list[Any] = []
        self._operators: list[Any] = []
        self._places: dict[str, int] = {}
        self._bytes = 0

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def at(self, name: str) -> int:
        """The number of a tensor, as operations want it."""
        return self._places[name]

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[self._places[name]].shape)

    def place(self, name: str, shape: Sequence[int]) -> int:
        """A new tensor that an operation will make, or the input."""
        return self._tensor(name, shape, 0, self.schema.TensorType.FLOAT32)

    def same(self, name: str, other: str) -> None:
        """``name`` is another name of the tensor ``other``."""
        self._places[name] = self._places[other]

    def constant(self, values: Constant, name: str | None = None) -> int:
        buffer = self.schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
        self._buffers.append(buffer)
        self._bytes += len(buffer.data)
        kinds = self.schema.TensorType
        kind = kinds.INT32 if values.dtype == np.int32 else kinds.FLOAT32
        place = len(self._buffers) - 1
        return self._tensor(name or f"constant {place}", values.shape, place, kind)

    def add(self, kind: str, inputs: Sequence[int], output: str, options: Any = None) -> None:
        """The operation ``kind`` of the schema, whose result is the tensor ``output``."""
        operator = self.schema.OperatorT()
        operator.opcodeIndex = self._code(kind)
        operator.inputs, operator.outputs = list(inputs), [self._places[output]]
        if options is not None:
            name = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(self.schema.BuiltinOptions, name)
            operator.builtinOptions = options
        self._operators.append(operator)

    def finish(self, source: str, outputs: Sequence[str]) -> bytes:
        import flatbuffers  # type: ignore[import-untyped]

        graph = self.schema.SubGraphT()
        graph.tensors, graph.operators = self._tensors, self._operators
        graph.inputs = [self._places[source]]
        graph.outputs = [self._places[name] for name in outputs]
        model = self.schema.ModelT()
        model.version, model.subgraphs = 3, [graph]
        model.operatorCodes, model.buffers = self._code_list, self._buffers
        builder = flatbuffers.Builder(self._bytes + (1 << 20))  # growing copies everything
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _code(self, kind: str) -> int:
        if kind not in self._codes:
            code = self.schema.OperatorCodeT()
            code.builtinCode = getattr(self.schema.BuiltinOperator, kind)
            code.deprecatedBuiltinCode = min(code.builtinCode, _OLD_CODES_END)
            code.version = _VERSIONS.get(kind, 1)
            self._codes[kind] = len(self._code_list)
            self._code_list.append(code)
        return self._codes[kind]

    def _tensor(self, name: str, shape: Sequence[int], buffer: int, kind: int) -> int:
        tensor = self.schema.TensorT()
        tensor.name, tensor.shape = name, [int(side) for side in shape]
        tensor.buffer, tensor.type = buffer, kind
        self._tensors.append(tensor)
        self._places[name] = len(self._tensors) - 1
        return self._places[name]
