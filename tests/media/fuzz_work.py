"""What a user would do with each file of the fuzz corpus; runs in a worker process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.media import VideoWriter, open_video, read_audio, read_image, write_image

PICTURES = {".png", ".jpg", ".webp"}
SOUNDS = {".wav"}


def protect(source: Path, target: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Copy frame by frame into ``target`` (.mp4), or a picture into one frame of it."""
    tolerant = settings["tolerant"]
    if source.suffix in SOUNDS:
        samples = read_audio(source, 8000)
        target.write_bytes(samples.tobytes())
        return {"frames": len(samples)}
    if source.suffix in PICTURES:
        image = read_image(source, tolerant=tolerant)
        write_image(target.with_suffix(".png"), image)
        target.with_suffix(".png").rename(target)
        return {"frames": 1}
    with (
        open_video(source, tolerant=tolerant) as video,
        VideoWriter(target, video.info) as writer,
    ):
        for frame in video:
            writer.write(frame.image, frame.time)
        return {"frames": writer.frames_written, "damage": video.damage.packets_lost}
