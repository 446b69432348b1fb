"""What the pages share: the library, open videos, people, jobs and the doorkeeper."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from starlette.requests import Request

from sfumato.jobs import Assistant, JobQueue, QueuedJob
from sfumato.studio._frames import OpenVideos
from sfumato.studio._library import Library, LibraryEntry
from sfumato.studio._people_store import PeopleStore
from sfumato.studio._security import Doorkeeper
from sfumato.studio._tasks import KINDS


@dataclass
class Studio:
    """One root folder, opened in one server."""

    library: Library
    doorkeeper: Doorkeeper
    videos: OpenVideos
    people: PeopleStore
    queue: JobQueue
    assistant: Assistant
    leaving: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def open(cls, root: str | Path, doorkeeper: Doorkeeper) -> Studio:
        library = Library(root, read_only=doorkeeper.read_only)
        changes = not doorkeeper.read_only
        if changes:
            library.prepare()
        queue = JobQueue(
            library.state / "jobs",
            KINDS,
            start=changes,
            common={"root": str(library.root)},
            resumes=not changes or library.is_own,
        )
        if changes:
            library.make_own()
        videos = OpenVideos(library.state / "index" if changes else None)
        return cls(library, doorkeeper, videos, PeopleStore(library), queue, Assistant())

    def close(self) -> None:
        self.queue.close()
        self.people.close()
        self.assistant.close()
        self.videos.close()
        self.library.close()

    @cached_property
    def methods(self) -> list[dict[str, Any]]:
        """What the methods say of themselves; asked for once."""
        found: list[dict[str, Any]] = self.ask("methods")
        return found

    def ask(self, task: str, **arguments: Any) -> Any:
        """Short work, in the process that is kept at hand for it."""
        asked = {"root": str(self.library.root), **arguments}
        return self.assistant.ask(f"sfumato.studio._tasks:{task}", asked)

    def begin(self, kind: str, title: str, **arguments: Any) -> QueuedJob:
        """Long work, which waits for its turn and goes on without the browser."""
        return self.queue.add(kind, title, arguments)

    def rate(self, entry: LibraryEntry) -> float:
        info = self.videos.info(entry.path)
        return 25.0 if isinstance(info, str) else float(info.rate)


def studio_of(request: Request) -> Studio:
    found: Studio = request.app.state.studio
    return found
