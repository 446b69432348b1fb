"""What the pages share: the library, open videos, the doorkeeper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from sfumato.studio._frames import OpenVideos
from sfumato.studio._library import Entry, Library
from sfumato.studio._security import Doorkeeper


@dataclass
class Studio:
    library: Library
    doorkeeper: Doorkeeper
    videos: OpenVideos

    def standing(self, entry: Entry) -> dict[str, Any]:
        return {"state": "new", "doubts": 0, "openTracks": 0}


def studio_of(request: Request) -> Studio:
    found: Studio = request.app.state.studio
    return found
