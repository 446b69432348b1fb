"""From a file to a release: everything or nothing, with a card, without a trace of the input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import av
import cv2
import numpy as np
import pytest

from sfumato.devices import device_for
from sfumato.errors import SfumatoError
from sfumato.jobs import NAMES_NOTE
from sfumato.ledger import Ledger
from sfumato.media import (
    USUAL_RATES,
    Frame,
    VideoInfo,
    VideoWriter,
    open_video,
    read_image,
    write_image,
)
from sfumato.privacy import Guarantee, NoGuarantee, card_path, check_outputs, read_card
from sfumato.protect import (
    Method,
    OutputSettings,
    Promise,
    ProtectError,
    Shape,
    _command,
    get,
    release,
)
from sfumato.protect._chain import Chain
from sfumato.protect._command import CommandResult, Request, dry_run, run
from sfumato.protect._release import narrowed_by_sound
from sfumato.protect.noise import VideoDprp

RATE = Fraction(30000, 1001)


def write_video(path: Path, frames: int = 10, seed: int = 0, **settings: Any) -> Path:
    generator = np.random.default_rng(seed)
    with VideoWriter(path, rate=RATE, size=(32, 24), **settings) as writer:
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


def make_order(source: Path, target: Path, **changes: Any) -> Request:
    settings = {"epsilon": 1.0, "unit": "frame", "block": 4, "kept_frames": 2, "kept_size": 4}
    fields: dict[str, Any] = {"source": source, "target": target, "method": "dprp"}
    return Request(**(fields | {"settings": settings} | changes))


@pytest.mark.processes
def test_folder_job_protects_all_and_reports_what_failed(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for seed, name in enumerate(("anna.mp4", "bert.mp4")):
        write_video(folder / name, seed=seed)
    (folder / "broken.mp4").write_bytes(b"not a video at all")
    said: list[str] = []
    report = run(make_order(folder, tmp_path / "out", workers=1), None, said.append)
    assert report.failed == 1
    videos = sorted((tmp_path / "out").rglob("*.mp4"))
    assert len(videos) == 2
    for video in videos:
        assert "anna" not in video.name
        check_outputs(read_card(video), video.parent)
    assert any("delta" in sentence for sentence in said)
    assert [each["name"] for each in report.payload["failures"]] == ["broken.mp4"]


def test_folder_is_one_entry_in_the_ledger_until_all_of_it_is_done(tmp_path: Path) -> None:
    """Recordings are disjoint: two files at epsilon 1 spend 1, not 2; another release is too much.

    A run in which something failed leaves its reservation open; the next run takes it up again.
    """
    folder = tmp_path / "in"
    folder.mkdir()
    for seed, name in enumerate(("a.mp4", "b.mp4")):
        write_video(folder / name, frames=4, seed=seed)
    ledger = Ledger.open(tmp_path / "book.db")
    ledger.create("films", owner="lab", epsilon=1.05, delta=1e-5, unit="frame", relation="replace")
    order = make_order(folder, tmp_path / "out", workers=1)

    def spend(promise: Promise, run: str) -> Any:
        return ledger.spending("films", promise, key=f"protect-{run}", run=run)

    (folder / "b.mp4").rename(tmp_path / "b.mp4")
    (folder / "b.mp4").write_bytes(b"still copying")
    report = run(order, spend, lambda sentence: None)
    assert report.failed == 1
    assert ledger.show("films").pending
    (tmp_path / "b.mp4").rename(folder / "b.mp4")
    report = run(order, spend, lambda sentence: None)
    assert report.failed == 0
    assert not ledger.show("films").pending
    assert ledger.show("films").spent_epsilon == pytest.approx(1.0, abs=0.01)
    order = make_order(folder, tmp_path / "again", workers=1)
    with pytest.raises(SfumatoError, match="keeps the total within"):
        run(order, spend, lambda sentence: None)
    assert not (tmp_path / "again").exists()


def test_dry_run_opens_nothing(tmp_path: Path) -> None:
    report = dry_run(make_order(tmp_path / "missing.mp4", tmp_path / "out.mp4"))
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

    def sidecars(self, video: Path) -> tuple[Path, ...]:
        return (video.with_name(f"{video.stem}.layer.txt"),)

    @contextmanager
    def write_sidecars(self, video: Path, info: Any) -> Iterator[None]:
        yield
        self.sidecars(video)[0].write_text(f"{info.width} wide")


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


def irregular_video(path: Path, bits: int) -> Path:
    """A recording that tells a number by the gaps between its frames, its rate and its pixels."""
    generator = np.random.default_rng(0)
    info = VideoInfo(
        32, 24, RATE, Fraction(1, 90_000), pixel_aspect=Fraction(1000 + bits % 97, 1000)
    )
    when = bits % 7
    with VideoWriter(path, info) as writer:
        for number in range(34):
            image = generator.integers(0, 256, (24, 32, 3)).astype(np.uint8)
            writer.write(image, Fraction(when, 90_000))
            when += 3003 + (bits >> number & 1) * 450
    return path


def timing(path: Path) -> tuple[Any, ...]:
    with open_video(path) as video:
        info = video.info
        return info.rate, info.pixel_aspect, tuple(frame.time for frame in video)


@pytest.mark.parametrize("unit", ["clip", "video"])
@pytest.mark.parametrize(("codec", "suffix"), [("h264", ".mp4"), ("ffv1", ".mkv")])
def test_nothing_of_the_timing_passes_where_a_whole_recording_is_protected(
    tmp_path: Path, unit: str, codec: str, suffix: str
) -> None:
    """R22: 32 bits in the gaps do not come out; what is left is size, count and a usual rate."""
    seen = set()
    for number, bits in enumerate((0, 0xDEADBEEF, 0x12345678)):
        source = irregular_video(tmp_path / f"{number}.mp4", bits)
        target = tmp_path / "out" / f"{number}{suffix}"
        promise = release(
            dprp(unit=unit, epsilon=8.0), source, target, output=OutputSettings(codec=codec)
        )
        assert isinstance(promise, Guarantee)
        assert any("usual rates" in public for public in promise.public)
        assert any("usual rates" in public for public in read_card(target).promise.public)
        seen.add(timing(target))
    for rate, aspect, times in seen:
        assert rate in USUAL_RATES
        assert aspect == 1
        assert times == tuple(number / rate for number in range(34))


@pytest.mark.parametrize("method", ["frame", "pixels(16, frames=1)", "edges"])
def test_where_times_are_kept_the_card_says_so(tmp_path: Path, method: str) -> None:
    source = irregular_video(tmp_path / "in.mp4", 0xDEADBEEF)
    target = tmp_path / "out" / "a.mp4"
    made = get("edges")() if method == "edges" else dprp(unit=method)
    release(made, source, target)
    assert timing(target)[1:] == timing(source)[1:]
    promise = read_card(target).promise
    named = promise.not_covered if isinstance(promise, NoGuarantee) else promise.public
    assert any("exact time of every frame" in each for each in named)
    assert "exact time of every frame" in card_path(target).with_suffix(".md").read_text()


def test_a_picture_tells_its_size_and_the_card_says_so(tmp_path: Path) -> None:
    write_image(tmp_path / "in.png", np.zeros((24, 32, 3), np.uint8))
    promise = dprp(unit="video").apply(tmp_path / "in.png", tmp_path / "out.png")
    assert isinstance(promise, Guarantee)
    assert "the size of the picture and the kind of file" in promise.public


@pytest.mark.parametrize("way", ["same", "link", "hard link", "relative", "card"])
def test_the_only_original_is_never_replaced(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = target = write_video(tmp_path / "a.mp4")
    if way == "link":
        target = tmp_path / "b.mp4"
        target.symlink_to(source)
    elif way == "hard link":
        target = tmp_path / "b.mp4"
        target.hardlink_to(source)
    elif way == "relative":
        monkeypatch.chdir(tmp_path)
        target = Path("../") / tmp_path.name / "a.mp4"
    elif way == "card":
        target = tmp_path / "c.mp4"
        card_path(target).symlink_to(source)
    before = source.read_bytes()
    with pytest.raises(SfumatoError, match="apart from the originals"):
        release(dprp(), source, target, force=True)
    assert source.read_bytes() == before
    assert not list(tmp_path.glob(".sfumato-*"))


@pytest.mark.parametrize(
    ("source", "target", "codec", "quality"),
    [
        ("in.mp4", "q.mp4", "ffv1", None),
        ("in.mp4", "q.avi", "h264", None),
        ("in.mp4", "q.mp4", "h264", 99),
        ("in.mp4", "q.mp4", "vhs", None),
        ("in.png", "q.bmp", "h264", None),
        ("in.png", "q.mp4", "h264", None),
        ("in.mp4", "folder", "h264", None),
        ("in.mp4", "folder.mp4", "h264", None),
        ("in.mp4", f"{'q' * 245}.mp4", "h264", None),
        ("in.mp4", "new\nline.mp4", "h264", None),
        ("in.mp4", "\u202egpm.mp4", "h264", None),
        ("in.png", "\udce9.png", "h264", None),
        ("broken.mkv", "q.mp4", "h264", None),
        ("absent.mp4", "q.mp4", "h264", None),
    ],
)
def test_nothing_is_spent_on_what_is_known_to_fail(
    tmp_path: Path, source: str, target: str, codec: str, quality: int | None
) -> None:
    """Names, codec, places, room for the card's name and the whole recording are checked first."""
    write_video(tmp_path / "in.mp4", frames=20)
    write_image(tmp_path / "in.png", np.zeros((24, 32, 3), np.uint8))
    broken = write_video(tmp_path / "broken.mkv", codec="ffv1")
    whole = bytearray(broken.read_bytes())
    whole[len(whole) // 2] ^= 1
    broken.write_bytes(whole)
    (tmp_path / "out" / "folder").mkdir(parents=True)
    (tmp_path / "out" / "folder.mp4").mkdir()

    def spend(promise: Promise) -> Any:
        raise AssertionError("spent")

    how = OutputSettings(codec=codec, quality=quality)
    with pytest.raises((SfumatoError, OSError)):
        release(
            dprp(),
            tmp_path / source,
            tmp_path / "out" / target,
            output=how,
            force=True,
            spend=spend,
        )
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"folder", "folder.mp4"}


def test_a_folder_as_target_is_called_one_whether_or_not_it_may_be_replaced(tmp_path: Path) -> None:
    write_video(tmp_path / "in.mp4")
    (tmp_path / "out.mp4").mkdir()
    for force in (False, True):
        with pytest.raises(ProtectError, match="got the folder"):
            release(dprp(), tmp_path / "in.mp4", tmp_path / "out.mp4", force=force)


def spending(ledger: Ledger) -> Any:
    return lambda promise, run: ledger.spending("films", promise, key=f"protect-{run}", run=run)


def test_one_file_is_one_run_in_the_ledger(tmp_path: Path) -> None:
    """R20: the same order again draws anew, so it is counted anew; no path or plan makes it one."""
    source = write_video(tmp_path / "in.mp4")
    ledger = Ledger.open(tmp_path / "book.db")
    ledger.create("films", owner="lab", epsilon=9, delta=1e-5, unit="frame", relation="replace")
    for count in (1, 2, 3):
        order = make_order(source, tmp_path / "out" / "a.mp4", force=True)
        run(order, spending(ledger), lambda sentence: None)
        assert len(ledger.show("films").releases) == count
        assert not ledger.show("films").pending
    assert ledger.show("films").spent_epsilon > 1.5


def test_finished_items_of_a_folder_are_never_drawn_again_under_one_entry(tmp_path: Path) -> None:
    """R20: a bad file keeps the entry open; taking outputs away, renaming or copying a recording
    (byte for byte or in another container) gives no second draw that is not counted."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    write_video(folder / "a.mp4", frames=4, codec="h264rgb")
    (folder / "b.mp4").write_bytes(b"still copying")
    ledger = Ledger.open(tmp_path / "book.db")
    ledger.create("films", owner="lab", epsilon=9, delta=1e-5, unit="frame", relation="replace")
    order = make_order(folder, out, workers=1)

    def again() -> CommandResult:
        return run(order, spending(ledger), lambda sentence: None)

    assert again().failed == 1
    (drawn,) = out.glob("*.mp4")
    promise = read_card(drawn).promise
    assert isinstance(promise, Guarantee)
    assert any("one and the same" in each for each in promise.public)  # copies show
    (folder / "copy.mp4").write_bytes((folder / "a.mp4").read_bytes())
    with open_video(folder / "a.mp4") as video:
        remuxed = [(frame.image, frame.time) for frame in video]
    with VideoWriter(folder / "remuxed.mkv", rate=RATE, size=(32, 24), codec="ffv1") as writer:
        for image, time in remuxed:
            writer.write(image, time)
    report = again()
    assert {each["name"] for each in report.payload["left_out"]} == {"copy.mp4", "remuxed.mkv"}
    assert list(out.glob("*.mp4")) == [drawn]
    (tmp_path / "partner").mkdir()
    for path in out.iterdir():
        path.rename(tmp_path / "partner" / path.name)
    assert again().failed == 2
    assert not list(out.glob("*.mp4"))
    assert len(ledger.show("films").releases) == 1
    with pytest.raises(SfumatoError, match="released again uncounted"):
        run(make_order(folder, out, workers=1, force=True), spending(ledger), lambda sentence: None)
    (tmp_path / "out.job.jsonl").unlink()
    assert again().failed == 1  # another run, drawn anew, counted anew
    assert len(ledger.show("films").releases) == 2


def test_a_recording_weaker_than_what_was_reserved_is_not_published(tmp_path: Path) -> None:
    """It was not readable when the folder was counted; snow shows more of a larger picture."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    rng = np.random.default_rng(0)
    small, large = (rng.integers(0, 256, (8 * k, 8 * k, 3)).astype(np.uint8) for k in (1, 2))
    write_image(folder / "a.png", small)
    (folder / "b.png").write_bytes(b"still copying")
    ledger = Ledger.open(tmp_path / "book.db")
    ledger.create("films", owner="lab", epsilon=1, delta=0.5, unit="frame", relation="replace")
    order = Request(
        source=folder, target=out, method="snow", settings={"p": 0.999, "unit": "frame"}, workers=1
    )
    assert run(order, spending(ledger), lambda sentence: None).failed == 1
    (folder / "b.png").unlink()
    write_image(folder / "b.png", large)
    report = run(order, spending(ledger), lambda sentence: None)
    assert report.failed == 1
    assert "weaker one" in report.payload["failures"][0]["reason"]
    assert len(list(out.glob("*.png"))) == 1
    (tmp_path / "out.job.jsonl").unlink()
    again = run(order, spending(ledger), lambda sentence: None)
    assert again.failed == 0
    (held,) = (each for each in ledger.show("films").releases if each.committed)
    assert held.event == get("snow")(p=0.999, unit="frame").promise(Shape(16, 16, 1)).event


def test_kept_names_are_named_on_the_card(tmp_path: Path) -> None:
    """R14: they leave as they are."""
    folder = tmp_path / "in" / "ward"
    folder.mkdir(parents=True)
    write_video(folder / "anna.mp4", frames=4)
    for names, said in (("keep", True), ("random", False)):
        out = tmp_path / names
        order = make_order(tmp_path / "in", out, workers=1, names=names)
        assert run(order, None, lambda sentence: None).failed == 0
        (video,) = out.rglob("*.mp4")
        assert ("anna" in video.name) == said
        assert (NAMES_NOTE in read_card(video).promise.not_covered) == said


def test_every_format_of_a_folder_has_one_that_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    picture = np.random.default_rng(0).integers(0, 256, (24, 32, 3)).astype(np.uint8)
    for seed, (name, codec) in enumerate({"a.avi": "mpeg4", "b.ts": "mpeg2video"}.items()):
        plain_video(folder / name, codec, seed)
    cv2.imwrite(str(folder / "c.bmp"), picture)
    cv2.imwrite(str(folder / "d.tif"), picture[::-1])
    cv2.imwrite(str(folder / "e.jpg"), picture[:, ::-1])
    (folder / "f.wav").write_bytes(b"RIFF")
    report = run(make_order(folder, tmp_path / "out", workers=1), None, lambda sentence: None)
    assert report.failed == 0, report.lines
    kinds = sorted(path.suffix for path in (tmp_path / "out").iterdir() if "card" not in path.name)
    assert kinds == [".jpg", ".mp4", ".mp4", ".png", ".png"]
    assert [each["name"] for each in report.payload["left_out"]] == ["f.wav"]
    for path in (tmp_path / "out").glob("*.card.json"):
        check_outputs(read_card(path), path.parent)


def plain_video(path: Path, codec: str, seed: int) -> None:
    """A video of another writer."""
    generator = np.random.default_rng(seed)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = 32, 24, "yuv420p"
        for _ in range(4):
            image = generator.integers(0, 256, (24, 32, 3)).astype(np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))


def test_what_a_tolerant_reader_passed_over_is_said(tmp_path: Path) -> None:
    whole = write_video(tmp_path / "whole.mkv", codec="ffv1")
    data = bytearray(whole.read_bytes())
    at = len(data) // 2
    data[at : at + 8] = bytes(byte ^ 0xFF for byte in data[at : at + 8])
    source = tmp_path / "in.mkv"
    source.write_bytes(data)
    target = tmp_path / "out" / "a.mp4"
    with pytest.raises(SfumatoError, match="damaged"):
        run(make_order(source, target), None, lambda sentence: None)
    report = run(make_order(source, target, tolerant=True), None, lambda sentence: None)
    assert report.payload["damage"]
    assert any("in.mkv is damaged" in line for line in report.lines)
    assert "damaged" not in card_path(target).read_text()


class Networked(Failing):
    """Passes pictures through a network of its own, so to speak."""

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        device_for("network")
        yield from frames


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


def test_the_card_says_what_ran_on_which_device(
    tmp_path: Path, two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_command, "make", lambda name, settings: Networked())
    source = write_video(tmp_path / "in.mp4", frames=2)
    settings: dict[str, Any] = {"method": "x", "settings": {}, "output": {}}
    for wanted, on_card in (("cuda:1", "cuda:1 (network); cpu (the rest)"), ("cpu", "cpu")):
        target = tmp_path / f"{wanted[:4]}.mp4"
        report = run(make_order(source, target, settings={}, device=wanted), None, str)
        assert read_card(target).device == on_card
        assert report.payload["ran_on"] == [f"network on {wanted}"]
        assert any("Ran on: network on cuda:1" in line for line in report.lines) == (
            wanted != "cpu"
        )
        # an item of a folder, as a process or a node is given it
        other = tmp_path / f"{wanted[:4]}-item.mp4"
        found = _command.release_item(source, other, settings | {"device": wanted})
        assert found["ran_on"] == [f"network on {wanted}"]
        assert read_card(other).device == on_card


def test_a_gpu_that_is_asked_for_is_needed_of_a_cluster() -> None:
    assert _command._needs(Networked(), "cuda:0").gpus == 1
    assert _command._needs(Networked(), "cpu").gpus == 0
    assert _command._needs(Networked(), "cuda").cpus == Networked.needs.cpus


def test_a_device_that_is_not_there_is_one_sentence_before_anything_is_read(tmp_path: Path) -> None:
    source = write_video(tmp_path / "in.mp4", frames=2)
    with pytest.raises(SfumatoError, match=r"below|torch sees none"):
        run(make_order(source, tmp_path / "out.mp4", device="cuda:999"), None, str)
    assert not (tmp_path / "out.mp4").exists()
