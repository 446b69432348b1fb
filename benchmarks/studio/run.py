"""Table ``studio``: how long a long recording takes to open and to seek in, and what the server holds.

The recording is made here: one minute of a moving texture at 1080p, encoded with B-frames and long groups of
pictures, and repeated without encoding it again; three made-up people are known on every frame. The server
runs as a user starts it; a client asks it.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from rich.table import Table

from sfumato import people
from sfumato.errors import SfumatoError
from sfumato.settings import Count

RATE, WIDTH, HEIGHT = 25, 1920, 1080
OPENS, SEEKS, MEGABYTES = 2.0, 1.0, 600.0
_PART = 60  # seconds that are encoded


def run(
    *,
    minutes: Count = 60,
    group: Count = 250,
    seeks: Count = 40,
    work: str | None = None,
    quick: bool = False,
) -> dict[str, Any]:
    """Seconds to open a recording for the first time and again, and to show frames in random order.

    ``group`` is the number of frames between two key frames; half of the seeks go to the last frame of a
    group, which is the worst one. The recording is kept in ``work``, if named.
    """
    minutes, seeks = (1, 6) if quick else (minutes, seeks)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(work or scratch) / f"studio-{minutes}-{group}"
        root.mkdir(parents=True, exist_ok=True)
        clip = root / "long.mp4"
        if not clip.is_file():
            _make(clip, minutes, group)
        for kept in root.glob(".sfumato-studio/index/*.npz"):
            kept.unlink()
        _make_people(root, minutes * _PART * RATE)
        first = _measure(root, minutes * _PART * RATE, group, seeks)
        again = _measure(root, minutes * _PART * RATE, group, 1)
        size = clip.stat().st_size
    return {
        "minutes": minutes,
        "group": group,
        "gigabytes": size / 1e9,
        "first": first,
        "opened_again": again["opened"],
        "limits": {"opened": OPENS, "seek": SEEKS, "megabytes": MEGABYTES},
    }


def _make(target: Path, minutes: int, group: int) -> None:
    """A minute of a texture under a moving window, written once a minute."""
    staged = target.with_name("part.mp4")
    generator = np.random.default_rng(0)
    rough = generator.integers(0, 256, (HEIGHT + 600, WIDTH + 600), dtype=np.uint8)
    texture = cv2.cvtColor(cv2.GaussianBlur(rough, (0, 0), 6), cv2.COLOR_GRAY2RGB)
    texture = cv2.normalize(texture, texture, 0, 255, cv2.NORM_MINMAX)
    with av.open(str(staged), "w") as container:
        stream: Any = container.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.options = {
            "preset": "veryfast",
            "x264-params": f"keyint={group}:min-keyint={group}:scenecut=0:bframes=3",
        }
        for number in range(_PART * RATE):
            angle = 2 * np.pi * number / (_PART * RATE)
            x, y = round(300 + 280 * np.cos(3 * angle)), round(300 + 280 * np.sin(2 * angle))
            image = np.asarray(texture[y : y + HEIGHT, x : x + WIDTH], np.uint8).copy()
            cv2.putText(image, str(number), (60, 160), cv2.FONT_HERSHEY_SIMPLEX, 5, (255, 0, 0), 12)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    _repeat(staged, target, minutes)
    staged.unlink()


def _repeat(part: Path, target: Path, times: int) -> None:
    temporary = target.with_suffix(".new.mp4")
    with av.open(str(temporary), "w") as out:
        stream: Any = None
        for number in range(times):
            with av.open(str(part)) as source:
                video = source.streams.video[0]
                if stream is None:
                    stream = out.add_stream_from_template(video)
                step = int(Fraction(_PART) / Fraction(video.time_base or 1))
                for packet in source.demux(video):
                    if packet.dts is None or packet.pts is None:
                        continue
                    packet.pts, packet.dts = packet.pts + number * step, packet.dts + number * step
                    packet.stream = stream
                    out.mux(packet)
    os.replace(temporary, target)


def _make_people(root: Path, frames: int) -> None:
    """Three people on every frame, seen at every fourth one, as the search leaves them."""
    target = root / ".sfumato-studio" / "people" / "long.mp4.people.db"
    target.parent.mkdir(parents=True, exist_ok=True)
    joints = np.ones((17, 3), np.float32)

    def found() -> Iterator[people.People]:
        for number in range(frames):
            evidence = people.BRIDGED if number % people.EVERY else "movenet+centernet"
            here = [
                people.Person(
                    track, people.Box(200 * track, 100, 200 * track + 150, 600, 0.9), joints,
                    people.Box(200 * track + 40, 100, 200 * track + 110, 190), evidence, (HEIGHT, WIDTH),
                )
                for track in range(3)
            ]  # fmt: skip
            yield people.People(here, number)

    people.PeopleFile.create(target, found(), width=WIDTH, height=HEIGHT, force=True)


def _measure(root: Path, frames: int, group: int, seeks: int) -> dict[str, Any]:
    server = subprocess.Popen(
        [sys.executable, "-m", "sfumato", "studio", "--root", str(root), "--no-browser"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stderr is not None
        found = re.search(r"127\.0\.0\.1:(\d+)/\?token=(\S+)", server.stderr.readline())
        if found is None:
            raise SfumatoError("Expected the studio to start, it did not.")
        client = _Client(int(found[1]), found[2])
        (recording,) = client.get("/api/recordings")["recordings"]
        # what the library shows was read from the header; opening is the index and the first picture
        before = _processor_seconds(server.pid)
        opened = client.seconds(f"/api/recordings/{recording['id']}/frames/0?width=1280")
        opened_processor = _processor_seconds(server.pid) - before
        at = f"/api/recordings/{recording['id']}"
        known = client.seconds(f"{at}/people")
        edit = {"do": "box", "frame": frames // 2, "track": 1, "box": [9, 9, 50, 90]}
        edited = client.seconds(f"{at}/edits", edit)
        drawn = random.Random(0)
        taken, spent = [], []
        for number in range(seeks):
            place = drawn.randrange(frames)
            if number % 2:  # the last of its group
                place = min(frames - 1, place // group * group + group - 1)
            address = f"/api/recordings/{recording['id']}/frames/{place}?width=1280"
            before = _processor_seconds(server.pid)
            taken.append(client.seconds(address))
            spent.append(_processor_seconds(server.pid) - before)
        return {
            "opened": opened,
            "people": known,
            "edit": edited,
            "opened_processor": opened_processor,
            "seek_median": float(np.median(taken)),
            "seek_worst": max(taken),
            "seek_processor_worst": max(spent),
            "megabytes": _peak_megabytes(server.pid),
        }
    finally:
        server.terminate()
        server.wait()


class _Client:
    def __init__(self, port: int, token: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=600)
        self._connection.request("GET", f"/?token={token}")
        answer = self._connection.getresponse()
        answer.read()
        self._cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
        self._place = (answer.getheader("location") or "").rstrip("/")

    def get(self, address: str) -> Any:
        return json.loads(self._ask(address))

    def seconds(self, address: str, body: Any = None) -> float:
        csrf = "" if body is None else self.get("/api/session")["csrf"]
        start = time.perf_counter()
        self._ask(address, body, csrf)
        return time.perf_counter() - start

    def _ask(self, address: str, body: Any = None, csrf: str = "") -> bytes:
        headers = {
            "Cookie": self._cookie,
            "Content-Type": "application/json",
            "X-Sfumato-CSRF": csrf,
        }
        how, sent = ("GET", None) if body is None else ("POST", json.dumps(body))
        self._connection.request(how, self._place + address, sent, headers)
        answer = self._connection.getresponse()
        said: bytes = answer.read()
        if answer.status != 200:
            raise SfumatoError(f"Expected an answer of the studio, got {answer.status}.")
        return said


def _processor_seconds(process: int) -> float:
    """What all threads of a process computed (Linux): on an idle machine it takes no longer than that."""
    stat = Path(f"/proc/{process}/stat")
    if not stat.is_file():
        return float("nan")
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_megabytes(process: int) -> float:
    """The most that the server held at any time (Linux)."""
    status = Path(f"/proc/{process}/status")
    if not status.is_file():
        return float("nan")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
    return int(found[1]) / 1024 if found else float("nan")


def failed(result: dict[str, Any]) -> bool:
    """Whether a limit of the studio was missed, on this machine as busy as it is."""
    first = result["first"]
    return bool(
        first["opened"] + first["people"] > OPENS
        or first["seek_worst"] > SEEKS
        or first["megabytes"] > MEGABYTES
    )


def terminal(result: dict[str, Any]) -> tuple[Any, ...]:
    first = result["first"]
    title = f"{result['minutes']} minutes of 1080p, {result['gigabytes']:.1f} GB, groups of {result['group']}"
    table = Table("what", "measured", "limit", title=title)
    table.add_row("opened the first time, seconds", f"{first['opened']:.2f}", f"{OPENS:g}")
    table.add_row("its people, seconds", f"{first['people']:.2f}", f"{OPENS:g} together")
    table.add_row("a box placed, seconds", f"{first['edit']:.2f}", "")
    table.add_row("opened again, seconds", f"{result['opened_again']:.2f}", f"{OPENS:g}")
    table.add_row("seek, median, seconds", f"{first['seek_median']:.2f}", f"{SEEKS:g}")
    table.add_row("seek, worst, seconds", f"{first['seek_worst']:.2f}", f"{SEEKS:g}")
    table.add_row(
        "processor seconds: opened, worst seek",
        f"{first['opened_processor']:.2f}, {first['seek_processor_worst']:.2f}",
        "",
    )
    table.add_row("memory of the server, MB", f"{first['megabytes']:.0f}", f"{MEGABYTES:g}")
    return (table,)
