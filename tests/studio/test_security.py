"""A hostile web page, a hostile user of the machine and hostile files get nothing out of the studio."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse
from studio_browser import BASE, PORT, Browser, browsing, coco, write_clip

from sfumato.errors import SfumatoError
from sfumato.learn import read_config
from sfumato.studio import _trainings
from sfumato.studio._app import make_app
from sfumato.studio._library import Library
from sfumato.studio._security import MOST_JSON

ID = "0" * 24
POSTS = {
    f"/api/recordings/{ID}/find": {},
    f"/api/recordings/{ID}/edits": {"do": "deleteTrack", "track": 0},
    f"/api/recordings/{ID}/undo": {},
    f"/api/recordings/{ID}/redo": {},
    f"/api/recordings/{ID}/coco": {},
    "/api/promise": {"recordings": [ID], "method": "edges"},
    "/api/preview": {"recording": ID, "method": "edges", "from": 0, "to": 1},
    "/api/protect": {"recordings": [ID], "method": "edges"},
    f"/api/jobs/{ID}/cancel": {},
    f"/api/jobs/{ID}/resume": {},
    f"/api/releases/{ID}/review": {},
    f"/api/reviews/{ID}/answers": {"answers": {}},
    f"/api/reviews/{ID}": {"who": "x", "answers": {}},
    f"/api/releases/{ID}/audit": {"kind": "leaks"},
    "/api/train": {"config": ID},
}
GETS = [
    "/", "/static/index.html", "/api/session", "/api/recordings", f"/api/recordings/{ID}",
    f"/api/recordings/{ID}/frames/0", f"/api/releases/{ID}/frames/0", f"/api/recordings/{ID}/people",
    f"/api/recordings/{ID}/people/boxes?from=0&to=1", f"/api/recordings/{ID}/coco", "/api/methods",
    f"/api/previews/{ID}", f"/api/previews/{ID}/frames/0", "/api/jobs", "/api/jobs/events",
    f"/api/releases/{ID}/card", f"/api/releases/{ID}/sound", f"/api/releases/{ID}/review", f"/api/releases/{ID}/report", f"/api/releases/{ID}/impact", "/api/ledger",
    "/api/trainings", "/nothing", "/api/nothing",
]  # fmt: skip
WITH_ID = [address for address in (*GETS, *POSTS) if ID in address]
ESCAPES = [
    "..%2f..%2fetc%2fpasswd", "%2e%2e", "..%5c..", "walk.mp4", "%00", "a" * 24, "%2fetc%2fpasswd",
    "0" * 23, "0" * 25, "%ff%fe" * 6, "A" * 24, "0" * 23 + "%0a",
]  # fmt: skip


def refused(answer: Any, *statuses: int) -> None:
    """Not answered, in one sentence that tells nothing, with every header."""
    assert answer.status_code in (statuses or (400, 401, 403, 404, 405, 413, 414, 421)), answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    assert answer.headers["x-content-type-options"] == "nosniff"
    if answer.request.method != "HEAD":
        assert set(answer.json()) == {"error"}
        assert "/root" not in answer.text
        assert "Traceback" not in answer.text


# -- who may ask -------------------------------------------------------------------------------


@pytest.mark.parametrize("address", GETS)
def test_nothing_is_shown_without_the_link(stranger: TestClient, address: str) -> None:
    refused(stranger.get(address), 401)
    refused(stranger.head(address), 401)


@pytest.mark.parametrize("address", POSTS)
def test_nothing_is_done_without_the_link(stranger: TestClient, address: str) -> None:
    refused(stranger.post(address, json=POSTS[address], headers={"origin": BASE}), 401)


@pytest.mark.parametrize("token", ["", "x", "0" * 43, "%00", "é" * 43, "a&token=b"])
def test_a_wrong_token_opens_nothing(stranger: TestClient, token: str) -> None:
    refused(stranger.get(f"{BASE}/?token={token}"), 403)
    assert not stranger.cookies


def given_cookie(client: TestClient) -> str:
    (cookie,) = client.cookies.jar
    return f"{cookie.name}={cookie.value}"


def test_the_link_opens_once_and_the_next_one_is_another(root: Path) -> None:
    said: list[str] = []
    app = make_app(root, port=PORT, say=said.append)
    with TestClient(app, base_url=BASE) as client:
        link = app.doorkeeper.link
        assert client.get(link, follow_redirects=False).status_code == 303
        cookie = given_cookie(client)
        client.cookies.clear()
        refused(client.get(link, follow_redirects=False), 403)
        assert said == [app.doorkeeper.link]
        assert said[0] != link
        place = app.doorkeeper.place
        kept = client.get(f"{place}/api/session", headers={"cookie": cookie})
        assert kept.status_code == 200  # the first browser stays in


def test_the_cookie_is_for_this_site_alone_and_no_script_reads_it(root: Path) -> None:
    app = make_app(root, port=PORT)
    with TestClient(app, base_url=BASE) as client:
        given = client.get(app.doorkeeper.link, follow_redirects=False)
    cookie = given.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    place = f"{app.doorkeeper.place}/"
    assert given.headers["location"] == place
    assert f"path={place.lower()};" in f"{cookie};"
    assert len(cookie.split("=")[1].split(";")[0]) >= 43


@pytest.mark.parametrize("cookie", ["x", "0" * 43, '"', "é", "=;=", "\x7f", "a" * 4000])
def test_a_made_up_cookie_is_no_session(stranger: TestClient, cookie: str) -> None:
    name = f"sfumato-studio-{PORT}"
    refused(stranger.get("/api/session", headers={"cookie": f"{name}={cookie}".encode()}), 401)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:80", f"127.0.0.1.evil.example:{PORT}",
        f"localhost.evil.example:{PORT}", f"0.0.0.0:{PORT}", f"192.168.0.2:{PORT}", "", f"127.0.0.1:{PORT}@evil",
        f"[::]:{PORT}",
    ],
)  # fmt: skip
def test_a_rebound_name_is_not_answered(visitor: Browser, host: str) -> None:
    """DNS rebinding: a page of evil.example that now leads to 127.0.0.1, cookie and all."""
    refused(visitor.client.get("/api/recordings", headers={"host": host}), 421)
    refused(visitor.client.get(visitor.app.doorkeeper.link, headers={"host": host}), 421)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "null", f"https://127.0.0.1:{PORT}", "http://127.0.0.1", f"http://evil:{PORT}",
        f"http://127.0.0.1:{PORT + 1}", f"http://127.0.0.1:{PORT}.evil.example", "file://",
    ],
)  # fmt: skip
def test_another_origin_is_refused_even_with_everything_else(visitor: Browser, origin: str) -> None:
    headers = {**visitor.headers, "origin": origin}
    refused(visitor.client.post("/api/promise", json=POSTS["/api/promise"], headers=headers), 403)
    refused(visitor.client.get("/api/recordings", headers={"origin": origin}), 403)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_loads_nothing(visitor: Browser, site: str) -> None:
    """Pictures, scripts and frames that a page elsewhere embeds."""
    id = visitor.recording("walk.mp4")["id"]
    headers = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
    for address in (f"/api/recordings/{id}/frames/0", "/static/index.html", "/api/session", "/"):
        refused(visitor.client.get(address, headers=headers), 403)


@pytest.mark.parametrize("address", POSTS)
def test_nothing_is_done_without_the_csrf_header(visitor: Browser, address: str) -> None:
    for headers in ({"origin": BASE}, {"origin": BASE, "x-sfumato-csrf": "x" * 43}):
        refused(visitor.client.post(address, json=POSTS[address], headers=headers), 403)


def test_the_csrf_word_of_one_session_is_not_that_of_another(root: Path) -> None:
    app = make_app(root, port=PORT)
    with TestClient(app, base_url=BASE) as one, TestClient(app, base_url=BASE) as other:
        one.get(app.doorkeeper.link)
        other.get(app.doorkeeper.link)
        place = app.doorkeeper.place
        words = [client.get(f"{place}/api/session").json()["csrf"] for client in (one, other)]
        assert words[0] != words[1]
        headers = {"origin": BASE, "x-sfumato-csrf": words[1]}
        address = f"{place}/api/promise"
        refused(one.post(address, json=POSTS["/api/promise"], headers=headers), 403)


@pytest.mark.usefixtures("in_process")
def test_read_only_does_nothing(root: Path) -> None:
    before = sorted(str(path) for path in root.rglob("*"))
    with browsing(root, read_only=True) as browser:
        for address, body in POSTS.items():
            if address == "/api/promise":
                continue  # a question
            answer = browser.client.post(address, json=body, headers=browser.headers)
            refused(answer, 403)
            assert "read only" in answer.json()["error"]
        id = browser.recording("walk.mp4")["id"]
        asked = {"recordings": [id], "method": "edges"}
        refused(browser.client.post("/api/promise", json=asked, headers={"origin": BASE}), 403)
        assert browser.post("/api/promise", asked)["words"]
        for address in ("/api/ledger", "/api/jobs", "/api/trainings", f"/api/recordings/{id}"):
            browser.get(address)
        assert browser.get("/api/session")["readOnly"]
        assert browser.client.get(f"/api/recordings/{id}/frames/3").status_code == 200
        refused(browser.client.get(f"/api/recordings/{id}/coco"), 400)
    assert sorted(str(path) for path in root.rglob("*")) == before


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO"])
def test_other_methods_mean_nothing(visitor: Browser, method: str) -> None:
    for address in ("/api/protect", "/api/recordings", "/"):
        refused(visitor.client.request(method, address, headers=visitor.headers), 405, 404)
    refused(visitor.client.get("/api/protect"), 404, 405)
    refused(visitor.client.post("/api/recordings", json={}, headers=visitor.headers), 405, 404)
    override = {**visitor.headers, "x-http-method-override": "POST"}
    refused(visitor.client.get("/api/protect", headers=override), 404, 405)


def test_every_answer_bears_the_headers(visitor: Browser) -> None:
    id = visitor.recording("walk.mp4")["id"]
    for address in (
        "/",
        "/static/index.html",
        "/api/session",
        f"/api/recordings/{id}/frames/0",
        "/none",
    ):
        headers = visitor.client.get(address).headers
        assert headers["cache-control"] == "no-store"
        assert headers["content-security-policy"].startswith("default-src 'self'; ")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers


def test_every_route_is_tried_above(visitor: Browser) -> None:
    """A route that is added later is refused to strangers and in read-only mode, too: it must be listed here."""
    known = {(method, path) for method, path in _routes(visitor)}
    listed = {("GET", _pattern(address)) for address in GETS} | {
        ("POST", _pattern(address)) for address in POSTS
    }
    assert known - listed == set()


def _routes(visitor: Browser) -> Iterator[tuple[str, str]]:
    for route in visitor.app._app.routes:
        for method in getattr(route, "methods", None) or ():
            if method != "HEAD":
                yield method, route.path.replace("{id}", "ID").replace("{number}", "0")


def _pattern(address: str) -> str:
    return address.partition("?")[0].replace(ID, "ID")


def test_the_cookie_without_the_place_opens_nothing(visitor: Browser) -> None:
    """Another server of this machine that got hold of the cookie does not know the place."""
    cookie = given_cookie(visitor.client)
    for address in (
        "/",
        "/api/recordings",
        "/x/api/recordings",
        "//api/recordings",
        "/static/index.html",
    ):
        refused(visitor.client.get(f"{BASE}{address}", headers={"cookie": cookie}), 401)
    page = visitor.client.get(f"{BASE}/", headers={"accept": "text/html"})
    assert (page.status_code, page.headers["cache-control"]) == (401, "no-store")
    assert visitor.app.doorkeeper.place not in page.text


def test_a_cookie_that_another_port_set_throws_nobody_out(visitor: Browser) -> None:
    name = f"sfumato-studio-{PORT}"
    mine = given_cookie(visitor.client)
    for cookies in (f"{name}=evil; {mine}", f"{mine}; {name}=evil", f"a=b; {name}=; {mine}"):
        answer = visitor.client.get("/api/session", headers={"cookie": cookies})
        assert answer.status_code == 200, cookies
    refused(
        visitor.client.get("/api/session", headers={"cookie": f"{name}=evil; {name}=worse"}), 401
    )


@pytest.mark.parametrize("header", ["x-forwarded-host", "x-host", "forwarded", "x-original-url"])
def test_a_header_of_a_proxy_changes_nothing(visitor: Browser, header: str) -> None:
    value = f"127.0.0.1:{PORT}"
    refused(visitor.client.get("/api/session", headers={"host": "evil", header: value}), 421)
    kept = visitor.client.get("/api/session", headers={header: "evil.example"})
    assert kept.status_code == 200


def test_two_hosts_are_no_host(visitor: Browser) -> None:
    good = ("host", f"127.0.0.1:{PORT}")
    for headers in ([good, ("host", "evil")], [("host", "evil"), good], [good, good]):
        refused(visitor.client.get("/api/session", headers=headers), 421)


@pytest.mark.parametrize("address", ["/", "/api/jobs/events", "/api/session"])
def test_there_are_no_web_sockets(visitor: Browser, address: str) -> None:
    with (
        pytest.raises(WebSocketDenialResponse) as refusal,
        visitor.client.websocket_connect(address, headers=visitor.headers),
    ):
        pass
    assert refusal.value.status_code == 403


# -- what can be named -------------------------------------------------------------------------


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("address", WITH_ID)
def test_an_id_is_never_a_path(visitor: Browser, address: str, escape: str) -> None:
    tried = address.replace(ID, escape)
    if address in POSTS:
        answer = visitor.client.post(tried, json=POSTS[address], headers=visitor.headers)
    else:
        answer = visitor.client.get(tried)
    refused(answer, 404, 400, 405)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../_app.py", "/static/%2e%2e/_app.py", "/static/..%2f_app.py", "/static//etc/passwd",
        "/static/%2fetc%2fpasswd", "/static/..%5c_app.py", "/static/%00", "/static/", "/static/js",
    ],
)  # fmt: skip
def test_static_files_are_those_of_the_package(visitor: Browser, path: str) -> None:
    answer = visitor.client.get(path)
    assert answer.status_code in (404, 405, 400)
    assert "import" not in answer.text


def test_links_lead_nowhere(browser: Browser, root: Path, tmp_path: Path) -> None:
    outside = write_clip(tmp_path / "outside" / "secret.mp4")
    (root / "linked.mp4").symlink_to(outside)
    (root / "inner.mp4").symlink_to(root / "walk.mp4")
    (root / "folder").symlink_to(outside.parent)
    (root / "config.yaml").symlink_to("/etc/hostname")
    (root / "book.db").symlink_to(outside)
    names = {each["name"] for each in browser.get("/api/recordings")["recordings"]}
    assert names == {"walk.mp4", "bed.mp4", "face.png"}
    assert browser.get("/api/trainings")["configs"] == []
    assert browser.get("/api/ledger") == []


def test_a_recording_that_becomes_a_link_is_gone(
    browser: Browser, root: Path, tmp_path: Path
) -> None:
    id = browser.recording("walk.mp4")["id"]
    assert browser.client.get(f"/api/recordings/{id}/frames/0").status_code == 200
    outside = write_clip(tmp_path / "secret.mp4", shade=90)
    (root / "walk.mp4").unlink()
    (root / "walk.mp4").symlink_to(outside)
    refused(browser.client.get(f"/api/recordings/{id}/frames/0"), 404)
    with pytest.raises(SfumatoError):
        Library(root).inside("walk.mp4")
    bed = browser.recording("bed.mp4")["id"]
    (root / "ward").rename(root / "away")
    (root / "ward").symlink_to(tmp_path)
    refused(browser.client.get(f"/api/recordings/{bed}/frames/0"), 404)


def test_a_linked_private_folder_is_refused(root: Path, tmp_path: Path) -> None:
    (root / ".sfumato-studio").symlink_to(tmp_path)
    with pytest.raises(SfumatoError, match="got a link"):
        make_app(root, port=PORT)


UNSETTABLE: list[tuple[str, dict[str, Any]]] = [
    ("external", {"command": "cp {input} {output}"}),
    ("silhouette", {"import_boxes": "/etc/passwd"}),
    ("silhouette", {"region": "/etc/passwd"}),
    ("silhouette", {"region": "boxes.json"}),
    ("silhouette", {"leave_open": [0]}),
    ("silhouette", {"public_mask": True}),
    ("dp-image", {"epsilon": 1, "unit": "frame", "encoder": "/etc/passwd"}),
    ("avatar", {"poses": "touch {output}"}),
    ("avatar", {"refine": {"model": "/etc"}}),
    ("edges", {"seed": 1}),
    ("edges", {"nothing": 1}),
    ("pass", {}),
    ("../edges", {}),
    ("silhouette+external", {"external.command": "cp {input} {output}"}),
]


def test_no_file_and_no_command_can_be_set(browser: Browser) -> None:
    id = browser.recording("walk.mp4")["id"]
    for method, settings in UNSETTABLE:
        asked = {"recordings": [id], "method": method, "settings": settings}
        assert browser.post("/api/promise", asked)["refused"], method
        refused(browser.client.post("/api/protect", json=asked, headers=browser.headers), 400)
        part = {"recording": id, "method": method, "settings": settings, "from": 0, "to": 1}
        job = browser.finished(browser.post("/api/preview", part)["job"])
        assert job["state"] == "failed", method
    assert not (browser.studio.library.root / "released").exists()


@pytest.mark.parametrize(
    "config",
    [
        "out: /tmp/elsewhere\n",
        "out: ../elsewhere\n",
        "out: runs/a\ndata: {kind: folder, path: /etc}\n",
        "out: runs/a\nheld_out: {path: ../../etc}\n",
        "out: runs/a\noperator_log: /tmp/log\n",
        "out: runs/a\nmodel: {weights: /etc/passwd}\n",
        "out: linked/a\n",
        "out: runs/a\nmodel: {import: 'os:system'}\n",
    ],
)
def test_a_training_names_nothing_outside(root: Path, tmp_path: Path, config: str) -> None:
    (root / "linked").symlink_to(tmp_path)
    file = root / "train.yaml"
    file.write_text(config)
    try:
        read = read_config(file, [])
    except SfumatoError:
        return  # refused even earlier
    with pytest.raises(SfumatoError, match="sfumato train"):
        _trainings.require_inside(Library(root), read)


def test_a_ledger_outside_cannot_be_named(visitor: Browser) -> None:
    id = visitor.recording("walk.mp4")["id"]
    for ledger in (
        {"id": "/etc/book.db", "dataset": "films"},
        {"id": ID, "dataset": "films"},
        {"path": "/etc/book.db", "dataset": "films"},
        {"id": ID, "dataset": "films", "path": "/etc/book.db"},
    ):
        asked = {"recordings": [id], "method": "edges", "ledger": ledger}
        refused(visitor.client.post("/api/protect", json=asked, headers=visitor.headers), 400, 404)


# -- what is sent ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "people/boxes?from=-1&to=3", "people/boxes?from=3&to=1", "people/boxes?from=0&to=99999999999",
        "people/boxes?from=0", "people/boxes?from=a&to=b", "people/boxes?from=0&to=1&to=2", "frames/-1",
        "frames/1e3", "frames/٣", "frames/99999999999999999999", "frames/0x1", "frames/NaN", "frames/0?width=0",
        "frames/0?width=-5", "frames/0?width=99999999", "frames/0?width=a", "frames/0?width=1&width=2",
        "frames/+1", "frames/ 1", "coco?category=../../etc",
    ],
)  # fmt: skip
def test_malformed_numbers_and_ranges_are_refused(visitor: Browser, address: str) -> None:
    id = visitor.recording("walk.mp4")["id"]
    refused(visitor.client.get(f"/api/recordings/{id}/{address}"), 400, 404)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b'"x"', b"{", b"\xff\xfe", b'{"do": NaN}', b'{"do": "box", "do": "open"}',
        b"[" * 100_000, b'{"do": "open", "track": 1e999, "open": true}', b'{"do": "nothing"}', b'{"do": 1}',
        b'{"do": "open", "track": true, "open": true}', b'{"do": "open", "track": "0", "open": true}',
        b'{"do": "box", "frame": 0, "track": null, "box": [0, 0, 1]}', b'{"do": "deleteTrack", "track": 99}',
        b'{"do": "box", "frame": 0, "track": null, "box": [0, 0, 1e300, 1]}',
        b'{"do": "box", "frame": 99, "track": null, "box": [0, 0, 1, 1]}',
        b'{"do": "box", "frame": 0, "track": null, "box": [-9, -9, 1, 1]}',
        b'{"do": "deleteTrack", "track": 0, "more": 1}', b'{"do": "click", "frame": -1, "x": 1, "y": 1}',
        b'{"do": "deleteTrack", "track": 0, "revision": "1"}', b'{"do": "box", "frame": 0, "box": null}',
    ],
)  # fmt: skip
def test_malformed_edits_change_nothing(visitor: Browser, body: bytes) -> None:
    id = visitor.recording("walk.mp4")["id"]
    headers = {**visitor.headers, "content-type": "application/json"}
    visitor.client.post(f"/api/recordings/{id}/coco", content=json.dumps(coco()), headers=headers)
    before = visitor.get(f"/api/recordings/{id}/people")
    answer = visitor.client.post(f"/api/recordings/{id}/edits", content=body, headers=headers)
    refused(answer, 400)
    assert visitor.get(f"/api/recordings/{id}/people") == before


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_form_of_another_page_is_no_json(visitor: Browser, kind: str) -> None:
    headers = {**visitor.headers, "content-type": kind}
    content = json.dumps(POSTS["/api/promise"])
    refused(visitor.client.post("/api/promise", content=content, headers=headers), 400)


def test_bodies_are_bounded_whether_they_say_their_size_or_not(visitor: Browser) -> None:
    large = b'{"do": "' + b"x" * MOST_JSON + b'"}'
    headers = {**visitor.headers, "content-type": "application/json"}

    def in_pieces() -> Iterator[bytes]:
        for start in range(0, len(large), 1 << 16):
            yield large[start : start + (1 << 16)]

    for content in (large, in_pieces()):
        refused(visitor.client.post("/api/promise", content=content, headers=headers), 413)
    refused(visitor.client.get(f"/api/recordings?{'x' * 5000}"), 414)


@pytest.mark.parametrize(
    "wrong",
    [
        b"{}", b"[]", b"\xff", b'{"images": [], "annotations": []}',
        json.dumps(coco(frames=3)).encode(),
        json.dumps(coco(tracks={0: lambda n: [0, 0, -5, 5]})).encode(),
        json.dumps(coco(tracks={0: lambda n: [0, 0, "a", 5]})).encode(),
    ],
)  # fmt: skip
def test_a_wrong_coco_file_replaces_nothing(visitor: Browser, wrong: bytes) -> None:
    id = visitor.recording("bed.mp4")["id"]
    headers = {**visitor.headers, "content-type": "application/json"}
    refused(visitor.client.post(f"/api/recordings/{id}/coco", content=wrong, headers=headers), 400)
    assert visitor.recording("bed.mp4")["state"] == "new"
    assert not list(visitor.studio.library.state.rglob("imports/*"))


NAMES = [
    "<script>alert(1)<!-- script>.mp4", '"><img src=x onerror=alert(1)>.mp4', "a\r\nset-cookie: x=y.mp4",
    "${7*7}{{7*7}}.mp4", "\u202egpj.mp4", "%2e%2e%2f.mp4", "' or 1=1 --.mp4",
]  # fmt: skip


def test_names_of_files_are_only_ever_data(browser: Browser, root: Path) -> None:
    """Answers are JSON that no browser takes for a page; nothing of a name gets into a header."""
    for name in NAMES:
        write_clip(root / name, frames=2)
    answer = browser.client.get("/api/recordings")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    found = {each["name"]: each["id"] for each in answer.json()["recordings"]}
    assert set(NAMES) <= set(found)
    for name in NAMES:
        asked = {"recording": found[name], "method": "none", "from": 0, "to": 1}
        job = browser.finished(browser.post("/api/preview", asked)["job"])
        assert name in job["title"]
        for address in (f"/api/recordings/{found[name]}", "/api/jobs"):
            answer = browser.client.get(address)
            assert answer.headers["content-type"] == "application/json"
            assert "x=y" not in str(answer.headers)


def test_the_name_of_who_looked_is_a_name(browser: Browser) -> None:
    id = browser.recording("walk.mp4")["id"]
    asked = {"recordings": [id], "method": "edges", "settings": {}}
    job = browser.finished(browser.post("/api/protect", asked)["job"])
    (release,) = job["result"]["releases"]
    drawn = browser.post(f"/api/releases/{release}/review", {"frames": 2})
    answers = {str(frame): False for frame in drawn["frames"]}
    for who in ("<b>x</b>", "a\r\nb", "", "x" * 200, "/etc/passwd", "\0"):
        body = {"who": who, "answers": answers}
        address = f"/api/reviews/{drawn['review']}"
        refused(browser.client.post(address, json=body, headers=browser.headers), 400)
    assert browser.get(f"/api/releases/{release}/card")["json"]["reviews"] == []


def test_jobs_show_no_path_and_no_argument(browser: Browser, root: Path) -> None:
    id = browser.recording("walk.mp4")["id"]
    asked = {"recordings": [id], "method": "edges", "settings": {}}
    browser.finished(browser.post("/api/protect", asked)["job"])
    text = browser.client.get("/api/jobs").text
    assert str(root) not in text
    assert "arguments" not in text
    for address in ("/api/recordings", "/api/session", "/api/trainings", f"/api/recordings/{id}"):
        assert str(root) not in browser.client.get(address).text


def test_what_the_studio_keeps_is_for_the_owner_only(browser: Browser, root: Path) -> None:
    id = browser.recording("walk.mp4")["id"]
    headers = {**browser.headers, "content-type": "application/json"}
    browser.client.post(f"/api/recordings/{id}/coco", content=json.dumps(coco()), headers=headers)
    browser.client.get(f"/api/recordings/{id}/frames/0")
    asked = {"recordings": [id], "method": "silhouette", "settings": {"check": False}}
    browser.finished(browser.post("/api/protect", asked)["job"])
    kept = [root / ".sfumato-studio", *(root / ".sfumato-studio").rglob("*")]
    assert len(kept) > 6
    assert [path for path in kept if path.stat().st_mode & 0o077] == []
    released = {path.name for path in (root / "released").iterdir()}
    assert not any("people" in name or "walk" in name for name in released)


def test_nothing_about_originals_is_logged(
    browser: Browser, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, logger="sfumato")
    id = browser.recording("walk.mp4")["id"]
    browser.client.get(f"/api/recordings/{id}/frames/1")
    browser.client.get(f"/api/recordings/{id}/frames/x")
    said = capfd.readouterr()
    logged = [record for record in caplog.records if record.name.startswith("sfumato")]
    assert (said.out, said.err, logged) == ("", "", [])


def test_a_report_is_a_sandboxed_page(browser: Browser) -> None:
    pytest.importorskip("matplotlib", reason="a report needs the extra report")
    id = browser.recording("walk.mp4")["id"]
    asked = {"recordings": [id], "method": "edges", "settings": {}}
    job = browser.finished(browser.post("/api/protect", asked)["job"])
    (release,) = job["result"]["releases"]
    page = browser.client.get(f"/api/releases/{release}/report")
    assert page.status_code == 200, page.text
    policy = page.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "allow-scripts" not in policy
    assert page.headers["cache-control"] == "no-store"
    assert "walk" not in page.text
    draft = browser.client.get(f"/api/releases/{release}/impact?format=md")
    assert draft.text.startswith("#")


def test_only_the_loopback_is_bound(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    import uvicorn

    from sfumato.studio import serve

    seen: list[Any] = []
    monkeypatch.setattr(
        uvicorn.Server,
        "run",
        lambda self, sockets: seen.append((self.config, sockets[0].getsockname())),
    )
    said: list[str] = []
    serve(root, say=said.append, read_only=True)
    ((config, (host, port)),) = seen
    assert host == "127.0.0.1"
    assert said[0].startswith(f"http://127.0.0.1:{port}/?token=")
    assert config.access_log is False
    assert config.proxy_headers is False


def test_the_link_is_opened_through_a_private_file(root: Path, tmp_path: Path) -> None:
    """Arguments of a browser are there for every user of the machine to read."""
    from sfumato.cli.studio import _door

    app = make_app(root, port=PORT, read_only=True)
    place = _door(tmp_path, app.doorkeeper.link)
    assert "token" not in place
    with TestClient(app, base_url=BASE) as client:
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        opened = client.get(
            f"{app.doorkeeper.link}&file=1", headers=headers, follow_redirects=False
        )
        assert (
            opened.status_code == 200
        )  # our own page goes on: a redirect would bear no strict cookie
        assert f"url={app.doorkeeper.place}/" in opened.text
        assert client.get(f"{app.doorkeeper.place}/api/session").status_code == 200


def test_tokens_are_random(root: Path) -> None:
    links = {make_app(root, port=PORT, read_only=True).doorkeeper.link for _ in range(5)}
    assert len(links) == 5


def test_the_terminal_shows_links_and_nothing_else(root: Path, tmp_path: Path) -> None:
    """A real server: frames, errors, an event stream that is open at the end; no name, no path, no traceback."""
    (root / "Jane Doe.mp4").write_bytes(b"no video at all")
    command = [sys.executable, "-m", "sfumato", "studio", "--root", str(root), "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            link = urlsplit(re.findall(r"http\S+", process.stderr.readline())[0])
            server = HTTPConnection("127.0.0.1", link.port)
            server.request("GET", f"/?{link.query}")
            answer = server.getresponse()
            answer.read()
            cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
            place = (answer.getheader("location") or "").rstrip("/")

            def get(address: str) -> bytes:
                server.request("GET", f"{place}{address}", headers={"cookie": cookie})
                return server.getresponse().read()

            for each in json.loads(get("/api/recordings"))["recordings"]:
                for wanted in ("frames/0", "frames/999", "people", "coco"):
                    get(f"/api/recordings/{each['id']}/{wanted}")
            get("/api/nothing")
            listening = HTTPConnection("127.0.0.1", link.port)
            listening.request("GET", f"{place}/api/jobs/events", headers={"cookie": cookie})
            listening.getresponse().read1()
        finally:
            process.terminate()
        said = process.stderr.read()
    assert "Traceback" not in said
    assert "Error" not in said
    for word in ("Jane", "walk", str(root), place.strip("/")):
        assert word not in said
