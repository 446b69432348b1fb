"""From recordings to a release that was looked at: corrections by hand give what the command line gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studio_browser import FRAMES, HEIGHT, WIDTH, Browser, browsing, coco, write_clip

from sfumato import protect
from sfumato.media import SoundWriter, open_video
from sfumato.people import read_coco
from sfumato.privacy import read_card, verify_output

SETTINGS = {"check": False}


def with_people(browser: Browser, name: str = "walk.mp4") -> str:
    id = browser.recording(name)["id"]
    answer = browser.client.post(
        f"/api/recordings/{id}/coco",
        content=json.dumps(coco()),
        headers={**browser.headers, "content-type": "application/json"},
    )
    assert answer.status_code == 200, answer.text
    return str(id)


def edit(browser: Browser, id: str, **asked: Any) -> Any:
    return browser.post(f"/api/recordings/{id}/edits", asked)


def boxes_of(browser: Browser, id: str, track: int) -> dict[int, list[float]]:
    found = browser.get(f"/api/recordings/{id}/people/boxes?from=0&to={FRAMES - 1}")["frames"]
    return {
        int(frame): each["box"]
        for frame, here in found.items()
        for each in here
        if each["track"] == track
    }


def released(browser: Browser, id: str, method: str = "silhouette", **more: Any) -> Path:
    asked = {"recordings": [id], "method": method, "settings": SETTINGS, **more}
    job = browser.finished(browser.post("/api/protect", asked)["job"])
    assert job["state"] == "done", job
    (release,) = job["result"]["releases"]
    path: Path = browser.studio.library.release(release).path
    return path


def test_the_library_shows_what_is_there_and_nothing_else(browser: Browser, root: Path) -> None:
    (root / "notes.txt").write_text("not a recording")
    (root / ".hidden.mp4").write_bytes(b"")
    listed = browser.get("/api/recordings")
    assert [each["name"] for each in listed["recordings"]] == ["walk.mp4", "bed.mp4", "face.png"]
    walk = listed["recordings"][0]
    assert (walk["width"], walk["height"], walk["frames"], walk["rate"]) == (
        WIDTH,
        HEIGHT,
        FRAMES,
        25,
    )
    assert walk["state"] == "new"
    assert walk["thumbnail"] is None  # no picture of an original in the library
    assert {each["name"] for each in listed["folders"]} == {root.name, "ward"}


def test_frames_are_those_of_the_recording(browser: Browser, root: Path) -> None:
    import cv2

    id = browser.recording("walk.mp4")["id"]
    with open_video(root / "walk.mp4") as video:
        frames = [frame.image for frame in video]
    for number in (7, 0, 11, 3):
        answer = browser.client.get(f"/api/recordings/{id}/frames/{number}")
        assert answer.headers["content-type"] == "image/jpeg"
        assert answer.headers["cache-control"] == "no-store"
        shown = cv2.imdecode(np.frombuffer(answer.content, np.uint8), cv2.IMREAD_COLOR_RGB)
        away = [np.abs(shown.astype(int) - each).mean() for each in frames]
        assert int(np.argmin(away)) == number
    assert browser.client.get(f"/api/recordings/{id}/frames/{FRAMES}").status_code == 400


def test_a_box_between_two_drawn_ones_moves_evenly(browser: Browser) -> None:
    id = with_people(browser)
    drawn = edit(browser, id, do="box", frame=2, track=None, box=[20, 10, 8, 20])
    track = drawn["track"]
    assert boxes_of(browser, id, track) == {2: [20, 10, 8, 20]}
    edit(browser, id, do="box", frame=6, track=track, box=[28, 14, 8, 20])
    assert boxes_of(browser, id, track) == {
        2: [20, 10, 8, 20], 3: [22, 11, 8, 20], 4: [24, 12, 8, 20], 5: [26, 13, 8, 20], 6: [28, 14, 8, 20],
    }  # fmt: skip
    lane = next(
        e for e in browser.get(f"/api/recordings/{id}/people")["tracks"] if e["id"] == track
    )
    assert lane["spans"] == [{"from": 2, "to": 6, "kind": "by hand"}]
    assert lane["byHand"]


def test_corrections_give_the_very_release_of_the_command_line(
    browser: Browser, root: Path, tmp_path: Path
) -> None:
    id = with_people(browser)
    track = edit(browser, id, do="box", frame=1, track=None, box=[30, 20, 9, 9])["track"]
    edit(browser, id, do="box", frame=8, track=track, box=[34, 22, 9, 9])
    edit(browser, id, do="deleteBox", frame=4, track=0)
    edit(browser, id, do="open", track=1, open=True)
    made = released(browser, id)
    sidecar = tmp_path / "boxes.json"
    sidecar.write_bytes(browser.client.get(f"/api/recordings/{id}/coco").content)
    by_command = tmp_path / "by-command.mp4"
    request = protect.Request(
        source=root / "walk.mp4",
        target=by_command,
        method="silhouette",
        settings={"check": False, "import_boxes": str(sidecar), "leave_open": [1]},
    )
    protect.run(request, None, lambda sentence: None)
    assert made.read_bytes() == by_command.read_bytes()
    ours, theirs = read_card(made), read_card(by_command)
    assert (ours.method, ours.settings, ours.done) == (theirs.method, theirs.settings, theirs.done)
    assert "Left open on purpose" in ours.done
    with open_video(made) as video:
        pictures = [frame.image for frame in video]
    assert abs(int(pictures[5][24, 34, 0]) - 96) < 12  # the drawn box, filled
    assert int(pictures[4][20, 12, 0]) > 150  # deleted there: shown
    assert abs(int(pictures[5][20, 12, 0]) - 96) < 12


def test_undo_and_redo_go_through_everything_and_survive_the_server(
    root: Path, in_process: None
) -> None:
    with browsing(root) as browser:
        id = with_people(browser)
        states = [read(browser, id)]
        for asked in (
            {"do": "box", "frame": 3, "track": None, "box": [1, 1, 5, 5]},
            {"do": "deleteTrack", "track": 0},
            {"do": "open", "track": 1, "open": True},
            {"do": "confirm", "frame": 2, "track": 1},
        ):
            edit(browser, id, **asked)
            states.append(read(browser, id))
    with browsing(root) as browser:  # another server on the same folder
        assert read(browser, id) == states[-1]
        for before in reversed(states[:-1]):
            browser.post(f"/api/recordings/{id}/undo")
            assert read(browser, id) == before
        assert not browser.get(f"/api/recordings/{id}/people")["canUndo"]
        browser.post(f"/api/recordings/{id}/undo", status=400)
        for after in states[1:]:
            browser.post(f"/api/recordings/{id}/redo")
            assert read(browser, id) == after
        browser.post(f"/api/recordings/{id}/redo", status=400)


def read(browser: Browser, id: str) -> Any:
    """Everything that an edit may change."""
    people = browser.get(f"/api/recordings/{id}/people")
    boxes = browser.get(f"/api/recordings/{id}/people/boxes?from=0&to={FRAMES - 1}")["frames"]
    return people["tracks"], people["doubts"], boxes


def test_an_edit_of_an_old_state_is_refused(browser: Browser) -> None:
    id = with_people(browser)
    revision = browser.get(f"/api/recordings/{id}/people")["revision"]
    asked = {"do": "deleteTrack", "track": 0, "revision": revision}
    browser.post(f"/api/recordings/{id}/edits", asked)
    before = read(browser, id)
    stale = {"do": "deleteTrack", "track": 1, "revision": revision}
    assert "changed meanwhile" in browser.post(f"/api/recordings/{id}/edits", stale, 409)["error"]
    assert read(browser, id) == before


def test_the_sidecar_says_what_the_studio_shows(browser: Browser, tmp_path: Path) -> None:
    id = with_people(browser)
    edit(browser, id, do="deleteTrack", track=0)
    edit(browser, id, do="box", frame=0, track=None, box=[2.5, 3, 7, 9])
    file = tmp_path / "boxes.json"
    file.write_bytes(browser.client.get(f"/api/recordings/{id}/coco").content)
    assert "not for release" in file.read_text()
    found = read_coco(file)
    assert len(found.frames) == FRAMES
    assert [(p.track, p.box.x0, p.box.y0) for p in found.frames[0]] == [(1, 40, 8), (2, 2.5, 3)]
    assert [p.track for p in found.frames[5]] == [1]


def test_a_method_that_would_lose_corrections_is_refused(browser: Browser) -> None:
    id = with_people(browser)
    edit(browser, id, do="deleteBox", frame=3, track=0)
    asked = {"recordings": [id], "method": "avatar", "settings": {"body": "procedural"}}
    job = browser.finished(browser.post("/api/protect", asked)["job"])
    assert job["state"] == "failed"
    assert "would be lost" in job["error"]


def test_a_release_is_signed_off_by_whoever_looked(browser: Browser) -> None:
    made = released(browser, with_people(browser))
    id = browser.recording("walk.mp4")["releases"][0]["id"]
    drawn = browser.post(f"/api/releases/{id}/review", {"frames": 5})
    assert len(drawn["frames"]) == 5
    address = f"/api/reviews/{drawn['review']}"
    answers: dict[str, Any] = {str(frame): False for frame in drawn["frames"]}
    browser.post(address, {"who": "Jane Doe", "answers": dict(list(answers.items())[1:])}, 400)
    answers[str(drawn["frames"][0])] = True
    said = browser.post(address, {"who": "Jane Doe", "answers": answers})
    assert (said["misses"], said["looked"], said["left"]) == (1, 5, [drawn["frames"][0]])
    assert "Jane Doe looked" in said["words"]
    assert said["bound95"] > 0.2
    (review,) = read_card(made).reviews or ()
    assert (review.by, review.misses, review.sampled) == ("Jane Doe", 1, 5)
    assert verify_output(made)
    browser.post(address, {"who": "Jane Doe", "answers": answers}, 404)  # once
    card = browser.get(f"/api/releases/{id}/card")
    assert card["verdict"]["agree"]
    assert browser.recording("walk.mp4")["releases"][0]["reviewed"]["who"] == "Jane Doe"
    assert browser.recording("walk.mp4")["state"] == "released"
    assert browser.recording("walk.mp4")["thumbnail"].startswith(f"api/releases/{id}/frames/")
    made.write_bytes(made.read_bytes() + b"x")
    assert not browser.get(f"/api/releases/{id}/card")["verdict"]["agree"]


def test_a_preview_shows_what_the_release_will(browser: Browser) -> None:
    id = with_people(browser)
    edit(browser, id, do="open", track=1, open=True)
    asked = {"recording": id, "method": "silhouette", "settings": SETTINGS, "from": 4, "to": 7}
    begun = browser.post("/api/preview", asked)
    assert browser.finished(begun["job"])["state"] == "done"
    address = f"/api/previews/{begun['preview']}"
    assert browser.get(address) == {"from": 4, "to": 7}
    made = released(browser, id)
    with open_video(made) as video:
        whole = [frame.image for frame in video]
    with open_video(browser.studio.library.state / "previews" / f"{begun['preview']}.mkv") as video:
        part = [frame.image for frame in video]
    assert len(part) == 4
    for shown, true in zip(part, whole[4:8], strict=True):
        assert np.abs(shown.astype(int) - true).mean() < 4  # but for the release's codec
    assert browser.client.get(f"{address}/frames/5?width=32").status_code == 200
    assert browser.client.get(f"{address}/frames/8").status_code == 400


def test_a_folder_is_released_with_the_corrections_of_its_recordings(
    browser: Browser, root: Path
) -> None:
    write_clip(root / "ward" / "door.mp4", shade=60)
    with_people(browser, "bed.mp4")
    with_people(browser, "door.mp4")
    (folder,) = [f for f in browser.get("/api/recordings")["folders"] if f["name"] == "ward"]
    asked = {"folder": folder["id"], "method": "silhouette", "settings": SETTINGS}
    job = browser.finished(browser.post("/api/protect", asked)["job"])
    assert job["state"] == "done"
    assert len(job["result"]["releases"]) == 2
    names = {path.stem for path in (root / "released").glob("*.mp4")}
    assert len(names) == 2
    assert not names & {"bed", "door"}  # names of recordings name people
    assert (
        browser.recording("bed.mp4")["state"]
        == browser.recording("door.mp4")["state"]
        == "released"
    )


def test_a_folder_without_corrections_goes_as_one_job(browser: Browser, root: Path) -> None:
    (folder,) = [f for f in browser.get("/api/recordings")["folders"] if f["name"] == "ward"]
    asked = {"folder": folder["id"], "method": "edges", "settings": {}}
    job = browser.finished(browser.post("/api/protect", asked)["job"])
    assert job["state"] == "done", job
    (release,) = job["result"]["releases"]
    assert browser.recording("bed.mp4")["releases"][0]["id"] == release
    assert browser.studio.library.release(release).path.parent.parent == root / "released"


def test_the_promise_is_the_one_of_the_dry_run(browser: Browser, root: Path) -> None:
    id = browser.recording("walk.mp4")["id"]
    settings = {"epsilon": 4.0, "unit": "pixels(4, frames=1)"}
    said = browser.post(
        "/api/promise", {"recordings": [id], "method": "dprp", "settings": settings}
    )
    request = protect.Request(
        source=root / "walk.mp4", target=root / "x.mp4", method="dprp", settings=settings
    )
    shape = protect.Shape(HEIGHT, WIDTH, FRAMES)
    dry = protect.dry_run(request, shape=shape, measure=False)
    assert said["lines"] == dry.lines
    assert "epsilon 4" in said["words"]
    assert "unit" in said["terms"]
    assert said["seconds"] is None
    measured = {"recordings": [id], "method": "edges", "settings": {}, "measure": True}
    assert browser.post("/api/promise", measured)["seconds"] > 0
    missing = {"recordings": [id], "method": "dprp", "settings": {}}
    assert "epsilon" in browser.post("/api/promise", missing)["refused"]


@pytest.mark.parametrize("name", ["edges", "dprp"])
def test_whole_picture_methods_need_no_boxes(browser: Browser, name: str) -> None:
    id = with_people(browser)
    settings = {"epsilon": 8.0, "unit": "frame"} if name == "dprp" else {}
    asked = {"recordings": [id], "method": name, "settings": settings}
    job = browser.finished(browser.post("/api/protect", asked)["job"])
    assert job["state"] == "done", job


def write_sound(path: Path) -> None:
    times = np.arange(16_000) / 16_000
    voice = sum(np.sin(2 * np.pi * 120 * k * times) / k for k in range(1, 9))
    with SoundWriter(path, 16_000, 1) as writer:
        writer.write(0.2 * voice[None])


def test_a_sound_file_is_released_with_another_voice(browser: Browser, root: Path) -> None:
    write_sound(root / "talk.wav")
    talk = browser.recording("talk.wav")
    assert (talk["kind"], talk["state"], talk["thumbnail"]) == ("sound", "new", None)
    asked = {"recordings": [talk["id"]], "method": "voice", "settings": {"speakers": "one"}}
    assert "voices" in browser.post("/api/promise", asked)["words"]
    for wrong in ({"method": "silhouette"}, {"settings": {"seed": 1}}, {"audio": "keep"}):
        assert browser.post("/api/promise", {**asked, **wrong})["refused"]
    walk = browser.recording("walk.mp4")["id"]
    assert browser.post("/api/promise", {**asked, "recordings": [walk]})["refused"]
    browser.post("/api/promise", {**asked, "recordings": [walk, talk["id"]]}, 400)
    job = browser.finished(browser.post("/api/protect", asked)["job"])
    assert job["state"] == "done", job
    assert job["recordings"] == [talk["id"]]
    (release,) = job["result"]["releases"]
    made = browser.studio.library.release(release).path
    assert read_card(made).method == "voice"
    assert made.read_bytes() != (root / "talk.wav").read_bytes()
    heard = browser.client.get(f"/api/releases/{release}/sound")
    assert heard.content == made.read_bytes()
    assert heard.headers["cache-control"] == "no-store"
    browser.post(f"/api/releases/{release}/review", {}, 400)
    assert (
        browser.client.get(f"/api/releases/{talk['id']}/sound").status_code == 404
    )  # the original
    many = "bytes=" + ",".join(f"{n}-{n}" for n in range(2000))
    for given in ("bytes=a-b", "bytes=9-1", "bytes=-", "lines=1-2", "bytes=99999999-", many):
        answer = browser.client.get(f"/api/releases/{release}/sound", headers={"range": given})
        assert answer.status_code in (200, 206, 400, 416), given
        assert answer.headers["cache-control"] == "no-store"


def test_a_folder_of_both_is_taken_by_what_the_method_is_for(browser: Browser, root: Path) -> None:
    write_sound(root / "ward" / "talk.wav")
    (folder,) = [f for f in browser.get("/api/recordings")["folders"] if f["name"] == "ward"]
    for method, ending in (("voice", ".wav"), ("edges", ".mp4")):
        asked = {"folder": folder["id"], "method": method, "settings": {}}
        job = browser.finished(browser.post("/api/protect", asked)["job"])
        assert job["state"] == "done", job
        assert job["folder"] == folder["id"]
        (release,) = job["result"]["releases"]
        assert browser.studio.library.release(release).path.suffix == ending


@pytest.mark.parametrize("audio", ["drop", "anonymize", "keep"])
def test_what_becomes_of_the_sound_is_said_and_checked(browser: Browser, audio: str) -> None:
    id = browser.recording("walk.mp4")["id"]
    asked = {"recordings": [id], "method": "edges", "settings": {}, "audio": audio}
    words = browser.post("/api/promise", asked)["words"]
    assert ("any sound" in words.lower()) == (audio != "drop"), words
    wrong = {**asked, "audio": "/etc/passwd"}
    assert "--audio" in browser.post("/api/promise", wrong)["refused"]
    browser.post("/api/protect", wrong, 400)


def test_only_somebody_who_says_so_has_reviewed_a_recording(browser: Browser) -> None:
    id = with_people(browser)
    edit(browser, id, do="deleteBox", frame=3, track=0)
    assert browser.recording("walk.mp4")["state"] == "found"
    edit(browser, id, do="review", done=True)
    assert browser.recording("walk.mp4")["state"] == "reviewed"
    browser.post(f"/api/recordings/{id}/undo")
    assert browser.recording("walk.mp4")["state"] == "found"
