"""A folder that somebody prepared, or changes while the studio is open, gets nothing run, read or written elsewhere."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from studio_browser import PORT, Browser, browsing, coco, write_clip

from sfumato.errors import SfumatoError
from sfumato.privacy import read_card
from sfumato.studio import _tasks
from sfumato.studio._app import make_app

EVIL = "0123456789abcdef01234567"


def prepared_job(root: Path, kind: str, /, **arguments: Any) -> None:
    """As it would lie in a folder that came by post."""
    folder = root / ".sfumato-studio" / "jobs"
    folder.mkdir(parents=True, exist_ok=True)
    job = {
        "id": EVIL,
        "number": 1,
        "kind": kind,
        "title": "x",
        "state": "waiting",
        "arguments": arguments,
    }
    (folder / f"{EVIL}.json").write_text(json.dumps(job))


def protect_job(root: Path, /, **more: Any) -> None:
    usual: dict[str, Any] = {
        "items": [{"name": "walk.mp4", "target": "released/x.mp4"}], "folder": None, "method": "edges",
        "settings": {}, "audio": "drop", "keepNames": False, "ledger": None, "target": "released/y",
    }  # fmt: skip
    prepared_job(root, "protect", **{**usual, **more})


def test_work_that_nobody_began_does_not_run(root: Path, in_process: None) -> None:
    protect_job(root)
    for _ in range(2):  # nor when the folder is opened again
        with browsing(root) as browser:
            (job,) = browser.get("/api/jobs")
            assert job["state"] == "cancelled"
        assert not (root / "released").exists()


def test_work_that_was_cut_off_goes_on(
    root: Path, in_process: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "cache"))  # this user's own, and writable
    with browsing(root) as browser:
        id = browser.recording("walk.mp4")["id"]
        asked = {"recordings": [id], "method": "edges", "settings": {}}
        job = browser.finished(browser.post("/api/protect", asked)["job"])
        (made,) = (root / "released").glob("*.mp4")
    for path in (root / "released").iterdir():
        path.unlink()
    file = root / ".sfumato-studio" / "jobs" / f"{job['id']}.json"
    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "state": "running", "result": None}))
    with browsing(root) as browser:
        assert browser.finished(job)["state"] == "done"
    assert made.is_file()


@pytest.mark.parametrize(
    "more",
    [
        {"method": "external", "settings": {"command": "touch {output}"}},
        {"settings": {"seed": 1}},
        {"method": "silhouette", "settings": {"import_boxes": "/etc/passwd"}},
        {"items": [{"name": "../outside/secret.mp4", "target": "released/x.mp4"}]},
        {"items": [{"name": "walk.mp4", "target": "../outside/x.mp4"}]},
        {"items": [{"name": "walk.mp4", "target": "walk.mp4"}]},
        {"items": [{"name": "walk.mp4", "target": "/tmp/x.mp4"}]},
        {"root": "OUTSIDE", "items": [{"name": "secret.mp4", "target": "released/x.mp4"}]},
        {"folder": "../outside", "items": []},
        {"folder": "ward", "items": [], "target": "../outside/y"},
        {"ledger": {"id": "/etc/book.db", "dataset": "films"}},
    ],
)  # fmt: skip
def test_prepared_work_fails_even_when_somebody_resumes_it(
    root: Path, in_process: None, more: dict[str, Any]
) -> None:
    outside = root.parent / "outside"
    write_clip(outside / "secret.mp4")
    before = sorted(outside.rglob("*"))
    if more.get("root"):
        more = {**more, "root": str(outside)}
    protect_job(root, **more)
    with browsing(root) as browser:
        browser.post(f"/api/jobs/{EVIL}/resume")
        job = browser.finished({"id": EVIL})
        assert job["state"] == "failed", job
        assert str(root) not in json.dumps(job)
    assert sorted(outside.rglob("*")) == before
    assert not list((root / "released").rglob("*.mp4")) if (root / "released").exists() else True


@pytest.mark.parametrize("name", ["../../elsewhere", "/tmp/elsewhere", "x"])
def test_a_prepared_preview_writes_nowhere_else(root: Path, in_process: None, name: str) -> None:
    prepared_job(
        root,
        "preview",
        name="walk.mp4",
        method="edges",
        settings={},
        preview=name,
        **{"from": 0, "to": 1},
    )
    before = {path for path in root.parent.rglob("*") if ".sfumato-studio" not in str(path)}
    with browsing(root) as browser:
        browser.post(f"/api/jobs/{EVIL}/resume")
        assert browser.finished({"id": EVIL})["state"] == "failed"
    assert {path for path in root.parent.rglob("*") if ".sfumato-studio" not in str(path)} == before


def test_a_link_in_the_private_folder_is_refused(root: Path, tmp_path: Path) -> None:
    with browsing(root):
        pass
    (root / ".sfumato-studio" / "people").symlink_to(tmp_path)
    with pytest.raises(SfumatoError, match="no link"):
        make_app(root, port=PORT)


def test_a_release_does_not_follow_a_link_out(browser: Browser, root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / "released").symlink_to(elsewhere)
    id = browser.recording("walk.mp4")["id"]
    (ward,) = [each for each in browser.get("/api/recordings")["folders"] if each["name"] == "ward"]
    for chosen in ({"recordings": [id]}, {"folder": ward["id"]}):
        asked = {**chosen, "method": "edges", "settings": {}}
        job = browser.finished(browser.post("/api/protect", asked)["job"])
        assert job["state"] == "failed"
    assert list(elsewhere.iterdir()) == []


def test_a_link_that_takes_the_place_while_a_frame_is_read_is_not_shown(
    browser: Browser, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the path and the reading of it."""
    secret = write_clip(tmp_path / "secret.mp4", shade=90)
    id = browser.recording("walk.mp4")["id"]
    read = browser.studio.videos.frame

    def swapped(path: Path, number: int) -> Any:
        (root / "walk.mp4").unlink()
        (root / "walk.mp4").symlink_to(secret)
        return read(path, number)

    monkeypatch.setattr(browser.studio.videos, "frame", swapped)
    assert browser.client.get(f"/api/recordings/{id}/frames/0").status_code == 404


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_pipes_and_their_like_hold_nobody_up(browser: Browser, root: Path) -> None:
    for name in (
        "book.db",
        "book.sqlite",
        "train.yaml",
        "clip.mp4",
        "sound.wav",
        "walk.mp4.card.json",
    ):
        os.mkfifo(root / name)
    (root / "folder.mp4").mkdir()
    assert browser.get("/api/ledger") == []
    assert browser.get("/api/trainings")["configs"] == []
    names = {each["name"] for each in browser.get("/api/recordings")["recordings"]}
    assert names == {"walk.mp4", "bed.mp4", "face.png"}


def test_two_studios_do_not_share_a_folder(root: Path) -> None:
    """They would both run what waits, and spend a budget twice."""
    with browsing(root):
        with pytest.raises(SfumatoError, match="no other studio"):
            make_app(root, port=PORT + 1)
        make_app(root, port=PORT + 1, read_only=True)
    with browsing(root):
        pass


def test_no_answer_says_where_the_folder_lies(browser: Browser, root: Path) -> None:
    (root / "broken.mp4").write_bytes(b"no video at all")
    (root / "broken.wav").write_bytes(b"no sound at all")
    (root / "broken.png").write_bytes(b"no picture")
    texts = [browser.client.get("/api/recordings").text]
    for each in browser.get("/api/recordings")["recordings"]:
        texts.append(browser.client.get(f"/api/recordings/{each['id']}/frames/99").text)
        method = "voice" if each["kind"] == "sound" else "edges"
        asked = {"recordings": [each["id"]], "method": method, "settings": {}}
        begun = browser.client.post("/api/protect", json=asked, headers=browser.headers).json()
        if "job" in begun:
            browser.finished(begun["job"])
        found = browser.client.post(
            f"/api/recordings/{each['id']}/find", json={}, headers=browser.headers
        )
        texts.append(found.text)
        if "job" in found.json() and each["name"].startswith("broken"):
            browser.finished(found.json()["job"])
    texts.append(browser.client.get("/api/jobs").text)
    for text in texts:
        assert str(root) not in text
        assert str(root.parent) not in text


def test_of_many_edits_of_one_state_one_is_taken(browser: Browser) -> None:
    id = browser.recording("walk.mp4")["id"]
    headers = {**browser.headers, "content-type": "application/json"}
    browser.client.post(f"/api/recordings/{id}/coco", content=json.dumps(coco()), headers=headers)
    revision = browser.get(f"/api/recordings/{id}/people")["revision"]
    together = threading.Barrier(6)

    def edit(number: int) -> int:
        together.wait()
        body = {
            "do": "box",
            "frame": number,
            "track": None,
            "box": [1, 1, 9, 9],
            "revision": revision,
        }
        return browser.client.post(
            f"/api/recordings/{id}/edits", json=body, headers=headers
        ).status_code

    with ThreadPoolExecutor(6) as threads:
        statuses = sorted(threads.map(edit, range(6)))
    assert statuses == [200, *[409] * 5]
    assert len(browser.get(f"/api/recordings/{id}/people")["tracks"]) == 3


def test_one_sample_gets_one_signature(browser: Browser) -> None:
    id = browser.recording("walk.mp4")["id"]
    asked = {"recordings": [id], "method": "edges", "settings": {}}
    (release,) = browser.finished(browser.post("/api/protect", asked)["job"])["result"]["releases"]
    drawn = browser.post(f"/api/releases/{release}/review", {"frames": 3})
    answers = {str(frame): False for frame in drawn["frames"]}
    together = threading.Barrier(4)

    def sign(who: str) -> int:
        together.wait()
        body = {"who": who, "answers": answers}
        address = f"/api/reviews/{drawn['review']}"
        return browser.client.post(address, json=body, headers=browser.headers).status_code

    with ThreadPoolExecutor(4) as threads:
        statuses = sorted(threads.map(sign, ("Ann", "Bob", "Cyd", "Dee")))
    assert statuses == [200, 404, 404, 404]
    assert len(read_card(browser.studio.library.release(release).path).reviews or ()) == 1


def test_a_sample_is_answered_before_another_is_drawn(root: Path, in_process: None) -> None:
    """Whoever draws until the frames are kind measures nothing; and a closed window loses no answer."""
    with browsing(root) as browser:
        id = browser.recording("walk.mp4")["id"]
        asked = {"recordings": [id], "method": "edges", "settings": {}}
        (release,) = browser.finished(browser.post("/api/protect", asked)["job"])["result"][
            "releases"
        ]
        address = f"/api/releases/{release}/review"
        assert browser.get(address) is None
        drawn = browser.post(address, {"frames": 5})
        first = {str(drawn["frames"][0]): True}
        kept = browser.post(f"/api/reviews/{drawn['review']}/answers", {"answers": first})
        assert kept["answers"] == first
        wrong = {"answers": {"99999": True}}
        browser.post(f"/api/reviews/{drawn['review']}/answers", wrong, 400)
        browser.post(f"/api/reviews/{drawn['review']}/answers", {"answers": {"0": "<b>"}}, 400)
    with browsing(root) as browser:  # another day
        assert browser.get(address) == {**drawn, "answers": first}
        assert browser.post(address, {"frames": 2}) == {**drawn, "answers": first}
        path = browser.studio.library.release(release).path
        path.write_bytes(path.read_bytes() + b"x")
        assert browser.get(address) is None  # of a file that is no longer there


def test_previews_are_gone_when_the_studio_ends(root: Path, in_process: None) -> None:
    """They hold what a method leaves as it was."""
    with browsing(root) as browser:
        id = browser.recording("walk.mp4")["id"]
        for _ in range(_tasks._PREVIEWS + 2):
            part = {"recording": id, "method": "edges", "settings": {}, "from": 0, "to": 1}
            assert browser.finished(browser.post("/api/preview", part)["job"])["state"] == "done"
        kept = list((root / ".sfumato-studio" / "previews").iterdir())
        assert len(kept) == _tasks._PREVIEWS
        assert all(path.stat().st_mode & 0o077 == 0 for path in kept)
    assert not (root / ".sfumato-studio" / "previews").exists()


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"x" * 100])
def test_people_that_cannot_be_read_hide_no_other_recording(
    browser: Browser, root: Path, content: bytes
) -> None:
    place = root / ".sfumato-studio" / "people" / "walk.mp4.people.db"
    place.parent.mkdir(mode=0o700, exist_ok=True)
    place.write_bytes(content)
    listed = {each["name"]: each["state"] for each in browser.get("/api/recordings")["recordings"]}
    assert listed == {"walk.mp4": "new", "bed.mp4": "new", "face.png": "new"}
    id = browser.recording("walk.mp4")["id"]
    assert browser.client.get(f"/api/recordings/{id}/people").status_code == 400
    asked = {
        "recordings": [id],
        "method": "silhouette",
        "settings": {},
    }  # whose corrections are lost
    job = browser.client.post("/api/protect", json=asked, headers=browser.headers)
    assert job.status_code == 400
    headers = {**browser.headers, "content-type": "application/json"}
    taken = browser.client.post(
        f"/api/recordings/{id}/coco", content=json.dumps(coco()), headers=headers
    )
    assert taken.status_code == 200
