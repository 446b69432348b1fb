"""A browser for the tests: it opened the link, and its work is done in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from starlette.testclient import TestClient

from sfumato.jobs import _worker
from sfumato.media import VideoWriter
from sfumato.studio._app import make_app

PORT = 8765
BASE = f"http://127.0.0.1:{PORT}"
WIDTH, HEIGHT, FRAMES = 64, 48, 12


def write_clip(path: Path, frames: int = FRAMES, shade: int = 0) -> Path:
    """A ramp with a white figure that walks to the right."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with VideoWriter(path, rate=25, size=(WIDTH, HEIGHT)) as writer:
        for number in range(frames):
            image = np.full((HEIGHT, WIDTH, 3), 40 + shade, np.uint8)
            image[:, :, 1] += np.arange(WIDTH, dtype=np.uint8)
            image[10:40, 5 + number : 15 + number] = 230
            writer.write(image)
    return path


def coco(frames: int = FRAMES, tracks: dict[int, Any] | None = None) -> dict[str, Any]:
    """People as another tool would write them: two boxes a frame."""
    boxes = tracks or {0: lambda n: [5 + n, 10, 10, 30], 1: lambda n: [40, 8, 12, 32]}
    return {
        "images": [
            {"id": n + 1, "frame_index": n, "width": WIDTH, "height": HEIGHT} for n in range(frames)
        ],
        "annotations": [
            {
                "id": 100 * n + track,
                "image_id": n + 1,
                "category_id": 2,
                "track_id": track,
                "bbox": box(n),
            }
            for n in range(frames)
            for track, box in boxes.items()
        ],
        "categories": [{"id": 2, "name": "person"}],
    }


class InThisProcess:
    """In the place of a worker process: the same calls, without waiting for imports."""

    alive = True

    def run(self, target: str, arguments: dict[str, Any], hear: Any = lambda said: None) -> Any:
        # as it crosses to a process: JSON and nothing else
        arguments = json.loads(json.dumps(arguments))
        hears = hear

        class Pipe:
            def send(self, message: Any) -> None:
                kind, value = message
                hears(_worker.ProgressStep(*value) if kind == "progress" else value)

        kind, value = _worker._answer(target, arguments, Pipe())  # type: ignore[arg-type]
        if kind == "failed":
            raise _worker.SfumatoError(value)
        return json.loads(json.dumps(value))

    def end(self) -> None:
        pass


class Browser:
    """One that opened the link; ``get`` and ``post`` send what our pages send."""

    def __init__(self, client: TestClient, app: Any) -> None:
        self.client, self.app = client, app
        self.studio = app._app.state.studio
        opened = client.get(app.doorkeeper.link, follow_redirects=False)
        assert opened.status_code == 303
        client.base_url = f"{BASE}{app.doorkeeper.place}"  # type: ignore[assignment]
        self.csrf = self.get("/api/session")["csrf"]

    @property
    def headers(self) -> dict[str, str]:
        return {"x-sfumato-csrf": self.csrf, "origin": BASE}

    def get(self, address: str) -> Any:
        answer = self.client.get(address)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, address: str, body: Any = None, status: int = 200) -> Any:
        answer = self.client.post(address, json={} if body is None else body, headers=self.headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    def recording(self, name: str) -> dict[str, Any]:
        (found,) = [r for r in self.get("/api/recordings")["recordings"] if r["name"] == name]
        return dict(found)

    def finished(self, job: dict[str, Any]) -> dict[str, Any]:
        """Wait for a job: by its changes, not by the clock."""
        import threading

        over = threading.Event()

        def hear(changed: Any) -> None:
            if changed.id == job["id"] and changed.finished:
                over.set()

        stop = self.studio.queue.listen(hear)
        try:
            if not self.studio.queue.get(job["id"]).finished:
                assert over.wait(300)
        finally:
            stop()
        (found,) = [each for each in self.get("/api/jobs") if each["id"] == job["id"]]
        return dict(found)


@contextmanager
def browsing(root: Path, **more: Any) -> Iterator[Browser]:
    app = make_app(root, port=PORT, **more)
    with TestClient(app, base_url=BASE) as client:
        yield Browser(client, app)
