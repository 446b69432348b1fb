"""Finished releases of whole clips, each made once and kept in the folder of the run."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from sfumato import protect
from sfumato.errors import SfumatoError
from sfumato.files import write_json
from sfumato.media import open_video

METHODS = ("blur", "silhouette", "avatar")
# what is measured exactly, and what a user gets who says nothing
LOSSLESS, DEFAULT = "ffv1", "h264"
_SUFFIX = {LOSSLESS: ".mkv", DEFAULT: ".mp4"}


def released(
    work: Path, root: Path, clip: str, method: str, codec: str, share: bool = False
) -> dict[str, Any]:
    """The release of ``root/clip``: its file (``path``), frames and seconds, or why it was ``refused``.

    The method is made as the command line makes it, with nothing set. Every release opens its
    detectors itself, which is part of its seconds; with ``share`` it covers what the release before
    found in the same clip, which is the same, and its seconds are 0.
    """
    target = work / f"{method}-{codec}" / (clip.replace("/", "-") + _SUFFIX[codec])
    note = target.with_suffix(".row.json")
    if not note.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        write_json(note, _release(root / clip, target, method, codec, share))
    row: dict[str, Any] = json.loads(note.read_text(encoding="utf-8"))
    return {**row, "path": target}


_LAST: dict[Path, Any] = {}  # what was found in the clip that was searched last


def _release(source: Path, target: Path, name: str, codec: str, share: bool) -> dict[str, Any]:
    output = protect.OutputSettings(codec=codec, tolerant=True)
    method: Any = protect.make(name, {})
    known = _LAST.get(source) if share and hasattr(method, "reuse_detections") else None
    if known is not None:
        method.reuse_detections(known)
    begun, used = time.perf_counter(), time.process_time()
    try:
        protect.release(method, source, target, output=output, force=True)
    except SfumatoError as error:
        return {"refused": str(error)}
    spent = {
        "seconds": time.perf_counter() - begun if known is None else 0.0,
        "processor_seconds": time.process_time() - used if known is None else 0.0,
    }
    _LAST.clear()
    if share and hasattr(method, "detection_log"):
        _LAST[source] = method.detection_log
    with open_video(target) as video:
        return {"frames": sum(1 for _ in video), **spent}
