"""Files that 4D-Humans and Mask DINO really write, read as poses and masks.

4D-Humans tracks with PHALP, which writes one ``.pkl`` a video (``joblib.dump(..., compress=3)``): a dictionary
from frame to lists with an entry a person. It is read here without unpickling anything but numbers, text and
plain arrays. Mask DINO and other models of detectron2 write ``coco_instances_results.json``: a list of instances
with run-length encoded masks.
"""

from __future__ import annotations

import io
import json
import pickle
import zlib
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import numpy.typing as npt

from sfumato import people
from sfumato.errors import reading
from sfumato.protect._method import ProtectError

Rows = dict[str, npt.NDArray[Any]]
_FOCAL, _SIDE = 5000.0, 256.0  # of HMR: pixels of focal length, in a square picture of that side
_BODY = 25  # of the 45 joints are OpenPose's BODY_25
_PERSON = 1  # category of people in COCO
_SURE = 0.3  # score from which an instance counts
_MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")
_LARGEST = 4 << 30  # bytes that a file may unpack to
_RESULTS = "the .pkl that PHALP (4D-Humans, track.py) writes for a video"
Tree = dict[str, Any]


def read_phalp(path: Path) -> Tree:
    """The dictionary of a PHALP ``.pkl``, frames in their order."""
    content = path.read_bytes()
    if content[:1] == b"x":  # zlib, as joblib writes it
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(content, _LARGEST)
        if unpacker.unconsumed_tail:
            raise ValueError("too large")
    tree = _PlainUnpickler(io.BytesIO(content)).load()
    frames = sorted(tree.values(), key=lambda each: int(each["time"]))
    if not frames:
        raise ValueError("no frames")
    return {"frames": frames}


@reading(_RESULTS, ProtectError)
def phalp_poses(path: Path) -> Rows:
    """Rows of poses as ``poses=path:FILE.npz`` has them."""
    frame, person, joints, focal = [], [], [], 0.0
    for number, each in enumerate(read_phalp(path)["frames"]):
        for i, track in enumerate(each["tid"]):
            if int(each["tracked_time"][i]) > 0:
                continue  # carried on without being seen
            points, shift = np.asarray(each["3d_joints"][i]), np.asarray(each["camera"][i])
            if points.ndim != 2 or points.shape[0] < _BODY or shift.shape != (3,):
                raise ProtectError(
                    f"Expected 3d_joints (45, 3) and camera (3,) in a PHALP file, got {points.shape} and "
                    f"{shift.shape}."
                )
            height, width = (int(side) for side in each["size"][i])
            focal = _FOCAL / _SIDE * max(height, width)
            frame.append(number)
            person.append(int(track))
            joints.append(points[:_BODY].astype(np.float64) + shift)
    return {
        "frame": np.array(frame, np.int64), "person": np.array(person, np.int64),
        "joints": np.array(joints).reshape(-1, _BODY, 3), "layout": np.array("body25"),
        **({"focal": np.array(focal)} if focal else {}),
    }  # fmt: skip


@reading(_RESULTS, ProtectError)
def phalp_masks(path: Path) -> npt.NDArray[np.bool_]:
    """Masks (T, H, W) of everybody whom PHALP segmented."""
    frames = read_phalp(path)["frames"]
    sizes = {tuple(int(s) for s in size) for each in frames for size in each["size"]}
    if len(sizes) != 1:
        raise ProtectError(
            "Expected a PHALP file with people of one picture size, got none or several."
        )
    ((height, width),) = sizes
    out = np.zeros((len(frames), height, width), bool)
    for t, each in enumerate(frames):
        for rles in each["mask"]:
            for rle in rles if isinstance(rles, list) else [rles]:
                out[t] |= _run_lengths(rle, height, width)
    return out


@reading(
    "a coco_instances_results.json of detectron2 (a list of instances with image_id, category_id, score and "
    "segmentation)",
    ProtectError,
)
def detectron_masks(path: Path, frames: int | None = None) -> npt.NDArray[np.bool_]:
    """Masks (T, H, W) of the people in a ``coco_instances_results.json``; images are frames, from 0 or 1."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(stored, list):
        raise TypeError
    ours = [
        (int(each["image_id"]), each["segmentation"])
        for each in stored
        if int(each["category_id"]) == _PERSON and float(each.get("score", 1)) >= _SURE
    ]
    everyone = [int(each["image_id"]) for each in stored]
    size = next(each["segmentation"]["size"] for each in stored)
    height, width = (int(side) for side in size)
    first = 0 if 0 in everyone else 1
    out = np.zeros((frames or max(everyone) - first + 1, height, width), bool)
    for image, rle in ours:
        if not 0 <= image - first < len(out):
            raise ProtectError(
                f"Expected image_id as the number of a frame, {first} to {len(out) - 1 + first}, got {image}."
            )
        out[image - first] |= _run_lengths(rle, height, width)
    return out


def _run_lengths(rle: Any, height: int, width: int) -> npt.NDArray[np.bool_]:
    try:
        counts = rle["counts"]
        text = counts.decode("ascii") if isinstance(counts, bytes) else counts
        return people.run_length_mask({"size": rle["size"], "counts": text}, width, height)
    except (ValueError, KeyError, TypeError, IndexError, UnicodeError):
        raise ProtectError(
            f"Expected run-length encoded masks of {width} x {height}, got others."
        ) from None


class _ArrayInFile:
    """Stands for joblib's NumpyArrayWrapper: the array's bytes follow it in the file."""

    shape: Any
    order: Any
    dtype: Any
    numpy_array_alignment_bytes: Any = None

    def __setstate__(self, state: Any) -> None:
        for name in ("shape", "order", "dtype"):
            setattr(self, name, state[name])
        self.numpy_array_alignment_bytes = state.get("numpy_array_alignment_bytes")

    def read(self, stream: IO[bytes]) -> npt.NDArray[Any]:
        kind = np.dtype(self.dtype)
        if kind.hasobject or kind.kind not in "biuf":
            raise ValueError("an array of something else than numbers")
        if self.numpy_array_alignment_bytes is not None:
            (padding,) = stream.read(1)
            stream.read(padding)
        shape = tuple(int(side) for side in self.shape)
        wanted = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        content = stream.read(wanted)
        if len(content) != wanted:
            raise ValueError("a file that ends early")
        flat = np.frombuffer(content, kind)
        return flat.reshape(shape[::-1]).T if self.order == "F" else flat.reshape(shape)


class _PlainUnpickler(pickle._Unpickler):
    """Unpickles dictionaries, lists, numbers, text and plain arrays; anything else is refused unrun."""

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)

    stack: list[Any]

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(stream)
        self._stream = stream

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("joblib.numpy_pickle", "NumpyArrayWrapper"):
            return _ArrayInFile
        if (module, name) == ("numpy", "ndarray"):
            return _PLAIN
        if (module, name) == ("numpy", "dtype"):
            return _number_type
        if module in _MULTIARRAY and name == "_reconstruct":
            return _empty_array
        if module in _MULTIARRAY and name == "scalar":
            return _number
        if (module, name) == ("_codecs", "encode"):
            return _latin
        raise ProtectError(
            f"Expected a file of numbers, text and arrays, but it asks for {module}.{name}: nothing was run; "
            "do not use this file."
        )

    def persistent_load(self, pid: Any) -> Any:
        raise ProtectError("Expected a file that is whole, but it refers to outside objects.")

    def load_build(self) -> None:
        pickle._Unpickler.load_build(self)  # type: ignore[attr-defined]
        if isinstance(self.stack[-1], _ArrayInFile):
            self.stack.append(self.stack.pop().read(self._stream))

    dispatch[pickle.BUILD[0]] = load_build


_PLAIN = object()


def _number_type(code: Any, *flags: Any) -> np.dtype[Any]:
    kind = np.dtype(code) if isinstance(code, str) else None
    if kind is None or kind.kind not in "biuf" or kind.names:
        raise ValueError("not a type of numbers")
    return np.dtype(kind.str)


def _empty_array(subtype: Any, shape: Any, code: Any) -> npt.NDArray[Any]:
    if subtype is not _PLAIN or shape != (0,):
        raise ValueError("not a plain array")
    return np.empty((0,), np.int8)


def _number(kind: Any, content: Any) -> Any:
    if not isinstance(kind, np.dtype) or kind.hasobject or not isinstance(content, bytes):
        raise ValueError("not a number")
    return np.frombuffer(content, kind, 1)[0]


def _latin(text: Any, coding: Any) -> bytes:
    if not isinstance(text, str) or coding not in ("latin1", "latin-1"):
        raise ValueError("not text")
    return text.encode("latin-1")
