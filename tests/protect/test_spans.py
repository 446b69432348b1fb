"""One long recording in spans: what comes out is what one run gives, or nothing."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from red_faces import HEIGHT, WIDTH, RedFaces, draw_faces

from sfumato import people, protect
from sfumato.errors import SfumatoError
from sfumato.jobs import Answer, InThisProcess
from sfumato.media import VideoWriter, open_video
from sfumato.privacy import Guarantee, read_card
from sfumato.protect import OutputSettings, ProtectError, Request
from sfumato.protect import _spans as spans_module
from sfumato.protect._command import _in_spans
from sfumato.protect._method import SpanRule
from sfumato.protect._release import Reading
from sfumato.protect._spans import InSpans
from sfumato.protect.hide import _hiding
from sfumato.protect.noise._noisy_blocks import block_lengths

LOSSLESS = OutputSettings(codec="h264rgb")
COUNT = 53  # no multiple of a block, and odd
NOISE: dict[str, dict[str, Any]] = {
    "dprp": {"epsilon": 8, "delta": 1e-5, "unit": "pixels(4, frames=1)", "block": 8},
    "laplace": {"epsilon": 8, "unit": "frame"},
    "dppix": {"epsilon": 8, "unit": "frame"},
    "dp-image": {"epsilon": 8, "delta": 1e-5, "unit": "frame"},
    "snow": {"unit": "pixels(1, frames=1)"},
    "randomized-response": {"epsilon": 8, "unit": "pixels(1, frames=1)"},
}


def recording(path: Path, count: int = COUNT) -> Path:
    """Two faces that come and go, and a cut, at times that are never evenly apart."""
    at = 0
    with VideoWriter(path, rate=25, size=(WIDTH, HEIGHT), time_base=Fraction(1, 600),
                     codec="h264rgb") as writer:  # fmt: skip
        for number in range(count):
            places = [(3 + number % 40, 8)] if number % 17 else []
            picture = draw_faces([*places, (45 - number % 30, 30)])
            writer.write(255 - picture if 20 <= number < 31 else picture, at)
            at += 7 + 13 * (number % 3)
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return recording(tmp_path / "in.mp4")


def card_of(path: Path) -> dict[str, Any]:
    """All that a card says but for the digest of the file that it is about."""
    card = json.loads(path.with_name(path.name + ".card.json").read_text())
    return {name: value for name, value in card.items() if name not in ("outputs", "readable")}


def pictures(path: Path) -> list[tuple[Fraction, bytes]]:
    with open_video(path) as video:
        return [(frame.time, frame.image.tobytes()) for frame in video]


def in_spans(
    name: str, settings: dict[str, Any], seconds: float = 0.5, engine: Any = None, **more: Any
) -> InSpans:
    return InSpans(seconds, engine or InThisProcess(), name, settings, **more)


def both(
    source: Path, name: str, settings: dict[str, Any], output: OutputSettings = LOSSLESS,
    seconds: float = 0.5, **more: Any,
) -> tuple[Path, Path]:  # fmt: skip
    """The same recording released at once and in spans."""
    whole, cut = source.with_name("whole.mp4"), source.with_name("cut.mp4")
    readings = Reading(), Reading()
    promises = [
        protect.release(
            protect.make(name, settings), source, target, output=output, reading=reading, **how
        )
        for target, reading, how in (
            (whole, readings[0], {}),
            (cut, readings[1], {"spans": in_spans(name, settings, seconds, **more)}),
        )
    ]
    assert promises[0] == promises[1]
    assert readings[0] == readings[1]
    return whole, cut


@pytest.mark.parametrize("block", [1, 2, 7, 8, 64])
@pytest.mark.parametrize("frames", [1, 7, 8, 9, 15, 16, 17, 100, 641])
def test_spans_are_whole_blocks_of_one_run(block: int, frames: int) -> None:
    """Were a block cut, a frame would have noise of a basis that nobody calibrated for it (R11)."""
    for longest in (1, 5, 8, 30, 1000):
        cuts = SpanRule(block).cuts(frames, longest)
        assert [first for first, _ in cuts] == [0, *(stop for _, stop in cuts[:-1])]
        assert cuts[-1][1] == frames
        lengths = [n for first, stop in cuts for n in block_lengths(stop - first, block)]
        assert lengths == block_lengths(frames, block)
        assert all(stop - first < longest + 2 * block for first, stop in cuts)


@pytest.mark.parametrize("name", sorted(NOISE))
def test_seeded_noise_is_that_of_one_run(source: Path, name: str) -> None:
    settings = NOISE[name] | {"seed": 5}
    whole, cut = both(source, name, settings)
    assert pictures(whole) == pictures(cut)
    assert len(pictures(cut)) == COUNT


def test_the_card_says_the_same_and_one_promise_is_spent(source: Path) -> None:
    settings = NOISE["dprp"] | {"unit": "video"}
    whole, cut = both(source, "dprp", settings)
    assert card_of(whole) == card_of(cut)
    assert isinstance(read_card(cut).promise, Guarantee)


def test_noise_of_spans_is_drawn_anew_and_shared_by_none(source: Path) -> None:
    """Without a seed every worker has a key of its own; equal frames get unequal noise."""
    still = source.with_name("still.mp4")
    with VideoWriter(still, rate=25, size=(WIDTH, HEIGHT), codec="h264rgb") as writer:
        for _ in range(32):
            writer.write(draw_faces([(10, 10)]))
    for settings in (NOISE["laplace"], NOISE["laplace"] | {"seed": 1}):
        out = source.with_name("out.mp4")
        cut = in_spans("laplace", settings, 0.4)
        protect.release(
            protect.make("laplace", settings), still, out, output=LOSSLESS, force=True, spans=cut
        )
        shown = [image for _, image in pictures(out)]
        assert len(set(shown)) == len(shown) == 32


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv"])
@pytest.mark.parametrize("codec", ["h264", "h264rgb", "ffv1"])
def test_joined_files_have_the_times_and_the_parameters_of_one_run(
    source: Path, suffix: str, codec: str
) -> None:
    if codec == "ffv1" and suffix != ".mkv":
        pytest.skip("Matroska alone holds it")
    settings = NOISE["dprp"] | {"unit": "video" if suffix == ".mkv" else "frame", "seed": 2}
    made = []
    for how in ({}, {"spans": in_spans("dprp", settings)}):
        out = source.with_name(f"out{len(made)}{suffix}")
        method = protect.make("dprp", settings)
        protect.release(method, source, out, output=OutputSettings(codec), **how)
        made.append(out)
    with open_video(made[0]) as whole, open_video(made[1]) as cut:
        assert whole.info == cut.info
        times = [[frame.time for frame in video] for video in (whole, cut)]
    assert times[0] == times[1]
    if codec != "h264":
        assert pictures(made[0]) == pictures(made[1])


class Red:
    """The networks of every worker: striped red squares are people, each with a face."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, blind: tuple[int, ...] = ()) -> None:
        def look(detector: Any = None, *, masks: bool, offline: bool = False) -> Any:
            segment = (lambda image: (image[..., 0] > 200).astype(np.float32)) if masks else None
            return people.Look([RedFaces()], [RedFaces("red-face")]), segment

        monkeypatch.setattr(people, "searchers", look)
        monkeypatch.setattr("sfumato.people.track._find.searchers", look)
        monkeypatch.setattr(
            people, "segmenter", lambda detector=None: look(detector, masks=True)[1]
        )
        monkeypatch.setattr(people, "text_detector", lambda: NoText())
        monkeypatch.setattr(_hiding, "face_detector", lambda named: RedFaces("check"))
        monkeypatch.setattr(_hiding.Hiding, "_checks_bodies", property(lambda self: False))


class NoText:
    name, device = "no text", "test"

    def detect(self, image: Any) -> list[people.TextLine]:
        return []


HIDING: list[tuple[str, dict[str, Any]]] = [
    ("silhouette", {}),
    ("blur", {}),
    ("pixelate", {"keep_text": True}),
    ("silhouette", {"region": "faces", "cover": ("0-30:2,2,9,9", "26-52:50,20,9,9")}),
    ("silhouette", {"start": 0.2, "end": 1.3}),
    ("blur", {"leave_open": (0,)}),
    ("silhouette", {"region": "background", "every": 1}),
    ("silhouette", {"on_miss": "blank", "every": 3}),
    ("skeleton", {}),
]


@pytest.mark.parametrize(("name", "settings"), HIDING)
@pytest.mark.parametrize("seconds", [0.1, 0.7])
def test_hidden_pictures_are_those_of_one_run(
    source: Path, monkeypatch: pytest.MonkeyPatch, name: str, settings: dict[str, Any],
    seconds: float,
) -> None:  # fmt: skip
    Red(monkeypatch)
    whole, cut = both(source, name, settings, seconds=seconds)
    assert pictures(whole) == pictures(cut)
    assert pictures(cut) != pictures(source)
    cards = [card_of(path) for path in (whole, cut)]
    files = [card.pop("temporary_files") for card in cards]
    assert cards[0] == cards[1]
    assert files[1][:-1] == files[0]
    assert "private files" in files[1][-1]


def test_noise_that_moves_covers_the_pixels_that_one_run_covers(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins anew in every span; where it is does not."""
    Red(monkeypatch)
    whole, cut = both(source, "selective", {"check": None, "keep_text": True})
    shown = [
        np.array([list(image) for _, image in pictures(p)], np.uint8) for p in (source, whole, cut)
    ]
    changed = [(each != shown[0]).reshape(COUNT, -1, 3).any(axis=2) for each in shown[1:]]
    np.testing.assert_array_equal(changed[0], changed[1])
    assert changed[1].any()
    assert not changed[1].all()


def test_a_span_whose_people_need_masks_reads_the_frames_around_it() -> None:
    for settings, frames in (({}, people.MOST_AWAY), ({"region": "faces"}, 0)):
        assert protect.get("silhouette")(**settings).span_looks.around == frames  # type: ignore[attr-defined]


@pytest.mark.parametrize("what", ["boxes", "mask", "text"])
def test_places_from_a_file_are_those_of_one_run(
    source: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    Red(monkeypatch)
    if what == "text":
        settings: dict[str, Any] = {"region": "text", "cover": ("30-40:2,2,9,9",)}
    elif what == "mask":
        mask = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        mask[5:20, 9:40] = 255
        from sfumato.media import write_image

        write_image(source.with_name("mask.png"), mask)
        settings = {"region": str(source.with_name("mask.png"))}
    else:
        writer = people.CocoWriter(WIDTH, HEIGHT, "person")
        for number in range(COUNT):
            box = people.Box(number % 40, 5, number % 40 + 9, 20)
            writer.add(people.People([people.by_hand(box, (HEIGHT, WIDTH), 1)], number))
        writer.write(source.with_name("boxes.json"))
        settings = {"import_boxes": str(source.with_name("boxes.json"))}
    whole, cut = both(source, "silhouette", settings, seconds=0.3)
    assert pictures(whole) == pictures(cut) != pictures(source)


def test_whoever_the_check_finds_is_covered_by_another_try_of_that_span(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Red(monkeypatch)
    made: list[int] = []
    told = [False]
    plain = _hiding.Hiding.left_in_span
    cover = spans_module.cover_span

    def left(self: Any, span: Any, pairs: Any) -> Any:
        faces, bodies, text = plain(self, span, pairs)
        if span.first <= 40 < span.stop and not told[0]:
            told[0] = True
            faces = [(40, [people.Box(20, 30, 40, 44)])]
        return faces, bodies, text

    def counted(folder: Path, job: Any, around: Any, found: Path, span: Any) -> Any:
        made.append(span.first)
        return cover(folder, job, around, found, span)

    monkeypatch.setattr(_hiding.Hiding, "left_in_span", left)
    monkeypatch.setattr(spans_module, "cover_span", counted)
    out = source.with_name("out.mp4")
    run = in_spans("blur", {}, 0.4)
    protect.release(protect.get("blur")(), source, out, output=LOSSLESS, spans=run)
    assert len(made) == len(set(made)) + 1, "the span of frame 40 alone is made again"
    picture = np.frombuffer(pictures(out)[40][1], np.uint8).reshape(HEIGHT, WIDTH, 3)
    assert picture[35:39, 27:33].reshape(-1, 3).std(axis=0).max() == 0


def test_whoever_the_check_finds_again_is_covered_by_a_third_try(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the place of the first find there are two by then: the span is made a second time again."""
    Red(monkeypatch)
    asked: list[int] = []

    def left(self: Any, span: Any, pairs: Any) -> Any:
        asked.append(span.first)
        again = asked.count(0)
        found = [(4, [people.Box(20 * again, 5, 20 * again + 9, 14)])]
        return (found if span.first == 0 and again < 3 else []), [], []

    monkeypatch.setattr(_hiding.Hiding, "left_in_span", left)
    out, run = source.with_name("out.mp4"), in_spans("blur", {}, 0.4)
    protect.release(protect.get("blur")(), source, out, output=LOSSLESS, spans=run)
    assert asked.count(0) == 3
    picture = np.frombuffer(pictures(out)[4][1], np.uint8).reshape(HEIGHT, WIDTH, 3)
    for x in (20, 40):
        assert picture[8:11, x + 3 : x + 6].reshape(-1, 3).std(axis=0).max() == 0


def test_somebody_whom_every_try_leaves_open_stops_the_release(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Red(monkeypatch)
    found = ([(3, [people.Box(0, 0, 9, 9)])], [], [])
    monkeypatch.setattr(_hiding.Hiding, "left_in_span", lambda self, span, pairs: found)
    out = source.with_name("out.mp4")
    with pytest.raises(protect.StillVisibleError, match="frame 3"):
        protect.release(
            protect.get("blur")(), source, out, output=LOSSLESS, spans=in_spans("blur", {})
        )
    assert [path.name for path in source.parent.iterdir()] == [source.name]


class Losing(InThisProcess):
    """An engine that loses its n-th task, or gives a part something else than was written."""

    remote = True

    def __init__(self, trick: str) -> None:
        self.trick, self.seen = trick, list[Path]()

    def run(
        self, work: Any, count: int, task: Any, **more: Any
    ) -> Generator[list[Answer], None, None]:
        self.repeatable = more["repeatable"]
        for (answer,) in super().run(work, count, self._watched(task), **more):
            if answer.number == 1 and self.trick == "lost":
                yield [Answer(1, failure="the worker was lost")]
                continue
            if answer.number == 1 and self.trick == "changed":
                next(self.seen[1].iterdir()).write_bytes(b"something else")
            if answer.number == 1 and self.trick == "swapped":
                a, b = (next(folder.iterdir()) for folder in self.seen[:2])
                kept = a.read_bytes()
                a.write_bytes(b.read_bytes())
                b.write_bytes(kept)
            if answer.number == count - 1 and self.trick == "none":
                return
            yield [answer]

    def _watched(self, task: Any) -> Any:
        def watched(number: int, attempt: int) -> Any:
            arguments = task(number, attempt)
            self.seen.append(arguments[1])
            return arguments

        return watched


@pytest.mark.parametrize("trick", ["lost", "changed", "swapped", "none"])
def test_a_span_that_is_not_there_as_it_was_made_stops_the_release(
    source: Path, trick: str
) -> None:
    settings, out = NOISE["dprp"], source.with_name("out.mp4")
    engine = Losing(trick)
    spent: list[Any] = []

    class Held:
        def __enter__(self) -> None:
            spent.append("reserved")

        def __exit__(self, kind: Any, *_: Any) -> None:
            spent.append("open" if kind else "committed")

    with pytest.raises(SfumatoError):
        protect.release(
            protect.make("dprp", settings), source, out, output=LOSSLESS,
            spend=lambda promise: Held(), spans=in_spans("dprp", settings, engine=engine),
        )  # fmt: skip
    assert spent == ["reserved", "open"]
    assert not engine.repeatable, "noise is not drawn again by itself (R20)"
    assert [path.name for path in source.parent.iterdir()] == [source.name]


def test_a_recording_that_changes_meanwhile_is_not_released(source: Path) -> None:
    other = recording(source.with_name("other.mp4"), COUNT - 2).read_bytes()

    class Swapping(InThisProcess):
        def prepare(self, *_: Any) -> None:
            source.write_bytes(other)

    settings, out = NOISE["dprp"], source.with_name("out.mp4")
    with pytest.raises(SfumatoError, match="as it was read"):
        protect.release(
            protect.make("dprp", settings), source, out, output=LOSSLESS,
            spans=in_spans("dprp", settings, engine=Swapping()),
        )  # fmt: skip
    assert not out.exists()


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("avatar", {}),
        ("edges", {}),
        ("isr", {}),
        ("appearance-free", {}),
        ("blur+edges", {}),
        ("dprp", {"epsilon": 8, "smooth": 2}),
        ("snow", {"region": "faces"}),
    ],
)
def test_methods_that_need_all_of_a_recording_refuse_spans(
    source: Path, method: str, settings: dict[str, Any]
) -> None:
    request = Request(
        source=source, target=source.with_name("out.mp4"), method=method, settings=settings, span=1
    )
    for ask in (protect.dry_run, lambda asked: protect.run(asked, None, lambda said: None)):
        with pytest.raises(ProtectError, match=r"--span"):
            ask(request)
    assert not request.target.exists()


def test_what_does_not_go_with_spans_is_refused(source: Path) -> None:
    asked = Request(
        source=source, target=source.with_name("out.mp4"), method="blur", settings={}, span=1
    )
    preview = protect.ReviewExports(preview=source.with_name("sheet.png"))
    for wrong in (replace(asked, tolerant=True), replace(asked, exports=preview)):
        with pytest.raises(ProtectError, match="--span"):
            protect.run(wrong, None, lambda said: None)


def test_a_recording_that_is_shorter_than_a_span_is_not_cut(source: Path) -> None:
    settings = NOISE["dprp"]
    for seconds, cut in ((0.5, True), (600.0, False)):
        asked = {"seconds": seconds, "engine": "local", "workers": 1, "device": "cpu"}
        assert (_in_spans(asked, source, "dprp", settings) is not None) == cut
    assert _in_spans(None, source, "dprp", settings) is None


def test_a_folder_does_its_long_recordings_in_spans(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = source.parent / "many"
    folder.mkdir()
    recording(folder / "long.mp4")
    recording(folder / "short.mp4", 9)
    cut: list[str] = []
    monkeypatch.setattr("sfumato.protect._command.choose_engine", lambda *_: InThisProcess())
    work = spans_module.noise_on_span

    def watched(place: Path, job: Any, stretch: Any) -> None:
        cut.append(job.source.name)
        work(place, job, stretch)

    monkeypatch.setattr(spans_module, "noise_on_span", watched)
    request = Request(
        source=folder, target=source.parent / "out", method="dprp",
        settings=NOISE["dprp"] | {"seed": 1}, codec="h264rgb", names="keep", span=1,
    )  # fmt: skip
    report = protect.run(request, None, lambda said: None)
    assert report.failed == 0
    assert set(cut) == {"long.mp4"}
    assert len(cut) > 1
    for name in ("long.mp4", "short.mp4"):
        alone = source.with_name(f"alone-{name}")
        method = protect.make("dprp", dict(request.settings))
        protect.release(method, folder / name, alone, output=LOSSLESS)
        assert pictures(request.target / name) == pictures(alone)
    lines = (source.parent / "out.job.jsonl").read_text().splitlines()
    assert sum("item" in json.loads(line) for line in lines) == 2
