"""From a file to a release: everything or nothing, with a card, without a trace of the input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from sfumato.errors import SfumatoError
from sfumato.ledger import Ledger
from sfumato.media import Frame, VideoWriter, open_video, read_image, write_image
from sfumato.privacy import Guarantee, NoGuarantee, card_path, check_outputs, read_card
from sfumato.protect import Method, OutputSettings, Promise, Shape, release
from sfumato.protect._chain import Chain
from sfumato.protect._command import Order, carry_out, dry_run_report
from sfumato.protect._release import narrowed_by_sound
from sfumato.protect.video import VideoDprp

RATE = Fraction(30000, 1001)


def write_video(path: Path, frames: int = 10) -> Path:
    generator = np.random.default_rng(0)
    with VideoWriter(path, rate=RATE, size=(32, 24)) as writer:
        for _ in range(frames):
            writer.write(generator.integers(0, 256, (24, 32, 3)).astype(np.uint8))
    return path


def dprp(**changes: Any) -> VideoDprp:
    settings: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "unit": "frame"}
    return VideoDprp(**(settings | {"block": 4, "kept_frames": 2, "kept_size": 4} | changes))


class Failing(Method):
    """Gives up in the middle of a video."""

    name: ClassVar[str] = "failing"
    summary: ClassVar[str] = "never ends well"
    provides: ClassVar[str] = "nothing"
    lookahead = 0
    settings: ClassVar[dict[str, Any]] = {}  # type: ignore[misc]

    def promise(self, shape: Shape) -> Promise:
        return NoGuarantee(mechanism="failing", reason="It fails.")

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        for number, frame in enumerate(frames):
            if number == 5:
                raise RuntimeError("detector lost")
            yield frame


class Dropping(Failing):
    """Quietly leaves out a frame."""

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        return (frame for number, frame in enumerate(frames) if number != 5)


def test_release_keeps_timing_and_writes_a_true_card(tmp_path: Path) -> None:
    source = write_video(tmp_path / "P001_anna.mp4")
    target = tmp_path / "out" / "clip.mp4"
    promise = dprp().apply(source, target)
    assert isinstance(promise, Guarantee)
    with open_video(source) as before, open_video(target) as after:
        assert after.info.rate == before.info.rate == RATE
        assert [frame.time for frame in after] == [frame.time for frame in before]
    card = read_card(target)
    check_outputs(card, target.parent)
    assert card.promise == promise
    assert sorted(path.name for path in target.parent.iterdir()) == [
        "clip.mp4",
        "clip.mp4.card.json",
        "clip.mp4.card.md",
    ]
    for path in target.parent.iterdir():
        assert b"anna" not in path.read_bytes()


@pytest.mark.parametrize("method", [Failing, Dropping])
def test_nothing_appears_when_a_frame_was_not_protected(
    tmp_path: Path, method: type[Method]
) -> None:
    source = write_video(tmp_path / "in.mp4")
    with pytest.raises((RuntimeError, SfumatoError)):
        release(method(), source, tmp_path / "out" / "clip.mp4")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("existing", ["clip.mp4", "clip.mp4.card.json", "clip.mp4.card.md"])
def test_nothing_is_overwritten_unless_forced(tmp_path: Path, existing: str) -> None:
    source = write_video(tmp_path / "in.mp4")
    (tmp_path / existing).write_text("precious")
    with pytest.raises(SfumatoError, match="--force"):
        dprp().apply(source, tmp_path / "clip.mp4")
    assert (tmp_path / existing).read_text() == "precious"
    dprp().apply(source, tmp_path / "clip.mp4", force=True)
    check_outputs(read_card(tmp_path / "clip.mp4"), tmp_path)


def test_pictures_are_protected_too(tmp_path: Path) -> None:
    write_image(tmp_path / "in.png", np.full((24, 32, 3), 200, np.uint8))
    dprp(block=1, kept_frames=1).apply(tmp_path / "in.png", tmp_path / "out.png")
    assert read_image(tmp_path / "out.png").shape == (24, 32, 3)
    with pytest.raises(SfumatoError, match="rename the output"):
        dprp().apply(tmp_path / "in.png", tmp_path / "out.mp4")


def test_kept_sound_narrows_or_voids_the_promise() -> None:
    frame = dprp().promise(Shape(24, 32, 10))
    assert "sound" in str(narrowed_by_sound(frame))
    clip = dprp(unit="clip").promise(Shape(24, 32, 10))
    voided = narrowed_by_sound(clip)
    assert isinstance(voided, NoGuarantee)
    assert "sound" in voided.reason


def test_ledger_is_asked_before_anything_is_drawn_and_told_before_anything_is_seen(
    tmp_path: Path,
) -> None:
    source, target = write_video(tmp_path / "in.mp4"), tmp_path / "clip.mp4"
    order = []

    class Watched(VideoDprp):
        def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
            order.append("draw")
            return super().transform(frames, shape)

    @contextmanager
    def spend(promise: Promise) -> Iterator[None]:
        order.append("reserve")
        yield
        order.append("commit" if target.exists() else "commit, nothing seen")

    made = Watched(epsilon=1, delta=1e-5, unit="frame", block=4, kept_frames=2)
    release(made, source, target, spend=spend)
    assert order == ["reserve", "draw", "commit, nothing seen"]


def make_order(source: Path, target: Path, **changes: Any) -> Order:
    settings = {"epsilon": 1.0, "unit": "frame", "block": 4, "kept_frames": 2, "kept_size": 4}
    fields: dict[str, Any] = {"source": source, "target": target, "method": "dprp"}
    return Order(**(fields | {"settings": settings} | changes))


def test_folder_job_protects_all_and_reports_what_failed(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("anna.mp4", "bert.mp4"):
        write_video(folder / name)
    (folder / "broken.mp4").write_bytes(b"not a video at all")
    said: list[str] = []
    report = carry_out(make_order(folder, tmp_path / "out", workers=1), None, said.append)
    assert report.failed == 1
    videos = sorted((tmp_path / "out").rglob("*.mp4"))
    assert len(videos) == 2
    for video in videos:
        assert "anna" not in video.name
        check_outputs(read_card(video), video.parent)
    assert any("delta" in sentence for sentence in said)


def test_folder_is_one_entry_in_the_ledger_until_all_of_it_is_done(tmp_path: Path) -> None:
    """Recordings are disjoint: two files at epsilon 1 spend 1, not 2; another release is too much.

    A run in which something failed leaves its reservation open; the next run takes it up again.
    """
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.mp4", "b.mp4"):
        write_video(folder / name, frames=4)
    ledger = Ledger.open(tmp_path / "book.db")
    ledger.create("films", owner="lab", epsilon=1.05, delta=1e-5, unit="frame", relation="replace")
    order = make_order(folder, tmp_path / "out", workers=1)

    def spend(promise: Promise) -> Any:
        return ledger.spending("films", promise, key=order.key)

    (folder / "b.mp4").rename(tmp_path / "b.mp4")
    (folder / "b.mp4").write_bytes(b"still copying")
    report = carry_out(order, spend, lambda sentence: None)
    assert report.failed == 1
    assert ledger.show("films").pending
    (tmp_path / "b.mp4").rename(folder / "b.mp4")
    report = carry_out(order, spend, lambda sentence: None)
    assert report.failed == 0
    assert not ledger.show("films").pending
    assert ledger.show("films").spent_epsilon == pytest.approx(1.0, abs=0.01)
    order = make_order(folder, tmp_path / "again", workers=1)
    with pytest.raises(SfumatoError, match="keeps the total within"):
        carry_out(order, spend, lambda sentence: None)
    assert not (tmp_path / "again").exists()


def test_dry_run_opens_nothing(tmp_path: Path) -> None:
    report = dry_run_report(make_order(tmp_path / "missing.mp4", tmp_path / "out.mp4"))
    assert report.payload["promise"]["epsilon"] <= 1.0
    assert report.payload["seconds_per_frame"] > 0
    assert report.payload["bytes"] > 0
    assert list(tmp_path.iterdir()) == []
    json.dumps(report.payload)


def test_output_can_be_lossless(tmp_path: Path) -> None:
    source = write_video(tmp_path / "in.mp4")
    one = tmp_path / "a.mkv"
    release(dprp(seed=1), source, one, output=OutputSettings(codec="ffv1"))
    frames = [frame.image for frame in open_video(one)]
    with open_video(source) as reader:
        expected = [frame.image for frame in dprp(seed=1).frames(reader)]
    np.testing.assert_array_equal(np.stack(frames), np.stack(expected))
    assert "seeded" in card_path(one).read_text()


class Layered(Failing):
    """Writes a second file along with the video."""

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        return frames

    def companions(self, video: Path) -> tuple[Path, ...]:
        return (video.with_name(f"{video.stem}.layer.txt"),)

    @contextmanager
    def beside(self, video: Path, info: Any) -> Iterator[None]:
        yield
        self.companions(video)[0].write_text(f"{info.width} wide")


def test_what_belongs_beside_a_video_is_released_with_it_under_one_card(tmp_path: Path) -> None:
    source = write_video(tmp_path / "in.mp4")
    target = tmp_path / "out" / "clip.mp4"
    release(Layered(), source, target)
    assert (tmp_path / "out" / "clip.layer.txt").read_text() == "32 wide"
    assert len(read_card(target).outputs) == 2
    check_outputs(read_card(target), target.parent)
    target.unlink()
    with pytest.raises(SfumatoError, match="--force"):
        release(Layered(), source, target)


def test_layers_of_a_stage_do_not_get_past_the_noise_that_follows(tmp_path: Path) -> None:
    source = write_video(tmp_path / "in.mp4")
    chained = Chain([Layered(), dprp(unit="video")])
    release(chained, source, tmp_path / "out" / "clip.mp4")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"clip.mp4", "clip.mp4.card.json", "clip.mp4.card.md"}
