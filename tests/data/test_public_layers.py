"""A released avatar video as a record: exact mask, and public pixels that no codec has touched."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sfumato.data import RecordsError, Sampling, video_folder
from sfumato.media import VideoWriter
from sfumato.protect.avatar import Avatar, Known, Scene, Track, layer_paths, read_layers
from sfumato.stage import Staging, clips


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of one class with one avatar release, as ``sfumato protect`` leaves it."""
    root = tmp_path_factory.mktemp("release")
    plan = Staging(clips=1, frames=6, fps=10, width=96, height=72, seed=3, actions=("walk",))
    (clip,) = clips(plan)
    source = tmp_path_factory.mktemp("source") / "in.mkv"
    with VideoWriter(source, rate=Fraction(10), size=(96, 72), codec="ffv1") as video:
        for image in clip.frames:
            video.write(image)
    found = Scene(clip.alpha > 0, (Track(clip.joints.astype(float)),), clip.camera, 0.0)
    (root / "walk").mkdir()
    Avatar(body="procedural", finder=Known(found), seed=1).apply(source, root / "walk" / "a.mp4")
    return root


def test_the_exact_mask_and_the_lossless_layer_are_found(released: Path) -> None:
    records = video_folder(released, released)
    assert len(records) == 1
    assert not records.problems.counts
    record = records[0]
    mask, layer = read_layers(released / "walk" / "a.mp4")
    assert record.mask is not None
    assert np.array_equal(record.mask, mask)
    assert np.array_equal(record.x[mask], layer[mask])
    plain = video_folder(released)[0]
    assert np.array_equal(record.x[~mask], plain.x[~mask])
    assert not np.array_equal(plain.x[mask], layer[mask])  # what the codec made of it
    few = video_folder(released, released, sampling=Sampling(frames=3))[0]
    places = Sampling(frames=3).places(6)
    assert np.array_equal(few.x[few.mask], layer[places][mask[places]])


def test_a_mask_without_its_layer_is_left_out(released: Path, tmp_path: Path) -> None:
    target = tmp_path / "walk" / "a.mp4"
    target.parent.mkdir()
    mask, layer = layer_paths(target)
    for file in (target, mask):
        file.write_bytes((released / "walk" / file.name).read_bytes())
    with pytest.raises(RecordsError, match="public layer"):
        video_folder(tmp_path, tmp_path)
    layer.write_bytes((released / "walk" / layer.name).read_bytes())
    assert len(video_folder(tmp_path, tmp_path)) == 1


def test_a_video_is_never_its_own_mask(released: Path, tmp_path: Path) -> None:
    (tmp_path / "walk").mkdir()
    (tmp_path / "walk" / "a.mp4").write_bytes((released / "walk" / "a.mp4").read_bytes())
    with pytest.raises(RecordsError, match="mask with every video"):
        video_folder(tmp_path, tmp_path)


def test_a_layer_of_another_video_is_refused(released: Path, tmp_path: Path) -> None:
    target = tmp_path / "walk" / "a.mp4"
    target.parent.mkdir()
    mask, layer = layer_paths(target)
    for file in (target, mask):
        file.write_bytes((released / "walk" / file.name).read_bytes())
    with VideoWriter(layer, rate=10, size=(96, 72), codec="ffv1") as video:
        video.write(np.zeros((72, 96, 3), np.uint8))
    with pytest.raises(RecordsError, match="public layer of shape"):
        _ = video_folder(tmp_path, tmp_path)[0]
