"""A detector of another package, by its entry point alone: nothing of sfumato is touched."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from sfumato import people, protect
from sfumato.errors import SfumatoError
from sfumato.media import VideoWriter, open_video
from sfumato.privacy import read_card

TOY = '''
import numpy as np
from sfumato.people import Box

class WhiteSquare:
    """Finds what is white."""

    name, device = "white-square", "toy"

    def __init__(self, offline: bool = False) -> None:
        self.offline = offline

    def detect(self, image):
        rows, columns = np.nonzero((image > 200).all(-1))
        if not len(rows):
            return []
        return [Box(columns.min(), rows.min(), columns.max() + 1, rows.max() + 1, 0.9, self.name)]
'''
WIDTH, HEIGHT, FRAMES = 96, 64, 6


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with an entry point, as pip would lay it down."""
    site = tmp_path / "site"
    about = site / "toy_detector-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "toy_detector.py").write_text(TOY)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-detector\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[sfumato.detectors]\nfaces.white-square = toy_detector:WhiteSquare\n"
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "toy_detector", raising=False)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A white square that walks to the right."""
    path = tmp_path / "in.mkv"
    with VideoWriter(path, rate=10, size=(WIDTH, HEIGHT), codec="ffv1") as writer:
        for number in range(FRAMES):
            image = np.full((HEIGHT, WIDTH, 3), 20, np.uint8)
            image[20:36, 10 + 4 * number : 26 + 4 * number] = 255
            writer.write(image)
    return path


@pytest.mark.usefixtures("installed")
def test_a_detector_is_listed_made_and_united_by_its_entry_point() -> None:
    assert "white-square" in people.detectors()["faces"]
    detector = people.face_detector("white-square", offline=True)
    assert isinstance(detector, people.FaceDetector)
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    assert detector.detect(image) == []
    image[5:9, 7:13] = 255
    (box,) = people.face_detector("white-square+white-square").detect(image)
    assert (box.x0, box.y0, box.x1, box.y1) == (7, 5, 13, 9)


@pytest.mark.usefixtures("installed")
def test_a_release_covers_what_it_finds_and_the_card_names_it(
    recording: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out.mkv"
    settings = {"detector": "white-square", "every": 1, "check": None}
    protect.make("blur", settings).apply(recording, target)
    with open_video(target) as released:
        frames = [frame.image for frame in released]
    assert len(frames) == FRAMES
    for number, image in enumerate(frames):
        face = image[22:34, 12 + 4 * number : 24 + 4 * number]
        assert face.max() < 250, "nothing of the square is left as it was"
    card = read_card(target.with_name("out.mkv.card.json"))
    assert any("white-square" in str(each) for each in card.detectors)


def test_without_its_package_the_name_is_unknown_and_the_known_ones_are_listed() -> None:
    with pytest.raises(SfumatoError, match="centerface"):
        people.face_detector("white-square")
