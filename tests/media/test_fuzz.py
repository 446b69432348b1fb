"""Hundreds of broken files: no traceback, no hang, no crash, no partial output, one sentence each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from fuzz_corpus import SECRET, TEXTS, cases
from fuzz_work import PICTURES, SOUNDS, protect
from media_pictures import smooth_picture

from sfumato.jobs import JobReport, run_job
from sfumato.media import open_video

MakeVideo = Callable[..., Path]

# One sentence (a second one may say what to do): expected, got, remedy; no path, no traceback.
SENTENCE = re.compile(r"Expected [^\n]+: [^\n]+\.")
WATCHDOG = 60.0


@pytest.fixture
def corpus(make_video: MakeVideo, tmp_path: Path) -> dict[Path, str]:
    """Each file with its kind."""
    size = (32, 32)
    videos = [
        make_video("s.mp4", size=size, sound=2000),
        make_video("s.mkv", size=size, codec="ffv1", pix_fmt="yuv420p", options={"slicecrc": "1"}),
        make_video("s.avi", size=size, codec="mpeg4"),
        make_video("s.webm", size=size, codec="libvpx-vp9", options={"deadline": "realtime"}),
        make_video("s.mov", size=size, codec="qtrle", pix_fmt="rgb24"),
        make_video("s.ts", size=size, codec="mpeg2video"),
    ]
    sound = {video.suffix: video.read_bytes() for video in videos}
    for suffix in (".png", ".jpg", ".webp"):
        sound[suffix] = cv2.imencode(suffix, smooth_picture(32, 32, 0))[1].tobytes()
    wav = tmp_path / "s.wav"
    with av.open(str(wav), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(
            np.zeros((1, 2000), np.int16), format="s16", layout="mono"
        )
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
    sound[".wav"] = wav.read_bytes()
    folder = tmp_path / "corpus"
    folder.mkdir()
    for suffix in (".mp4", ".ts"):
        (folder / f"{SECRET}{suffix}").write_bytes(sound[suffix])
    kinds = {}
    for number, (kind, suffix, data) in enumerate(cases(sound)):
        file = folder / f"P{number:04d}{suffix}"
        file.write_bytes(data)
        kinds[file] = kind
    return kinds


def run(corpus: dict[Path, str], out: Path, *, tolerant: bool) -> JobReport:
    return run_job(
        list(corpus),
        out,
        protect,
        settings={"tolerant": tolerant},
        suffix=".mp4",
        workers=2,
        timeout=WATCHDOG,
        progress=lambda standing: None,
    )


@pytest.mark.parametrize("tolerant", [False, True])
def test_every_broken_file_gives_a_sound_output_or_one_sentence(
    corpus: dict[Path, str], tmp_path: Path, tolerant: bool
) -> None:
    assert len(corpus) >= 300
    out = tmp_path / "out"
    report = run(corpus, out, tolerant=tolerant)

    for outcome in report.failed:
        # "Unexpected ..." would be a traceback, "Expected the worker ..." a crash or a hang.
        assert SENTENCE.fullmatch(outcome.reason), (corpus[outcome.source], outcome.reason)
        assert "worker" not in outcome.reason, (corpus[outcome.source], outcome.reason)
        assert outcome.source.stem not in outcome.reason
        assert str(tmp_path) not in outcome.reason

    written = sorted(out.iterdir())
    assert written == sorted(outcome.output for outcome in report.done if outcome.output)
    assert not (tmp_path / "out.staging").exists()
    for outcome in report.done:
        assert outcome.output is not None
        if outcome.source.suffix in PICTURES | SOUNDS:
            continue
        with open_video(outcome.output) as video:
            assert len(list(video)) == outcome.result["frames"] > 0

    states = Counter((corpus[outcome.source], outcome.state) for outcome in report.outcomes)
    assert states["sound", "failed"] == 0
    assert states["empty", "done"] == 0
    for kind in TEXTS:
        assert states[kind, "failed"] == 3, kind
    if not tolerant:
        cut = [o for o in report.done if corpus[o.source] == "truncated"]
        # A transport stream has no stated length: all others know that their end is missing.
        assert {outcome.source.suffix for outcome in cut} <= {".ts"}
