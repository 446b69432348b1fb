"""What counts as a leak is what the card says was covered; nothing of an audit lands in a release."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato import people
from sfumato.audit import AuditError, audit_output_path, find_leaks, hiding_scope, recordings_in
from sfumato.cli.audit import app
from sfumato.media import VideoWriter, write_image
from sfumato.privacy import PRIVATE_NOTE, Card, CardError, NoGuarantee, Output, says_private
from sfumato.report import Report, collect, render

FACE, BODY = (230, 20, 20), (20, 20, 230)


class Colour:
    """Finds what has one colour."""

    device = "none"

    def __init__(self, name: str, colour: tuple[int, int, int]) -> None:
        self.name, self._colour = name, colour

    def detect(self, image: Any) -> list[people.Box]:
        rows, columns = np.nonzero((np.abs(image.astype(int) - self._colour) < 30).all(axis=2))
        if not len(rows):
            return []
        sides = (columns.min(), rows.min(), columns.max(), rows.max())
        return [people.Box(*map(float, sides), 0.9)]


@pytest.fixture(autouse=True)
def detectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "face_detector", lambda *a, **k: Colour("face", FACE))
    monkeypatch.setattr(people, "person_detector", lambda *a, **k: Colour("person", BODY))


def film(path: Path, *, face: bool = False, body: bool = True, frames: int = 7) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = np.full((48, 64, 3), 90, dtype=np.uint8)
    if body:
        picture[20:46, 20:40] = BODY
    if face:
        picture[4:18, 24:36] = FACE
    with VideoWriter(path, rate=Fraction(10), size=(64, 48), codec="ffv1") as writer:
        for _ in range(frames):
            writer.write(picture)
    return path


def card(path: Path, method: str, settings: dict[str, Any], *more: Path) -> Path:
    promise = NoGuarantee(mechanism=method, reason="Nothing is proven.")
    outputs = tuple(Output.of(each) for each in (path, *more))
    Card(method=method, done="D.", promise=promise, outputs=outputs, settings=settings).write(path)
    return path


def leaking(path: Path) -> bool:
    return find_leaks(path).leaking


@pytest.mark.parametrize(
    ("method", "settings", "bodies"),
    [
        ("blur", {"region": "faces"}, False),
        ("blur", {"region": "people"}, True),
        ("silhouette", {"region": "people"}, True),
        ("avatar", {"body": "anny"}, False),
        ("dprp", {"epsilon": 8}, True),
        ("blur", {"region": "mask file"}, True),
        ("blur+dprp", {"1. blur": {"region": "faces"}, "2. dprp": {"epsilon": 8}}, True),
    ],
)
def test_bodies_are_leaks_only_where_they_were_covered(
    tmp_path: Path, method: str, settings: dict[str, Any], bodies: bool
) -> None:
    output = card(film(tmp_path / "out.mkv"), method, settings)
    assert hiding_scope(output).bodies is bodies
    assert leaking(output) is bodies
    # what shows nothing of the original does not count and is not listed; it is counted in words
    before = film(tmp_path / "before.mkv", body=False)
    said = find_leaks(output, before).summary_lines()
    assert not any("frame 0" in line for line in said)
    assert ("7 that show nothing of it" in said[-1]) is bodies
    # a face is one in every case
    assert leaking(card(film(tmp_path / "face.mkv", face=True), method, settings))


def test_without_a_card_everybody_counts(tmp_path: Path) -> None:
    assert leaking(film(tmp_path / "out.mkv"))
    assert not leaking(film(tmp_path / "empty.mkv", body=False))


def test_covered_surroundings_hide_nobody(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="shown on purpose"):
        find_leaks(card(film(tmp_path / "out.mkv"), "blur", {"region": "background"}))


def test_another_files_card_does_not_say_what_was_covered(tmp_path: Path) -> None:
    card(film(tmp_path / "out.mkv"), "blur", {"region": "faces"})
    other = film(tmp_path / "other.mkv")
    (tmp_path / "other.mkv.card.json").write_bytes((tmp_path / "out.mkv.card.json").read_bytes())
    with pytest.raises(CardError, match=r"not for 'other\.mkv'"):
        find_leaks(other)


def released_folder(tmp_path: Path, *, face: bool, region: str = "faces") -> Path:
    folder = tmp_path / "released"
    for name in ("a", "b"):
        card(film(folder / f"{name}.mkv", face=face), "blur", {"region": region})
    return folder


def short(*runs: Path) -> str:
    page = render(Report(collect(runs), made_on="2026-01-02"))
    return page.split('<ul class="short">')[1].split("</ul>")[0]


def audit(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["leaks", *arguments, "--json"])


def test_audit_and_report_of_a_folder_agree(tmp_path: Path) -> None:
    folder = released_folder(tmp_path, face=False)
    before = sorted(folder.iterdir())
    done = audit(str(folder))
    assert done.exit_code == 0, done.output
    assert "None of 1 measured attacks was shown to beat guessing" in short(folder)
    assert sorted(folder.iterdir()) == before
    everybody = audit(str(folder), "--everybody", "--force")
    assert everybody.exit_code == 1
    assert json.loads(everybody.stdout)["share"] == 1.0
    assert "1 of 1 measured attacks did better than guessing" in short(folder)
    assert "None of" not in short(folder)
    assert sorted(folder.iterdir()) == before


def test_the_sheet_lies_beside_the_release_says_what_it_is_and_is_no_recording(
    tmp_path: Path,
) -> None:
    folder = released_folder(tmp_path, face=True)
    first = json.loads(audit(str(folder)).stdout)
    sheet = tmp_path / "released.leaks.png"
    assert says_private(sheet)
    assert sheet.stat().st_mode & 0o077 == 0
    # somebody puts it into the folder, under the name of former versions and under another one
    sheet.rename(folder / "leaks.png")
    write_image(folder / "look.png", np.zeros((48, 64, 3), np.uint8), note=PRIVATE_NOTE)
    again = json.loads(audit(str(folder), "--force").stdout)
    assert again["frames"] == first["frames"] == 14


def test_recordings_are_neither_sheets_nor_layers(tmp_path: Path) -> None:
    folder = tmp_path / "released"
    video, layer = film(folder / "a.mkv"), film(folder / "a.public.mkv")
    card(video, "avatar", {}, layer)
    write_image(folder / "b.mkv.leaks.png", np.zeros((8, 8, 3), np.uint8))
    picture = folder / "c.png"
    write_image(picture, np.zeros((8, 8, 3), np.uint8))
    (folder / "broken.card.json").write_text("[")
    assert recordings_in(folder) == [video, picture]


@pytest.mark.parametrize("known_by", ["card", "index", "job"])
def test_results_about_a_file_of_a_released_folder_lie_beside_the_folder(
    tmp_path: Path, known_by: str
) -> None:
    folder = tmp_path / "released"
    inside = film(folder / "train" / "a.mkv")
    marker = {
        "card": tmp_path / "released.card.json",
        "index": folder / "metadata.jsonl",
        "job": tmp_path / "released.job.jsonl",
    }[known_by]
    marker.write_text("{}")
    assert audit_output_path(inside, "leaks") == tmp_path / "released.train.a.mkv.leaks"
    assert audit_output_path(folder, "leaks") == tmp_path / "released.leaks"


def test_results_about_a_single_file_lie_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = film(tmp_path / "out.mkv")
    assert audit_output_path(output, "leaks") == tmp_path / "out.mkv.leaks"
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    assert audit_output_path(".", "leaks") == tmp_path / "folder.leaks"
    assert audit_output_path("../out.mkv", "leaks") == tmp_path / "out.mkv.leaks"


def test_a_folder_gets_one_verdict_a_clip(tmp_path: Path) -> None:
    folder = tmp_path / "released"
    for name, face in (("a", False), ("deep/b", True), ("c", False)):
        card(film(folder / f"{name}.mkv", face=face), "blur", {"region": "faces"})
    card(film(folder / "room.mkv"), "blur", {"region": "background"})
    done = audit(str(folder))
    assert done.exit_code == 1
    clips = {each["clip"]: each for each in json.loads(done.stdout)["clips"]}
    assert {name: each["passed"] for name, each in clips.items()} == {
        "a.mkv": True,
        "deep/b.mkv": False,
        "c.mkv": True,
        "room.mkv": False,
    }
    assert "shown on purpose" in clips["room.mkv"]["reason"]
    words = CliRunner().invoke(app, ["leaks", str(folder), "--force"]).output
    assert "STILL FOUND on 7 of 7 frames" in words
    assert words.count("nobody found") == 2
    assert "NOT LOOKED AT" in words


def name_list(folder: Path, names: dict[str, Path]) -> None:
    lines: list[Any] = [{"sfumato": "sfumato job manifest", "version": 2, "run": "a" * 32}]
    for output, source in names.items():
        item = {"source": str(source), "digest": "", "settings": "", "main": output}
        lines.append({"item": item})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    folder.with_name(folder.name + ".job.jsonl").write_text(text)


def test_originals_are_found_by_the_private_name_list(tmp_path: Path) -> None:
    folder, originals = tmp_path / "released", tmp_path / "patients"
    # the first patient is where the second is not: a wrong pairing finds a face that was not there
    with_face, without = film(originals / "b.mkv", face=True), film(originals / "a.mkv")
    card(film(folder / "a.mkv", face=True), "blur", {"region": "faces"})
    card(film(folder / "b.mkv"), "blur", {"region": "faces"})
    name_list(folder, {"a.mkv": with_face, "b.mkv": without})
    told = json.loads(audit(str(folder), "--originals", str(originals)).stdout)
    assert told["compared_with_originals"] is True
    assert told["leaks"][0]["there_before"] is True
    # elsewhere, under the same names
    originals.rename(tmp_path / "moved")
    again = json.loads(audit(str(folder), "--originals", str(tmp_path / "moved"), "--force").stdout)
    assert again["leaks"] == told["leaks"]
    (tmp_path / "moved" / "a.mkv").unlink()
    lost = audit(str(folder), "--originals", str(tmp_path / "moved"), "--force")
    assert "but 1 have none" in str(lost.exception)


def test_nothing_is_written_into_a_released_folder_even_if_asked(tmp_path: Path) -> None:
    folder = released_folder(tmp_path, face=False)
    before = sorted(folder.rglob("*"))
    done = audit(str(folder), "--out", str(folder / "leaks"))
    assert "got one inside" in str(done.exception)
    assert sorted(folder.rglob("*")) == before
