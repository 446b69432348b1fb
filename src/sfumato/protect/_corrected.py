"""How corrections by hand enter a release: as the boxes and open tracks that the command line would name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato import people
from sfumato.privacy import PRIVATE_NOTE
from sfumato.protect._command import with_defaults
from sfumato.protect._method import Method, ProtectError
from sfumato.protect._registry import make

CATEGORIES = ("person", "face")


def boxes_category(method: Method) -> str | None:
    """Which boxes a method takes in the place of its own search: of people, of faces, or none."""
    if method.region is None or method.region.kind == "mask":
        return None
    return "face" if method.region.kind == "faces" else "person"


def write_boxes(found: people.PeopleFile, category: str, path: Path) -> None:
    """The corrected people as the file that ``--import-boxes`` reads, for the owner only."""
    people.write_coco(
        path,
        found.people(),
        width=found.width,
        height=found.height,
        category=category,
        note=PRIVATE_NOTE,
        force=True,
    )


def corrected_settings(
    name: str,
    settings: Mapping[str, Any],
    found: people.PeopleFile,
    boxes: Mapping[str, Path],
) -> dict[str, Any]:
    """The settings of a method with the corrections: ``--import-boxes`` and ``--except``.

    A method that looks at whole pictures needs none; one that searches for people itself and takes no
    boxes is refused where something was corrected.
    """
    method = make(name, with_defaults(name, dict(settings))[0])
    category = boxes_category(method)
    if category is None:
        if method.watchers is not None and found.edits[0]:
            raise ProtectError(
                f"Expected a method that takes corrected boxes, such as silhouette or blur, got {name}, "
                "which searches by itself: what was corrected by hand would be lost."
            )
        return dict(settings)
    more: dict[str, Any] = {"import_boxes": str(boxes[category])}
    if found.open_tracks:
        more["leave_open"] = found.open_tracks
    return {**settings, **more}
