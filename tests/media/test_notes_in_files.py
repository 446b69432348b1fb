"""A note inside a file is found again, changes no pixel, and is written only when it is given."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np
import pytest

from sfumato.media import VideoWriter, open_video, read_image, write_image
from sfumato.privacy import PRIVATE_NOTE, says_private

PICTURE = np.random.default_rng(0).integers(0, 256, (41, 61, 3), dtype=np.uint8)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".jpeg", ".webp"])
def test_pictures_keep_their_pixels_and_say_what_they_are(tmp_path: Path, suffix: str) -> None:
    plain, noted = tmp_path / f"plain{suffix}", tmp_path / f"noted{suffix}"
    write_image(plain, PICTURE)
    write_image(noted, PICTURE, note=PRIVATE_NOTE)
    assert (says_private(plain), says_private(noted)) == (False, True)
    assert np.array_equal(read_image(plain), read_image(noted))
    # another reader than ours
    assert np.array_equal(cv2.imread(str(plain)), cv2.imread(str(noted)))


@pytest.mark.parametrize(
    ("suffix", "codec"), [(".mkv", "ffv1"), (".mp4", "h264"), (".mov", "h264")]
)
def test_a_video_says_it_as_its_comment(tmp_path: Path, suffix: str, codec: str) -> None:
    shown = []
    for name, note in (("plain", None), ("noted", PRIVATE_NOTE)):
        file = tmp_path / f"{name}{suffix}"
        with VideoWriter(file, rate=Fraction(5), size=(60, 40), codec=codec, note=note) as writer:
            writer.write(PICTURE[:40, :60])
        assert says_private(file) is (note is not None)
        with open_video(file) as video:
            shown.append(next(iter(video)).image)
    assert np.array_equal(*shown)


@pytest.mark.parametrize("before", [0, 1, (1 << 20) - 20, (1 << 20) - 1, 1 << 20, (1 << 21) + 7])
def test_the_note_is_found_wherever_it_stands(tmp_path: Path, before: int) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * before + PRIVATE_NOTE.encode() + b"y")
    assert says_private(file)
    file.write_bytes(b"x" * before + PRIVATE_NOTE.encode()[:-1])
    assert not says_private(file)
