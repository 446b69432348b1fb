"""The attacks from the command line, on a tiny staged folder and on published layouts in miniature."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato import stage
from sfumato.audit import MeasureError, cross_data, cross_data_attack, pair_clips
from sfumato.audit.attack import vispr_truth, without_annotated
from sfumato.cli.audit import app
from sfumato.data import pa_hmdb51, pa_hmdb51_videos, video_folder, vispr
from sfumato.errors import SfumatoError
from sfumato.media import VideoWriter, read_frames
from sfumato.report import collect
from sfumato.store import load_arrays


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Staged clips, and the same without any colour or detail."""
    root = tmp_path_factory.mktemp("audit")
    staging = stage.Staging(clips=16, actors=4, rooms=2, frames=3, width=32, height=32, fps=4.0,
                            actions=("walk", "sit"), seed=3)  # fmt: skip
    stage.write(root / "raw", staging)
    for path in sorted((root / "raw").rglob("*.mkv")):
        target = root / "grey" / path.relative_to(root / "raw")
        target.parent.mkdir(parents=True, exist_ok=True)
        frames = read_frames(path)
        with VideoWriter(target, rate=4, size=(32, 32), codec="ffv1") as video:
            for frame in frames:
                video.write(np.full_like(frame, 128))
    return root / "raw", root / "grey"


@pytest.fixture(scope="module")
def weights() -> None:
    try:
        load_arrays("efficientnet-lite0")
    except SfumatoError as error:
        pytest.skip(f"the attacker's network cannot be had here: {error}")


def test_staged_files_are_paired_with_all_that_is_known(folders: tuple[Path, Path]) -> None:
    pairs = pair_clips(*folders)
    assert len(pairs) == 16
    assert {"person", "room", "action", "sex", "skin", "clothing"} <= set(pairs.facts)
    assert "room_kind" not in pairs.facts
    private = pairs.private()
    assert "room" not in private
    people = private["skin"].people
    assert people is not None
    assert len(set(people)) > 1
    assert all(a.stem == b.stem for a, b in zip(pairs.originals, pairs.protected, strict=True))
    assert pairs.masks(2)[0].shape == (2, 32, 32)


@pytest.mark.usefixtures("weights")
def test_grey_films_hide_rooms_and_the_report_shows_it(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    raw, grey = map(str, folders)
    out = tmp_path / "rooms"
    ran = CliRunner().invoke(app, ["reid", raw, grey, "--by", "room", "-o", str(out), "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.output)
    (rank,) = [m for m in found["measures"] if m["name"] == "rank-1" and "same way" in m["note"]]
    assert rank["unprotected"] == 1.0
    assert rank["value"] == pytest.approx(rank["chance"], abs=0.05)
    ran = CliRunner().invoke(app, ["visual", raw, grey, "-o", str(tmp_path / "seen")])
    assert ran.exit_code == 0, ran.output
    assert "domain" in ran.output
    shown = [m for file in collect([tmp_path]).measures for m in file.measures]
    assert {"cMAP", "class-wise F1", "rank-1", "top-1"} <= {m.name for m in shown}
    again = CliRunner().invoke(app, ["reid", raw, grey, "--by", "room", "-o", str(out)])
    assert again.exit_code != 0


def test_bad_input_is_one_sentence(folders: tuple[Path, Path], tmp_path: Path) -> None:
    raw, grey = map(str, folders)
    for arguments, said in (
        (["visual", raw, str(tmp_path / "no")], "Expected a folder"),
        (["visual", raw, str(tmp_path)], "keep-names"),
        (["reid", raw, grey, "--by", "smell"], "smell"),
    ):
        ran = CliRunner().invoke(app, arguments)
        assert ran.exit_code != 0
        assert said in f"{ran.output} {ran.exception}"
    labels = tmp_path / "labels.csv"
    labels.write_text("file_name,sex\nnobody.mkv,f\n")
    with pytest.raises(MeasureError, match="labels"):
        pair_clips(raw, grey, labels)
    labels.write_text("name,sex\n")
    with pytest.raises(MeasureError, match="file_name"):
        pair_clips(raw, grey, labels)


def a_picture(path: Path, level: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(level)
    cv2.imwrite(
        str(path), np.clip(level + rng.integers(0, 20, (24, 24, 3)), 0, 255).astype(np.uint8)
    )


def test_attackers_taught_on_vispr_are_asked_about_pa_hmdb(tmp_path: Path) -> None:
    """Bright pictures show a face in both sets; darkening everything hides it from both."""
    root = tmp_path / "vispr"
    (root / "annotations" / "train2017").mkdir(parents=True)
    (root / "attributes.tsv").write_text(
        "idx\tattribute_id\n0\ta4_gender\n1\ta9_face_complete\n2\ta10_face_partial\n"
    )
    for i in range(24):
        face = i % 2
        a_picture(root / "train2017" / f"{i:02d}.jpg", 200 if face else 20)
        labels = (["a9_face_complete"] if i % 4 == 1 else ["a10_face_partial"]) if face else []
        note = {
            "image_path": f"train2017/{i:02d}.jpg",
            "labels": [*labels, *["a4_gender"][: i % 3 > 0]],
        }
        (root / "annotations" / "train2017" / f"{i:02d}.json").write_text(json.dumps(note))
    pictures = vispr(root)
    names, truth = vispr_truth(pictures)
    assert names == ("face", "gender")
    assert truth[:, 0].tolist() == [bool(i % 2) for i in range(24)]

    notes, videos = tmp_path / "pa", tmp_path / "hmdb"
    notes.mkdir()
    spans = {}
    for i in range(6):
        spans[f"v{i}.mkv"] = {
            name: [[0, 3, int(i % 2 if name == "face" else 1)]]
            for name in ("skin_color", "face", "gender", "nudity", "relationship")
        }
        (videos / "walk").mkdir(parents=True, exist_ok=True)
        with VideoWriter(
            videos / "walk" / f"v{i}.mkv", rate=4, size=(24, 24), codec="ffv1"
        ) as film:
            for _ in range(4):
                film.write(np.full((24, 24, 3), 200 if i % 2 else 20, np.uint8))
    (notes / "walk.json").write_text(json.dumps(spans))
    annotations, records = pa_hmdb51(notes), pa_hmdb51_videos(videos, notes)
    found = cross_data_attack(cross_data(pictures, records, annotations, frames=2, network=False))
    assert found.compute().average_precision["face"] == pytest.approx(1)
    dark = cross_data(pictures, records, annotations, frames=2, network=False,
                      protect=lambda image: np.zeros_like(image))  # fmt: skip
    assert cross_data_attack(dark).compute().average_precision["face"] == pytest.approx(0.5)

    where = [str(root), str(videos), str(notes), "--no-network", "--json", "-o"]
    said = {}
    for name, more in (("raw", []), ("tiny", ["--method", "isr", "--set", "size=1x1"])):
        ran = CliRunner().invoke(app, ["cross-data", *where, str(tmp_path / name), *more])
        assert ran.exit_code == 0, ran.output
        told = json.loads(ran.stdout)["measures"]
        said[name] = next(m["value"] for m in told if m["name"] == "cMAP" and "value" in m)
        assert (tmp_path / f"{name}.measures.json").is_file()
    assert said["raw"] > 0.7


def test_actions_are_learned_without_the_annotated_videos(tmp_path: Path, real_data: Path) -> None:
    notes = pa_hmdb51(real_data / "pa_hmdb51")
    name = next(iter(notes))
    action = notes.actions[name]
    for each in (name, "another_video.avi"):
        (tmp_path / "videos" / action).mkdir(parents=True, exist_ok=True)
        (tmp_path / "videos" / action / each).write_bytes(b"")
    every = video_folder(tmp_path / "videos")
    kept = without_annotated(every, notes)
    assert [item.path.name for item in kept.items] == ["another_video.avi"]
    with pytest.raises(MeasureError, match="PA-HMDB51"):
        without_annotated(kept, notes)


def test_a_crowd_is_recognised_by_any_of_its_faces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two squares of a colour of their own in each file, one of which goes away half-way."""
    from sfumato.audit.attack import _folder_attacks as attacks
    from sfumato.people import Box

    class Squares:
        def detect(self, image: np.ndarray) -> list[Box]:
            shown = image.max(2) > 60
            boxes = (Box(4, 4, 12, 12, 0.9), Box(20, 4, 28, 12, 0.95))
            return [box for box in boxes if shown[box.pixels(32, 32)].all()]

    class Colour:
        same_person = 5.0

        def embed(self, image: np.ndarray, face: Box) -> np.ndarray:
            return np.asarray(image[face.pixels(32, 32)].reshape(-1, 3).mean(0))

    monkeypatch.setattr(attacks, "face_detector", Squares)
    monkeypatch.setattr(attacks, "face_embedder", Colour)
    colours = ((200, 30, 30), (30, 200, 30), (30, 30, 200), (180, 180, 20))
    for folder in ("raw", "grey"):
        (tmp_path / folder).mkdir()
        for number, colour in enumerate(colours):
            with VideoWriter(
                tmp_path / folder / f"{number}.mkv", rate=4, size=(32, 32), codec="ffv1"
            ) as video:
                for time in range(8):
                    frame = np.zeros((32, 32, 3), np.uint8)
                    frame[4:12, 4:12] = colour if folder == "raw" else 90
                    if (
                        time < 4
                    ):  # the more certain face is seen early alone, and is like all others
                        frame[4:12, 20:28] = 100
                    video.write(frame)
    rows = attacks.faces_folder(pair_clips(tmp_path / "raw", tmp_path / "grey"))
    ranks = [row for row in rows if row.name == "rank-1"]
    assert [row.unprotected for row in ranks] == [1.0, 1.0]
    assert all(row.value == pytest.approx(0.25) for row in ranks)
