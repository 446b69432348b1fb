"""Records that are read ahead are the records, each decoded once, and errors are their reader's."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from sfumato.data import ReadAhead, Sampling, VideoItem, VideoRecords, sampled_frames
from sfumato.data import _videos as videos
from sfumato.errors import SfumatoError
from sfumato.learn import Plan, Speed, VideoClips, train
from sfumato.media import VideoWriter, read_frames
from sfumato.privacy import Randomness


def clip(path: Path, frames: int, seed: int = 0) -> Path:
    draw = np.random.default_rng(seed)
    with VideoWriter(path, rate=Fraction(10), size=(32, 24), codec="ffv1") as video:
        for _ in range(frames):
            video.write(draw.integers(0, 256, (24, 32, 3), dtype=np.uint8))
    return path


def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    seen: list[Path] = []
    real = videos.open_video

    def counting(path: Any, **more: Any) -> Any:
        seen.append(Path(path))
        return real(path, **more)

    monkeypatch.setattr(videos, "open_video", counting)
    return seen


@pytest.mark.parametrize("lie", [None, 3, 100])
@pytest.mark.parametrize("stride", [None, 2])
def test_a_video_is_decoded_once_and_again_only_if_its_header_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: int | None, stride: int | None
) -> None:
    path, seen = clip(tmp_path / "a.mkv", 20), opened(monkeypatch)
    if lie is not None:
        kind = type(videos.open_video(path).info)
        seen.clear()
        monkeypatch.setattr(kind, "expected_frames", property(lambda self: lie))
    sampling = Sampling(4, stride)
    found, places = sampled_frames(path, sampling)
    whole = read_frames(path)
    assert places is not None
    np.testing.assert_array_equal(places, sampling.places(20))
    np.testing.assert_array_equal(found, whole[places])
    assert len(seen) == (1 if lie is None else 2)


def test_what_is_read_ahead_is_what_would_be_read(tmp_path: Path) -> None:
    items = [VideoItem(clip(tmp_path / f"{n}.mkv", 6, n), n % 2) for n in range(5)]
    records = VideoRecords(items, ("a", "b"), sampling=Sampling(3))
    with ReadAhead(records, 2) as ahead:
        assert ahead.is_open
        ahead.expect([3, 1, 3])
        for index in (1, 3, 3, 0):
            np.testing.assert_array_equal(ahead.get(index).x, records[index].x)
    (tmp_path / "4.mkv").write_bytes(b"no video")
    with ReadAhead(records, 2) as ahead:
        ahead.expect([4])
        with pytest.raises(SfumatoError):
            ahead.get(4)
    with ReadAhead([], 2) as none:  # type: ignore[arg-type]
        assert not none.is_open


def test_reading_ahead_changes_no_number_of_a_training(tmp_path: Path) -> None:
    items = [VideoItem(clip(tmp_path / f"{n}.mkv", 4, n), n % 2) for n in range(8)]
    records = VideoRecords(items, ("a", "b"), sampling=Sampling(2))
    plan = Plan(epsilon=8.0, delta=1e-3, records=8, batch=4, steps=3, clip_norm=1.0,
                relation="replace", unit="record")  # fmt: skip
    found = []
    for threads in (0, 2):
        import torch

        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(2 * 3 * 8 * 8, 2))
        train(model, records, plan, randomness=Randomness(3), speed=Speed(read_ahead=threads),
              prepare=VideoClips(frames=2, height=8, width=8))  # fmt: skip
        found.append(model[1].weight.detach().numpy())
    np.testing.assert_array_equal(found[0], found[1])
