"""Pairs for review hold originals: on request only, private, elsewhere, and named on the card."""

from __future__ import annotations

import json
import stat
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from red_faces import RedFaces

from sfumato import protect
from sfumato.cli.main import main
from sfumato.errors import SfumatoError
from sfumato.media import VideoWriter, read_frames, read_image
from sfumato.privacy import card_path, says_private
from sfumato.protect import ProtectError
from sfumato.protect._before_after import LABEL, BeforeAfterPairs
from sfumato.protect._command import CommandResult, Request


def run(
    source: Path, target: Path, pairs: BeforeAfterPairs | None, **settings: Any
) -> CommandResult:
    chosen = {"detector": RedFaces(), "check": None} | settings
    order = Request(
        source=source, target=target, method="blur", settings=chosen, codec="ffv1", pairs=pairs
    )
    return protect.run(order, None, lambda sentence: None)


def halves(file: Path, shape: tuple[int, ...]) -> tuple[Any, Any]:
    sheet = read_image(file)
    band = len(sheet) - shape[0]
    assert band > 0
    assert (sheet[0, :, 0] > 150).all()  # the red band
    return sheet[band:, : shape[1]], sheet[band:, shape[1] :]


def test_pairs_are_frames_of_both_in_a_private_folder(face_video: Path, tmp_path: Path) -> None:
    target, folder = tmp_path / "release" / "out.mkv", tmp_path / "review"
    report = run(face_video, target, BeforeAfterPairs(5, folder))
    before, after = read_frames(face_video), read_frames(target)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = sorted(folder.glob("*.png"))
    assert [file.name for file in files] == [f"INTERNAL-pair-{n:03d}.png" for n in range(1, 6)]
    places = []
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert says_private(file)
        original, protected = halves(file, before[0].shape)
        (place,) = (n for n in range(len(before)) if np.array_equal(before[n], original))
        assert np.array_equal(after[place], protected)
        places.append(place)
    assert places == sorted(set(places))
    assert LABEL in (folder / "README.txt").read_text()
    card = card_path(target).read_text()
    assert "Up to 5 pairs" in json.loads(card)["done"]
    assert "review;" in card
    assert str(folder) not in card
    assert any("contain originals" in line for line in report.lines)
    assert {path.name for path in target.parent.iterdir()} == {
        "out.mkv", "out.mkv.card.json", "out.mkv.card.md"
    }  # fmt: skip


def test_without_being_asked_nothing_is_set_aside(face_video: Path, tmp_path: Path) -> None:
    target = tmp_path / "release" / "out.mkv"
    run(face_video, target, None)
    assert "pairs" not in card_path(target).read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"faces.mkv", "release"}


def test_every_frame_is_as_likely_and_a_seed_has_no_say(tmp_path: Path) -> None:
    path = tmp_path / "counting.mkv"
    with VideoWriter(path, rate=25, size=(16, 16), codec="ffv1") as writer:
        for number in range(6):
            writer.write(np.full((16, 16, 3), 40 * number, np.uint8))
    seen: Counter[int] = Counter()
    for _ in range(120):
        chosen = BeforeAfterPairs(2, tmp_path)._chosen(path, path, False)
        seen.update(int(before[0, 0, 0]) // 40 for before, _ in chosen)
    # 120 draws of 2 out of 6: 40 each with s.d. 5.2; five of them make a failure one in a million
    assert set(seen) == set(range(6))
    assert all(abs(count - 40) < 26 for count in seen.values())
    whole = BeforeAfterPairs(50, tmp_path)._chosen(path, path, False)
    assert [int(before[0, 0, 0]) // 40 for before, _ in whole] == list(range(6))


@pytest.mark.parametrize("inside", [".", "review", "a/b"])
def test_pairs_never_lie_with_the_release(face_video: Path, tmp_path: Path, inside: str) -> None:
    target = tmp_path / "release" / "out.mkv"
    with pytest.raises(ProtectError, match="outside"):
        run(face_video, target, BeforeAfterPairs(2, target.parent / inside))
    link = tmp_path / "link"
    target.parent.mkdir(exist_ok=True)
    link.symlink_to(target.parent)
    with pytest.raises(ProtectError, match="outside"):
        run(face_video, target, BeforeAfterPairs(2, link / "review"))
    assert not target.exists()


def test_a_failed_run_takes_its_pairs_away(
    face_video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, folder = tmp_path / "release" / "out.mkv", tmp_path / "review"

    def refuse(*_: object) -> None:
        assert list(folder.glob("*.png"))
        raise OSError("disk full")

    monkeypatch.setattr("sfumato.protect._release._publish", refuse)
    with pytest.raises(OSError, match="disk full"):
        run(face_video, target, BeforeAfterPairs(2, folder))
    assert not folder.exists()
    folder.mkdir()
    with pytest.raises(SfumatoError, match="Expected no file"):
        run(face_video, target, BeforeAfterPairs(2, folder))
    assert folder.exists()
    with pytest.raises(ProtectError, match="folder"):
        run(tmp_path, tmp_path / "all", BeforeAfterPairs(2, tmp_path / "other"))
    with pytest.raises(ProtectError, match="at least one pair"):
        BeforeAfterPairs(0, folder)


def test_the_command_wants_number_and_folder(
    face_video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    target = tmp_path / "release" / "out.mp4"
    given = [
        "sfumato",
        "protect",
        str(face_video),
        str(target),
        "--method",
        "edges",
        "--pairs",
        "2",
    ]
    monkeypatch.setattr("sys.argv", given)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code
    assert "--pairs-to" in capsys.readouterr().err
    assert not target.exists()
    monkeypatch.setattr("sys.argv", [*given, "--pairs-to", str(tmp_path / "review")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert len(list((tmp_path / "review").glob("*.png"))) == 2
