"""Table ``visual``: the Video-DPRP paper's Tables 1, 3, 4 and 5 on staged people.

Actions by both protocols of the paper (trained on protected clips; tested on raw, or on protected)
against what an attacker reads off protected clips, who trains and tests on protected ones. The
paper's own cross-data protocol needs VISPR and PA-HMDB51 (``audit.cross_data``).
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato import protect
from sfumato.audit import Attribute, TopOne, infer, together, views_of
from sfumato.bench._attack_stage import STAGING, Clips, Truth, released, staged_clips
from sfumato.bench._cells import Cells, Row
from sfumato.bench._visual_page import figures, page, words
from sfumato.data import utd_mhad
from sfumato.media import Frame
from sfumato.privacy import Guarantee

__all__ = ["figures", "page", "run", "words"]

SET = replace(STAGING, clips=144, actors=24, width=64, height=64, seed=51)
QUICK = replace(SET, clips=48, actors=12, frames=4)
DELTA = 1e-4
EPSILONS = (2.0, 5.0, 8.0)
# The paper's k of 320 x 240 x 3 numbers, as the side of a square of the same share of a picture.
SIDES = {"20x20": 5, "24x32": 6, "32x32": 7, "50x50": 12, "64x80": 17}
BUDGETS = (0.2, 0.4, 0.5, 0.6, 0.8)
_SECONDS_SIZE, _SECONDS_FRAMES = (320, 240), 180


@dataclass(frozen=True)
class Way:
    """One row: a method, its settings, and which table of the paper it belongs to."""

    part: str
    name: str
    method: str
    settings: dict[str, Any]
    repeated: bool = False


def ways() -> list[Way]:
    """Every row, those of Table 1 first."""
    rows = [
        Way("table 1", "face blurring", "blur", {"region": "faces", "published": True}),
        Way("table 1", "ISR, a tenth", "isr", {"size": "6x6"}),
        Way("table 1", "ISR, a twentieth", "isr", {"size": "3x3"}),
        Way("table 1", "appearance free", "appearance-free", {}),
        Way("table 1", "selective privacy", "selective", {"region": "people"}),
    ]
    for how in ("published", "16 pixels", "frame"):
        rows += [
            Way("table 1", f"Video-DPRP, {how}, epsilon {epsilon:g}", "dprp",
                _dprp(how, epsilon), repeated=True)
            for epsilon in EPSILONS
        ]  # fmt: skip
    for how in ("published", "16 pixels"):
        rows += [
            Way("table 3", f"{how}, k {k}", "dprp", _dprp(how, 8.0, side=side))
            for k, side in SIDES.items() if k != "32x32"
        ]  # fmt: skip
    rows += [
        Way("table 4", f"published, b {b:g}", "dprp", _dprp("published", 8.0, b=b))
        for b in BUDGETS if b != 0.8
    ]  # fmt: skip
    # the slowest last: a table that was stopped has the others
    return [*rows, Way("table 1", "avatar", "avatar", {"body": "procedural"})]


def _dprp(
    how: str, epsilon: float, *, side: int = SIDES["32x32"], b: float = 0.8
) -> dict[str, Any]:
    shared = {"epsilon": epsilon, "delta": DELTA, "block": STAGING.frames}
    if how == "published":
        return shared | {"unit": "frame", "basis": "gaussian", "calibration": "published",
                         "k": 3 * side**2, "b": b}  # fmt: skip
    unit = "frame" if how == "frame" else "pixels(16, frames=1)"
    return shared | {"unit": unit, "kept_size": side}


def run(
    *,
    data: str | None = None,
    quick: bool = False,
    keep: str | None = None,
    seeds: int = 3,
    only: str | None = None,
) -> dict[str, Any]:
    """``seeds`` repeats rows whose noise is drawn anew; ``data`` is a folder with ``utd_mhad``;
    ``only`` names rows by their beginnings, with semicolons between them."""
    staging = QUICK if quick else SET
    cells = Cells("visual", {"staging": asdict(staging), "version": 1}, keep)
    clips, truth = staged_clips(staging, cells.folder)
    raw = _people_views(clips, truth.masks)
    rows: dict[str, Any] = {"raw": [cells.done("raw", lambda: _scores(raw, raw, truth))]}
    chosen = [way for way in ways() if not quick or way.part == "table 1"]
    if only is not None:
        wanted = tuple(each.strip() for each in only.split(";"))
        chosen = [way for way in chosen if way.name.startswith(wanted)]
    for way in chosen:
        count = 1 if quick or not way.repeated else seeds
        rows[way.name] = [
            cells.done(f"{way.part}/{way.name}/{seed}", lambda way=way: _attacked(way, raw, clips, truth))  # type: ignore[misc]
            for seed in range(count)
        ]  # fmt: skip
    return {
        "staging": {k: v for k, v in asdict(staging).items() if k != "actions"}
        | {"actions": list(staging.actions)},
        "parts": {"raw": "table 1"} | {way.name: way.part for way in chosen},
        "rows": rows,
        "true_epsilon": {
            way.name: _true_epsilon(way, clips) for way in chosen if way.method == "dprp"
        },
        "seconds": cells.done("seconds", lambda: _seconds(clips[0])),
        "real": None if data is None else _real(cells, data, quick),
        "notes": [] if data else ["UTD-MHAD: not run, no data= given"],
    }


def _true_epsilon(way: Way, clips: Clips) -> float:
    """What the release's own event costs for its unit, whatever it was calibrated for."""
    frames, height, width = clips.shape[1:4]
    promise = protect.make(way.method, way.settings).promise(protect.Shape(height, width, frames))
    return promise.epsilon if isinstance(promise, Guarantee) else math.inf


def _attacked(way: Way, raw: Any, clips: Clips, truth: Truth) -> Row:
    shown = released(way.method, way.settings, clips, truth)
    return _scores(raw, _people_views(shown, truth.masks), truth)


def _people_views(clips: Clips, masks: npt.NDArray[np.bool_]) -> dict[str, Any]:
    return views_of(clips, masks, at="people", pictures=1)


def _scores(raw: Any, shown: Any, truth: Truth) -> Row:
    """Actions by both protocols, and the attributes by one who trains and tests on protected."""
    guesses = {name: infer(shown, shown, each) for name, each in truth.attributes.items()}
    private = together(guesses, truth.attributes).compute()
    return {
        "action_on_raw": _top(shown, raw, truth.actions),
        "action_on_protected": _top(shown, shown, truth.actions),
        "cmap": private.cmap.value, "cmap_low": private.cmap.low, "cmap_high": private.cmap.high,
        "cmap_chance": private.cmap.chance, "f1": private.f1.value,
    }  # fmt: skip


def _top(taught: Any, asked: Any, actions: Attribute) -> float:
    measure = TopOne()
    measure.update(infer(taught, asked, actions), actions.codes)
    return float(measure.compute().value)


def _seconds(clip: Clips) -> Row:
    """Seconds for a video of the paper's size, each method once; recorded beside each other."""
    import cv2

    large = [np.asarray(cv2.resize(frame, _SECONDS_SIZE), np.uint8) for frame in clip]
    found: Row = {"size": list(_SECONDS_SIZE), "frames": _SECONDS_FRAMES, "rows": {}}
    timed = {
        "ISR (32x24)": ("isr", {}),
        "appearance free": ("appearance-free", {}),
        "face blurring": ("blur", {"region": "faces", "published": True, "check": ""}),
        "Video-DPRP, sound": ("dprp", {"epsilon": 8.0, "delta": DELTA, "unit": "frame",
                                       "kept_size": 32}),
    }  # fmt: skip
    for name, (method, settings) in timed.items():
        frames = (Frame(large[n % len(large)], n, Fraction(n, 25)) for n in range(_SECONDS_FRAMES))
        made = protect.make(method, settings)
        began = time.perf_counter()
        for _ in made.frames(frames, count=_SECONDS_FRAMES):
            pass
        found["rows"][name] = time.perf_counter() - began
    return found


_REAL = ("raw", "ISR, a tenth", "Video-DPRP, published, epsilon 8",
         "Video-DPRP, 16 pixels, epsilon 8", "Video-DPRP, frame, epsilon 8")  # fmt: skip


def _real(cells: Cells, data: str, quick: bool) -> dict[str, Any]:
    """UTD-MHAD, depth: eight people, 27 actions; who it is is the private attribute."""
    clips, truth = _depth(data, quick)
    raw = _people_views(clips, truth.masks)
    known = {way.name: way for way in ways()}
    rows = {}
    for name in _REAL:

        def measure(name: str = name) -> Row:
            if name == "raw":
                return _scores(raw, raw, truth)
            return _attacked(known[name], raw, clips, truth)

        rows[name] = cells.done(f"utd-mhad/{name}", measure)
    return {"clips": len(clips), "people": len(truth.identity.classes),
            "actions": len(truth.actions.classes), "rows": rows}  # fmt: skip


def _depth(data: str, quick: bool) -> tuple[Clips, Truth]:
    records = utd_mhad(f"{data}/utd_mhad")
    step = 8 if quick else 3
    some = [records[i] for i in range(0, len(records), step)]
    clips, masks = [], []
    for record in some:
        depth = np.asarray(record.x, np.float32)
        depth = depth.reshape(len(depth), *depth.shape[-2:]) if depth.ndim == 4 else depth
        picked = depth[np.linspace(0, len(depth) - 1, STAGING.frames).astype(int)]
        grey = np.clip(255 * picked / max(float(picked.max()), 1e-9), 0, 255).astype(np.uint8)
        clips.append(np.repeat(grey[..., None], 3, axis=-1))
        masks.append(picked > 0)
    who = Attribute.of([record.owners[0] for record in some])
    actions = Attribute.of([str(record.y) for record in some])
    heads = np.zeros((len(some), STAGING.frames, 4))
    return np.stack(clips), Truth(
        np.stack(masks), heads, {"identity": who}, Attribute.of(["one"] * len(some)), who, actions
    )
