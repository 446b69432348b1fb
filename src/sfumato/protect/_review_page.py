"""The page on which somebody looks at drawn frames: one file that loads nothing and sends nothing.

It shows protected frames only. Answers leave it as a JSON file that its reader saves. Style and script
are allowed by their digests, and nothing else is (Content-Security-Policy).
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path

import cv2
import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from sfumato.files import refuse_overwrite, write_text
from sfumato.media import Image
from sfumato.privacy import PRIVATE_NOTE
from sfumato.progress import track
from sfumato.protect._frame_review import (
    USUAL_SAMPLE,
    ReviewSample,
    draw_review_sample,
    drawn_pictures,
    require_sheet_place,
)
from sfumato.protect._method import ProtectError

_WIDEST, _QUALITY = 1920, 92


def write_review_page(
    release: str | Path,
    page: str | Path,
    *,
    frames: int = USUAL_SAMPLE,
    force: bool = False,
) -> ReviewSample:
    """Draw a sample of a release and write its page, for the owner only and never into the release."""
    require_sheet_place(release, page)
    refuse_overwrite(Path(page), force=force)
    sample = draw_review_sample(release, frames)
    write_text(page, review_page(release, sample), force=force, private=True)
    return sample


def review_page(release: str | Path, sample: ReviewSample) -> str:
    """The page of a sample, as text."""
    folder = files("sfumato.protect").joinpath("review_page")
    style, script = (folder.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    shown = track(drawn_pictures(release, sample), "drawing the page", len(sample.drawn))
    pictures = [_data_uri(image) for image in shown]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(folder.joinpath("page.html").read_text("utf-8")).render(
        note=PRIVATE_NOTE,
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
        data=Markup(_inert_json(_for_script(sample))),
        sample=sample,
        said=list(dict.fromkeys(each.said for each in sample.recordings)),
        shown=list(zip(sample.drawn, pictures, strict=True)),
    )


def _for_script(sample: ReviewSample) -> dict[str, object]:
    nothing = [None] * len(sample.drawn)
    return {"unanswered": sample.answers(nothing)}


def _inert_json(value: object) -> str:
    """JSON that stays text inside a script element, whatever names it holds."""
    text = json.dumps(value, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(style: str, script: str) -> str:
    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest(style)}'; "
        f"script-src 'sha256-{digest(script)}'; base-uri 'none'; form-action 'none'"
    )


def _data_uri(image: Image) -> str:
    height, width = image.shape[:2]
    if max(height, width) > _WIDEST:
        scale = _WIDEST / max(height, width)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
    done, encoded = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    if not done:
        raise ProtectError("Expected frames that can be shown, got one that cannot be encoded.")
    return f"data:image/jpeg;base64,{base64.b64encode(encoded.tobytes()).decode('ascii')}"
