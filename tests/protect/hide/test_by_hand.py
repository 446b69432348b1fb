"""Left open on purpose and covered by hand: just that, and the card says so."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from red_faces import HEIGHT, WIDTH, RedFaces, draw_faces

from sfumato import people, protect
from sfumato.body import Camera
from sfumato.errors import SfumatoError
from sfumato.media import Frame, VideoWriter, open_video, write_image
from sfumato.privacy import read_card
from sfumato.protect.avatar import Known, Scene
from sfumato.protect.hide._by_hand import ByHand, CoveredBox
from sfumato.protect.hide._detection_log import DetectionLog, OpenPlace
from sfumato.protect.hide._open_on_purpose import not_on_purpose
from sfumato.protect.hide._region import Place, Region

COUNT = 10
LEFT, RIGHT = np.s_[:, 8:24, 2:28], np.s_[:, 8:24, 34:62]


def two_faces() -> list[Frame]:
    return [
        Frame(draw_faces([(6 + n // 2, 10), (40 + n // 2, 10)]), n, Fraction(n, 25))
        for n in range(COUNT)
    ]


@pytest.fixture
def two(tmp_path: Path) -> Path:
    path = tmp_path / "two.mkv"
    with VideoWriter(path, rate=25, size=(WIDTH, HEIGHT), codec="ffv1") as writer:
        for frame in two_faces():
            writer.write(frame.image)
    return path


def pictures(path: Path) -> Any:
    with open_video(path) as video:
        return np.stack([frame.image for frame in video])


def released(source: Path, method: str = "silhouette", **settings: Any) -> Path:
    out = source.parent / "out" / "out.mkv"
    finding = {"region": "faces", "detector": RedFaces(), "check": RedFaces("second")}
    made = protect.make(method, finding | settings)
    protect.release(made, source, out, output=protect.OutputSettings("ffv1"))
    return out


def tracks() -> dict[int, float]:
    """Track number -> where it stands first."""
    found = {}
    for _, everybody in people.find(
        two_faces(), people.Look([], [RedFaces()]), masks=False, every=1
    ):
        for person in everybody:
            found.setdefault(person.track, person.box.centre[0])
    return found


def changed(out: Path, source: Path, where: Any) -> list[bool]:
    """On which frames a part of the picture is not as it was."""
    return list((pictures(out) != pictures(source))[where].any(axis=(1, 2, 3)))


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_named_track_alone_is_left_open(two: Path, side: str, checked: bool) -> None:
    named = {"left" if place < 30 else "right": track for track, place in tracks().items()}
    assert len(named) == 2
    check = {} if checked else {"check": None}  # which would cover whoever was left open by mistake
    out = released(two, leave_open=[named[side]], **check)
    open_part, other = (LEFT, RIGHT) if side == "left" else (RIGHT, LEFT)
    assert changed(out, two, open_part) == [False] * COUNT
    assert changed(out, two, other) == [True] * COUNT


def test_second_detector_still_covers_whoever_was_not_named(two: Path) -> None:
    """The search sees the left face only, which is left open; the check finds the other one."""

    class LeftOnly(RedFaces):
        def detect(self, image: Any) -> list[people.Box]:
            return [box for box in super().detect(image) if box.centre[0] < 30]

    out = released(two, detector=LeftOnly(), leave_open=[0])
    assert changed(out, two, LEFT) == [False] * COUNT
    assert changed(out, two, RIGHT) == [True] * COUNT


def test_output_check_passes_over_named_people_and_no_others() -> None:
    head, other = people.Box(10, 10, 20, 20), people.Box(40, 10, 50, 20)
    body = people.Box(5, 10, 25, 60)
    places = [
        OpenPlace(False, (head,), (body,), (other,)),
        OpenPlace(False, (head,), (body,), (head,)),
        OpenPlace(True, (), (), ()),
        OpenPlace(False, (), (), ()),
    ]
    found = [(number, [head, other]) for number in range(4)]
    faces, bodies = not_on_purpose(places, found, [(0, [body, people.Box(30, 10, 50, 60)])])
    assert faces == [
        (0, [other]),
        (1, [head, other]),  # also the place of somebody who is covered
        (3, [head, other]),
    ]
    assert bodies == [(0, [people.Box(30, 10, 50, 60)])]


def test_track_that_nobody_has_is_refused_and_nothing_released(two: Path) -> None:
    known = max(tracks())
    with pytest.raises(SfumatoError, match=f"got {known + 1}, which nobody has"):
        released(two, leave_open=[0, known + 1])
    assert not list((two.parent / "out").glob("*"))


def test_outside_the_span_everything_is_as_recorded(two: Path) -> None:
    out = released(two, start=0.08, end=0.2)
    inside = [2 <= number < 5 for number in range(COUNT)]
    assert changed(out, two, np.s_[:]) == inside
    assert changed(out, two, LEFT) == inside
    assert changed(out, two, RIGHT) == inside


@pytest.mark.parametrize("region", ["background", "mask.png"])
def test_span_holds_for_every_region(two: Path, region: str) -> None:
    mask = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    mask[:20] = 255
    write_image(two.parent / "mask.png", mask)
    where = region if region == "background" else str(two.parent / region)
    settings = {"region": where, "detector": None if region != "background" else _Nobody()}
    out = released(two, end=0.1, **settings)
    assert changed(out, two, np.s_[:]) == [number < 3 for number in range(COUNT)]


class _Nobody:
    name = "nobody"
    device = "test"

    def segment(self, image: Any) -> Any:
        return np.zeros(image.shape[:2], np.float32)


@pytest.mark.parametrize(
    "settings", [{"start": 5.0, "end": 2.0}, {"start": 1.0, "end": 1.0}, {"end": 0.0}]
)
def test_span_that_ends_before_it_begins_is_refused(two: Path, settings: dict[str, float]) -> None:
    with pytest.raises(SfumatoError, match="ends after it begins"):
        released(two, **settings)


@pytest.mark.parametrize("settings", [{"start": 60.0}, {"start": 0.401, "end": 0.41}])
def test_span_without_a_frame_is_refused(two: Path, settings: dict[str, float]) -> None:
    with pytest.raises(SfumatoError, match="at least one frame"):
        released(two, **settings)
    assert not list((two.parent / "out").glob("*"))


@pytest.mark.parametrize("method", ["silhouette", "pixelate", "blur"])
def test_box_by_hand_is_covered_whole_on_its_frames_and_no_others(two: Path, method: str) -> None:
    nobody = RedFaces(blind=range(1000))
    out = released(two, method, detector=nobody, check=None, cover=["2-4:20,30,16,12", "7:0,0,5,5"])
    differs = (pictures(out) != pictures(two)).any(axis=3)
    for number in range(COUNT):
        box = differs[number, 30:42, 20:36]
        assert box.mean() > 0.9 if 2 <= number <= 4 else not box.any()
        assert differs[number, :5, :5].any() == (number == 7)
    assert not differs[:, 12:26, 44:].any()


def test_box_by_hand_covers_also_who_is_left_open_and_outside_the_span(two: Path) -> None:
    named = {"left" if place < 30 else "right": track for track, place in tracks().items()}
    out = released(two, leave_open=[named["left"]], end=0.2, cover=["0-9:4,8,12,16"], check=None)
    covered = pictures(out)[:, 8:24, 4:16]
    assert (covered == 96).all()


@pytest.mark.parametrize(
    ("box", "sentence"),
    [
        ("0-10:0,0,5,5", "frames 0 to 9"),
        ("0-1:60,0,5,5", "inside the picture"),
        ("0-1:0,44,5,5", "inside the picture"),
        ("3-1:0,0,5,5", "in order"),
        ("0:0,0,0,5", "at least one pixel"),
        ("0:1,2,3", "FRAMES:X,Y,WIDTH,HEIGHT"),
        ("0:-1,2,3,4", "FRAMES:X,Y,WIDTH,HEIGHT"),
        ("", "FRAMES:X,Y,WIDTH,HEIGHT"),
    ],
)
def test_box_that_does_not_fit_is_refused(two: Path, box: str, sentence: str) -> None:
    with pytest.raises(SfumatoError, match=sentence):
        released(two, cover=[box])
    assert not list((two.parent / "out").glob("*"))


def test_card_says_what_was_decided_and_the_method_can_be_made_from_it(two: Path) -> None:
    out = released(two, leave_open=[0], start=0.04, end=0.3, cover=["0-3:1,2,3,4"])
    card = read_card(out)
    for words in (
        "Left open on purpose, by the operator's choice: the person of track 0.",
        "Everything before 0.04 s and from 0.3 s on is shown on purpose as it was recorded.",
        "Covered by hand in addition (frames:x,y,width,height): 0-3:1,2,3,4.",
    ):
        assert words in card.done
        assert words in card.page
    assert any("track 0, left open on purpose" in each for each in card.promise.not_covered)
    decided = {"leave_open": [0], "start": 0.04, "end": 0.3, "cover": ["0-3:1,2,3,4"]}
    assert card.settings.items() >= decided.items()
    made = protect.get("silhouette").settings_on(card)
    assert made.items() >= decided.items()


def test_nothing_decided_leaves_no_word_on_the_card(two: Path) -> None:
    card = read_card(released(two))
    assert not {"leave_open", "start", "end", "cover"} & set(card.settings)
    assert "on purpose" not in card.page
    assert "by hand" not in card.page


def test_second_try_knows_what_was_decided(two: Path) -> None:
    """A file that is made again is made from the log: it has to keep every decision."""
    region = Region("faces", RedFaces(), by_hand=_decided())
    log, frames = DetectionLog(), two_faces()
    first: list[Place] = []
    for frame, place in region.find(frames):
        log.add(frame.image, place)
        first.append(place)
    for (_, again), place in zip(log.places(frames), first, strict=True):
        np.testing.assert_array_equal(again.mask, place.mask)
        for name in ("by_hand", "open_heads", "open_bodies", "as_it_is", "blank"):
            assert _plain(getattr(again, name)) == _plain(getattr(place, name))
    assert any(place.as_it_is for place in first)
    assert any(place.by_hand for place in first)
    assert any(place.open_heads for place in first)


def _plain(value: Any) -> Any:
    """Without the names of detectors, which no log keeps."""
    if isinstance(value, bool):
        return value
    return [(box.x0, box.y0, box.x1, box.y1) for box in value]


def _decided() -> ByHand:
    return ByHand(frozenset({0}), 0.04, 0.3, (CoveredBox.of("0-3:1,2,3,4"),))


@pytest.mark.parametrize(
    ("method", "settings", "sentence"),
    [
        ("skeleton", {"leave_open": [1]}, "covers the people it finds"),
        ("edges", {"start": 1.0}, "covers the people it finds"),
        ("avatar", {"leave_open": [1]}, "covers the people it finds"),
        ("blur+pixelate", {"leave_open": [1]}, "numbers people anew"),
        ("blur+pixelate", {"blur.cover": ["0:1,1,1,1"]}, "numbers people anew"),
        ("blur", {"leave_open": [-1]}, "track numbers"),
        ("blur", {"leave_open": "three"}, "track numbers"),
        ("blur", {"region": "background", "leave_open": [1]}, "background"),
    ],
)
def test_decision_that_a_method_cannot_follow_is_refused(
    method: str, settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SfumatoError, match=sentence):
        protect.make(method, settings)


def test_public_mask_with_a_decision_by_hand_is_refused(tmp_path: Path) -> None:
    write_image(tmp_path / "mask.png", np.full((HEIGHT, WIDTH, 3), 255, np.uint8))
    settings = {"epsilon": 8.0, "delta": 1e-5, "unit": "pixels(16, frames=1)"}
    mask = {"region": str(tmp_path / "mask.png"), "public_mask": True}
    with pytest.raises(SfumatoError, match="not public"):
        protect.make("dprp", settings | mask | {"start": 1.0})


def test_avatars_keep_the_span_and_the_boxes(two: Path) -> None:
    masks = np.zeros((COUNT, HEIGHT, WIDTH), bool)
    masks[:, 10:22, 6:24] = True
    camera = Camera(WIDTH, HEIGHT, 60.0, np.eye(3), np.zeros(3))
    out = two.parent / "out" / "out.mkv"
    method = protect.make(
        "avatar",
        {
            "body": "procedural",
            "finder": Known(Scene(masks, (), camera)),
            "second_look": False,
            "start": 0.08,
            "end": 0.2,
            "cover": ["4-6:50,30,8,8"],
        },
    )
    protect.release(method, two, out, output=protect.OutputSettings("ffv1"))
    inside = [2 <= number < 5 for number in range(COUNT)]
    assert changed(out, two, np.s_[:, 10:22, 6:24]) == inside
    assert (pictures(out)[4:7, 30:38, 50:58] == 128).all()
    # inside the part, its neighbours may be erased as those of people are
    assert changed(out, two, np.s_[[0, 1, 7, 8, 9], 30:38, 50:58]) == [False] * 5
    # two rows above the mask are erased with it, and the rim of one more is mixed
    assert changed(out, two, np.s_[:, :7, :]) == [False] * COUNT
    assert "shown on purpose as it was recorded" in read_card(out).done


@pytest.mark.parametrize(
    ("text", "seconds"), [("12.5", 12.5), ("1:02.5", 62.5), ("1:00:01", 3601), ("0", 0)]
)
def test_times_are_seconds_or_minutes(text: str, seconds: float) -> None:
    assert protect.seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "1:75", "-3", "1h", "nan", "1:2:3:4"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(SfumatoError, match="time in the recording"):
        protect.seconds_of(text)
