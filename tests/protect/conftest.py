"""Recordings for the tests of release methods."""

from __future__ import annotations

from pathlib import Path

import pytest
from red_faces import HEIGHT, WIDTH, moving_face

from sfumato.media import VideoWriter


@pytest.fixture
def face_video(tmp_path: Path) -> Path:
    """Twelve frames of one face that moves, written without loss."""
    path = tmp_path / "faces.mkv"
    with VideoWriter(path, rate=25, size=(WIDTH, HEIGHT), codec="ffv1") as writer:
        for frame in moving_face(12):
            writer.write(frame.image)
    return path
