"""PP-OCR: where text is, whatever it says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from sfumato import store
from sfumato.devices import chosen_device
from sfumato.media import Image
from sfumato.people._text_line import SURE, TextLine

Floats = npt.NDArray[np.float32]
_MULTIPLE = 32  # the network halves its input five times
_SIDES = (640, 1280)  # of the longer side: small pictures are enlarged, large ones reduced
# What stands elsewhere in the picture speaks in every pixel of the map: beside large clear letters, small
# or faint ones are missed that are found in a piece of the same picture. A piece of something large may look
# like text: what is higher than the overlap is left to the look at the whole.
_PIECE, _OVERLAP, _LONGEST = 256, 48, 3840
_DOUBT = 0.15  # taken off the scores of pieces: eyes and patterns of cloth reach 0.7 there
# higher letters are seen on the whole: what a piece alone takes for them, of a wall or of somebody who bends,
# needs a second sighting; of those higher still, a trace must be seen from afar, or they are no letters
_SMALL, _SEEN_FROM_AFAR, _TRACE = 24.0, 33.0, 0.3
# ImageNet's mean and spread; the network takes blue, green, red
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_SPREAD = np.array([0.229, 0.224, 0.225], np.float32)
_INK = 0.2  # the map's value from which a pixel counts as text
_SMALLEST = 3.0  # pixels of the map: what is lower holds no letter
# Liao et al. 2020 (DB): the map shows lines shrunk; they are grown by this times area / perimeter
_UNSHRINK = 1.5
# rows of trees and crowds look like faint text, and huge: letters of that size are always clear
_LARGE, _CLEAR = 0.12, 0.8
# a window or patterned trousers are now and then one rather large line: unless clear, it must leave a trace
# from afar and needs a second sighting
_RATHER_LARGE = 0.06
_UNSURE = SURE - 0.01
# of the picture's shorter side, and times as long as high: what is higher and shorter is a floor or a wall
_MOST, _LONG = 0.5, 3.0
# in pixels of the recording, and times as long as high with both ends: a lone letter of that size, such as a
# socket on a wall far away, names nobody
_SPECK, _LETTER = 8.0, 2.3
_PROVIDERS = {"cuda": "CUDAExecutionProvider", "mps": "CoreMLExecutionProvider"}
_ENDS = 0.5  # heights by which a line is made longer at both ends: its first and last letters


class PpOcr:
    """``pp-ocr``: lines of text at any angle, from about eight pixels of height.

    ``threshold`` is the least mean of the map over a line. Letters are not read.
    """

    name = "pp-ocr"
    at_once = True

    def __init__(
        self,
        *,
        threshold: float = 0.45,
        sides: tuple[int, int] = _SIDES,
        offline: bool = False,
    ) -> None:
        self._threshold, self._sides = threshold, sides
        self._path = str(store.path("pp-ocr-text", offline=offline))
        self._session: Any = None
        self._making = Lock()
        # asked for here, where the choice is known: a session may be opened by another thread
        self._wanted = chosen_device()

    @property
    def device(self) -> str:
        """What it really runs on: a runtime that cannot use the device that was asked for takes the CPU."""
        provider = _PROVIDERS.get(self._wanted.type)
        used = provider is not None and provider in self._runtime().get_providers()
        return f"{self._wanted if used else 'cpu'} (ONNX Runtime)"

    def detect(self, image: Image) -> list[TextLine]:
        """By both looks, as a whole and in pieces."""
        afar = self._traces(image)
        return without_specks([*self._whole(image, afar), *self._pieces(image, afar)])

    def detect_in_turn(self, image: Image, turn: int) -> list[TextLine]:
        """For half the time: on even turns the whole picture, on odd ones its pieces, not reduced, and
        the whole again where letters are too large for a piece."""
        afar = self._traces(image)
        if turn % 2 == 0:
            return without_specks(self._whole(image, afar))
        large = self._large(afar, image)
        again = self._whole(image, afar) if large else []
        return without_specks([*self._pieces(image, afar), *again])

    def _whole(self, image: Image, afar: Sequence[TextLine]) -> list[TextLine]:
        """Lines of the whole picture; huge ones are sure if they are seen from afar, too."""
        side = self._side(image, self._sides[1])
        found, _ = self._lines(image, side, self.text_map, self._threshold)
        large = self._large(afar, image)
        kept = []
        for line in found:
            if _huge(line, image):
                # a floor is now and then one huge line, on one frame: that needs a second sighting
                there, sure = _is_text(line, image), line.agrees(large)
            else:
                sure = line.score >= _CLEAR or line.sides[0] <= _RATHER_LARGE * image.shape[0]
                there = sure or line.agrees(afar)
            if there:
                kept.append(line if sure else TextLine(line.corners, min(line.score, _UNSURE)))
        return kept

    def _traces(self, image: Image) -> list[TextLine]:
        """What is seen at half the size, for a quarter of the time: a trace is enough."""
        side = self._side(image, self._sides[1]) // 2
        return self._lines(image, side, self.text_map, _TRACE)[0]

    def _large(self, afar: Sequence[TextLine], image: Image) -> list[TextLine]:
        """Huge letters, which a look from afar sees as well."""
        return [line for line in afar if _huge(line, image) and _is_text(line, image)]

    def _pieces(self, image: Image, afar: Sequence[TextLine]) -> list[TextLine]:
        side = self._side(image, _LONGEST)
        found, factor = self._lines(image, side, self._in_pieces, self._threshold + _DOUBT)
        return [
            TextLine(line.corners, min(line.score - _DOUBT, most))
            for line in found
            for height in (line.sides[0] * factor,)
            for most in (1.0 if height <= _SMALL else _UNSURE,)
            if height <= _SEEN_FROM_AFAR or (height <= _OVERLAP and line.agrees(afar))
        ]

    def _side(self, image: Image, most: int) -> int:
        return int(min(max(*image.shape[:2], self._sides[0]), most))

    def _lines(
        self,
        image: Image,
        side: int,
        text_map: Callable[[Image], Floats],
        threshold: float,
    ) -> tuple[list[TextLine], float]:
        """The lines on the picture, looked at with ``side`` pixels on its longer side, and how many times
        larger it was then."""
        height, width = image.shape[:2]
        factor = side / max(height, width)
        wide, high = (_MULTIPLE * math.ceil(each * factor / _MULTIPLE) for each in (width, height))
        shrink = cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR
        picture = np.asarray(cv2.resize(image, (wide, high), interpolation=shrink), np.uint8)
        scale = np.array([width / wide, height / high], np.float32)
        found = lines_of(text_map(picture), threshold)
        return [TextLine(line.corners * scale, line.score) for line in found], factor

    def _in_pieces(self, picture: Image) -> Floats:
        """The map made piece by piece; where two overlap, the higher value."""
        text_map = np.zeros(picture.shape[:2], np.float32)
        for rows in pieces(picture.shape[0]):
            for columns in pieces(picture.shape[1]):
                part = self.text_map(np.ascontiguousarray(picture[rows, columns]))
                np.maximum(text_map[rows, columns], part, out=text_map[rows, columns])
        return text_map

    def text_map(self, picture: Image) -> Floats:
        """For every pixel of an RGB picture (sides multiples of 32), how likely it is text."""
        normal = (picture[:, :, ::-1].astype(np.float32) / 255 - _MEAN) / _SPREAD
        found = self._runtime().run(
            None, {"x": np.ascontiguousarray(normal.transpose(2, 0, 1)[None])}
        )
        return np.asarray(found[0][0, 0], np.float32)

    def _runtime(self) -> Any:
        with self._making:
            if self._session is None:
                import onnxruntime

                options = onnxruntime.SessionOptions()
                # several frames are looked at at once, each in a thread of its own
                options.intra_op_num_threads = 1
                options.log_severity_level = 3
                options.enable_cpu_mem_arena = False  # it would keep hundreds of megabytes
                there = onnxruntime.get_available_providers()
                self._session = onnxruntime.InferenceSession(
                    self._path, options, providers=[*self._provider(there), "CPUExecutionProvider"]
                )
            return self._session

    def _provider(self, there: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
        """What ONNX Runtime calls the device that was asked for, where its build has it."""
        name = _PROVIDERS.get(self._wanted.type)
        if name is None or name not in there:
            return []
        # whole float32, so that what is found does not depend on the card
        cuda = {"device_id": self._wanted.index, "use_tf32": 0}
        return [(name, cuda if self._wanted.type == "cuda" else {})]


def pieces(length: int) -> list[slice]:
    """Equal pieces of a side (a multiple of 32) that overlap and leave nothing out."""
    count = max(1, math.ceil((length - _OVERLAP) / (_PIECE - _OVERLAP)))
    size = min(length, _MULTIPLE * math.ceil(((length - _OVERLAP) / count + _OVERLAP) / _MULTIPLE))
    starts = np.linspace(0, length - size, count).round().astype(int)
    return [slice(int(start), int(start) + size) for start in starts]


def lines_of(text_map: Floats, threshold: float) -> list[TextLine]:
    """The lines of a map of text, each grown back to the outline that the map shrinks."""
    ink = (text_map > _INK).astype(np.uint8)
    contours, _ = cv2.findContours(ink, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    found = []
    for contour in contours:
        centre, (width, height), angle = cv2.minAreaRect(contour)
        # a contour runs through the middles of pixels: half a pixel more on every side
        width, height = width + 1, height + 1
        if min(width, height) < _SMALLEST:
            continue
        score = _mean_inside(text_map, contour)
        if score < threshold:
            continue
        margin = _UNSHRINK * width * height / (2 * (width + height))
        centre = centre[0] + 0.5, centre[1] + 0.5
        width, height = width + 2 * margin, height + 2 * margin
        ends = 2 * _ENDS * min(width, height)
        size = (width + ends, height) if width >= height else (width, height + ends)
        found.append(TextLine.around(centre, size, angle, score))
    return found


def without_specks(lines: Sequence[TextLine]) -> list[TextLine]:
    """The lines without what is too small to be more than a lone letter; beside a line it may be its end."""

    def speck(line: TextLine) -> bool:
        short, long = line.sides
        return short < _SPECK and long <= _LETTER * short

    longer = [line for line in lines if not speck(line)]
    return [
        line
        for line in lines
        if not speck(line)
        or any(each.grown(2 * line.sides[0]).box.covers(line.box) > 0 for each in longer)
    ]


def _huge(line: TextLine, image: Image) -> bool:
    return bool(line.sides[0] > _LARGE * image.shape[0])


def _is_text(line: TextLine, image: Image) -> bool:
    """Whether a huge line is clear, and not about as large as the picture without its shape."""
    short, long = sorted(line.sides)
    fills = short > _MOST * min(image.shape[:2]) and long < _LONG * short
    return line.score >= _CLEAR and not fills


def _mean_inside(text_map: Floats, contour: Any) -> float:
    x, y, wide, high = cv2.boundingRect(contour)
    inside = np.zeros((high, wide), np.uint8)
    cv2.fillPoly(inside, [contour - np.array([x, y])], (1,))
    return float(text_map[y : y + high, x : x + wide][inside.view(bool)].mean())
