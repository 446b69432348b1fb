"""What public networks say about crops, computed once: through LiteRT, which takes a third of torch's
time. On features of one picture MoveNet's answers were those of ``sfumato.models`` to 7e-6."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from sfumato.errors import SfumatoError
from sfumato.files import atomic_output
from sfumato.models import movenet_thunder
from sfumato.models._joints_head import merged, unmirrored
from sfumato.models._movenet import Maps
from sfumato.people.detect._litert import LiteRtModel, LiteRtModels
from sfumato.people.detect._tfjs import load_graph_model
from sfumato.people.detect._tfjs_to_litert import convert

Pixels = npt.NDArray[np.uint8]
Answers = npt.NDArray[np.float32]
_CALL = "StatefulPartitionedCall"
_HEADS = (
    "kpt_heatmap_0/conv2d_5",
    "kpt_regress_0/conv2d_6",
    "center_0/conv2d_4",
    "kpt_offset_0/conv2d_7",
)
_OUTPUTS = tuple(f"{_CALL}/{head}/BiasAdd" for head in _HEADS)


TRUNKS = ("movenet-thunder", "blazepose-full")
# where BlazePose's landmarks have the joints of COCO
_OF_33 = [0, 2, 5, 7, 8, 11, 12, 13, 14, 15, 16, 23, 24, 25, 26, 27, 28]


class KeptAnswers:
    """What a network says about crops and their mirror images, from a file where it was said before.

    MoveNet's two answers are merged as :class:`sfumato.models.MirrorTrunk` merges them.
    """

    def __init__(self, folder: Path, trunk: str) -> None:
        if trunk not in TRUNKS:
            raise SfumatoError(f"Expected trunks out of {', '.join(TRUNKS)}, got {trunk!r}.")
        self._folder, self._trunk = folder, trunk
        self._look = movenet_through_litert() if trunk == TRUNKS[0] else blazepose()

    def about(self, name: str, crops: list[Pixels]) -> Answers:
        """(crops, 17, 3) in pixels of the crops."""
        both = [each for crop in crops for each in (crop, np.ascontiguousarray(crop[:, ::-1]))]
        marks = [hashlib.sha256(each.tobytes()).digest() for each in both]
        path = self._folder / f"answers-{self._trunk}-{name}.npz"
        known: dict[bytes, Answers] = {}
        if path.is_file():
            with np.load(path, allow_pickle=False) as kept:
                known = {m.tobytes(): row for m, row in zip(kept["marks"], kept["rows"])}
        missing = [place for place, mark in enumerate(marks) if mark not in known]
        for done, place in enumerate(missing, 1):
            known[marks[place]] = self._look(both[place])
            if done % 500 == 0 or done == len(missing):
                _write(path, known)
        rows = torch.from_numpy(np.stack([known[mark] for mark in marks]))
        return np.asarray(merged(rows[0::2], unmirrored(rows[1::2])).numpy())


def movenet_through_litert() -> Callable[[Pixels], Answers]:
    net, graph = movenet_thunder(), load_graph_model("movenet-thunder")
    models = LiteRtModels(lambda size: convert(graph, size, _OUTPUTS))

    def look(picture: Pixels) -> Answers:
        outputs = models(picture.astype(np.float32))
        maps = Maps(*(torch.from_numpy(np.array(o)).permute(2, 0, 1)[None] for o in outputs))
        with torch.no_grad():
            return np.asarray(net.decode(maps)[0].numpy())

    return look


def blazepose() -> Callable[[Pixels], Answers]:
    model = LiteRtModel("pose-landmark-full")

    def look(picture: Pixels) -> Answers:
        outputs = model((picture / 255).astype(np.float32))
        rows = next(o for o in outputs if o.size == 195).reshape(39, 5)[_OF_33]
        score = 1 / (1 + np.exp(-rows[:, 3:4]))
        return np.concatenate([rows[:, :2], score], axis=1).astype(np.float32)

    return look


def _write(path: Path, known: dict[bytes, Answers]) -> None:
    marks = np.frombuffer(b"".join(known), np.uint8).reshape(-1, 32)
    with atomic_output(path, force=True) as temporary, open(temporary, "wb") as stream:
        np.savez(stream, marks=marks, rows=np.stack(list(known.values())))
