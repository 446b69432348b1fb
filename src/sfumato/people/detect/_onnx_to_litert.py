"""An ONNX network of convolutions as a LiteRT model of one picture size.

The same weights and the same arithmetic, but channels last and through XNNPACK: CenterFace runs about
twice as fast this way as in OpenCV 4.14 or ONNX Runtime 1.31 (tests compare the answers).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.people.detect._litert_builder import LiteRtBuilder
from sfumato.people.detect._onnx import Graph, Node

_EPSILON = 1e-5  # of batch normalisation, where the file does not say otherwise


def convert(graph: Graph, size: tuple[int, int], outputs: Sequence[str]) -> bytes:
    """The part of ``graph`` that ``outputs`` need, for pictures of ``size`` (width, height).

    Input is (1, height, width, 3), outputs are (1, rows, columns, channels) in the given order.
    """
    return _OnnxConverter(graph, size, tuple(outputs)).model()


class _OnnxConverter(LiteRtBuilder):
    def __init__(self, graph: Graph, size: tuple[int, int], outputs: tuple[str, ...]) -> None:
        super().__init__()
        self._weights = graph.weights
        self._nodes = _needed(graph, outputs)
        self._outputs = outputs
        self._readers: dict[str, list[Node]] = {}
        for node in self._nodes:
            for name in node.inputs:
                self._readers.setdefault(name, []).append(node)
        self._input = next(name for name in self._nodes[0].inputs if name not in graph.weights)
        self.place(self._input, (1, size[1], size[0], 3))

    def model(self) -> bytes:
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
        return self.finish(self._input, self._outputs)

    def convolution(self, node: Node) -> set[str]:
        weight, bias = self._weights[node.inputs[1]], self._bias(node)
        (group,), strides, pads = (node.settings[key] for key in ("group", "strides", "pads"))
        source, kernel = node.inputs[0], weight.shape[2]
        rows, columns = self.shape(source)[1:3]
        padding = self.schema.Padding.VALID
        if pads == (kernel // 2,) * 4 and strides == (1, 1):
            padding = self.schema.Padding.SAME
        elif any(pads):
            source = self._padded(source, pads)
        high, wide = (
            (side + 2 * pad - kernel) // stride + 1
            for side, pad, stride in zip((rows, columns), pads, strides, strict=False)
        )
        deep = group > 1
        options = self.schema.DepthwiseConv2DOptionsT() if deep else self.schema.Conv2DOptionsT()
        options.padding, (options.strideH, options.strideW) = padding, strides
        if deep:
            options.depthMultiplier = 1
        made, passed = self._activated(node, options)
        # (out, in, rows, columns) -> (out, rows, columns, in); depthwise (1, rows, columns, out)
        order = (1, 2, 3, 0) if deep else (0, 2, 3, 1)
        kind = "DEPTHWISE_CONV_2D" if deep else "CONV_2D"
        inputs = [self.at(source), self.constant(weight.transpose(order)), bias]
        self.place(made, (1, high, wide, len(weight)))
        self.add(kind, inputs, made, options)
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
        options = self.schema.TransposeConvOptionsT()
        strides = node.settings["strides"]
        options.padding, (options.strideH, options.strideW) = self.schema.Padding.VALID, strides
        made, passed = self._activated(after, options)
        rows, columns = self.shape(node.inputs[0])[1:3]
        shape = (1, rows * strides[0], columns * strides[1], weight.shape[1])
        inputs = [
            self.constant(np.array(shape, np.int32)),
            self.constant(weight.transpose(1, 2, 3, 0)),
            self.at(node.inputs[0]),
            self.constant(shift - mean * factor),
        ]
        self.place(made, shape)
        self.add("TRANSPOSE_CONV", inputs, made, options)
        return passed | {after.output}

    def addition(self, node: Node) -> set[str]:
        options = self.schema.AddOptionsT()
        made, passed = self._activated(node, options)
        inputs = [self.at(name) for name in node.inputs]
        self.place(made, self.shape(node.inputs[0]))
        self.add("ADD", inputs, made, options)
        return passed

    def sigmoid(self, node: Node) -> set[str]:
        self.place(node.output, self.shape(node.inputs[0]))
        self.add("LOGISTIC", [self.at(node.inputs[0])], node.output)
        return set()

    def _activated(self, node: Node, options: Any) -> tuple[str, set[str]]:
        """The name of what is made, and what need not be built any more: a ReLU right after is
        part of the operation."""
        after = self._readers.get(node.output, [])
        if len(after) == 1 and after[0].kind == "Relu" and node.output not in self._outputs:
            options.fusedActivationFunction = self.schema.ActivationFunctionType.RELU
            return after[0].output, {after[0].output}
        return node.output, set()

    def _padded(self, source: str, pads: tuple[int, ...]) -> str:
        top, left, bottom, right = pads
        one, rows, columns, channels = self.shape(source)
        made = f"{source} padded"
        around = np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32)
        self.place(made, (one, rows + top + bottom, columns + left + right, channels))
        self.add("PAD", [self.at(source), self.constant(around)], made)
        return made

    def _bias(self, node: Node) -> int:
        if len(node.inputs) > 2:
            return self.constant(self._weights[node.inputs[2]])
        return self.constant(np.zeros(len(self._weights[node.inputs[1]]), np.float32))


_BUILD = {
    "Conv": _OnnxConverter.convolution,
    "ConvTranspose": _OnnxConverter.spreading,
    "Add": _OnnxConverter.addition,
    "Sigmoid": _OnnxConverter.sigmoid,
}


def _needed(graph: Graph, outputs: tuple[str, ...]) -> list[Node]:
    wanted, kept = set(outputs), []
    for node in reversed(graph.nodes):
        if node.output in wanted:
            wanted |= set(node.inputs)
            kept.append(node)
    return kept[::-1]
