"""Text is covered by every method that hides, flat and on every frame, unless somebody keeps it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from red_faces import RedFaces, RedPeople

from sfumato import people
from sfumato.media import Frame, Image, VideoWriter, open_video
from sfumato.privacy import read_card
from sfumato.protect import OutputSettings, ProtectError, Shape, make, release
from sfumato.protect.hide import Blur, DetectionLog, Pixelate, Place, Selective, Silhouette

HEIGHT, WIDTH = 72, 128
LOSSLESS = OutputSettings(codec="ffv1")
ALL = pytest.mark.parametrize("kind", [Blur, Pixelate, Silhouette, Selective])


def is_green(image: Image) -> npt.NDArray[np.bool_]:
    return np.asarray((image[..., 1] > 200) & (image[..., 0] < 60) & (image[..., 2] < 60))


class GreenText:
    """Takes green letters for text; the first ``blind`` looks see nothing."""

    name, device, at_once = "green text", "test", False

    def __init__(self, blind: int = 0) -> None:
        self.blind = blind

    def detect(self, image: Image) -> list[people.TextLine]:
        self.blind -= 1
        rows, columns = np.nonzero(is_green(image))
        if self.blind >= 0 or not len(rows):
            return []
        centre = (
            float(columns.min() + columns.max() + 1) / 2,
            float(rows.min() + rows.max() + 1) / 2,
        )
        size = float(np.ptp(columns) + 3), float(np.ptp(rows) + 3)
        return [people.TextLine.around(centre, size, 0)]


@pytest.fixture(autouse=True)
def green_text(monkeypatch: pytest.MonkeyPatch) -> GreenText:
    detector = GreenText()
    monkeypatch.setattr("sfumato.people.text_detector", lambda: detector)
    return detector


def written(count: int = 12) -> list[Frame]:
    """A red face that moves at the left, a green name that moves at the right."""
    wall = np.random.default_rng(0).integers(100, 116, (HEIGHT, WIDTH, 3)).astype(np.uint8)
    frames = []
    for number in range(count):
        image = wall.copy()
        image[10:22, 5 + number : 17 + number] = (220, 30, 30)
        cv2.putText(image, "ADA", (60 + number, 60 - number), 0, 0.5, (0, 255, 0), 1)
        frames.append(Frame(image, number, Fraction(number, 25)))
    return frames


def hiding(kind: type[Any], **changes: Any) -> Any:
    detector = RedPeople() if kind in (Silhouette, Selective) else RedFaces()
    return kind(**({"detector": detector, "check": RedFaces("other")} | changes))


def stack(frames: Any) -> npt.NDArray[np.uint8]:
    return np.stack([frame.image for frame in frames])


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "written.mkv"
    with VideoWriter(path, rate=25, size=(WIDTH, HEIGHT), codec="ffv1") as writer:
        for frame in written():
            writer.write(frame.image)
    return path


@ALL
def test_text_becomes_one_colour_on_every_frame_and_the_rest_stays(kind: type[Any]) -> None:
    before, after = stack(written()), stack(hiding(kind, seed=1).frames(written()))
    for number in range(len(before)):
        letters = is_green(before[number])
        assert letters.sum() > 20
        assert not is_green(after[number])[letters].any()
        rows, columns = np.nonzero(letters)
        word = after[number][rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        assert len(np.unique(word.reshape(-1, 3), axis=0)) == 1
    changed = (before != after).any(axis=-1)
    assert not changed[:, :, 118:].any()
    assert not changed[:, 30:40, :40].any()


@ALL
def test_kept_text_stays_as_it_was_and_the_card_says_so(kind: type[Any]) -> None:
    method = hiding(kind, keep_text=True, seed=1)
    before, after = stack(written()), stack(method.frames(written()))
    letters = is_green(before)
    np.testing.assert_array_equal(before[letters], after[letters])
    shape = Shape(HEIGHT, WIDTH, 12)
    assert people.TEXT in method.promise(shape).not_covered
    assert method.settings["keep_text"] is True
    assert "the text" not in method.promise(shape).reason
    covered = hiding(kind, seed=1).promise(shape)
    assert people.TEXT not in covered.not_covered
    assert "and the text that was found were changed" in covered.reason


def test_the_region_text_covers_text_alone(recording: Path, tmp_path: Path) -> None:
    made = tmp_path / "out.mkv"
    release(make("silhouette", {"region": "text"}), recording, made, output=LOSSLESS)
    with open_video(made) as video:
        after = stack(video)
    before = stack(written())
    changed = (before != after).any(axis=-1)
    assert not is_green(after).any()
    assert not changed[:, :, :50].any()
    card = read_card(made)
    assert "everybody who is to be seen" in card.promise.not_covered
    assert any("green text" in detector for detector in card.detectors)


def test_keeping_text_where_only_text_is_covered_is_refused() -> None:
    with pytest.raises(ProtectError, match="--keep-text"):
        make("blur", {"region": "text", "keep_text": True})


def test_what_the_search_missed_is_covered_after_the_second_look(
    recording: Path, tmp_path: Path, green_text: GreenText
) -> None:
    green_text.blind = 4  # frames 0, 4, 8 and the last one
    made = tmp_path / "out.mkv"
    release(hiding(Blur), recording, made, output=LOSSLESS)
    with open_video(made) as video:
        assert not any(is_green(frame.image).any() for frame in video)


def test_without_a_check_nothing_is_looked_at_twice(
    recording: Path, tmp_path: Path, green_text: GreenText
) -> None:
    green_text.blind = 4
    release(hiding(Blur, check=None), recording, tmp_path / "out.mkv", output=LOSSLESS)
    with open_video(tmp_path / "out.mkv") as video:
        assert all(is_green(frame.image).any() for frame in video)


def test_text_outside_the_part_that_is_worked_on_is_shown(recording: Path, tmp_path: Path) -> None:
    made = tmp_path / "out.mkv"
    release(hiding(Blur, start=0.2), recording, made, output=LOSSLESS)
    with open_video(made) as video:
        shown = [bool(is_green(frame.image).any()) for frame in video]
    assert shown == [True] * 5 + [False] * 7


def test_a_method_limited_to_text_works_there_and_nowhere_else() -> None:
    method = make("edges", {"region": "text"})
    before, after = stack(written()), stack(method.frames(written()))
    assert not is_green(after).any()
    assert not (before != after)[:, :, :50].any()


def test_the_log_of_detections_keeps_the_text() -> None:
    image = written(1)[0].image
    line = people.TextLine.around((60, 40), (30, 8), 20, 0.7)
    log = DetectionLog()
    log.add(image, Place(np.zeros((HEIGHT, WIDTH), bool), False, text=(line,)))
    ((_, place),) = log.places([Frame(image, 0, Fraction(0))])
    np.testing.assert_array_equal(place.covered(), people.text_mask([line], HEIGHT, WIDTH))
    assert place.text[0].score == 0.7
