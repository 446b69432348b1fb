"""TensorBoard's files: framing against published vectors, content against a reader written apart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from event_reader import read_events

from sfumato.learn._tensorboard import EventFile, crc32c, framed


@pytest.mark.parametrize(
    ("data", "value"),
    [
        # RFC 3720, B.4, and the customary check value
        (b"\x00" * 32, 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"123456789", 0xE3069283),
    ],
)
def test_the_checksum_is_castagnolis(data: bytes, value: int) -> None:
    assert crc32c(data) == value


def test_a_record_is_framed_as_tensorflow_frames_it() -> None:
    # the first record of any event file: tag 9 (wall time 0), then version "brain.Event:2"
    body = b"\x09" + b"\x00" * 8 + b"\x1a\x0dbrain.Event:2"
    assert framed(body)[:12] == b"\x18\x00\x00\x00\x00\x00\x00\x00\xa3\x7f\x4b\x22"
    assert framed(body)[12:-4] == body


def test_protobuf_reads_back_what_was_written(tmp_path: Path) -> None:
    board = EventFile(tmp_path, clock=lambda: 1.5)
    board.add(300, {"held_out/accuracy": 0.25, "privacy/epsilon_spent": 7.5})
    board.add(301, {})
    board.add(70_000, {"loss": float("inf")})
    board.close()
    (path,) = tmp_path.iterdir()
    assert "tfevents" in path.name, "TensorBoard looks for this"
    assert os.stat(path).st_mode & 0o777 == 0o600
    first, *events = read_events(path)
    assert (first.file_version, first.wall_time) == ("brain.Event:2", 1.5)
    found = [(e.step, {v.tag: v.simple_value for v in e.summary.value}) for e in events]
    assert found == [
        (300, {"held_out/accuracy": 0.25, "privacy/epsilon_spent": 7.5}),
        (70_000, {"loss": float("inf")}),
    ]


def test_every_start_writes_a_file_of_its_own(tmp_path: Path) -> None:
    times = iter(range(1, 9))
    for _ in range(2):
        EventFile(tmp_path, clock=lambda: float(next(times))).close()
    assert len(list(tmp_path.iterdir())) == 2
