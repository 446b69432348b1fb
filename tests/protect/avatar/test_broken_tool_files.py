"""Poses, masks and inpainted videos of other tools that are not what they should be.

One sentence, no output, and nothing of the user's is touched.
"""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.body import Camera
from sfumato.errors import SfumatoError
from sfumato.media import Image, VideoWriter
from sfumato.privacy import read_card
from sfumato.protect import release
from sfumato.protect.avatar import Avatar, Scene
from sfumato.protect.avatar import _avatar as method_module

COUNT, HEIGHT, WIDTH = 4, 48, 64
RLE = {"size": [HEIGHT, WIDTH], "counts": [0, HEIGHT * WIDTH]}
PERSON = {
    "tid": [1], "tracked_time": [0], "3d_joints": [[[0.0, 0.0, 0.1]] * 45], "camera": [[0.0, 0.0, 5.0]],
    "size": [[HEIGHT, WIDTH]], "mask": [{"size": [HEIGHT, WIDTH], "counts": "0"}], "time": 0,
}  # fmt: skip


def poses(**changes: Any) -> bytes:
    joints = np.random.default_rng(0).normal(size=(COUNT, 24, 3)) * 0.3 + [0, 0, 4]
    whole = {"frame": np.arange(COUNT), "person": np.zeros(COUNT, int), "joints": joints,
             "layout": "sfumato24", "focal": 60.0}  # fmt: skip
    return archive(**(whole | changes))


def archive(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def masks(shape: Sequence[int] = (COUNT, HEIGHT, WIDTH), kind: Any = bool) -> bytes:
    return archive(masks=np.zeros(shape, kind))


def array() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.zeros(3))
    return stream.getvalue()


def phalp(**changes: Any) -> bytes:
    person = {name: value for name, value in (PERSON | changes).items() if value is not None}
    return pickle.dumps({"0.jpg": person})


def instances(**changes: Any) -> bytes:
    one = {"image_id": 0, "category_id": 1, "segmentation": RLE} | changes
    return json.dumps([one]).encode()


def spoilt(content: bytes) -> bytes:
    """One byte in the middle is another."""
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


def video(path: Path, count: int = COUNT, height: int = HEIGHT, level: int = 60) -> Path:
    with VideoWriter(path, rate=Fraction(10), size=(WIDTH, height), codec="ffv1") as made:
        for number in range(count):
            made.write(np.full((height, WIDTH, 3), level + number, np.uint8))
    return path


POSES: dict[str, bytes] = {
    "empty.npz": b"", "cut.npz": poses()[:-9], "half.npz": poses()[: len(poses()) // 2],
    "spoilt.npz": spoilt(poses()), "text.npz": b"hello", "array.npz": array(), "other.npz": masks(),
    "ending.txt": poses(), "focal-text.npz": poses(focal="wide"), "focal-nan.npz": poses(focal=np.nan),
    "focal-endless.npz": poses(focal=np.inf), "focal-complex.npz": poses(focal=1j),
    "focal-two.npz": poses(focal=[1.0, 2.0]), "layout.npz": poses(layout="x" * 5000),
    "later.npz": poses(frame=np.arange(COUNT) + 1),
    "huge.npz": poses(frame=np.arange(COUNT).astype(np.uint64) + np.uint64(2**63)),
    "fewer.npz": poses(frame=np.arange(COUNT - 1)), "two.npz": poses(joints=np.ones((COUNT, 24, 2))),
    "behind.npz": poses(joints=-np.ones((COUNT, 24, 3))), "empty.pkl": b"", "text.pkl": b"hello",
    "list.pkl": pickle.dumps([1]), "nothing.pkl": pickle.dumps({}), "lacks.pkl": phalp(tid=None),
    "no-camera.pkl": phalp(camera=None), "name.pkl": phalp(tid=["x"]), "flat.pkl": phalp(tid=5),
    "plane.pkl": phalp(**{"3d_joints": [[[0.0, 0.1]] * 45]}), "side.pkl": phalp(size=[HEIGHT]),
    "words.pkl": phalp(**{"3d_joints": [[["a", 0.0, 0.1]] * 45]}),
}  # fmt: skip
MASKS: dict[str, bytes] = {
    "empty.npz": b"", "cut.npz": masks()[:-3], "spoilt.npz": spoilt(masks()), "array.npz": array(),
    "other.npz": poses(), "short.npz": masks((COUNT - 1, HEIGHT, WIDTH)),
    "long.npz": masks((COUNT + 1, HEIGHT, WIDTH)), "turned.npz": masks((COUNT, WIDTH, HEIGHT)),
    "nan.npz": archive(masks=np.full((COUNT, HEIGHT, WIDTH), np.nan)), "flat.npz": masks((0,)),
    "empty.mkv": b"", "text.mkv": b"hello", "empty.png": b"", "lacks.pkl": phalp(size=None),
    "negative.pkl": phalp(size=[[-3, 5]]), "word.pkl": phalp(size="ab"), "mask.pkl": phalp(mask=None),
    "empty.json": b"", "object.json": b"{}", "none.json": b"[]", "numbers.json": b"[1]",
    "deep.json": b"[" * 100_000, "lacks.json": b'[{"image_id": 0}]',
    "before.json": instances(image_id=-5), "endless.json": instances(image_id=float("inf")),
    "size.json": instances(segmentation={"size": [-1, 5], "counts": "a"}),
    "counts.json": instances(segmentation={"size": [HEIGHT, WIDTH], "counts": None}),
    "score.json": instances(score="x"), "polygon.json": instances(segmentation=[[1, 2, 3]]),
}  # fmt: skip
FILLED: dict[str, bytes] = {"empty.mkv": b"", "text.mkv": b"hello", "other.npz": poses()}


def content_file(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def linked(name: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(name)


# a pipe waits for ever and a device never ends
PLACES: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "lost": linked("nowhere"),
    "loop": lambda path: path.symlink_to(path.name),
    "pipe": os.mkfifo,
    "device": linked("/dev/zero"),
    "nothing": lambda path: None,
}
CASES = [
    *[("poses", name, content_file(content)) for name, content in POSES.items()],
    *[("masks", name, content_file(content)) for name, content in MASKS.items()],
    *[("inpainting", name, content_file(content)) for name, content in FILLED.items()],
    *[
        (what, f"{name}{ending}", make)
        for what, endings in (
            ("poses", (".npz", ".pkl")),
            ("masks", (".npz", ".pkl", ".json", ".mkv", "")),
            ("inpainting", (".mkv", "")),
        )
        for ending in endings
        for name, make in PLACES.items()
    ],
    ("inpainting", "small.mkv", lambda path: video(path, height=HEIGHT // 2)),
    ("inpainting", "short.mkv", lambda path: video(path, COUNT - 1)),
    ("inpainting", "long.mkv", lambda path: video(path, COUNT + 1)),
    ("inpainting", "half.mkv", lambda path: path.write_bytes(video(path).read_bytes()[:900])),
]


@pytest.fixture
def good(tmp_path: Path) -> dict[str, str]:
    """What makes a release; each test breaks one of them."""
    video(tmp_path / "in.mkv", level=100)
    (tmp_path / "poses.npz").write_bytes(poses())
    (tmp_path / "masks.npz").write_bytes(masks())
    return {"poses": str(tmp_path / "poses.npz"), "masks": str(tmp_path / "masks.npz")}


def avatar(**settings: Any) -> Avatar:
    return Avatar(body="procedural", seed=1, second_look=False, **settings)


def seen(folder: Path) -> dict[str, tuple[int, int, int]]:
    return {
        path.name: (path.lstat().st_mode, path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in folder.iterdir()
    }


def test_the_files_that_the_others_are_made_from_are_taken(
    tmp_path: Path, good: dict[str, str]
) -> None:
    filled = str(video(tmp_path / "filled.mkv"))
    (tmp_path / "link.npz").symlink_to("poses.npz")
    linked_poses = good | {"poses": f"path:{tmp_path / 'link.npz'}", "inpainting": filled}
    release(avatar(**linked_poses), tmp_path / "in.mkv", tmp_path / "out.mkv")
    (tmp_path / "a.pkl").write_bytes(phalp())
    found = good | {"poses": str(tmp_path / "a.pkl")}
    release(avatar(**found), tmp_path / "in.mkv", tmp_path / "b.mkv")
    assert (tmp_path / "out.mkv").is_file()
    assert (tmp_path / "b.mkv").is_file()


@pytest.mark.parametrize(("what", "name", "make"), CASES, ids=[f"{w}-{n}" for w, n, _ in CASES])
def test_a_broken_file_is_one_sentence_and_no_output(
    tmp_path: Path, good: dict[str, str], what: str, name: str, make: Callable[[Path], object]
) -> None:
    broken = tmp_path / f"broken-{name}"
    make(broken)
    before = seen(tmp_path)
    with pytest.raises((SfumatoError, OSError)) as refused:
        release(avatar(**good | {what: str(broken)}), tmp_path / "in.mkv", tmp_path / "out.mkv")
    told = str(refused.value)
    assert isinstance(refused.value, SfumatoError), told
    assert "\n" not in told
    assert 20 < len(told) < 400
    assert str(tmp_path) not in told
    assert seen(tmp_path) == before


class Ours:
    """The bundled detectors' part: sees nobody, and says by what it looked."""

    name = "people"
    detectors_used = (("centernet every 2 to 8 frames", "cpu (LiteRT)"),)

    def find(self, images: Sequence[Image]) -> Scene:
        height, width = images[0].shape[:2]
        return Scene(np.zeros((len(images), height, width), bool), (), Camera.facing(width, height))


@pytest.mark.parametrize("beside", [(), ("masks",), ("poses", "masks")])
def test_the_card_names_our_own_detectors_also_beside_other_tools(
    tmp_path: Path, good: dict[str, str], monkeypatch: pytest.MonkeyPatch, beside: tuple[str, ...]
) -> None:
    monkeypatch.setattr(method_module, "_bundled", Ours)
    monkeypatch.setattr(method_module, "ResidualFaceCheck", lambda: None)
    method = Avatar(body="procedural", seed=1, **{name: good[name] for name in beside})
    release(method, tmp_path / "in.mkv", tmp_path / "out.mkv")
    tools = [f"{name} of another tool on its own device" for name in beside]
    assert list(read_card(tmp_path / "out.mkv").detectors) == [
        *tools,
        "centernet every 2 to 8 frames on cpu (LiteRT)",
    ]
