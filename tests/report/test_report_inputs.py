"""What may enter a report: vouched content, never an original, never a path."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from report_material import a_measure, a_verdict, page_of, proven, sheet, unproven

from sfumato.errors import SfumatoError
from sfumato.media import write_image
from sfumato.privacy import PRIVATE_NOTE, Card, Output, read_card
from sfumato.privacy._paths import WITHHELD, without_paths
from sfumato.privacy._signature import make_key, sign
from sfumato.report import (
    PictureError,
    ReportError,
    VerdictError,
    collect,
    parse_verdict,
    write_report,
)
from sfumato.report._pictures import named_as_original, read_picture

Make = Callable[..., Path]


def test_folder_gives_all_it_holds(run: Path) -> None:
    found = collect([run])
    assert sorted(each.name for each in found.releases) == ["blurred.mp4", "sheet.png", "walk.mp4"]
    assert [each.intact for each in found.releases] == ["intact"] * 3
    assert len(found.measures) == len(found.tables) == len(found.pictures) == 1
    assert found.left_out == 0


def test_naming_things_twice_shows_them_once(run: Path) -> None:
    once = collect([run])
    assert collect([run, run / "walk.mp4", run / "walk.mp4.audit.json", run / "sheet.png"]) == once


def test_changed_output_loses_its_promise(release: Make) -> None:
    target = release()
    assert collect([target]).releases[0].status[0] == "good"
    target.write_bytes(b"changed")
    changed = collect([target]).releases[0]
    assert changed.intact == "changed"
    assert changed.status[0] == "bad"


def test_card_alone_is_told_from_a_compared_one(release: Make) -> None:
    target = release()
    target.unlink()
    found = collect([f"{target}.card.json"]).releases[0]
    assert found.intact is None
    # a promise about a file that nobody compared is not called proven
    assert found.status[0] == "warn"
    assert "Proven:" not in page_of(Path(f"{target}.card.json"))


def test_seeded_run_never_counts_as_proven(release: Make) -> None:
    found = collect([release(promise=proven(seeded=True))]).releases[0]
    assert found.status == ("bad", "Test run: NOT PRIVATE")


def test_output_without_a_card_is_refused(tmp_path: Path) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"x")
    with pytest.raises(SfumatoError, match="privacy card"):
        collect([tmp_path / "clip.mp4"])
    with pytest.raises(ReportError, match="found none"):
        collect([tmp_path])


def test_verdict_without_its_card_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.mp4.audit.json").write_text(json.dumps(a_verdict()))
    with pytest.raises(ReportError, match="verdict without its promise"):
        collect([tmp_path])


@pytest.mark.parametrize(("certified", "tone"), [(1.0, "good"), (50.0, "bad"), ("inf", "bad")])
def test_verdict_refutes_exactly_what_exceeds_the_promise(
    release: Make, certified: float | str, tone: str
) -> None:
    target = release()
    target.with_name("walk.mp4.audit.json").write_text(json.dumps(a_verdict(certified)))
    found = collect([target]).releases[0]
    assert found.verdict is not None
    assert found.verdict.outcome(found.card)[0] == tone
    assert found.status[0] == tone


@pytest.mark.parametrize(
    ("changes", "tone"),
    [
        ({}, "good"),
        ({"refuted": True}, "bad"),
        ({"promise": proven(2.0).to_json()}, "bad"),
        ({"promise": unproven().to_json()}, "bad"),
        ({"conformance": [{"check": "noise", "conforms": False, "detail": "half"}]}, "bad"),
        ({"attacks": []}, "plain"),
        ({"something": "new"}, "good"),
    ],
)
def test_whatever_contradicts_the_promise_is_heard(
    release: Make, changes: dict[str, Any], tone: str
) -> None:
    card = collect([release()]).releases[0].card
    assert parse_verdict(a_verdict(**changes)).outcome(card)[0] == tone


def test_part_of_a_training_is_held_to_its_own_limit(release: Make) -> None:
    card = collect([release()]).releases[0].card
    part = a_verdict(1.0)
    part["attacks"][0]["promised"] = 0.5
    assert parse_verdict(part).outcome(card)[0] == "bad"


def test_no_verdict_speaks_for_a_release_without_a_promise(release: Make) -> None:
    card = collect([release(promise=unproven())]).releases[0].card
    empty = a_verdict(promise=unproven().to_json(), attacks=[], conformance=[], falsifiable=False)
    assert parse_verdict(empty).outcome(card)[0] == "plain"


@pytest.mark.parametrize(
    "value",
    [[], {}, None, a_verdict("much"), a_verdict(refuted="no"), a_verdict(attacks=[{}])]
    + [{k: v for k, v in a_verdict().items() if k != gone} for gone in ("promise", "refuted")],
)
def test_verdict_that_cannot_be_read_is_refused(value: Any) -> None:
    with pytest.raises(VerdictError):
        parse_verdict(value)


def test_pictures_of_a_folder_need_a_card_that_vouches_for_them(run: Path) -> None:
    sheet(run / "stray.png")
    found = collect([run])
    assert (len(found.pictures), found.left_out) == (1, 1)
    (run / "sheet.png").write_bytes((run / "stray.png").read_bytes() + b"more")
    assert len(collect([run]).pictures) == 0


def test_card_of_a_folder_vouches_for_the_pictures_in_it(tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    sheet(frames / "0001.png")
    sheet(frames / "0002.jpg")
    made = Card(method="n", done="Done.", promise=proven(), outputs=(Output.of(frames),))
    made.write(frames)
    assert len(collect([frames]).pictures) == 2


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".jpeg"])
@pytest.mark.parametrize("with_originals", [False, True])
def test_what_says_that_it_is_private_is_refused_whatever_its_name(
    run: Path, tmp_path: Path, suffix: str, with_originals: bool
) -> None:
    pixels = np.zeros((40, 60, 3), np.uint8)
    preview = tmp_path / f"protected-sheet{suffix}"
    write_image(preview, pixels, note=PRIVATE_NOTE)
    with pytest.raises(PictureError, match="says of itself"):
        collect([run / "walk.mp4", preview], with_originals=with_originals)
    # also when somebody wrote a card for it
    Card(method="n", done="D.", promise=proven(), outputs=(Output.of(preview),)).write(preview)
    with pytest.raises(PictureError, match="says of itself"):
        collect([preview], with_originals=with_originals)


def test_private_files_in_a_folder_are_spoken_of_and_not_shown(run: Path) -> None:
    write_image(run / "look.png", np.zeros((40, 60, 3), np.uint8), note=PRIVATE_NOTE)
    rows = {"about": PRIVATE_NOTE, "rows": [{"frame": 1}]}
    (run / "boxes.json").write_text(json.dumps(rows))
    found = collect([run])
    assert (found.private, len(found.pictures), len(found.tables)) == (2, 1, 1)
    assert "Private previews or exports among these files: 2." in page_of(run)


def test_a_picture_without_a_card_is_never_called_protected(run: Path, tmp_path: Path) -> None:
    """The preview of a recording, its note lost on the way through another program."""
    stray = sheet(tmp_path / "sheet.png")
    found = collect([run / "walk.mp4", stray])
    assert [each.vouched for each in found.pictures] == [False]
    page = page_of(run / "walk.mp4", stray)
    assert "No card vouches for this picture" in page
    assert "Pictures on this page that no card vouches for: 1." in page
    for word in ("Protected frames", "Released picture"):
        assert word not in page
    assert "Released picture" in page_of(run / "sheet.png")


def test_a_picture_loses_its_card_with_its_content(run: Path) -> None:
    (run / "sheet.png").write_bytes((run / "sheet.png").read_bytes() + b"more")
    (shown,) = collect([run / "sheet.png"]).pictures
    assert not shown.vouched


def test_a_forged_card_vouches_for_no_picture(run: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    path = run / "sheet.png.card.json"
    sign(read_card(path), tmp_path / "key").write(run / "sheet.png", force=True)
    assert collect([run / "sheet.png"]).pictures[0].vouched
    card = json.loads(path.read_text())
    path.write_text(json.dumps(card | {"done": "Everybody was hidden."}))
    assert not collect([run / "sheet.png"]).pictures[0].vouched
    counts = write_report([run / "sheet.png"], tmp_path / "r.html").summary()
    assert (counts["forged"], counts["proven"]) == (1, 0)


def test_recordings_without_a_card_are_counted(run: Path, tmp_path: Path) -> None:
    (run / "raw.mp4").write_bytes(b"everybody")
    (run / "weights.safetensors").write_bytes(b"weights")
    found = collect([run])
    assert found.without_card == 2
    assert "Recordings, models or archives without a card among these files: 2." in page_of(run)
    assert collect([run / "walk.mp4"]).without_card == 0


def test_companions_and_files_in_a_carded_folder_have_a_card(tmp_path: Path) -> None:
    video, layer = tmp_path / "run" / "walk.mp4", tmp_path / "run" / "walk.public.mkv"
    video.parent.mkdir()
    video.write_bytes(b"video")
    layer.write_bytes(b"layer")
    outputs = (Output.of(video), Output.of(layer))
    Card(method="avatar", done="D.", promise=unproven(), outputs=outputs).write(video)
    assert collect([video.parent]).without_card == 0
    released = tmp_path / "released"
    released.mkdir()
    (released / "records.npz").write_bytes(b"records")
    Card(method="pass", done="D.", promise=unproven(), outputs=(Output.of(released),)).write(
        released
    )
    assert collect([released]).without_card == 0


@pytest.mark.parametrize("asked", [".", "./", "../run"])
def test_a_folder_may_be_named_from_inside(
    run: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    whole = collect([run])
    monkeypatch.chdir(run)
    assert collect([asked]) == whole


def test_an_empty_folder_named_from_inside_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ReportError, match="found none"):
        collect(["."])


def test_what_an_audit_wrote_beside_a_release_is_read(run: Path, release: Make) -> None:
    for name in ("run.leaks.measures.json", "run.measures.json"):
        (run.parent / name).write_text(json.dumps([a_measure()]))
    (run.parent / "running.measures.json").write_text(json.dumps([a_measure()]))
    assert len(collect([run]).measures) == 3
    assert len(collect([run.parent]).measures) == 4
    target = release("single.mp4")
    (target.parent / "single.mp4.leaks.measures.json").write_text(json.dumps([a_measure()]))
    assert len(collect([target]).measures) == 1


def test_a_page_that_was_changed_is_not_relied_on(release: Make) -> None:
    target = release()
    target.with_name("walk.mp4.card.md").write_text("# Nobody can be recognised")
    found = collect([target]).releases[0]
    assert found.status[0] == "bad"


@pytest.mark.parametrize(
    "name", ["original.png", "walk-original.jpg", "Originals/1.png", "raw_03.png", "before.jpeg"]
)
def test_originals_need_to_be_asked_for(tmp_path: Path, name: str) -> None:
    path = sheet(tmp_path / name)
    with pytest.raises(PictureError, match="with-originals"):
        collect([path])
    assert collect([path], with_originals=True).pictures[0].original


@pytest.mark.parametrize("name", ["sheet.png", "drawing.png", "rawhide.png", "protected.jpg"])
def test_other_names_are_not_taken_for_originals(name: str) -> None:
    assert not named_as_original(Path("run") / name)


def test_only_pixels_of_a_picture_enter(tmp_path: Path) -> None:
    path = sheet(tmp_path / "sheet.jpg")
    secret = b"Ann Example, Ward 7"
    comment = b"\xff\xfe" + (len(secret) + 2).to_bytes(2, "big") + secret
    path.write_bytes(path.read_bytes()[:2] + comment + path.read_bytes()[2:])
    shown = base64.b64decode(read_picture(path).uri.split(",", 1)[1])
    assert secret in path.read_bytes()
    assert secret not in shown
    decoded = cv2.imdecode(np.frombuffer(shown, np.uint8), cv2.IMREAD_COLOR)
    assert decoded.shape == (40, 60, 3)


@pytest.mark.parametrize("content", [b"", b"no picture"])
def test_broken_pictures_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "sheet.png").write_bytes(content)
    with pytest.raises(PictureError):
        read_picture(tmp_path / "sheet.png")


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_a_picture_that_claims_to_be_huge_is_refused_before_it_is_decoded(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"sheet{suffix}"
    write_image(path, np.zeros((30, 40, 3), np.uint8))
    assert (read_picture(path).width, read_picture(path).height) == (40, 30)
    monkeypatch.setenv("SFUMATO_MAX_PIXELS", "1199")
    for name in ("imdecode", "imdecodeWithMetadata", "imread"):
        monkeypatch.setattr(cv2, name, lambda *_, **__: pytest.fail("decoded"))
    with pytest.raises(PictureError, match="40 x 30"):
        read_picture(path)


def test_colours_of_a_picture_stay_what_they_are(tmp_path: Path) -> None:
    write_image(tmp_path / "sheet.png", np.full((30, 40, 3), (200, 30, 60), np.uint8))
    shown = base64.b64decode(read_picture(tmp_path / "sheet.png").uri.split(",", 1)[1])
    blue, green, red = cv2.imdecode(np.frombuffer(shown, np.uint8), cv2.IMREAD_COLOR)[15, 20]
    assert (red > 180, green < 60, blue < 90) == (True, True, True)


@pytest.mark.parametrize(
    "path",
    [
        "/home/ann/walk.mp4",
        "~/walk.mp4",
        "../in/walk",
        "C:\\Users\\ann\\walk.mp4",
        "\\\\host\\share",
        "ward7/ann.mp4",
        "data/ward7/ann",
        "file:///srv/ann",
    ],
)
def test_paths_are_withheld_wherever_they_stand(path: str) -> None:
    assert without_paths(path) == WITHHELD
    assert without_paths(f"read {path}, then stopped") == f"read {WITHHELD}, then stopped"


@pytest.mark.parametrize(
    "text", ["31 frames/s", "train raw / test protected", "1/100", "05/2014", "and/or", "a.mp4"]
)
def test_what_is_no_path_stays(text: str) -> None:
    assert without_paths(text) == text
