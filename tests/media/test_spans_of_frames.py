"""A span of a recording read by itself, and pieces joined: the same pictures, at the same times."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from sfumato.media import (
    MediaError,
    TimelineReader,
    VideoJoiner,
    VideoWriter,
    open_video,
    read_stretch,
)
from sfumato.media import _timeline as timeline_module
from sfumato.media._frame_index import FrameIndex

COUNT, WIDTH, HEIGHT = 61, 64, 48
Shown = list[tuple[Fraction, bytes]]


def pictures(count: int = COUNT) -> list[Any]:
    rng = np.random.default_rng(4)
    coarse = rng.integers(0, 256, (HEIGHT // 4, WIDTH // 4, 3)).astype(np.uint8)
    wall = np.kron(coarse, np.ones((4, 4, 1), np.uint8))
    return [np.ascontiguousarray(np.roll(wall, number, axis=1)) for number in range(count)]


def encoded(path: Path, codec: str = "libx264", even: bool = True, **options: str) -> Path:
    """As cameras and other tools write: pictures that lean on later ones, uneven times."""
    base, at = Fraction(1, 25) if even else Fraction(1, 600), 0
    steps = np.random.default_rng(1).integers(5, 60, COUNT)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.time_base = base
        for number, picture in enumerate(pictures()):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = at, base
            at += 1 if even else int(steps[number])
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


RECORDINGS: dict[str, dict[str, Any]] = {
    "b-frames.mp4": {"bf": "3", "g": "20"},
    "open-gop.mkv": {"bf": "3", "g": "12", "x264-params": "open-gop=1"},
    "one-key.mp4": {"bf": "2", "g": "1000"},
    "uneven.mp4": {"even": False, "bf": "3", "g": "15"},
    "old.avi": {"codec": "mpeg4", "bf": "2"},
    "stream.ts": {"bf": "3", "g": "10"},
}


def whole(path: Path) -> tuple[Any, Shown]:
    with TimelineReader(path) as reader:
        shown = [(frame.time, frame.image.tobytes()) for frame in reader]
        return reader.timeline, shown


@pytest.mark.parametrize("name", sorted(RECORDINGS))
def test_a_span_is_what_one_reading_shows_there(tmp_path: Path, name: str) -> None:
    path = encoded(tmp_path / name, **RECORDINGS[name])
    timeline, shown = whole(path)
    assert len(timeline) == len(shown) == COUNT
    with open_video(path) as video:
        assert [(frame.time, frame.image.tobytes()) for frame in video] == shown
    for first, stop in ((0, 5), (1, 2), (19, 41), (20, 21), (37, COUNT), (0, COUNT)):
        part = timeline.frames.part(first, stop)
        read = [(frame.time, frame.image.tobytes()) for frame in read_stretch(path, part)]
        assert read == shown[first:stop]


@pytest.mark.parametrize("name", ["b-frames.mp4", "uneven.mp4"])
def test_a_span_is_sought_and_not_read_from_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = encoded(tmp_path / name, **RECORDINGS[name])
    timeline, shown = whole(path)

    def never(*_: Any) -> Any:
        raise AssertionError("read from the beginning")

    monkeypatch.setattr(timeline_module, "open_video", never)
    for first in (9, 24, 25, 40):
        part = timeline.frames.part(first, first + 7)
        assert part.index.count < COUNT, "a worker gets no more of the index than it needs"
        read = [(frame.time, frame.image.tobytes()) for frame in read_stretch(path, part)]
        assert read == shown[first : first + 7]


def test_a_file_that_seeks_elsewhere_is_read_from_the_beginning(tmp_path: Path) -> None:
    path = encoded(tmp_path / "b-frames.mp4", **RECORDINGS["b-frames.mp4"])
    timeline, shown = whole(path)
    part = timeline.frames.part(30, 40)
    times = part.index.times
    for wrong in (FrameIndex(times.size, times + 512, times[:1] + 512), None):
        found = list(read_stretch(path, replace(part, index=wrong)))
        assert [(frame.time, frame.image.tobytes()) for frame in found] == shown[30:40]


@pytest.mark.parametrize("name", ["b-frames.mp4", "old.avi"])
def test_other_pictures_than_those_that_were_read_are_refused(tmp_path: Path, name: str) -> None:
    path = encoded(tmp_path / name, **RECORDINGS[name])
    timeline, _ = whole(path)
    marks = timeline.frames.marks[:]
    marks[33] ^= 1
    wrong = replace(timeline.frames, marks=marks)
    assert len(list(read_stretch(path, wrong.part(34, 40)))) == 6
    with pytest.raises(MediaError, match="as it was read"):
        list(read_stretch(path, wrong.part(30, 40)))


def pieces(folder: Path, codec: str, suffix: str, cuts: list[int]) -> list[tuple[Path, list[int]]]:
    times = np.cumsum(np.random.default_rng(2).integers(1, 9, COUNT)).tolist()
    made = []
    for first, stop in zip([0, *cuts], [*cuts, COUNT], strict=True):
        path = folder / f"piece-{first}{suffix}"
        with VideoWriter(path, rate=25, size=(WIDTH, HEIGHT), codec=codec) as writer:
            for picture in pictures()[first:stop]:
                writer.write(picture)
        made.append((path, times[first:stop]))
    return made


@pytest.fixture
def info(tmp_path: Path) -> Any:
    with VideoWriter(tmp_path / "any.mp4", rate=25, size=(WIDTH, HEIGHT)) as writer:
        writer.write(pictures(1)[0])
    with open_video(tmp_path / "any.mp4") as video:
        return replace(video.info, time_base=Fraction(1, 1000))


@pytest.mark.parametrize(
    ("codec", "suffix"),
    [("h264", ".mp4"), ("h264", ".mov"), ("h264", ".mkv"), ("h264rgb", ".mp4"), ("ffv1", ".mkv")],
)
def test_joined_pieces_show_what_they_showed_at_the_times_that_are_given(
    tmp_path: Path, info: Any, codec: str, suffix: str
) -> None:
    """What was checked piece by piece is what the joined file shows, coded or not."""
    parts = pieces(tmp_path, codec, suffix, [13, 14, 40])
    out = tmp_path / f"joined{suffix}"
    with VideoJoiner(out, info, parts, codec=codec) as joiner:
        joiner.join()
    shown = [frame.image.tobytes() for path, _ in parts for frame in open_video(path)]
    with open_video(out) as video:
        assert video.info.rate == 25
        joined = [(frame.time, frame.image.tobytes()) for frame in video]
    assert [image for _, image in joined] == shown
    times = [at for _, each in parts for at in each]
    assert [time for time, _ in joined] == [Fraction(at, 1000) for at in times]


@pytest.mark.parametrize("wrong", ["frame missing", "frame more", "parameters", "order of times"])
def test_pieces_that_do_not_fit_are_refused(tmp_path: Path, info: Any, wrong: str) -> None:
    parts = pieces(tmp_path, "h264", ".mp4", [20])
    path, times = parts[1]
    if wrong == "frame missing":
        parts[1] = path, [*times, times[-1] + 9]
    if wrong == "frame more":
        parts[1] = path, times[:-1]
    if wrong == "order of times":
        parts[1] = path, times[::-1]
    if wrong == "parameters":
        other = tmp_path / "other.mp4"
        with VideoWriter(other, rate=25, size=(WIDTH, HEIGHT), codec="h264rgb") as writer:
            for picture in pictures(len(times)):
                writer.write(picture)
        parts[1] = other, times
    out = tmp_path / "joined.mp4"
    with pytest.raises(MediaError), VideoJoiner(out, info, parts) as joiner:
        joiner.join()
    assert not out.exists()
