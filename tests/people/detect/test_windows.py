"""Looking near known faces: every face is in a window, and CenterFace is the network of its file."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import people, store
from sfumato.errors import SfumatoError
from sfumato.people import Box
from sfumato.people.detect._onnx import read_graph
from sfumato.people.detect._square_views import windows

WIDTH, HEIGHT = 320, 240
corners = st.tuples(st.floats(-20, 310), st.floats(-20, 230), st.floats(2, 120), st.floats(2, 120))


@given(st.lists(corners, max_size=8), st.floats(10, 200))
@settings(max_examples=60, deadline=None)
def test_every_box_lies_in_a_window_at_least_as_large_as_asked(
    rows: list[tuple[float, float, float, float]], least: float
) -> None:
    boxes = [Box(x, y, x + w, y + h) for x, y, w, h in rows]
    views = windows(boxes, WIDTH, HEIGHT, least)
    held = [Box(view.x, view.y, view.x + view.side, view.y + view.side) for view in views]
    for box in boxes:
        inside = box.clip(WIDTH, HEIGHT)
        if inside.area:
            assert max(view.covers(inside) for view in held) > 0.999
    assert all(view.side >= least for view in views)
    assert len(views) <= len(boxes)


def test_a_detector_that_cannot_look_at_parts_looks_at_all(scripted) -> None:  # type: ignore[no-untyped-def]
    found = [Box(1, 2, 3, 4)]
    picture = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    assert people.look_near(scripted([found]), picture, []) == found


def test_a_file_that_is_no_network_is_one_sentence(tmp_path: Path) -> None:
    for content in (b"", b"\x00" * 40, b"no network at all"):
        (tmp_path / "wrong.onnx").write_bytes(content)
        with pytest.raises(SfumatoError, match="Expected an ONNX model"):
            read_graph(tmp_path / "wrong.onnx")


@pytest.mark.models
def test_the_converted_network_answers_as_the_file_does_in_opencv() -> None:
    from sfumato.people.detect._litert import LiteRtModel
    from sfumato.people.detect._onnx_to_litert import convert

    try:
        file = store.path("centerface")
    except (store.CacheError, store.DownloadError, store.OfflineError) as error:
        pytest.skip(f"the models cannot be had here: {error}")
    picture = np.random.default_rng(0).integers(0, 256, (96, 128, 3)).astype(np.float32)
    names = ("537", "538", "539")
    ours = LiteRtModel(convert(read_graph(file), (128, 96), names))(picture)
    network = cv2.dnn.readNetFromONNX(str(file))
    network.setInput(np.ascontiguousarray(picture.transpose(2, 0, 1))[None])
    every = network.getUnconnectedOutLayersNames()  # some releases of OpenCV give all or none
    theirs = dict(zip(every, network.forward(every), strict=True))
    for name, mine in zip(names, ours, strict=True):
        np.testing.assert_allclose(mine.transpose(2, 0, 1), theirs[name][0], atol=1e-2)
    assert float(ours[1].std()) > 0.1, "the comparison is of something"
