"""Detectors by name, in unions, and from other packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest

from sfumato import people
from sfumato.errors import SfumatoError
from sfumato.people import Box
from sfumato.people.detect import _registry

IMAGE = np.zeros((40, 60, 3), dtype=np.uint8)


class Left:
    name, device = "left", "here"

    def __init__(self, offline: bool = False) -> None:
        pass

    def detect(self, image: np.ndarray) -> list[Box]:
        return [Box(0, 0, 10, 10, 0.9, "left")]


class Right(Left):
    name, device = "right", "there"

    def detect(self, image: np.ndarray) -> list[Box]:
        return [Box(1, 1, 12, 12, 0.5, "right"), Box(40, 0, 50, 10, 0.5, "right")]


class Useless:
    name = "useless"

    def __init__(self, offline: bool = False) -> None:
        pass


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    here = __name__
    entries = EntryPoints(
        EntryPoint(f"faces.{name}", f"{here}:{name.title()}", _registry.GROUP)
        for name in ("left", "right", "useless")
    )
    monkeypatch.setattr(_registry, "entry_points", lambda group: entries.select(group=group))


@pytest.mark.usefixtures("plugins")
def test_plug_ins_are_listed_and_united() -> None:
    assert {"left", "right", "centerface"} <= set(people.detectors()["faces"])
    united = people.face_detector("left+right")
    assert united.name == "left+right"
    assert united.device == "here, there"
    found = united.detect(IMAGE)
    assert len(found) == 2
    assert (found[0].x0, found[0].x1) == (0, 12), "a union covers what both saw"


@pytest.mark.usefixtures("plugins")
def test_plug_in_that_cannot_detect_is_refused() -> None:
    with pytest.raises(SfumatoError, match="to be a FaceDetector"):
        people.face_detector("useless")


@pytest.mark.parametrize("name", ["nothing", "", "centerface+"])
def test_unknown_names_list_the_known_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_registry._BUNDLED["faces"], "centerface", Left)  # type: ignore[index]
    with pytest.raises(SfumatoError, match="choose out of centerface, blazeface"):
        people.face_detector(name)


def test_what_no_detector_covers_is_named() -> None:
    assert any("screens" in region for region in people.NOT_COVERED)
    assert any("tattoos" in region for region in people.NOT_COVERED)
    assert "text" in people.TEXT
