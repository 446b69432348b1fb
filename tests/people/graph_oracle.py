"""A TensorFlow graph evaluated operation by operation in double precision: slow and obvious."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from sfumato.people.detect._tfjs import GraphModel, Operation

Value = Any  # an array, or a list of arrays where an operation makes several


def evaluate(model: GraphModel, picture: np.ndarray, outputs: Sequence[str]) -> list[np.ndarray]:
    """What the graph says about one (height, width, 3) picture."""
    known: dict[str, Value] = {
        name: array.astype(np.float64) if array.dtype == np.float32 else array
        for name, array in model.weights.items()
    }

    def look_up(name: str) -> np.ndarray:
        base, _, which = name.partition(":")
        value = known[base]
        return np.asarray(value[int(which or 0)] if isinstance(value, list) else value)

    for node in in_order(model, outputs):
        if node.kind == "Placeholder":
            first = node.settings["shape"][1:2] == (3,)  # type: ignore[index]
            turned = picture.transpose(2, 0, 1) if first else picture
            known[node.name] = turned[None].astype(np.float64)
        else:
            known[node.name] = RULES[node.kind](node, *(look_up(name) for name in node.inputs))
    return [look_up(name) for name in outputs]


def in_order(model: GraphModel, outputs: Sequence[str]) -> list[Operation]:
    done: dict[str, Operation] = {}
    stack = [name.partition(":")[0] for name in outputs]
    while stack:
        node = model.operations[stack[-1]]
        first = [name.partition(":")[0] for name in node.inputs]
        missing = [name for name in first if name not in done and name not in model.weights]
        if missing:
            stack += missing
            continue
        done.setdefault(stack.pop(), node)
    return [node for node in done.values() if node.kind != "Const"]


def around(sides: Sequence[int], kernel: Sequence[int], stride: Sequence[int]) -> list[int]:
    """TensorFlow's SAME: as many windows as strides fit, the odd pixel of padding at the end."""
    pads: list[int] = []
    for side, k, s in zip(sides, kernel, stride, strict=True):
        total = max((math.ceil(side / s) - 1) * s + k - side, 0)
        pads = [total // 2, total - total // 2, *pads]  # torch wants the last axis first
    return pads


def convolution(node: Operation, x: np.ndarray, w: np.ndarray, *more: np.ndarray) -> np.ndarray:
    settings: Mapping[str, Any] = node.settings
    assert settings["dilations"] == (1, 1, 1, 1)
    kernel, stride = w.shape[:2], settings["strides"][1:3]
    picture, weight, groups = torch.from_numpy(x).movedim(3, 1), torch.from_numpy(w), 1
    if "Depthwise" in node.kind:
        groups = w.shape[2]
        weight = weight.permute(2, 3, 0, 1).reshape(-1, 1, *kernel)
    else:
        weight = weight.permute(3, 2, 0, 1)
    if settings["padding"] == "SAME":
        picture = functional.pad(picture, around(x.shape[1:3], kernel, stride))
    made = functional.conv2d(picture, weight, stride=stride, groups=groups).movedim(1, 3).numpy()
    for step in settings.get("fused_ops", ()):
        if step == "BiasAdd":
            made = made + more[0]
        else:
            made = ACTIVATIONS[step](made)
    return made


def largest(node: Operation, x: np.ndarray) -> np.ndarray:
    settings: Mapping[str, Any] = node.settings
    kernel, stride = settings["ksize"][1:3], settings["strides"][1:3]
    padded = torch.from_numpy(x).movedim(3, 1)
    if settings["padding"] == "SAME":
        padded = functional.pad(padded, around(x.shape[1:3], kernel, stride), value=-math.inf)
    return functional.max_pool2d(padded, kernel, stride).movedim(1, 3).numpy()


def resized(node: Operation, x: np.ndarray, size: np.ndarray) -> np.ndarray:
    assert not node.settings.get("align_corners")
    shift = 0.5 if node.settings.get("half_pixel_centers") else 0.0
    for axis, length in zip((1, 2), size, strict=True):
        old = x.shape[axis]
        at = np.clip((np.arange(length) + shift) * old / length - shift, 0, old - 1)
        low = np.floor(at).astype(int)
        part = (at - low).reshape([-1 if i == axis else 1 for i in range(4)])
        high = np.minimum(low + 1, old - 1)
        x = np.take(x, low, axis) * (1 - part) + np.take(x, high, axis) * part
    return x


def sliced(node: Operation, x: np.ndarray, begin: Any, end: Any, step: Any) -> np.ndarray:
    masks = {
        name: int(node.settings[f"{name}_mask"])  # type: ignore[arg-type]
        for name in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")
    }
    assert not masks["ellipsis"]
    index: list[Any] = []
    for i in range(len(begin)):
        if masks["new_axis"] >> i & 1:
            index.append(None)
        elif masks["shrink_axis"] >> i & 1:
            index.append(int(begin[i]))
        else:
            first = None if masks["begin"] >> i & 1 else int(begin[i])
            last = None if masks["end"] >> i & 1 else int(end[i])
            index.append(slice(first, last, int(step[i])))
    return x[tuple(index)]


def squeezed(node: Operation, x: np.ndarray) -> np.ndarray:
    return np.squeeze(x, tuple(node.settings["squeeze_dims"]))  # type: ignore[arg-type]


def best(node: Operation, x: np.ndarray, count: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(-x, axis=-1, kind="stable")[..., : int(count)]
    return [np.take_along_axis(x, order, -1), order]


def cast(node: Operation, x: np.ndarray) -> np.ndarray:
    kinds = {"DT_FLOAT": np.float64, "DT_INT32": np.int64, "DT_BOOL": bool}
    return x.astype(kinds[str(node.settings["DstT"])])


def split(node: Operation, axis: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
    return np.split(x, int(node.settings["num_split"]), int(axis))  # type: ignore[arg-type, return-value]


def axis_of(node: Operation) -> int:
    return int(node.settings.get("axis", 0))  # type: ignore[arg-type]


def reduced(how: Callable[..., Any]) -> Callable[..., Any]:
    def rule(node: Operation, x: np.ndarray, axes: np.ndarray) -> np.ndarray:
        kept = bool(node.settings.get("keep_dims"))
        return np.asarray(how(x, tuple(np.atleast_1d(axes)), keepdims=kept))

    return rule


def without_settings(plain: Callable[..., Any]) -> Callable[..., Any]:
    return lambda node, *values: plain(*values)


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Relu": lambda x: np.maximum(x, 0),
    "Relu6": lambda x: np.clip(x, 0, 6),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
PLAIN: dict[str, Callable[..., Any]] = {
    **ACTIVATIONS,
    **{"Add": np.add, "AddV2": np.add, "Sub": np.subtract, "Mul": np.multiply},
    **{"RealDiv": np.true_divide, "FloorDiv": np.floor_divide, "FloorMod": np.mod},
    **{"Maximum": np.maximum, "Minimum": np.minimum, "Abs": np.abs, "Exp": np.exp},
    **{"Sqrt": np.sqrt, "Less": np.less, "Greater": np.greater, "Equal": np.equal},
    **{"GreaterEqual": np.greater_equal, "LogicalAnd": np.logical_and, "Reciprocal": np.reciprocal},
    "SquaredDifference": lambda a, b: (a - b) ** 2,
    "AddN": lambda *all_of_them: sum(all_of_them),
    "Identity": lambda x: x,
    "Shape": lambda x: np.array(x.shape),
    "Size": lambda x: np.array(x.size),
    "Reshape": lambda x, shape: x.reshape(shape),
    "ExpandDims": lambda x, axis: np.expand_dims(x, int(axis)),
    "Range": lambda first, end, step: np.arange(first, end, step),
    "Tile": np.tile,
    "Transpose": np.transpose,
    "Pad": np.pad,
    "PadV2": lambda x, wide, value: np.pad(x, wide, constant_values=float(value)),
    "Fill": lambda shape, value: np.full(shape, value),
    "Select": np.where,
    "GatherNd": lambda x, index: x[tuple(np.moveaxis(index, -1, 0))],
    "GatherV2": lambda x, index, axis: np.take(x, index, int(axis)),
    "ArgMax": lambda x, axis: x.argmax(int(axis)),
    "ConcatV2": lambda *parts: np.concatenate(parts[:-1], int(parts[-1])),
}
RULES: dict[str, Callable[..., Value]] = {
    **{kind: without_settings(rule) for kind, rule in PLAIN.items()},
    **dict.fromkeys(("_FusedConv2D", "Conv2D"), convolution),
    **dict.fromkeys(("FusedDepthwiseConv2dNative", "DepthwiseConv2dNative"), convolution),
    **{"MaxPool": largest, "ResizeBilinear": resized, "StridedSlice": sliced, "Cast": cast},
    **{"Squeeze": squeezed, "TopKV2": best, "Split": split},
    **{"Sum": reduced(np.sum), "Max": reduced(np.max), "Mean": reduced(np.mean)},
    "LeakyRelu": lambda node, x: np.where(x > 0, x, x * node.settings["alpha"]),
    "Pack": lambda node, *parts: np.stack(parts, axis_of(node)),
    "Unpack": lambda node, x: [np.take(x, i, axis_of(node)) for i in range(x.shape[axis_of(node)])],
}
