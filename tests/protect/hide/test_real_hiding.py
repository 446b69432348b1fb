"""Blur with the bundled detectors on real people: no original face is left to be found."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import pytest

from sfumato import people, store
from sfumato.media import Image, VideoWriter, open_video
from sfumato.protect import release
from sfumato.protect.hide import Blur, faces_left

pytestmark = [pytest.mark.models, pytest.mark.real_data]


def test_no_original_face_is_found_after_blur(real_data: Path, tmp_path: Path) -> None:
    clip, source = real_data / "clips" / "arm_wrestling.mp4", tmp_path / "in.mkv"
    if not clip.exists():
        pytest.skip("no clip arm_wrestling.mp4 in the real data")
    with (
        open_video(clip, tolerant=True) as video,
        VideoWriter(source, video.info, codec="ffv1") as writer,
    ):
        for frame in islice(video, 3):
            writer.write(frame.image, frame.pts)
    try:
        first = people.face_detector("centerface")
    except (store.CacheError, store.DownloadError, store.OfflineError) as error:
        pytest.skip(f"the models cannot be had here: {error}")
    release(Blur(), source, tmp_path / "out.mp4")
    assert list(faces_left(source, tmp_path / "out.mp4", second="blazeface-short")) == []
    with open_video(source) as originals, open_video(tmp_path / "out.mp4") as outputs:
        for original, output in zip(originals, outputs, strict=True):
            faces = first.detect(original.image)
            assert faces, "the original shows faces"
            for face in faces:
                assert _detail(output.image, face) < 0.5 * _detail(original.image, face)


def _detail(image: Image, face: people.Box) -> float:
    """How sharp the middle of a face is: the spread of its second derivative."""
    part = image[face.scale(0.7).pixels(image.shape[1], image.shape[0])]
    return float(cv2.Laplacian(part.astype(np.float32), cv2.CV_32F).std())
