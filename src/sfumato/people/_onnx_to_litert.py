"""An ONNX network of convolutions as a LiteRT model of one picture size.

The same weights and the same arithmetic, but channels last and through XNNPACK: CenterFace runs about
twice as fast this way as in OpenCV 4.14 or ONNX Runtime 1.31 (tests compare the answers).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import SfumatoError
from sfumato.people._onnx import Floats, Graph, Node

_EPSILON = 1e-5  # of batch normalisation, where the file does not say otherwise


def convert(graph: Graph, size: tuple[int, int], outputs: Sequence[str]) -> bytes:
    """The part of ``graph`` that ``outputs`` need, for pictures of ``size`` (width, height).

    Input is (1, height, width, 3), outputs are (1, rows, columns, channels) in the given order.
    """
    return _Builder(graph, size, tuple(outputs)).model()


class _Builder:
    def __init__(self, graph: Graph, size: tuple[int, int], outputs: tuple[str, ...]) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self._schema: Any = schema
        self._weights = graph.weights
        self._nodes = _needed(graph, outputs)
        self._outputs = outputs
        self._readers: dict[str, list[Node]] = {}
        for node in self._nodes:
            for name in node.inputs:
                self._readers.setdefault(name, []).append(node)
        self._tensors: list[Any] = []
        self._buffers: list[Any] = [schema.BufferT()]  # by the format's rule the first is empty
        self._codes: list[Any] = []
        self._operators: list[Any] = []
        self._places: dict[str, int] = {}
        first = next(n for name in self._nodes[0].inputs if (n := name) not in graph.weights)
        self._input = first
        self._place(first, (1, size[1], size[0], 3))

    def model(self) -> bytes:
        import flatbuffers  # type: ignore[import-untyped]

        passed: set[str] = set()
        for node in self._nodes:
            if node.output in passed:
                continue
            build = _BUILD.get(node.kind)
            if build is None:
                raise SfumatoError(
                    f"Expected convolutions, additions and their activations, got {node.kind!r}: "
                    "this network cannot be converted."
                )
            passed |= build(self, node)
        schema = self._schema
        graph = schema.SubGraphT()
        graph.tensors, graph.operators = self._tensors, self._operators
        graph.inputs = [self._places[self._input]]
        graph.outputs = [self._places[name] for name in self._outputs]
        model = schema.ModelT()
        model.version, model.subgraphs = 3, [graph]
        model.operatorCodes, model.buffers = self._codes, self._buffers
        builder = flatbuffers.Builder(1 << 24)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def convolution(self, node: Node) -> set[str]:
        weight, bias = self._weights[node.inputs[1]], self._bias(node)
        (group,), strides, pads = (node.settings[key] for key in ("group", "strides", "pads"))
        source, kernel = node.inputs[0], weight.shape[2]
        rows, columns = self._tensors[self._places[source]].shape[1:3]
        padding = self._schema.Padding.VALID
        if pads == (kernel // 2,) * 4 and strides == (1, 1):
            padding = self._schema.Padding.SAME
        elif any(pads):
            source = self._padded(source, pads)
        high, wide = (
            (side + 2 * pad - kernel) // stride + 1
            for side, pad, stride in zip((rows, columns), pads, strides, strict=False)
        )
        deep = group > 1
        options = self._schema.DepthwiseConv2DOptionsT() if deep else self._schema.Conv2DOptionsT()
        options.padding, (options.strideH, options.strideW) = padding, strides
        if deep:
            options.depthMultiplier = 1
        made, passed = self._activated(node, options)
        # (out, in, rows, columns) -> (out, rows, columns, in); depthwise (1, rows, columns, out)
        order = (1, 2, 3, 0) if deep else (0, 2, 3, 1)
        kind = "DEPTHWISE_CONV_2D" if deep else "CONV_2D"
        inputs = [self._places[source], self._constant(weight.transpose(order)), bias]
        self._place(made, (1, high, wide, len(weight)))
        self._add(kind, inputs, made, options)
        return passed

    def spreading(self, node: Node) -> set[str]:
        """A transposed convolution; the batch normalisation after it becomes part of its weights."""
        weight = self._weights[node.inputs[1]]  # (in, out, rows, columns)
        if any(node.settings["pads"]):
            raise SfumatoError("Expected transposed convolutions without padding, got one with.")
        (after,) = self._readers[node.output]
        if after.kind != "BatchNormalization":
            raise SfumatoError("Expected a normalisation after each transposed convolution.")
        scale, shift, mean, variance = (self._weights[name] for name in after.inputs[1:])
        factor = scale / np.sqrt(variance + np.float32(_EPSILON))
        weight = weight * factor[None, :, None, None]
        options = self._schema.TransposeConvOptionsT()
        strides = node.settings["strides"]
        options.padding, (options.strideH, options.strideW) = self._schema.Padding.VALID, strides
        made, passed = self._activated(after, options)
        rows, columns = self._tensors[self._places[node.inputs[0]]].shape[1:3]
        shape = (1, rows * strides[0], columns * strides[1], weight.shape[1])
        inputs = [
            self._constant(np.array(shape, np.int32)),
            self._constant(weight.transpose(1, 2, 3, 0)),
            self._places[node.inputs[0]],
            self._constant(shift - mean * factor),
        ]
        self._place(made, shape)
        self._add("TRANSPOSE_CONV", inputs, made, options)
        return passed | {after.output}

    def addition(self, node: Node) -> set[str]:
        options = self._schema.AddOptionsT()
        made, passed = self._activated(node, options)
        inputs = [self._places[name] for name in node.inputs]
        self._place(made, tuple(self._tensors[inputs[0]].shape))
        self._add("ADD", inputs, made, options)
        return passed

    def sigmoid(self, node: Node) -> set[str]:
        self._place(node.output, tuple(self._tensors[self._places[node.inputs[0]]].shape))
        self._add("LOGISTIC", [self._places[node.inputs[0]]], node.output, None)
        return set()

    def _activated(self, node: Node, options: Any) -> tuple[str, set[str]]:
        """The name of what is made, and what need not be built any more: a ReLU right after is
        part of the operation."""
        after = self._readers.get(node.output, [])
        if len(after) == 1 and after[0].kind == "Relu" and node.output not in self._outputs:
            options.fusedActivationFunction = self._schema.ActivationFunctionType.RELU
            return after[0].output, {after[0].output}
        return node.output, set()

    def _padded(self, source: str, pads: tuple[int, ...]) -> str:
        top, left, bottom, right = pads
        one, rows, columns, channels = self._tensors[self._places[source]].shape
        made = f"{source} padded"
        around = np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32)
        self._place(made, (one, rows + top + bottom, columns + left + right, channels))
        self._add("PAD", [self._places[source], self._constant(around)], made, None)
        return made

    def _bias(self, node: Node) -> int:
        if len(node.inputs) > 2:
            return self._constant(self._weights[node.inputs[2]])
        return self._constant(np.zeros(len(self._weights[node.inputs[1]]), np.float32))

    def _constant(self, values: Floats | npt.NDArray[np.int32]) -> int:
        buffer = self._schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
        self._buffers.append(buffer)
        name = f"constant {len(self._tensors)}"
        return self._place(name, values.shape, len(self._buffers) - 1, values.dtype == np.int32)

    def _place(
        self, name: str, shape: tuple[int, ...], buffer: int = 0, whole: bool = False
    ) -> int:
        tensor = self._schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name, list(shape), buffer
        kind = self._schema.TensorType
        tensor.type = kind.INT32 if whole else kind.FLOAT32
        self._tensors.append(tensor)
        self._places[name] = len(self._tensors) - 1
        return self._places[name]

    def _add(self, kind: str, inputs: list[int], output: str, options: Any) -> None:
        code = self._schema.OperatorCodeT()
        code.builtinCode = getattr(self._schema.BuiltinOperator, kind)
        code.deprecatedBuiltinCode = code.builtinCode
        code.version = 4 if kind == "TRANSPOSE_CONV" else 1  # from 4 on with an activation
        self._codes.append(code)
        operator = self._schema.OperatorT()
        operator.opcodeIndex = len(self._codes) - 1
        operator.inputs, operator.outputs = inputs, [self._places[output]]
        if options is not None:
            name = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(self._schema.BuiltinOptions, name)
            operator.builtinOptions = options
        self._operators.append(operator)


_BUILD = {
    "Conv": _Builder.convolution,
    "ConvTranspose": _Builder.spreading,
    "Add": _Builder.addition,
    "Sigmoid": _Builder.sigmoid,
}


def _needed(graph: Graph, outputs: tuple[str, ...]) -> list[Node]:
    wanted, kept = set(outputs), []
    for node in reversed(graph.nodes):
        if node.output in wanted:
            wanted |= set(node.inputs)
            kept.append(node)
    return kept[::-1]
