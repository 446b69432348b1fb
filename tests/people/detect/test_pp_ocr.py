"""Where text is: the map of the network becomes lines that hold all letters."""

from __future__ import annotations

import itertools
import sys

import cv2
import numpy as np
import pytest

from sfumato import people, store
from sfumato.devices import using
from sfumato.people._text_line import SURE, TextLine
from sfumato.people.detect._pp_ocr import PpOcr, lines_of, pieces, without_specks


@pytest.mark.parametrize(("width", "height"), [(120, 6), (200, 30), (60, 40), (12, 90)])
def test_a_line_is_grown_by_its_area_over_its_perimeter_and_at_its_ends(
    width: int, height: int
) -> None:
    text_map = np.zeros((256, 320), np.float32)
    text_map[100 : 100 + height, 80 : 80 + width] = 0.9
    (line,) = lines_of(text_map, 0.5)
    margin = 1.5 * width * height / (2 * (width + height))
    ends = 0.5 * (min(width, height) + 2 * margin)
    grown = margin + (ends if width > height else 0), margin + (ends if height > width else 0)
    expected = people.Box(80, 100, 80 + width, 100 + height).grow(*grown)
    found = line.box
    assert (found.x0, found.y0, found.x1, found.y1) == pytest.approx(
        (expected.x0, expected.y0, expected.x1, expected.y1), abs=1e-3
    )
    assert line.score == pytest.approx(0.9)


def test_specks_and_weak_places_are_no_text() -> None:
    text_map = np.zeros((64, 64), np.float32)
    text_map[10:12, 10:12] = 1.0
    text_map[30:40, 10:50] = 0.3
    assert lines_of(text_map, 0.5) == []
    assert len(lines_of(text_map, 0.2)) == 1


@pytest.mark.parametrize(("height", "found"), [(120, 1), (200, 0), (320, 0)])
def test_what_is_higher_than_the_picture_is_no_line(height: int, found: int) -> None:
    """A whole room that is taken for one line would be filled as a whole."""
    text_map = np.zeros((352, 640), np.float32)
    text_map[16 : 16 + height, 20:620] = 0.85
    picture = np.zeros((352, 640, 3), np.uint8)
    assert len(Drawn(text_map).detect_in_turn(picture, 0)) == found


class Drawn(PpOcr):
    """The same detector with a map that is given, and another one for the look from afar."""

    def __init__(self, text_map: np.ndarray, afar: np.ndarray | None = None) -> None:
        self._threshold, self._sides, self._map = 0.45, (640, 1280), text_map
        self._afar = np.zeros_like(text_map) if afar is None else afar

    def text_map(self, picture: np.ndarray) -> np.ndarray:
        high, wide = picture.shape[:2]
        return (
            self._map if (high, wide) == self._map.shape else cv2.resize(self._afar, (wide, high))
        )

    def _in_pieces(self, picture: np.ndarray) -> np.ndarray:
        return np.zeros(picture.shape[:2], np.float32)


@pytest.mark.parametrize(
    ("height", "score", "found"), [(12, 0.5, 1), (60, 0.5, 0), (60, 0.9, 1), (12, 0.4, 0)]
)
def test_what_is_huge_and_faint_is_a_row_of_trees(height: int, score: float, found: int) -> None:
    text_map = np.zeros((384, 640), np.float32)
    text_map[100 : 100 + height, 100:400] = score
    assert (
        len(Drawn(text_map, text_map).detect_in_turn(np.zeros((384, 640, 3), np.uint8), 0)) == found
    )


class Distracted(PpOcr):
    """Sees the marked place only where nothing brighter is in the same picture, as the network does."""

    def __init__(self) -> None:
        self._threshold, self._sides = 0.45, (640, 1280)

    def text_map(self, picture: np.ndarray) -> np.ndarray:
        level = picture[..., 0].astype(np.float32)
        return np.where((level == level.max()) & (level > 0), 0.9, 0.0).astype(np.float32)


@pytest.mark.parametrize(("width", "height"), [(640, 384), (1280, 736), (3840, 2176)])
def test_what_the_whole_picture_drowns_is_found_in_pieces_without_being_reduced(
    width: int, height: int
) -> None:
    image = np.zeros((height, width, 3), np.uint8)
    image[20:60, 20:200] = 200
    image[height - 30 : height - 20, width - 90 : width - 30] = 90
    faint = people.Box(width - 90, height - 30, width - 30, height - 20)
    whole, apart = (Distracted().detect_in_turn(image, turn) for turn in (0, 1))
    assert sum(line.box.covers(faint) for line in whole) == 0
    assert sum(line.box.covers(faint) for line in apart) >= 0.99
    assert sum(line.box.covers(faint) for line in Distracted().detect(image)) >= 0.99


@pytest.mark.parametrize(("height", "sure"), [(8, True), (12, False)])
def test_what_a_piece_alone_takes_for_large_letters_needs_a_second_sighting(
    height: int, sure: bool
) -> None:
    image = np.zeros((384, 640, 3), np.uint8)
    image[20:60, 20:200] = 200
    image[330 : 330 + height, 500:600] = 90
    found = Distracted().detect_in_turn(image, 1)
    (line,) = (line for line in found if line.box.y0 > 300)
    assert (line.score >= SURE) == sure
    assert line.counts([line]), "two sightings are enough"


@pytest.mark.parametrize(("traced", "found"), [(True, 1), (False, 0)])
def test_what_a_piece_alone_takes_for_larger_letters_must_leave_a_trace_from_afar(
    traced: bool, found: int
) -> None:
    """A row of trees is a line to a piece on look after look: a second sighting is no proof."""
    place = np.zeros((384, 640), np.float32)
    place[330:350, 400:600] = 0.9
    nothing = np.zeros_like(place)
    detector = InPieces(nothing, 0.4 * place / 0.9 if traced else nothing, place)
    lines = detector.detect_in_turn(np.zeros((384, 640, 3), np.uint8), 1)
    assert len(lines) == found
    assert all(line.score < SURE for line in lines)


class InPieces(Drawn):
    """With a map of its own for what is seen in pieces."""

    def __init__(self, whole: np.ndarray, afar: np.ndarray, pieces: np.ndarray) -> None:
        super().__init__(whole, afar)
        self._small = pieces

    def _in_pieces(self, picture: np.ndarray) -> np.ndarray:
        return self._small


@pytest.mark.parametrize(
    ("height", "score", "traced", "found"),
    [
        (14, 0.72, False, []),
        (14, 0.72, True, [False]),
        (14, 0.85, False, [True]),
        (4, 0.72, False, [True]),
    ],
)
def test_rather_large_letters_that_are_not_clear_need_a_trace_from_afar_and_a_second_sighting(
    height: int, score: float, traced: bool, found: list[bool]
) -> None:
    text_map = np.zeros((384, 640), np.float32)
    text_map[100 : 100 + height, 100:300] = score
    detector = Drawn(text_map, text_map / 2 if traced else None)
    lines = detector.detect_in_turn(np.zeros((384, 640, 3), np.uint8), 0)
    assert [line.score >= SURE for line in lines] == found
    assert all(line.counts([line]) for line in lines), "two sightings are enough"


def test_a_lone_letter_that_nobody_can_read_is_a_speck_and_the_end_of_a_line_is_not() -> None:
    socket, large = (TextLine.around((100, 50), (2 * s, s), 0, 0.7) for s in (6, 12))
    word = TextLine.around((60, 50), (60, 7), 0, 0.7)
    elsewhere = TextLine.around((60, 150), (60, 7), 0, 0.7)
    assert without_specks([socket]) == []
    assert without_specks([socket, socket]) == []
    assert without_specks([socket, elsewhere]) == [elsewhere]
    assert without_specks([large]) == [large]
    assert without_specks([socket, word]) == [socket, word]


@pytest.mark.parametrize("length", [32, 96, 256, 288, 384, 640, 736, 1280, 3840])
def test_pieces_overlap_and_leave_nothing_out(length: int) -> None:
    found = pieces(length)
    assert found[0].start == 0
    assert found[-1].stop == length
    assert all((piece.stop - piece.start) % 32 == 0 for piece in found)
    assert all(a.stop - b.start >= 32 for a, b in itertools.pairwise(found))


@pytest.mark.models
@pytest.mark.text
@pytest.mark.parametrize("height", [12, 20, 36])
def test_written_names_are_found_whole_and_a_bare_wall_is_not(height: int) -> None:
    detector = people.text_detector()
    wall = np.random.default_rng(1).normal(120, 6, (360, 640, 3)).clip(0, 255).astype(np.uint8)
    assert detector.detect(wall) == []
    scale = height / 21.5  # Hershey's capitals
    thick = max(1, round(height / 9))
    written = wall.copy()
    cv2.putText(written, "Maria Schmidt", (150, 200), 0, scale, (240, 240, 240), thick, cv2.LINE_AA)
    letters = (written != wall).any(axis=2)
    found = people.text_mask(detector.detect(written), 360, 640)
    assert found[letters].mean() > 0.99
    rows, columns = (np.flatnonzero(letters.any(axis=axis)) for axis in (1, 0))
    assert found.sum() < 3.5 * np.ptp(rows) * np.ptp(columns)


def test_a_floor_as_large_as_the_picture_is_no_text_and_a_huge_line_needs_a_second_sighting() -> (
    None
):
    picture = np.zeros((384, 640, 3), np.uint8)
    floor, words = np.zeros((2, 384, 640), np.float32)
    floor[60:330, 80:560] = 0.95
    words[100:160, 50:600] = 0.95
    assert Drawn(floor).detect_in_turn(picture, 0) == []
    (line,) = Drawn(words).detect_in_turn(picture, 0)
    assert line.score < SURE
    assert Drawn(words).detect_in_turn(picture, 1) == []


def test_a_huge_line_that_is_seen_from_afar_too_is_sure_on_every_look() -> None:
    """A sign that passes the camera is shown for fewer frames than lie between two looks at the whole."""
    picture = np.zeros((384, 640, 3), np.uint8)
    words, elsewhere = np.zeros((2, 384, 640), np.float32)
    words[100:160, 50:600] = 0.95
    elsewhere[280:340, 50:600] = 0.95
    for turn in (0, 1):
        (line,) = Drawn(words, words).detect_in_turn(picture, turn)
        assert line.score >= SURE
        (line,) = Drawn(words, elsewhere).detect_in_turn(picture, turn)
        assert line.score < SURE


class Runtime:
    """An ONNX Runtime whose sessions say which providers they really took."""

    def __init__(self, *there: str) -> None:
        self.there, self.asked = there, []

    def get_available_providers(self) -> list[str]:
        return [*self.there, "CPUExecutionProvider"]

    SessionOptions = type("SessionOptions", (), {})

    def InferenceSession(self, path: str, options: object, *, providers: list) -> Runtime:
        self.asked = providers
        return self

    def get_providers(self) -> list[str]:
        return self.get_available_providers()


@pytest.mark.parametrize(
    ("wanted", "there", "ran_on"),
    [
        ("cpu", ["CUDAExecutionProvider"], "cpu (ONNX Runtime)"),
        ("cuda:1", ["CUDAExecutionProvider"], "cuda:1 (ONNX Runtime)"),
        ("cuda:1", [], "cpu (ONNX Runtime)"),
        ("mps", ["CoreMLExecutionProvider"], "mps (ONNX Runtime)"),
    ],
)
def test_the_runtime_takes_the_chosen_device_where_it_can_and_says_what_it_took(
    wanted: str, there: list[str], ran_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    runtime = Runtime(*there)
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    monkeypatch.setattr(store, "path", lambda name, **more: name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with using(wanted):
        detector = PpOcr()
    assert detector.device == ran_on  # asked outside: the choice was made when it was built
    detector._runtime()
    assert runtime.asked[-1] == "CPUExecutionProvider"
    taken = [each[0] for each in runtime.asked[:-1]]
    assert taken == ([] if ran_on.startswith("cpu") else there)
    if wanted == "cuda:1" and there:
        assert runtime.asked[0][1]["device_id"] == 1
