"""A real Chromium, driven through the DevTools protocol over two pipes: no package, no port."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en-GB", "--remote-debugging-pipe"),
)
_PATIENCE = 180.0  # a hanging page ends a test after minutes; no verdict depends on it
ALT, CONTROL, SHIFT = 1, 2, 8
_PRESSED = {
    "Tab": (9, None),
    "Enter": (13, "\r"),
    " ": (32, " "),
}  # what the browser itself acts on


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None or shutil.which("bash") is None:
        pytest.skip("no Chromium here: apt-get install chromium brings one")
    return found


class Browser:
    """One window. Whatever its console complains about is kept in ``complaints``."""

    def __init__(self, profile: Path, width: int = 1280, height: int = 800) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [chromium(), *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        # Chromium listens on descriptor 3 and answers on 4; bash puts the pipes there.
        redirect = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", redirect, "bash", *command],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        self._session: str | None = None
        self._count = 0
        self._unread = b""
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self._hear(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            more = os.read(self._read, 1 << 16)
            assert more, "Chromium ended"
            self._unread += more
        line, self._unread = self._unread.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def _hear(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        kind = event.get("method")
        if kind == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"])[:500])
        elif kind == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(params["args"])[:500])
        elif kind == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            entry = params["entry"]
            self.complaints.append(f"{entry['text']} {entry.get('url', '')}")

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def scheme(self, name: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": name}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def go(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def evaluate(self, expression: str) -> Any:
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until a JavaScript condition holds; say what the page shows if it never does."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if self.evaluate(f"Promise.resolve({condition}).then(Boolean)"):
                return
            time.sleep(0.05)
        shown = str(self.evaluate("document.body.innerText"))[:1500]
        raise AssertionError(f"never came: {condition}\n{shown}\n{self.complaints}")

    def press(self, key: str, modifiers: int = 0) -> None:
        code, text = _PRESSED.get(key, (0, None))
        more = {} if text is None else {"text": text}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, modifiers=modifiers,
                windowsVirtualKeyCode=code, **(more if kind == "keyDown" else {}),
            )  # fmt: skip

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Press an element as a mouse would, where it is; it must be there, visible and enabled."""
        place = json.dumps(selector)
        self.until(f"document.querySelector({place}) && !document.querySelector({place}).disabled")
        x, y = self.evaluate(
            f"(e => {{ e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect();"
            f" return [b.x + b.width / 2, b.y + b.height / 2]; }})(document.querySelector({place}))"
        )
        self.drag((x, y), (x, y))

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        def mouse(kind: str, place: tuple[float, float], **more: Any) -> None:
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], **more)

        mouse("mouseMoved", start)
        mouse("mousePressed", start, button="left", buttons=1, clickCount=1)
        if start != end:
            middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
            mouse("mouseMoved", middle, button="left", buttons=1)
            mouse("mouseMoved", end, button="left", buttons=1)
        mouse("mouseReleased", end, button="left", clickCount=1)

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        self._session = None
        with contextlib.suppress(AssertionError, OSError):
            self.call("Browser.close")
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
