"""TensorFlow.js graphs: what is read is what was written, and what is converted says the same."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from graph_oracle import evaluate

from sfumato import models, store
from sfumato.errors import SfumatoError
from sfumato.people.detect._centernet import _KINDS, _SIDES
from sfumato.people.detect._centernet import decode as decode_centernet
from sfumato.people.detect._litert import LiteRtModel
from sfumato.people.detect._movenet import _HEADS
from sfumato.people.detect._movenet import decode as decode_movenet
from sfumato.people.detect._nanodet import _HEADS as _NANODET_HEADS
from sfumato.people.detect._tfjs import GraphModel, load_graph_model, read_graph_model
from sfumato.people.detect._tfjs_to_litert import convert


class Writer:
    """A graph model made by the test, node by node."""

    def __init__(self, seed: int = 0) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.stated: list[dict[str, Any]] = []
        self.content = b""
        self._random = np.random.default_rng(seed)

    def constant(self, values: Any, packed: dict[str, Any] | None = None) -> str:
        array = np.asarray(values)
        name = f"c{len(self.stated)}"
        kind = {"f": "float32", "i": "int32", "b": "bool"}.get(array.dtype.kind, "float32")
        raw = array.astype(packed["dtype"] if packed else kind)
        fact: dict[str, Any] = {"name": name, "shape": list(array.shape), "dtype": kind}
        self.stated.append({**fact, **({"quantization": packed} if packed else {})})
        self.content += raw.tobytes()
        self.nodes.append({"op": "Const", "name": name})
        return name

    def random(self, *shape: int) -> str:
        return self.constant(self._random.normal(0, 0.5, shape).astype(np.float32))

    def add(self, kind: str, *inputs: str, **settings: Any) -> str:
        name = f"{kind}{len(self.nodes)}"
        attributes = {key: _attribute(value) for key, value in settings.items()}
        self.nodes.append({"op": kind, "name": name, "input": list(inputs), "attr": attributes})
        return name

    def convolution(
        self, source: str, *shape: int, kind: str = "_FusedConv2D", **change: Any
    ) -> str:
        settings = {"strides": [1, 1, 1, 1], "dilations": [1, 1, 1, 1], "padding": "SAME", **change}
        more = []
        if "fused_ops" in settings:
            made = shape[2] * shape[3] if "Depthwise" in kind else shape[3]
            more = [self.random(made)]
        return self.add(kind, source, self.random(*shape), *more, **settings)

    def write(self, folder: Path) -> tuple[Path, Path]:
        described = {
            "format": "graph-model",
            "modelTopology": {"node": self.nodes},
            "weightsManifest": [{"paths": ["m.bin"], "weights": self.stated}],
        }
        (folder / "m.json").write_text(json.dumps(described), encoding="utf-8")
        (folder / "m.bin").write_bytes(self.content)
        return folder / "m.json", folder / "m.bin"


def _attribute(value: Any) -> dict[str, Any]:
    """Protobuf's JSON form: whole numbers are texts, texts are base64."""
    if isinstance(value, bool):
        return {"b": value}
    if isinstance(value, int):
        return {"i": str(value)}
    if isinstance(value, float):
        return {"f": value}
    if isinstance(value, str):
        return {"s": base64.b64encode(value.encode()).decode()}
    if isinstance(value, dict):
        return {"shape": {"dim": [{"size": str(side)} for side in value["shape"]]}}
    if value and isinstance(value[0], str):
        return {"list": {"s": [base64.b64encode(each.encode()).decode() for each in value]}}
    return {"list": {"i": [str(each) for each in value]}}


def test_weights_are_widened_and_never_changed(tmp_path: Path) -> None:
    writer = Writer()
    plain = writer.constant(np.array([[1.5, -2.25]], np.float32))
    half = writer.constant(np.array([0.1, -7.0, 65504.0], np.float32), {"dtype": "float16"})
    byte = writer.constant(
        np.array([[0.0], [7.0], [255.0]], np.float32), {"dtype": "uint8", "scale": 0.5, "min": -3.0}
    )
    whole = writer.constant(np.array(-4, np.int32))
    truth = writer.constant(np.array([True, False]))
    weights = read_graph_model(*writer.write(tmp_path)).weights
    np.testing.assert_array_equal(weights[plain], [[1.5, -2.25]])
    np.testing.assert_array_equal(weights[half], np.float16([0.1, -7, 65504]).astype(np.float32))
    np.testing.assert_array_equal(weights[byte], [[-3.0], [0.5], [124.5]])
    assert weights[whole] == -4
    assert weights[truth].tolist() == [True, False]
    assert {weights[name].dtype for name in (plain, half, byte)} == {np.dtype(np.float32)}


@pytest.mark.parametrize("damage", ["short", "long", "other format", "no json", "unknown kind"])
def test_files_that_are_no_graph_model_are_one_sentence(tmp_path: Path, damage: str) -> None:
    writer = Writer()
    writer.random(3, 4)
    network, weights = writer.write(tmp_path)
    if damage in ("short", "long"):
        content = weights.read_bytes()
        weights.write_bytes(content[:-1] if damage == "short" else content + b"\0")
    elif damage == "other format":
        network.write_bytes(network.read_bytes().replace(b"graph-model", b"layers-model"))
    elif damage == "unknown kind":
        network.write_bytes(network.read_bytes().replace(b"float32", b"complex64"))
    else:
        network.write_bytes(b"<html>")
    with pytest.raises(SfumatoError, match=r"^Expected a TensorFlow\.js graph model") as raised:
        read_graph_model(network, weights)
    assert "\n" not in str(raised.value)


def _every_operation(folder: Path, made_for: tuple[int, int]) -> tuple[GraphModel, list[str]]:
    """A small network in which every operation that can be converted occurs."""
    writer = Writer(seed=3)
    height, width = made_for
    source = writer.add("Placeholder", shape={"shape": [1, height, width, 3]})
    scaled = writer.add(
        "Sub", writer.add("Mul", source, writer.constant(1 / 128)), writer.constant(1.0)
    )
    two = {"strides": [1, 2, 2, 1]}
    first = writer.convolution(scaled, 3, 3, 3, 8, fused_ops=["BiasAdd", "Relu6"], **two)
    deep = {"kind": "FusedDepthwiseConv2dNative", "fused_ops": ["BiasAdd", "Relu"]}
    second = writer.convolution(first, 5, 5, 8, 2, **deep, **two)
    third = writer.convolution(second, 1, 1, 16, 6, fused_ops=["BiasAdd"], padding="VALID")
    shape = writer.add("Shape", third)
    masks = dict.fromkeys(
        [f"{name}_mask" for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")], 0
    )
    bounds = [writer.constant(np.array([value], np.int32)) for value in (1, 3, 1)]
    sides = writer.add("StridedSlice", shape, *bounds, **masks)
    double = writer.add("Mul", sides, writer.constant(np.array([2, 2], np.int32)))
    grown = writer.add(
        "ResizeBilinear", third, double, half_pixel_centers=True, align_corners=False
    )
    spread = writer.convolution(first, 3, 3, 8, 1, kind="DepthwiseConv2dNative")
    joined = writer.add("ConcatV2", spread, grown, writer.constant(np.array(3, np.int32)))
    axes = writer.constant(np.array([1, 2], np.int32))
    mean = writer.add("Mean", writer.add("Relu", joined), axes, keep_dims=True)
    gate = writer.add("Sigmoid", writer.convolution(mean, 1, 1, 14, 14, kind="Conv2D"))
    gated = writer.add("Mul", joined, gate)
    swish = writer.add("Relu6", writer.add("Add", gated, writer.constant(3.0)))
    summed = writer.add("AddV2", writer.add("Identity", swish), writer.random(14))
    outputs = [writer.convolution(summed, 3, 3, 14, 5, fused_ops=["BiasAdd"]), grown]
    if width > 0:  # a size written as numbers belongs to the size that the file was made for
        stated = writer.constant(np.array([height, width], np.int32))
        outputs.append(writer.add("ResizeBilinear", third, stated, half_pixel_centers=False))
    return read_graph_model(*writer.write(folder)), outputs


@pytest.mark.parametrize("size", [(64, 32), (32, 64), (40, 24), (96, 96)])
def test_converted_network_says_what_the_graph_says(tmp_path: Path, size: tuple[int, int]) -> None:
    model, outputs = _every_operation(tmp_path, (-1, -1))
    _compare(model, size, outputs)


def test_sizes_in_the_file_grow_with_the_picture(tmp_path: Path) -> None:
    model, outputs = _every_operation(tmp_path, (32, 64))
    _compare(model, (64, 32), outputs)
    large = LiteRtModel(convert(model, (128, 96), outputs))(np.zeros((96, 128, 3), np.float32))
    assert large[2].shape[:2] == (96, 128)


def test_a_graph_with_channels_first_says_the_same_with_channels_last(tmp_path: Path) -> None:
    writer = Writer(seed=5)
    source = writer.add("Placeholder", shape={"shape": [1, 3, 32, 64]})
    last, first = (writer.constant(np.array(o, np.int32)) for o in ((0, 2, 3, 1), (0, 3, 1, 2)))
    wide = writer.constant(np.array([[0, 0], [0, 0], [1, 2], [0, 1]], np.int32))

    def convolved(values: str, *shape: int, **change: Any) -> str:
        turned = writer.add("Transpose", writer.add("Pad", values, wide), last)
        made = writer.convolution(turned, *shape, kind="Conv2D", padding="VALID", **change)
        back = writer.add("Transpose", writer.add("Add", made, writer.random(shape[3])), first)
        return writer.add("LeakyRelu", back, alpha=0.1)

    one = convolved(source, 3, 3, 3, 4, strides=[1, 2, 2, 1])
    least = writer.constant(np.float32(-1e9))
    pooled = writer.add("Transpose", writer.add("PadV2", one, wide, least), last)
    window = {"ksize": [1, 3, 3, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
    pooled = writer.add("Transpose", writer.add("MaxPool", pooled, **window), first)
    both = writer.add(
        "ConcatV2",
        convolved(pooled, 2, 2, 4, 5),
        convolved(pooled, 2, 2, 4, 6),
        writer.constant(np.array(1, np.int32)),
    )
    turned = writer.add("Transpose", both, last)
    output = writer.add("Add", turned, writer.random(11))
    other = writer.add("Transpose", source, writer.constant(np.array((0, 1, 3, 2), np.int32)))
    model = read_graph_model(*writer.write(tmp_path))
    _compare(model, (64, 32), [output])
    _compare(model, (96, 64), [output])
    with pytest.raises(SfumatoError, match="axes in another order"):
        convert(model, (64, 32), [other])


def test_only_the_leading_channels_are_kept(tmp_path: Path) -> None:
    model, (first, second) = _every_operation(tmp_path, (-1, -1))
    picture = np.random.default_rng(1).uniform(0, 255, (32, 64, 3)).astype(np.float32)
    whole, _ = LiteRtModel(convert(model, (64, 32), [first, second]))(picture)
    part, other = LiteRtModel(convert(model, (64, 32), [first, second], {first: 2}))(picture)
    np.testing.assert_allclose(part, whole[..., :2], rtol=1e-5, atol=1e-5)
    assert other.shape[2] == 6


def test_what_cannot_be_converted_is_refused(tmp_path: Path) -> None:
    writer = Writer()
    source = writer.add("Placeholder", shape={"shape": [1, -1, -1, 3]})
    cosine = writer.add("Cos", source)
    prelu = writer.convolution(source, 1, 1, 3, 4, fused_ops=["BiasAdd", "Prelu"])
    explicit = writer.convolution(source, 1, 1, 3, 4, padding="EXPLICIT")
    turned = writer.add("Unpack", source, axis=3, num=3)
    model = read_graph_model(*writer.write(tmp_path))
    for output in (cosine, prelu, explicit, turned, "nothing"):
        with pytest.raises(SfumatoError, match="cannot be converted"):
            convert(model, (32, 32), [output])


def _compare(model: GraphModel, size: tuple[int, int], outputs: Sequence[str]) -> None:
    width, height = size
    picture = np.random.default_rng(7).uniform(0, 255, (height, width, 3)).astype(np.float32)
    fast = LiteRtModel(convert(model, size, outputs))(picture)
    slow = evaluate(model, picture, outputs)
    for got, (expected,) in zip(fast, slow, strict=True):
        assert got.shape == expected.shape
        assert expected.std() > 0
        np.testing.assert_allclose(got, expected, atol=1e-4 * np.abs(expected).max())


def _real(name: str) -> GraphModel:
    try:
        return load_graph_model(name)
    except (store.DownloadError, store.OfflineError) as error:
        pytest.skip(f"the models cannot be had here: {error}")


_THUNDER = tuple(
    f"StatefulPartitionedCall/{head}/BiasAdd"
    for head in ("center_0/conv2d_4", "kpt_heatmap_0/conv2d_5", "kpt_regress_0/conv2d_6")
)


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "size", "outputs"),
    [
        ("movenet-multipose", (192, 128), _HEADS),
        ("movenet-thunder", (256, 256), _THUNDER),
        ("nanodet", (416, 416), _NANODET_HEADS),
        ("centernet", (512, 512), (_KINDS, _SIDES)),
    ],
)
def test_real_networks_say_what_their_graphs_say(
    name: str, size: tuple[int, int], outputs: Sequence[str]
) -> None:
    _compare(_real(name), size, outputs)


def _blobs(height: int, width: int) -> np.ndarray:
    """A picture with soft upright shapes: something for the networks to doubt about."""
    y, x = np.mgrid[:height, :width]
    picture = np.full((height, width, 3), 90.0)
    for at, colour in ((0.25, (200, 120, 60)), (0.6, (40, 60, 180)), (0.85, (220, 220, 220))):
        body = ((x - at * width) / (0.05 * width)) ** 2 + (
            (y - 0.55 * height) / (0.3 * height)
        ) ** 2
        picture += np.exp(-body)[..., None] * (np.array(colour) - 90.0)
    return np.clip(picture, 0, 255).astype(np.float32)


@pytest.mark.models
def test_movenet_is_decoded_as_its_graph_decodes() -> None:
    model = _real("movenet-multipose")
    height, width = 160, 256
    picture = _blobs(height, width)
    (whole,) = evaluate(model, picture, ["Identity"])
    expected = whole[0]
    heads = [head[0].astype(np.float32) for head in evaluate(model, picture, _HEADS)]
    found = decode_movenet(heads, 0.0, 6)
    assert len(found.scores) == 6
    joints = expected[:, :51].reshape(6, 17, 3)
    scale = np.array([width, height])
    np.testing.assert_allclose(found.joints, joints[..., 1::-1] * scale, atol=0.02)
    np.testing.assert_allclose(found.confidence, joints[..., 2], atol=1e-4)
    np.testing.assert_allclose(
        found.corners, expected[:, [52, 51, 54, 53]] * np.tile(scale, 2), atol=0.02
    )
    np.testing.assert_allclose(found.scores, expected[:, 55], atol=1e-4)


@pytest.mark.models
def test_centernet_is_decoded_as_its_graph_decodes() -> None:
    model = _real("centernet")
    picture = _blobs(512, 512)
    (detections,), kinds, sides = evaluate(model, picture, ["tower_0/detections", _KINDS, _SIDES])
    people = detections[detections[:, 5] == 0]
    assert len(people) >= 1
    least = float(detections[:, 4].min()) - 1e-6
    corners, scores = decode_centernet(
        [kinds[0].astype(np.float32), sides[0].astype(np.float32)], least
    )
    np.testing.assert_allclose(scores, people[:, 4], atol=1e-5)
    np.testing.assert_allclose(corners, people[:, :4], atol=0.02)


@pytest.mark.models
def test_the_trainable_thunder_says_what_its_graph_says_in_double_precision() -> None:
    graph, picture = _real("movenet-thunder"), _blobs(256, 256)
    (said,) = evaluate(graph, picture, ["Identity"])
    with torch.no_grad():
        pixels = torch.from_numpy(picture).double().permute(2, 0, 1)[None]
        own = models.movenet_thunder().double()(pixels)[0].numpy()
    assert said[0, 0].std(axis=0).min() > 0.01
    np.testing.assert_allclose(own[:, [1, 0]] / 256, said[0, 0, :, :2], rtol=0, atol=1e-10)
    np.testing.assert_allclose(own[:, 2], said[0, 0, :, 2], rtol=0, atol=1e-10)
