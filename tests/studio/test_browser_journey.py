"""From a folder with two clips to a release that is corrected, signed off and verified, in a real Chromium."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import islice
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from devtools import ALT, CONTROL, Browser, chromium

from sfumato import stage
from sfumato.media import Image, open_video

pytestmark = [pytest.mark.slow, pytest.mark.models]
pytest.importorskip("starlette", reason="the studio needs sfumato[studio]")

HOSTILE = "<img src=x onerror=hacked=1> & 'x'.mp4"
FRAMES = 6


def write_clip(frames: list[Image], target: Path) -> None:
    height, width = (side // 2 * 2 for side in frames[0].shape[:2])
    with av.open(str(target), "w") as container:
        stream = container.add_stream("libx264", rate=10, options={"crf": "12"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for frame in frames:
            picture = av.VideoFrame.from_ndarray(frame[:height, :width], format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Two short clips: real ones, or staged people where the data are not there."""
    folder = tmp_path_factory.mktemp("studio") / "recordings"
    folder.mkdir()
    data = request.getfixturevalue("real_data").folder / "clips"
    sources = [data / "wave_street.avi", data / "basketball.mp4"]
    if all(source.is_file() for source in sources):
        clips = [first_frames(source) for source in sources]
    else:
        staging = stage.Staging(clips=2, frames=FRAMES, width=320, height=240, seed=1)
        clips = [list(clip) for clip in stage.make_records(staging).x]
    for frames, name in zip(clips, ("waving.mp4", HOSTILE), strict=True):
        write_clip(frames, folder / name)
    return folder


def first_frames(source: Path) -> list[Image]:
    """A few small frames, so that the whole journey takes seconds."""
    with open_video(source) as video:
        return [np.ascontiguousarray(frame.image[::2, ::2]) for frame in islice(video, FRAMES)]


class StudioProcess:
    """A studio as a user starts it, and the links that it prints."""

    def __init__(self, root: Path) -> None:
        command = [sys.executable, "-m", "sfumato", "studio", "--root", str(root), "--no-browser"]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        assert self.process.stderr is not None
        self._lines = iter(self.process.stderr.readline, "")

    def another_link(self) -> str:
        return next(found[0] for line in self._lines if (found := re.search(r"http\S+", line)))


@pytest.fixture(scope="module")
def studio_process(root: Path) -> Iterator[StudioProcess]:
    chromium()
    started = StudioProcess(root)
    try:
        yield started
    finally:
        started.process.terminate()
        started.process.wait()
        started.process.stderr.close()  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def studio(studio_process: StudioProcess) -> str:
    """The address that a studio on the folder printed."""
    return studio_process.another_link()


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def window(studio: str, profile: Path) -> Iterator[Browser]:
    """One window for all tests; people have been found in both clips by the buttons of the library."""
    opened = Browser(profile)
    try:
        opened.go(studio)
        for name in ("waving.mp4", HOSTILE):
            opened.until(card(name))
            opened.evaluate(f"{card(name)}.querySelector('button.next').click()")
        for name in ("waving.mp4", HOSTILE):
            opened.until(f"{card(name)}?.querySelector('.state').dataset.state === 'found'")
        yield opened
    finally:
        opened.close()


@pytest.fixture
def browser(window: Browser) -> Browser:
    """The window, back in the library whatever the test before it left open."""
    window.evaluate("location.hash = '#/train'")
    window.until("document.querySelector('.page.train')")
    window.evaluate("location.hash = '#/library'")
    window.until("document.querySelector('.page.library .card')")
    window.complaints.clear()
    return window


def card(name: str) -> str:
    """The card of a recording in the library, in JavaScript."""
    return f"[...document.querySelectorAll('.card')].find(c => c.querySelector('b').textContent === {json.dumps(name)})"


def ask(browser: Browser, address: str) -> Any:
    return browser.evaluate(f"fetch({json.dumps(address)}).then(answer => answer.json())")


def recording(browser: Browser, name: str) -> dict[str, Any]:
    known = ask(browser, "api/recordings")["recordings"]
    found: dict[str, Any] = next(each for each in known if each["name"] == name)
    return found


def open_page(browser: Browser, page: str, which: str) -> None:
    browser.evaluate(f"location.hash = '#/{page}/{which}'")
    browser.until(f"document.querySelector('.page.{page}')")


def place_on_screen(
    browser: Browser, x: float, y: float, shape: dict[str, Any]
) -> tuple[float, float]:
    """Where a point of the picture is on the screen: fitted into the canvas, in its middle."""
    left, top, wide, high = browser.evaluate(
        "(b => [b.x, b.y, b.width, b.height])(document.querySelector('.picture').getBoundingClientRect())"
    )
    scale = min(wide / shape["width"], high / shape["height"])
    return (
        left + (wide - shape["width"] * scale) / 2 + x * scale,
        top + (high - shape["height"] * scale) / 2 + y * scale,
    )


def show_frame(browser: Browser, number: int) -> None:
    browser.press("Home")
    for _ in range(number):
        browser.press("ArrowRight")
    browser.until(f"document.querySelector('.picture').dataset.frame === '{number}'")


def drag_box(
    browser: Browser, start: tuple[int, int], end: tuple[int, int], shape: dict[str, Any]
) -> None:
    before = people(browser, shape)["revision"]
    browser.drag(place_on_screen(browser, *start, shape), place_on_screen(browser, *end, shape))
    settled(browser, shape, before)


def people(browser: Browser, shape: dict[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = ask(browser, f"api/recordings/{shape['id']}/people")
    return known


def settled(browser: Browser, shape: dict[str, Any], before: Any) -> None:
    """The edit has arrived, and the page knows."""
    browser.until(
        f"fetch('api/recordings/{shape['id']}/people').then(a => a.json()).then(p => p.revision !== {json.dumps(before)})"
    )
    now = people(browser, shape)["revision"]
    browser.until(f"document.querySelector('.picture').dataset.revision === '{now}'")
    browser.until("document.querySelector('.status').textContent !== 'Saving …'")


def decoded(path: Path) -> list[Image]:
    with open_video(path) as video:
        return [frame.image for frame in video]


def test_two_clips_are_found_corrected_protected_signed_off_and_verified(
    browser: Browser, root: Path, tmp_path: Path
) -> None:
    assert browser.evaluate("typeof hacked") == "undefined"
    assert browser.evaluate("document.querySelectorAll('img[src=x]').length") == 0

    clip = recording(browser, "waving.mp4")
    open_page(browser, "review", clip["id"])
    show_frame(browser, 0)
    browser.until("document.querySelector('.transport').textContent.includes('doubt')")
    known = {track["id"] for track in people(browser, clip)["tracks"]}
    drag_box(browser, (2, 2), (22, 32), clip)  # drawn where nobody was found
    (made,) = {track["id"] for track in people(browser, clip)["tracks"]} - known
    show_frame(browser, 4)
    drag_box(browser, (62, 2), (82, 32), clip)  # the same person, drawn again on a later frame
    show_frame(browser, 3)
    drag_box(browser, (57, 17), (42, 17), clip)  # and dragged in between
    boxes = ask(browser, f"api/recordings/{clip['id']}/people/boxes?from=0&to=5")["frames"]
    mine = {int(n): b["box"] for n, all_ in boxes.items() for b in all_ if b["track"] == made}
    assert mine[0] == pytest.approx([2, 2, 20, 30], abs=1)
    assert mine[3] == pytest.approx([32, 2, 20, 30], abs=1.5)
    assert mine[2] == pytest.approx([22, 2, 20, 30], abs=1.5)  # on the way there
    assert mine[4] == pytest.approx([62, 2, 20, 30], abs=1)
    before = people(browser, clip)
    browser.until("!document.querySelector('.toolbar [aria-label^=Delete]').disabled")
    browser.press("Delete")
    settled(browser, clip, before["revision"])
    browser.press("z", CONTROL)
    browser.until("document.querySelector('.status').textContent === 'Undone.'")
    assert people(browser, clip)["tracks"] == before["tracks"]

    corrected = tmp_path / "boxes.json"
    corrected.write_text(json.dumps(ask(browser, f"api/recordings/{clip['id']}/coco")))

    open_page(browser, "protect", clip["id"])
    browser.click(".promise-panel .primary")
    browser.until("document.querySelector('.outcome .notice.good a')")
    release = recording(browser, "waving.mp4")["releases"][-1]
    (made_here,) = [path for path in root.rglob(release["name"]) if path.is_file()]

    by_command = tmp_path / "by-command.mp4"
    command = [
        sys.executable,
        "-m",
        "sfumato",
        "protect",
        str(root / "waving.mp4"),
        str(by_command),
    ]
    subprocess.run([*command, "--import-boxes", str(corrected)], check=True, capture_output=True)
    ours, theirs = decoded(made_here), decoded(by_command)
    assert len(ours) == len(theirs) == FRAMES
    assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))
    original = decoded(root / "waving.mp4")
    assert not np.array_equal(ours[2][4:28, 24:40], original[2][4:28, 24:40])  # the box by hand

    browser.click(".outcome .notice.good a")
    browser.click(".sheet .primary")
    browser.until("document.querySelectorAll('.strip button').length > 0")
    drawn = browser.evaluate("document.querySelectorAll('.strip button').length")
    for _ in range(drawn):
        browser.press("n")
    browser.until(
        "document.querySelector('.verdict').textContent.includes('Every frame has an answer')"
    )
    browser.click(".verdict input")
    browser.type("Jane Doe")
    browser.click(".verdict button[type=submit]")
    browser.until("document.querySelector('.result')")
    assert f"of {drawn} frames" in browser.evaluate("document.querySelector('.figure').textContent")

    browser.click(".result .primary")
    browser.until("document.querySelector('.prose')")
    assert "agree" in browser.evaluate("document.querySelector('.checked').textContent")
    assert "Jane Doe" in browser.evaluate("document.querySelector('.prose').textContent")
    verify = [sys.executable, "-m", "sfumato", "verify", str(made_here)]
    subprocess.run(verify, check=True, capture_output=True)
    assert browser.complaints == []


def tab_to(browser: Browser, wanted: str) -> None:
    """Press Tab until the element has the focus; every stop on the way must show that it has it."""
    for _ in range(120):
        browser.press("Tab")
        here, outline = browser.evaluate(
            "(e => [e.matches("
            + json.dumps(wanted)
            + "), parseFloat(getComputedStyle(e).outlineWidth)"
            " * (getComputedStyle(e).outlineStyle !== 'none') || e === document.body])(document.activeElement)"
        )
        assert outline > 0, browser.evaluate("document.activeElement.outerHTML.slice(0, 200)")
        if here:
            return
    raise AssertionError(f"no way by Tab to {wanted}")


def test_the_whole_way_goes_by_keys_alone(browser: Browser) -> None:
    """No mouse: from the library through a correction to a release that is signed off."""
    browser.evaluate("document.activeElement.blur()")
    opened = recording(browser, HOSTILE)
    tab_to(browser, f"a[href='#/review/{opened['id']}']")
    browser.press("Enter")
    browser.until("document.querySelector('.page.review .picture')?.dataset.frame === '0'")
    browser.until("document.querySelector('.transport').textContent.includes('doubt')")
    clip = recording(browser, HOSTILE)
    before = people(browser, clip)
    browser.press("b")
    settled(browser, clip, before["revision"])
    (made,) = {t["id"] for t in people(browser, clip)["tracks"]} - {
        t["id"] for t in before["tracks"]
    }
    browser.until("document.querySelector('.lane[aria-pressed=true]')")
    now = people(browser, clip)["revision"]
    browser.press("ArrowLeft", ALT)
    settled(browser, clip, now)
    boxes = ask(browser, f"api/recordings/{clip['id']}/people/boxes?from=0&to=0")["frames"]["0"]
    (box,) = [each["box"] for each in boxes if each["track"] == made]
    assert box[0] + box[2] / 2 == pytest.approx(clip["width"] / 2 - clip["width"] / 200, abs=0.5)
    now = people(browser, clip)["revision"]
    browser.press("r")
    settled(browser, clip, now)
    assert people(browser, clip)["reviewed"]
    browser.press("3")
    browser.until("document.querySelector('.page.protect .promise-panel .primary:not([disabled])')")
    browser.press("Enter", CONTROL)
    browser.until("document.querySelector('.outcome .notice.good a')")
    tab_to(browser, ".outcome .notice.good a")
    browser.press("Enter")
    browser.until("document.querySelector('.page.signoff .sheet .primary')")
    tab_to(browser, ".sheet .primary")
    browser.press("Enter")
    browser.until("document.querySelectorAll('.strip button').length > 0")
    for _ in range(browser.evaluate("document.querySelectorAll('.strip button').length")):
        browser.press("n")
    tab_to(browser, ".verdict input")
    browser.type("Jane Doe")
    browser.press("Enter")
    browser.until("document.querySelector('.result')")
    browser.press("5")
    browser.until("document.querySelector('.page.understand .prose')")
    tab_to(browser, "[role=tab]")
    for name in ("Attacks", "Report", "Budget"):
        browser.press("ArrowRight")
        browser.until(
            f"document.activeElement.textContent === '{name}' && document.activeElement.ariaSelected === 'true'"
        )
    assert "Jane Doe" in json.dumps(recording(browser, HOSTILE)["releases"])
    assert browser.complaints == []


def test_nothing_that_is_typed_becomes_a_page(browser: Browser) -> None:
    """Names of methods, settings and people in every field that takes text, and a label that a file brings."""
    evil = "<svg onload=hacked=1>"
    clip = recording(browser, "waving.mp4")
    open_page(browser, "protect", clip["id"])
    browser.until("document.querySelector('.promise-panel .lead')")
    browser.evaluate("document.querySelector('input[value=dprp]').click()")
    browser.click("#set-epsilon")
    browser.type("8")
    browser.click("#set-unit")
    browser.type(evil)
    browser.until("document.querySelector('.lead.bad')")
    open_page(browser, "library", "")
    browser.click("#search")
    browser.type(evil)
    browser.until("document.querySelector('.page.library').textContent.includes('Nothing matches')")
    assert browser.evaluate("typeof hacked") == "undefined"
    assert browser.evaluate("document.querySelectorAll('[onload], img[src=x]').length") == 0
    inline = "document.body.appendChild(Object.assign(document.createElement('script'), {textContent: 'hacked = 1'}))"
    browser.evaluate(f"{inline}; 0")
    assert browser.evaluate("typeof hacked") == "undefined"  # the policy, if a page ever let one in
    browser.complaints.clear()  # which the browser complained about


def test_another_server_of_this_machine_never_gets_the_cookie(
    browser: Browser, studio: str
) -> None:
    """Browsers send cookies to every port of a host: another user's server must not be let in with ours."""
    heard: list[str] = []

    class Listens(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(str(self.headers.get("cookie")))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *said: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Listens)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = browser.evaluate("location.href")
    try:
        browser.go(f"http://127.0.0.1:{server.server_port}/lure")
        browser.until("location.pathname === '/lure'")
        browser.evaluate("fetch('/more').then(a => a.status)")
    finally:
        server.shutdown()
        server.server_close()
        browser.go(home)
        browser.until("document.querySelector('.card')")
    assert len(heard) >= 2
    assert not any("sfumato" in each for each in heard)


def test_the_browser_keeps_no_frame_of_an_original(browser: Browser, profile: Path) -> None:
    clip = recording(browser, "waving.mp4")
    address = f"api/recordings/{clip['id']}/frames/1"
    browser.evaluate(
        f"new Promise(done => {{ const i = new Image(); i.onload = done; i.src = {address!r}; }}).then(() => 0)"
    )
    sent = browser.evaluate(
        f"fetch({address!r}).then(a => a.arrayBuffer()).then(b => Array.from(new Uint8Array(b)))"
    )
    slices = [bytes(sent[start : start + 48]) for start in (len(sent) // 3, len(sent) // 2)]
    files = [path for path in profile.rglob("*") if path.is_file()]
    assert len(files) > 10
    for path in files:
        content = path.read_bytes()
        assert not any(piece in content for piece in slices), path.name


def test_numbers_and_times_follow_the_readers_language(browser: Browser) -> None:
    words = (
        "import(new URL('static/js/format.js', document.baseURI)).then(m => [m.count(12345),"
        " m.percent(0.051, 1), m.bytes(1.5e6), m.day('2026-11-18T04:00:00Z')].map(s => s.replace(/\\s/g, ' ')))"
    )
    browser.call("Emulation.setLocaleOverride", locale="de-DE")
    german = browser.evaluate(words)
    browser.call("Emulation.setLocaleOverride", locale="en-GB")
    english = browser.evaluate(words)
    browser.call("Emulation.setLocaleOverride")
    assert german[:3] == ["12.345", "5,1 %", "1,5 MB"]
    assert english[:3] == ["12,345", "5.1%", "1.5 MB"]
    assert german[3] != english[3]


def test_whoever_wants_no_motion_gets_none(browser: Browser) -> None:
    reduced = {"name": "prefers-reduced-motion", "value": "reduce"}
    browser.call("Emulation.setEmulatedMedia", features=[reduced])
    moving = browser.evaluate(
        "[...document.querySelectorAll('*')].filter(e => parseFloat(getComputedStyle(e).transitionDuration) > 0"
        " || getComputedStyle(e).animationName !== 'none').length"
    )
    browser.call("Emulation.setEmulatedMedia", features=[])
    assert moving == 0


CONTROLS = {
    "button",
    "link",
    "textbox",
    "searchbox",
    "spinbutton",
    "combobox",
    "slider",
    "checkbox",
}
PAGES = ("library", "review", "protect", "signoff", "understand", "train")


@pytest.mark.parametrize("page", PAGES)
def test_every_page_names_its_controls_and_fits_the_screen(browser: Browser, page: str) -> None:
    """After the journey: with a recording and a release in hand, light and dark, desk and tablet."""
    browser.evaluate(f"document.querySelector(`.rail a[href^='#/{page}']`).click()")
    browser.until(f"document.querySelector('.page.{page} h1, .page.{page} h2')")
    tree = browser.call("Accessibility.getFullAXTree")["nodes"]
    controls = [node for node in tree if node.get("role", {}).get("value") in CONTROLS]
    unnamed = [node["role"] for node in controls if not node.get("name", {}).get("value")]
    assert len(controls) > 8
    assert unnamed == []
    for width, height in ((1280, 800), (820, 1180)):
        browser.resize(width, height)
        beyond = browser.evaluate(
            "[...document.querySelectorAll('#app *')].filter(e => !e.closest('.rail, .unseen, .skip')"
            " && e.getBoundingClientRect().right > innerWidth + 1 && getComputedStyle(e).position"
            " !== 'absolute').map(e => e.outerHTML.slice(0, 80))"
        )
        assert beyond == []
    browser.resize(1280, 800)


def test_a_dragged_box_stays_inside_the_picture_and_never_turns_inside_out(
    browser: Browser,
) -> None:
    moved, pulled, drawn = browser.evaluate(
        "import(new URL('static/js/review/canvas.js', document.baseURI)).then(({dragged}) => { const p = {width: 100, height: 80};"
        " return [dragged([10, 10, 20, 20], null, 500, -500, p), dragged([10, 10, 20, 20], [1, 0, 0, 0], 50, 0, p),"
        " dragged([90, 70, 0, 0], [0, 0, 1, 1], -30, 40, p)]; })"
    )
    assert moved == [80, 0, 20, 20]
    assert pulled == [30, 10, 30, 20]
    assert drawn == [60, 70, 30, 10]


def test_the_timeline_zooms_about_the_frame_and_stays_within_the_recording(
    browser: Browser,
) -> None:
    closer, away, after = browser.evaluate(
        "import(new URL('static/js/review/timeline.js', document.baseURI)).then(({zoomed, following}) => [zoomed({from: 0, to: 1000}, 0.5, 500, 1000),"
        " zoomed({from: 0, to: 500}, 9, 100, 1000), following({from: 0, to: 100}, 990, 1000)])"
    )
    assert closer == {"from": 250, "to": 750}
    assert away == {"from": 0, "to": 1000}
    assert after == {"from": 900, "to": 1000}


def test_a_form_sends_what_was_typed_and_leaves_the_rest_to_the_method(browser: Browser) -> None:
    schema = {
        "required": ["epsilon"],
        "properties": {
            "epsilon": {"type": "number", "minimum": 0},
            "basis": {"enum": ["dct", "srht"], "default": "dct", "type": "string"},
            "leave_open": {"type": "array", "items": {"type": "integer"}},
            "k": {"anyOf": [{"type": "integer"}, {"enum": ["20x20"]}, {"type": "null"}]},
            "unit": {},
        },
    }
    names, said = browser.evaluate(
        f"import(new URL('static/js/protect/schema.js', document.baseURI)).then(m => {{ const list = m.fields({json.dumps(schema)});"
        " return [list.map(f => [f.name, f.kind]), m.settings(list, {epsilon: '8', k: '20x20', unit: ''})]; })"
    )
    assert names == [["epsilon", "number"], ["basis", "choice"], ["k", "text"], ["unit", "text"]]
    assert said == {"epsilon": 8, "k": "20x20"}
