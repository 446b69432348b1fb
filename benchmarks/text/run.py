"""Table ``text``: are written words covered on every frame, is nothing covered without text, what does it cost?

Words are made (``written_clips``), so every letter is known; the release is the finished file, with the
second look, and a word is covered on a frame if nine tenths of its letters have changed. Recordings
without made words say how much is covered all the same. The cost is that of ``silhouette`` with text
beside the same with ``--keep-text``, in turn, by the processor's clock.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from rich.table import Table

from benchmarks.harness.cells import Cells
from benchmarks.harness.markdown import markdown
from benchmarks.text.written_clips import FRAMES, HEIGHT, SIZES, WIDTH, rooms, write_on
from sfumato.errors import SfumatoError
from sfumato.media import Frame, VideoWriter, list_media, open_video
from sfumato.privacy import clopper_pearson
from sfumato.protect import OutputSettings, make, release
from sfumato.settings import Count, Seed

_LETTERS = 0.9
_GOAL = 12  # pixels: the "words of 12 pixels and more"


def run(
    *,
    data: str | None = None,
    clips: Count = 104,
    seed: Seed = 27,
    rounds: Count = 3,
    sheets: str | None = None,
    quick: bool = False,
) -> dict[str, Any]:
    """``clips`` with six words each, half of them on frames of the recordings in ``data``; then these
    recordings as they are. ``sheets`` is a folder for pictures of before and after."""
    if quick:
        clips, rounds = min(clips, 2), 1
    if sheets:
        Path(sheets).mkdir(parents=True, exist_ok=True)
    cells = Cells("text", {"data": data, "seed": seed, "version": 9})
    rows = []
    for number, (name, room) in enumerate(rooms(data, clips, seed)):
        generator = np.random.default_rng([seed, number])
        frames, words = write_on(room, generator)
        measure = partial(_words, frames, words, number, name, sheets)
        rows += cells.done(f"words-{number}", measure)["words"]
    real = list_media(Path(data))[: 1 if quick else None] if data else []
    return {
        "words": rows,
        "empty": [cells.done(f"empty-{clip.stem}", partial(_covered, clip)) for clip in real],
        "cost": cells.done(f"cost-{rounds}", partial(_cost, data, rounds)),
    }


def _words(
    frames: list[Frame], words: Sequence[Any], clip: int, room: str, sheets: str | None
) -> dict[str, Any]:
    after = _released([frame.image for frame in frames], {"region": "text"})
    changed = np.stack([frame.image for frame in frames]) != after
    if sheets:
        pair = np.concatenate([frames[FRAMES // 2].image, after[FRAMES // 2]], axis=1)
        cv2.imwrite(str(Path(sheets) / f"words-{clip}.jpg"), pair[:, :, ::-1])
    found = []
    for word in words:
        shares = [
            float(changed[number].any(axis=2)[word.pixels(number)].mean())
            for number in range(FRAMES)
        ]
        found.append(
            {
                "clip": clip, "room": room, "size": word.size, "angle": word.angle,
                "faint": word.faint, "badge": word.badge,
                "moving": word.places[0] != word.places[1],
                "frames_open": sum(share < _LETTERS for share in shares),
            }
        )  # fmt: skip
    return {"words": found}


def _released(images: Sequence[Any], settings: dict[str, Any]) -> Any:
    """The frames of a finished release, without loss."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "in.mkv", Path(folder) / "out.mkv"
        height, width = images[0].shape[:2]
        with VideoWriter(source, rate=25, size=(width, height), codec="ffv1") as writer:
            for image in images:
                writer.write(image)
        release(make("silhouette", settings), source, made, output=OutputSettings(codec="ffv1"))
        with open_video(made) as video:
            return np.stack([frame.image for frame in video])


def _covered(clip: Path) -> dict[str, Any]:
    """How much of a recording is covered as text, to be judged by eye."""
    shares = []
    method = make("silhouette", {"region": "text"})
    with open_video(clip, tolerant=True) as video:
        originals: list[Any] = []

        def frames() -> Any:
            for number, frame in enumerate(video):
                if number == 60:
                    return
                originals.append(frame.image)
                yield frame

        for number, frame in enumerate(method.frames(frames())):
            shares.append(float((frame.image != originals[number]).any(axis=2).mean()))
    return {"clip": clip.stem, "frames": len(shares), "covered": float(np.mean(shares))}


def _cost(data: str | None, rounds: int) -> dict[str, Any]:
    """Processor seconds of silhouette with and without text at 640x360, best of ``rounds``, in turn."""
    (_, room), *_ = list(rooms(data, 2, 0))[::-1]
    seconds: dict[str, list[float]] = {"text": [], "no text": []}
    for _ in range(rounds):
        for name, settings in (("text", {}), ("no text", {"keep_text": True})):
            start = time.process_time()
            _released(room * 2, settings)
            seconds[name].append(time.process_time() - start)
    best = {name: min(each) for name, each in seconds.items()}
    return {"seconds": best, "ratio": best["text"] / best["no text"], "frames": 2 * FRAMES}


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Words of a size that were covered on every frame, with 95 % limits."""
    found = []
    for faint in (False, True):
        for size in SIZES:
            mine = [row for row in rows if row["size"] == size and row["faint"] is faint]
            if not mine:
                continue
            whole = sum(row["frames_open"] == 0 for row in mine)
            low = float(clopper_pearson.at_least(whole, len(mine), 0.025))
            high = float(clopper_pearson.at_most(whole, len(mine), 0.025))
            found.append(
                {
                    "size": size, "faint": faint, "words": len(mine), "covered": whole,
                    "low": low, "high": high,
                    "frames_open": sum(row["frames_open"] for row in mine) / (FRAMES * len(mine)),
                }
            )  # fmt: skip
    return found


def _goal(rows: Sequence[dict[str, Any]]) -> str:
    large = [row for row in rows if row["size"] >= _GOAL]
    whole = sum(row["frames_open"] == 0 for row in large)
    return (
        f"Of {len(large)} words of {_GOAL} pixels and more, {whole} ({whole / max(1, len(large)):.1%}) are "
        "covered on every frame they are shown."
    )


def tables(result: dict[str, Any]) -> dict[str, str]:
    words = markdown(
        ["height of capitals", "contrast", "words", "covered on every frame", "95 % limits", "frames open"],
        [
            [
                f"{row['size']} px", "faint" if row["faint"] else "clear", str(row["words"]),
                f"{row['covered']}", f"{row['low']:.0%} to {row['high']:.0%}",
                f"{row['frames_open']:.1%}",
            ]
            for row in summary(result["words"])
        ],
    )  # fmt: skip
    empty = markdown(
        ["recording", "frames", "covered as text"],
        [[row["clip"], str(row["frames"]), f"{row['covered']:.2%}"] for row in result["empty"]],
    )
    return {
        "words": words,
        "goal": _goal(result["words"]),
        "recordings": empty,
        "cost": f"`silhouette` with text takes {result['cost']['ratio']:.2f} times the processor time of "
        f"the same with `--keep-text` ({WIDTH}x{HEIGHT}, {result['cost']['frames']} frames, whole release).",
    }


def terminal(result: dict[str, Any]) -> Sequence[Any]:
    table = Table("pixels", "contrast", "words", "covered", "frames open", box=None, pad_edge=False)
    for row in summary(result["words"]):
        table.add_row(
            str(row["size"]), "faint" if row["faint"] else "clear", str(row["words"]),
            str(row["covered"]), f"{row['frames_open']:.1%}",
        )  # fmt: skip
    lines = [f"{row['clip']}: {row['covered']:.2%} covered as text" for row in result["empty"]]
    return [table, _goal(result["words"]), *lines, tables(result)["cost"]]


def failed(result: dict[str, Any]) -> bool:
    """Only when nothing was measured: what is missed is shown."""
    if not result["words"]:
        raise SfumatoError("Expected words to measure, got none: ask for at least one clip.")
    return False
