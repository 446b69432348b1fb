"""deface beside us: its frames are found again where it leaves some out, its heads judged alike."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.people import peer, releases
from benchmarks.people.labels import LabelledClip, LabelledFrame, Somebody
from sfumato.media import VideoWriter
from sfumato.people import Box
from sfumato.protect.hide import Blur

# Covers the head at the left in a square that moves; leaves the first frame of whole clips out.
PEER = """#!{python}
import sys
sys.path[:0] = {path}
from sfumato.media import VideoWriter, open_video
source, target = sys.argv[1], sys.argv[3]
with open_video(source) as video:
    images = [frame.image.copy() for frame in video]
lossless = target.endswith(".mkv")
kept = list(enumerate(images))[1 if len(images) > 1 else 0 :]
size = images[0].shape[1::-1]
with VideoWriter(target, rate=25, size=size, codec="ffv1" if lossless else "h264") as writer:
    for number, image in kept:
        if "none" not in sys.argv:
            image[16:40, 4 * number + 8 : 4 * number + 32] = 255
        writer.write(image)
"""


class Nobody:
    name, device = "nobody", "test"

    def detect(self, image: object) -> list[Box]:
        return []


@pytest.fixture
def clip(tmp_path: Path) -> tuple[LabelledClip, Path]:
    """Two heads side by side in a texture that moves by four pixels a frame."""
    texture = np.random.default_rng(5).integers(60, 200, (9, 40, 3)).astype(np.uint8)
    wide = texture.repeat(10, 0).repeat(10, 1)
    source = tmp_path / "moving.mkv"
    with VideoWriter(source, rate=25, size=(160, 90), codec="ffv1") as writer:
        for number in range(10):
            writer.write(np.ascontiguousarray(wide[:, 200 - 4 * number : 360 - 4 * number]))
    frames = tuple(
        LabelledFrame(
            number,
            tuple(
                Somebody((x + 4 * number, 28), None, None, hard=False, counted=True, who=None)
                for x in (20, 80)
            ),
            damaged=False,
        )
        for number in (2, 8)
    )
    return LabelledClip("clips/moving.mkv", (160, 90), False, frames), source


def test_heads_of_the_peer_are_judged_on_the_frame_that_is_most_alike(
    clip: tuple[LabelledClip, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        releases.protect, "make", lambda *_: Blur(detector=Nobody(), check=Nobody())
    )
    command = tmp_path / "deface"
    command.write_text(PEER.format(python=sys.executable, path=sys.path))
    command.chmod(0o755)
    row = peer.peer_row(tmp_path / "work", *clip, str(command))
    assert [point["open"] for point in row["points"]] == [False, True] * 2
    assert row["frames"] == 10
    assert peer.rate(row, "ours") > 0
    again = peer.peer_row(tmp_path / "work", *clip, str(command))
    assert again["points"] == row["points"], "a run that was stopped goes on"


def test_a_peer_that_is_not_there_is_told(
    clip: tuple[LabelledClip, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        releases.protect, "make", lambda *_: Blur(detector=Nobody(), check=Nobody())
    )
    row = peer.peer_row(tmp_path / "work", *clip, str(tmp_path / "deface"))
    assert "pass peer=" in row["refused"]
