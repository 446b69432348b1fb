"""MoveNet multipose: a box and 17 joints of every person in the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.media import Image
from sfumato.people._boxes import Box, from_rows
from sfumato.people.detect._litert import DEVICE, LiteRtModels
from sfumato.people.detect._tfjs import load_graph_model
from sfumato.people.detect._tfjs_to_litert import convert
from sfumato.people.detect._tiles import Tile, one_each, whole_and_tiles

Floats = npt.NDArray[np.float32]
Cells = npt.NDArray[np.int_]

JOINTS = (
    *("nose", "left eye", "right eye", "left ear", "right ear"),
    *("left shoulder", "right shoulder", "left elbow", "right elbow", "left wrist", "right wrist"),
    *("left hip", "right hip", "left knee", "right knee", "left ankle", "right ankle"),
)
"""The 17 joints of COCO, in their order."""

_STRIDE = 4
_HEADS = tuple(
    f"StatefulPartitionedCall/{head}/BiasAdd"
    for head in (
        "center_0/conv2d_4",  # logit of a person's middle
        "box_scale_0/conv2d_5",  # height and width in cells
        "box_offset_0/conv2d_6",  # of the middle within its cell
        "kpt_heatmap_0/conv2d_7",  # logit of each joint
        "kpt_regress_0/conv2d_8",  # from the middle's cell to each joint
        "kpt_offset_0/conv2d_9",  # of each joint within its cell
    )
)
# Constants of the graph's own decoding, as the file has them in 16 bits.
_PEAK = 5  # a middle is the largest of this many cells around
_SAME_VALUE = 1.0132789611816406e-06
_REACH = 0.300048828125  # of the shorter side: how far a joint may lie from where it is expected
_FACE, _HEAD = 5, 0.1  # the joints of a head, and when one of them is worth a word
_APART = 0.12  # of a box: the mean distance of the joints of two people
_SEEN = 0.126953125  # joints above this count for the score of a person


@dataclass(frozen=True, slots=True, eq=False)
class JointedPerson:
    """A box, and 17 joints (x, y) in pixels of the picture with the confidence in each."""

    box: Box
    joints: Floats
    confidence: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """People in pixels of the network's input: corners (n, 4), joints (n, 17, 2), confidence
    (n, 17), scores (n,), the surest middle first."""

    corners: Floats
    joints: Floats
    confidence: Floats
    scores: Floats


class MoveNet:
    """``movenet``: people from any side, also where they are cut off; small ones in tiles.

    The file's own decoding stops at six people a picture; here ``people`` bounds them.
    """

    name = "movenet"
    device = DEVICE
    at_once = in_tiles = True
    birth = 0.15  # score from which a find alone is somebody new

    def __init__(
        self,
        *,
        threshold: float = 0.15,
        sides: tuple[int, int] = (384, 512),
        tile_side: int = 384,
        tiles: bool = True,
        people: int = 30,
        offline: bool = False,
    ) -> None:
        self._threshold, self._people = threshold, people
        self._sides, self._tile_side, self._tiles = sides, tile_side, tiles
        graph = load_graph_model("movenet-multipose", offline=offline)
        self._models = LiteRtModels(lambda size: convert(graph, size, _HEADS))

    def detect(self, image: Image) -> list[Box]:
        return [person.box for person in self.people(image)]

    def people(self, image: Image) -> list[JointedPerson]:
        """Everybody, the surest first."""
        return self.look(image)[0]

    def look(self, image: Image, *, tiles: bool = True) -> tuple[list[JointedPerson], Floats]:
        """Everybody, the surest first, without ``tiles`` those who are large enough; and where heads are, whosever they may be: (n, 3) places in the
        picture and how sure they are. Of two who embrace, one may be nobody's but a head."""
        height, width = image.shape[:2]
        found: list[JointedPerson] = []
        cut: list[bool] = []
        heads: list[Floats] = []
        for tile in whole_and_tiles(
            image, self._sides, self._tile_side, tiles=self._tiles and tiles
        ):
            here, peaks = self._look(tile)
            found += here
            cut += [tile.cuts(person.box, width, height) for person in here]
            heads.append(peaks)
        kept = one_each(
            [person.box for person in found], cut, lambda i, j: _one(found[i], found[j])
        )
        everybody = sorted((found[i] for i in kept), key=lambda person: -person.box.score)
        return everybody, np.concatenate(heads)

    def _look(self, tile: Tile) -> tuple[list[JointedPerson], Floats]:
        outputs = self._models(tile.pixels)
        seen = decode(outputs, self._threshold, self._people)
        boxes = from_rows(tile.to_picture(seen.corners), seen.scores, self.name)
        joints = tile.to_picture(seen.joints)
        everybody = [
            JointedPerson(*person)
            for person in zip(boxes, joints, seen.confidence, strict=True)
            if person[0].score >= self._threshold
        ]
        places, scores = head_peaks(outputs[3])
        return everybody, np.column_stack([tile.to_picture(places), scores]).astype(np.float32)


def head_peaks(heat: Floats) -> tuple[Floats, Floats]:
    """Where a nose, an eye or an ear is likely, in pixels of the network's input, and how likely."""
    likely = _sigmoid(heat[..., :_FACE].max(axis=-1))
    largest = cv2.dilate(likely, np.ones((_PEAK, _PEAK), np.uint8))
    y, x = np.nonzero((likely == largest) & (likely >= _HEAD))
    return (np.stack([x, y], axis=1).astype(np.float32) + 0.5) * _STRIDE, likely[y, x]


def _one(a: JointedPerson, b: JointedPerson) -> bool:
    """Whether two finds in one place are one person: those who embrace share a box, not their joints."""
    weight = np.minimum(a.confidence, b.confidence)
    away = np.linalg.norm(a.joints - b.joints, axis=1)
    size = np.sqrt(max(min(a.box.area, b.box.area), 1.0))
    return bool((away * weight).sum() <= _APART * size * weight.sum())


def decode(heads: Sequence[Floats], threshold: float, people: int) -> Decoded:
    """People whose middle is a peak of at least ``threshold``, up to ``people``.

    The score of a person is the middle's times the mean of the joints that are seen, so it may lie
    below ``threshold``.
    """
    centre, extent, offset, heat, expected, joint_offset = heads
    rows, columns = centre.shape[:2]
    middle = _sigmoid(centre[..., 0])
    largest = cv2.dilate(middle, np.ones((_PEAK, _PEAK), np.uint8))
    y, x = np.nonzero((largest - middle < _SAME_VALUE) & (middle >= threshold))
    order = np.argsort(-middle[y, x], kind="stable")[:people]
    y, x = y[order], x[order]
    cells = np.stack([y, x], axis=1).astype(np.float32)
    centres, half = cells + offset[y, x], np.maximum(extent[y, x], 0) / 2
    limit = np.array([rows, columns], np.float32)
    low, high = (
        np.clip(edge, 0, limit).astype(np.float32) for edge in (centres - half, centres + half)
    )
    guesses = cells[:, None] + expected[y, x].reshape(-1, len(JOINTS), 2)
    at, confidence = _joints(heat, guesses, low, high)
    offsets = joint_offset.reshape(rows, columns, len(JOINTS), 2)
    joints = at + offsets[at[..., 0], at[..., 1], np.arange(len(JOINTS))]
    seen = confidence > _SEEN
    mean = (confidence * seen).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    return Decoded(
        np.concatenate([low[:, ::-1], high[:, ::-1]], axis=1) * np.float32(_STRIDE),
        joints[..., ::-1].astype(np.float32) * np.float32(_STRIDE),
        confidence,
        (middle[y, x] * mean).astype(np.float32),
    )


def _joints(heat: Floats, guesses: Floats, low: Floats, high: Floats) -> tuple[Cells, Floats]:
    """The cells (row, column) of everybody's joints, and the confidence in each: as in the graph,
    what the best placed of all people would give to that cell."""
    everybody = list(zip(guesses, low, high, strict=True))
    found = [_best_cells(heat, *person) for person in everybody]
    at = np.array(found, int).reshape(-1, len(JOINTS), 2)
    confidence = np.zeros(at.shape[:2], np.float32)
    here = _sigmoid(heat[at[..., 0], at[..., 1], np.arange(len(JOINTS))])
    for person in everybody:
        confidence = np.maximum(confidence, here * _nearness(heat, at, *person))
    return at, confidence


def _best_cells(heat: Floats, guesses: Floats, low: Floats, high: Floats) -> Cells:
    """The cell (row, column) of each joint of one person: of those inside the box, the one with the
    best product of its heat and its nearness to where the joint is expected."""
    (top, left), (bottom, right) = (np.ceil(edge).astype(int) for edge in (low, high))
    rows, columns = np.mgrid[top:bottom, left:right]
    cells = np.stack([rows, columns], axis=-1)[:, :, None]
    value = _sigmoid(heat[top:bottom, left:right]) * _nearness(heat, cells, guesses, low, high)
    flat = value.reshape(-1, len(JOINTS))
    if not len(flat):
        return np.zeros((len(JOINTS), 2), int)
    best = flat.argmax(axis=0)
    chosen = np.stack(np.divmod(best, right - left), axis=1) + np.array([top, left])
    # where nothing inside the box comes near, the graph takes its very first cell
    return np.where(flat.max(axis=0)[:, None] > 0, chosen, 0)


def _nearness(heat: Floats, cells: Cells, guesses: Floats, low: Floats, high: Floats) -> Floats:
    """How near cells (..., 17 or 1, 2) lie to where one person's joints are expected, from 1 down;
    0 outside the person's box."""
    spread = np.float32(_REACH * min(heat.shape[:2]))
    near = np.exp(-((cells - guesses) ** 2).sum(axis=-1, dtype=np.float32) / spread)
    inside = ((cells >= low) & (cells < high)).all(axis=-1)
    return np.asarray(near * inside, np.float32)


def _sigmoid(logits: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -80, 80))), np.float32)
