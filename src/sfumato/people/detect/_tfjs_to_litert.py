"""A TensorFlow.js graph of convolutions as a LiteRT model of one picture size.

The same weights and the same arithmetic through XNNPACK. What is needed of the graph is cut at the
named outputs, usually the last convolutions: decoding what they say is left to the detector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import SfumatoError
from sfumato.people.detect._litert_builder import LiteRtBuilder
from sfumato.people.detect._tfjs import GraphModel, Operation

Whole = npt.NDArray[np.int64]


def convert(
    model: GraphModel,
    size: tuple[int, int],
    outputs: Sequence[str],
    channels: Mapping[str, int] | None = None,
) -> bytes:
    """The part of ``model`` that ``outputs`` need, for pictures of ``size`` (width, height).

    Input is (1, height, width, 3), outputs are (1, rows, columns, channels) in the given order.
    ``channels`` keeps only that many leading channels of an output that is a convolution.
    """
    return _TfjsConverter(model, size, tuple(outputs), channels or {}).model()


class _TfjsConverter(LiteRtBuilder):
    def __init__(
        self,
        model: GraphModel,
        size: tuple[int, int],
        outputs: tuple[str, ...],
        channels: Mapping[str, int],
    ) -> None:
        super().__init__()
        self._operations, self._weights = model.operations, model.weights
        self._size, self._outputs, self._channels = size, outputs, channels
        self._input = ""
        self._growth = np.ones(2)  # of the picture against the one size that the file was made for
        self._rows = 1  # the axis of rows in the file; here channels always come last

    def model(self) -> bytes:
        for node in _needed(self._operations, self._outputs):
            build = _BUILD.get(node.kind)
            if build is None:
                raise _cannot(f"the operation {node.kind!r}")
            build(self, node)
        return self.finish(self._input, self._outputs)

    def picture(self, node: Operation) -> None:
        self._input = node.name
        self.place(node.name, (1, self._size[1], self._size[0], 3))
        stated = _listed(node, "shape")
        self._rows = 2 if stated[1:2] == (3,) else 1
        made_for = np.array(stated[self._rows : self._rows + 2])
        if (made_for > 0).all():
            self._growth = np.array(self._size[::-1]) / made_for

    def unchanged(self, node: Operation) -> None:
        self.same(node.name, node.inputs[0])

    def turned(self, node: Operation) -> None:
        """Between channels first and channels last, around every convolution: nothing to do here."""
        order = tuple(self._whole(node.inputs[1]).tolist())
        if self._rows == 1 or order not in ((0, 2, 3, 1), (0, 3, 1, 2)):
            raise _cannot("axes in another order")
        self.unchanged(node)

    def batch_of_one(self, node: Operation) -> None:
        """A batch that holds one picture, taken apart or put together again."""
        if node.kind == "ExpandDims":
            first = int(self._whole(node.inputs[1])) == 0
        elif node.kind == "Squeeze":
            first = _listed(node, "squeeze_dims") == (0,)
        else:
            first = (node.settings.get("axis", 0), node.settings.get("num")) == (0, 1)
        if not first:
            raise _cannot(f"{node.kind!r} of something else than the one picture")
        self.unchanged(node)

    def convolution(self, node: Operation) -> None:
        deep = "Depthwise" in node.kind
        weight = self._weights[node.inputs[1]]  # rows, columns, in, out (or times, for depthwise)
        times = weight.shape[3]
        kernel = weight.shape[:2]
        weight = weight.reshape(1, *kernel, -1) if deep else weight.transpose(3, 0, 1, 2)
        made = weight.shape[3] if deep else len(weight)
        fused = _listed(node, "fused_ops")
        bias = np.zeros(made, np.float32)
        if "BiasAdd" in fused:
            bias = self._weights[node.inputs[2]]
        if node.name in self._channels and not deep:
            made = self._channels[node.name]
            weight, bias = weight[:made], bias[:made]
        options = self.schema.DepthwiseConv2DOptionsT() if deep else self.schema.Conv2DOptionsT()
        if deep:
            options.depthMultiplier = times
        strides, dilations = _listed(node, "strides")[1:3], _listed(node, "dilations")[1:3]
        options.strideH, options.strideW = strides
        options.dilationHFactor, options.dilationWFactor = dilations
        options.fusedActivationFunction = self._activation(fused)
        shape = self.shape(node.inputs[0])
        if node.settings["padding"] == "SAME":
            options.padding = self.schema.Padding.SAME
            sides = [-(-side // stride) for side, stride in zip(shape[1:3], strides, strict=True)]
        elif node.settings["padding"] == "VALID":
            options.padding = self.schema.Padding.VALID
            reach = [(k - 1) * far + 1 for k, far in zip(kernel, dilations, strict=True)]
            sides = [(s - r) // t + 1 for s, r, t in zip(shape[1:3], reach, strides, strict=True)]
        else:
            raise _cannot(f"padding {node.settings['padding']!r}")
        kind = "DEPTHWISE_CONV_2D" if deep else "CONV_2D"
        inputs = [self.at(node.inputs[0]), self.constant(weight), self.constant(bias)]
        self.place(node.name, (1, *sides, made))
        self.add(kind, inputs, node.name, options)

    def padded(self, node: Operation) -> None:
        rows = self._rows
        wide = self._whole(node.inputs[1])  # before and after, for every axis of the file
        wide = np.stack([wide[0], wide[rows], wide[rows + 1], wide[3 if rows == 1 else 1]])
        inputs = [self.at(node.inputs[0]), self.constant(wide.astype(np.int32))]
        if node.kind == "PadV2":
            inputs.append(self.constant(np.asarray(self._weights[node.inputs[2]], np.float32)))
        shape = [
            side + int(more.sum())
            for side, more in zip(self.shape(node.inputs[0]), wide, strict=True)
        ]
        self.place(node.name, shape)
        options = getattr(self.schema, f"{node.kind}OptionsT")()
        self.add(node.kind.upper(), inputs, node.name, options)

    def largest(self, node: Operation) -> None:
        kernel, strides = _listed(node, "ksize")[1:3], _listed(node, "strides")[1:3]
        if node.settings["padding"] != "VALID":
            raise _cannot("a pooling that pads")
        options = self.schema.Pool2DOptionsT()
        options.padding = self.schema.Padding.VALID
        options.filterHeight, options.filterWidth = kernel
        options.strideH, options.strideW = strides
        _, *sides, channels = self.shape(node.inputs[0])
        sides = [(s - k) // t + 1 for s, k, t in zip(sides, kernel, strides, strict=True)]
        self.place(node.name, (1, *sides, channels))
        self.add("MAX_POOL_2D", [self.at(node.inputs[0])], node.name, options)

    def leaky(self, node: Operation) -> None:
        options = self.schema.LeakyReluOptionsT()
        options.alpha = node.settings["alpha"]
        self.place(node.name, self.shape(node.inputs[0]))
        self.add("LEAKY_RELU", [self.at(node.inputs[0])], node.name, options)

    def arithmetic(self, node: Operation) -> None:
        kind = {"AddV2": "Add"}.get(node.kind, node.kind)
        inputs = [self._value(name) for name in node.inputs]
        shapes = [self.shape(name) for name in node.inputs]
        self.place(node.name, np.broadcast_shapes(*shapes))
        self.add(kind.upper(), inputs, node.name, getattr(self.schema, f"{kind}OptionsT")())

    def activation(self, node: Operation) -> None:
        self.place(node.name, self.shape(node.inputs[0]))
        kind = "LOGISTIC" if node.kind == "Sigmoid" else node.kind.upper()
        self.add(kind, [self.at(node.inputs[0])], node.name)

    def mean(self, node: Operation) -> None:
        axes = self._whole(node.inputs[1]).reshape(-1).tolist()
        if sorted(axes) != [1, 2] or not node.settings.get("keep_dims"):
            raise _cannot("a mean that is not over the picture")
        options = self.schema.ReducerOptionsT()
        options.keepDims = True
        inputs = [self.at(node.inputs[0]), self.constant(np.array([1, 2], np.int32))]
        self.place(node.name, (1, 1, 1, self.shape(node.inputs[0])[3]))
        self.add("MEAN", inputs, node.name, options)

    def joined(self, node: Operation) -> None:
        *parts, axis = node.inputs
        shapes = [self.shape(part) for part in parts]
        if int(self._whole(axis)) not in ((3, -1) if self._rows == 1 else (1,)):
            raise _cannot("a concatenation that is not of channels")
        options = self.schema.ConcatenationOptionsT()
        options.axis = 3
        self.place(node.name, (*shapes[0][:3], sum(shape[3] for shape in shapes)))
        self.add("CONCATENATION", [self.at(part) for part in parts], node.name, options)

    def resized(self, node: Operation) -> None:
        sides = self._whole(node.inputs[1])
        if node.inputs[1] in self._weights:  # a size written into the file grows with the picture
            sides = np.round(sides * self._growth).astype(np.int64)
        options = self.schema.ResizeBilinearOptionsT()
        options.alignCorners = bool(node.settings.get("align_corners", False))
        options.halfPixelCenters = bool(node.settings.get("half_pixel_centers", False))
        inputs = [self.at(node.inputs[0]), self.constant(sides.astype(np.int32))]
        self.place(node.name, (1, *sides, self.shape(node.inputs[0])[3]))
        self.add("RESIZE_BILINEAR", inputs, node.name, options)

    def _value(self, name: str) -> int:
        if name not in self:
            return self.constant(np.asarray(self._weights[name], np.float32), name)
        return self.at(name)

    def _whole(self, name: str) -> Whole:
        """What the graph computes about sizes, which are known here: small whole numbers."""
        if name in self._weights:
            return np.asarray(self._weights[name], np.int64)
        node = self._operations[name]
        if node.kind == "Shape":
            return np.array(self.shape(node.inputs[0]), np.int64)
        values = [self._whole(each) for each in node.inputs]
        if node.kind == "Mul":
            return values[0] * values[1]
        if node.kind == "StridedSlice" and not any(node.settings[mask] for mask in _MASKS):
            taken, begin, end, step = values
            return taken[int(begin[0]) : int(end[0]) : int(step[0])]
        raise _cannot(f"a size made by {node.kind!r}")

    def _activation(self, fused: tuple[str, ...]) -> int:
        kinds = self.schema.ActivationFunctionType
        known = {"BiasAdd": kinds.NONE, "Relu": kinds.RELU, "Relu6": kinds.RELU6}
        if not set(fused) <= set(known):
            raise _cannot(f"a convolution with {', '.join(fused)}")
        return max((int(known[each]) for each in fused), default=int(kinds.NONE))


_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
_BUILD: Mapping[str, Callable[[_TfjsConverter, Operation], None]] = {
    "Placeholder": _TfjsConverter.picture,
    "Cast": _TfjsConverter.unchanged,
    "Identity": _TfjsConverter.unchanged,
    "ExpandDims": _TfjsConverter.batch_of_one,
    "Squeeze": _TfjsConverter.batch_of_one,
    "Unpack": _TfjsConverter.batch_of_one,
    "_FusedConv2D": _TfjsConverter.convolution,
    "Conv2D": _TfjsConverter.convolution,
    "FusedDepthwiseConv2dNative": _TfjsConverter.convolution,
    "DepthwiseConv2dNative": _TfjsConverter.convolution,
    "Add": _TfjsConverter.arithmetic,
    "AddV2": _TfjsConverter.arithmetic,
    "Sub": _TfjsConverter.arithmetic,
    "Mul": _TfjsConverter.arithmetic,
    "Pad": _TfjsConverter.padded,
    "PadV2": _TfjsConverter.padded,
    "MaxPool": _TfjsConverter.largest,
    "Transpose": _TfjsConverter.turned,
    "LeakyRelu": _TfjsConverter.leaky,
    "Relu": _TfjsConverter.activation,
    "Relu6": _TfjsConverter.activation,
    "Sigmoid": _TfjsConverter.activation,
    "Mean": _TfjsConverter.mean,
    "ConcatV2": _TfjsConverter.joined,
    "ResizeBilinear": _TfjsConverter.resized,
}
# What these read beyond their first input is known when the model is built.
_KNOWN_AFTER_FIRST = ("ResizeBilinear", "Mean", "ExpandDims", "Pad", "PadV2", "Transpose")


def _needed(operations: Mapping[str, Operation], outputs: Sequence[str]) -> list[Operation]:
    """The operations behind the outputs, each after what it reads."""
    order: dict[str, Operation] = {}
    waiting = list(reversed(outputs))
    while waiting:
        name = waiting[-1]
        if name not in operations:
            raise _cannot(f"the output {name!r}")
        node = operations[name]
        inputs = node.inputs[:1] if node.kind in _KNOWN_AFTER_FIRST else node.inputs
        missing = [each for each in inputs if each not in order and not _constant(operations, each)]
        if missing and name not in order:
            waiting += reversed(missing)
            continue
        order.setdefault(name, node)
        waiting.pop()
    return list(order.values())


def _constant(operations: Mapping[str, Operation], name: str) -> bool:
    return name in operations and operations[name].kind == "Const"


def _listed(node: Operation, key: str) -> tuple[Any, ...]:
    value: Any = node.settings.get(key, ())
    return tuple(value)


def _cannot(what: str) -> SfumatoError:
    return SfumatoError(
        f"Expected a graph of convolutions and what goes with them, got {what}: this network cannot "
        "be converted."
    )
