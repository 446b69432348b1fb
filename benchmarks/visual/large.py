"""Table ``visual-large``: Video-DPRP at the paper's 320 x 240, on real people.

AIRTLab's clips are asked for the action by a reader of I3D and EfficientNet features; sheets of UTKFace's
faces, shown as still clips, for gender, age and race by a reader of EfficientNet features who is told
where each face is and averages over time, which undoes independent noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import torch
from rich.table import Table as Grid

from benchmarks.harness.cells import Cells, Row
from benchmarks.harness.markdown import markdown
from benchmarks.harness.recordings import recordings
from benchmarks.visual.ways import DELTA, EPSILONS, PAPER_PICTURE, USUAL_B, Way
from sfumato import protect
from sfumato.attributes import picture_features
from sfumato.audit.attack import Attribute, infer, multi_label
from sfumato.audit.measure import Estimate, MeanPerClassAccuracy, TopOne
from sfumato.data import Sampling, airtlab, utkface
from sfumato.errors import SfumatoError
from sfumato.learn import VideoClips
from sfumato.media import Frame
from sfumato.models import i3d
from sfumato.privacy import format_epsilon
from sfumato.settings import Amount

Clip = npt.NDArray[np.uint8]
Views = dict[str, Any]
_HEIGHT, _WIDTH = PAPER_PICTURE
FRAMES = 16
UNITS = ("pixels(16, frames=1)", "frame", "clip")
# a sheet has 3 x 2 faces
_ACROSS, _DOWN, _FACES = 3, 2, 600
_QUICK_CLIPS, _QUICK_FACES = 8, 24
# what a sound release may keep; which of them, public priors about pictures decide
_KEPT = tuple(product((1, 2, 4), (2, 4, 8, 16, 32, 64)))


@cache
def _kept(unit: str, epsilon: float) -> dict[str, int]:
    """How many frequencies to keep: the best by the public prior alone, before any clip is read."""

    def quality(kept: tuple[int, int]) -> float:
        settings = {"epsilon": epsilon, "delta": DELTA, "unit": unit, "block": FRAMES,
                    "kept_frames": kept[0], "kept_size": kept[1]}  # fmt: skip
        made: Any = protect.make("dprp", settings)
        return float(made.predict(protect.Shape(_HEIGHT, _WIDTH, FRAMES)).psnr)

    frames, size = max(_KEPT, key=quality)
    return {"kept_frames": frames, "kept_size": size}


def ways() -> list[Way]:
    """As published with the paper's k and b, and sound for every unit, at its epsilons."""
    shared = {"delta": DELTA, "block": FRAMES}
    published = shared | {"unit": "frame", "basis": "gaussian", "calibration": "published",
                          "k": "32x32", "b": USUAL_B}  # fmt: skip
    sound = [
        Way("sound", f"{unit}, epsilon {e:g}", "dprp",
            shared | {"unit": unit, "epsilon": e, **_kept(unit, e)})
        for unit in UNITS for e in EPSILONS
    ]  # fmt: skip
    return sound + [
        Way("published", f"published, epsilon {e:g}", "dprp", published | {"epsilon": e})
        for e in EPSILONS
    ]


class Actions:
    """AIRTLab: is it violent? Nobody names its actors, so they are in training and test alike."""

    version = 1

    def __init__(self, folder: Path, most: int | None) -> None:
        self._records = airtlab(folder, sampling=Sampling(frames=FRAMES))
        # few of both kinds in a quick run: the list has one kind after the other
        step = 1 if most is None else max(1, len(self._records) // most)
        self._chosen = range(0, len(self._records), step)
        self.count = len(self._chosen)

    def clips(self) -> Iterator[Clip]:
        return iter(self._decoded)

    @cached_property
    def _decoded(self) -> list[Clip]:
        """Half a gigabyte: decoding takes longer than protecting."""
        return [
            np.stack([np.asarray(cv2.resize(each, (_WIDTH, _HEIGHT)), np.uint8) for each in x])
            for x in (self._records[index].x for index in self._chosen)
        ]

    @cached_property
    def truth(self) -> Attribute:
        return Attribute.of(
            [self._records.classes[self._records.items[i].label] for i in self._chosen]
        )

    def views(self, clips: Iterator[Clip]) -> Views:
        """I3D over the whole clip, EfficientNet over its first, middle and last frame."""
        prepare = VideoClips(FRAMES, 112, 112, mean=0.5, deviation=0.5)
        network = i3d(pretrained=True).eval()
        moves, stills = [], []
        with torch.no_grad():
            for clip in clips:
                moves.append(network.features(prepare(clip, 1)[None])[0].numpy())
                stills.append(picture_features(clip[[0, len(clip) // 2, -1]]).mean(0))
        return {"i3d": np.stack(moves), "efficientnet": np.stack(stills)}

    def scores(self, shown: Views, raw: Views) -> Row:
        found: Row = {}
        for name, asked in (("action_on_raw", raw), ("action_on_protected", shown)):
            guess = infer(shown, asked, self.truth)
            for key, measure in ((name, TopOne()), (f"{name}_by_class", MeanPerClassAccuracy())):
                measure.update(guess, self.truth.codes)
                found[key] = _parts(measure.compute())
        return found


class Faces:
    """UTKFace: six faces a sheet, each sheet a clip of equal frames."""

    version = 2

    def __init__(self, folder: Path, most: int | None) -> None:
        self._records = utkface(folder, "gender")
        self.count = min(_FACES if most is None else most, len(self._records))
        # the list is in order of age, and a sheet must not show one age: its noise would tell it
        order = np.random.default_rng(0).permutation(len(self._records))
        self._chosen = [int(i) for i in order[: self.count]]

    @property
    def _places(self) -> list[tuple[slice, slice]]:
        height, width = _HEIGHT // _DOWN, _WIDTH // _ACROSS
        side = min(height, width)
        return [(slice(r * height, r * height + side), slice(c * width, c * width + side))
                for r in range(_DOWN) for c in range(_ACROSS)]  # fmt: skip

    def clips(self) -> Iterator[Clip]:
        for start in range(0, len(self._chosen), len(self._places)):
            sheet = np.full((_HEIGHT, _WIDTH, 3), 127, np.uint8)
            for index, (rows, columns) in zip(self._chosen[start:], self._places):
                side = rows.stop - rows.start
                sheet[rows, columns] = cv2.resize(self._records[index].x, (side, side))
            yield np.repeat(sheet[None], FRAMES, 0)

    @cached_property
    def truth(self) -> Mapping[str, Attribute]:
        told = self._records.attributes
        old = ["35 or older" if age >= 35 else "younger" for age in told["age"][self._chosen]]
        # faces of a sheet share its noise, so none of them is learnt from where another is asked about
        sheets = [f"sheet {i // len(self._places)}" for i in range(self.count)]
        return {
            "gender": Attribute.of(told["gender"][self._chosen].tolist(), sheets),
            "age": Attribute.of(old, sheets),
            "race": Attribute.of(told["race"][self._chosen].tolist(), sheets),
        }

    def views(self, clips: Iterator[Clip]) -> Views:
        def faces() -> Iterator[Clip]:
            for clip in clips:
                mean = clip.mean(0).round().astype(np.uint8)
                yield from (mean[place] for place in self._places)

        return {"efficientnet": picture_features(faces())[: len(self._chosen)]}

    def scores(self, shown: Views, raw: Views) -> Row:
        guesses = {name: infer(shown, shown, each) for name, each in self.truth.items()}
        found = multi_label(guesses, self.truth).compute()
        top = TopOne()
        top.update(guesses["gender"], self.truth["gender"].codes)
        return {"cmap": _parts(found.cmap), "f1": _parts(found.f1), "gender": _parts(top.compute())}


Source = Actions | Faces
_SOURCES: Mapping[str, tuple[str, type[Source], int]] = {
    "actions": ("airtlab", Actions, _QUICK_CLIPS),
    "faces": ("utkface", Faces, _QUICK_FACES),
}  # fmt: skip
COLUMNS = {
    "action on raw": ("actions", "action_on_raw"),
    "action on protected": ("actions", "action_on_protected"),
    "same, by class": ("actions", "action_on_protected_by_class"),
    "dB": ("actions", "psnr"),
    "cMAP of faces": ("faces", "cmap"),
    "gender": ("faces", "gender"),
    "dB, faces": ("faces", "psnr"),
}


def run(
    *,
    data: str | None = None,
    quick: bool = False,
    keep: str | None = None,
    minutes: Amount | None = None,
) -> dict[str, Any]:
    """Every row on both sets, each kept as soon as it is measured; ``minutes`` begins no new row after
    that many minutes, so that a very small number shows what there is."""
    if data is None:
        raise SfumatoError("Expected data= with the folder of real recordings, got none.")
    folders = recordings(data, *(folder for folder, *_ in _SOURCES.values()))
    sources = {
        name: kind(folders[folder], few if quick else None)
        for name, (folder, kind, few) in _SOURCES.items() if folder in folders
    }  # fmt: skip
    cells = {
        name: Cells("visual-large", {"of": name, "quick": quick, "frames": FRAMES,
                                     "records": source.count, "version": source.version}, keep)
        for name, source in sources.items()
    }  # fmt: skip
    until = None if minutes is None else time.monotonic() + 60 * minutes
    found: dict[str, dict[str, Row]] = {name: {} for name in sources}
    for way in (None, *(ways()[5:6] if quick else sorted(ways(), key=_worth))):
        key = "raw" if way is None else way.name
        for name, source in sources.items():
            late = until is not None and time.monotonic() >= until
            if not late or cells[name].path(key).is_file():
                measure = partial(_measured, source, way, cells[name].folder)
                found[name][key] = cells[name].done(key, measure)
    size = (_HEIGHT, _WIDTH, FRAMES)
    rows = [way for way in ways() if any(way.name in each for each in found.values())]
    return {
        "quick": quick, "size": list(size), "rows": found,
        "records": {name: source.count for name, source in sources.items()},
        "order": ["raw", *(way.name for way in rows)],
        "promises": {way.name: way.promise(*size) for way in rows},
        "kept": {way.name: {k: way.settings[k] for k in ("kept_frames", "kept_size")}
                 for way in rows if way.part == "sound"},
    }  # fmt: skip


def _worth(way: Way) -> tuple[bool, bool, int]:
    """What a table that is stopped early should have comes first: every unit at the largest epsilon, then
    the smallest unit, which leaves most to be seen; as published last, whose matrix takes minutes."""
    epsilon, unit = way.settings["epsilon"], way.settings["unit"]
    later = epsilon != EPSILONS[-1] and unit != UNITS[0]
    return way.part == "published", later, (8.0, 2.0, 5.0).index(epsilon)


def _measured(source: Source, way: Way | None, folder: Path) -> Row:
    raw = _raw(source, folder)
    if way is None:
        return source.scores(raw, raw) | {"psnr": None}
    errors: list[float] = []
    shown = source.views(_protected(source.clips(), way, errors.append))
    return source.scores(shown, raw) | {"psnr": 10 * float(np.log10(255**2 / np.mean(errors)))}


def _raw(source: Source, folder: Path) -> Views:
    """What the readers see of unprotected clips: looked at once."""
    path = folder / "raw views.npz"
    if not path.is_file():
        np.savez(path, **source.views(source.clips()))
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def _protected(clips: Iterator[Clip], way: Way, add: Callable[[float], None]) -> Iterator[Clip]:
    """Each clip released once, with noise of its own."""
    for clip in clips:
        frames = (Frame(image, number, Fraction(number, 15)) for number, image in enumerate(clip))
        made = protect.make(way.method, way.settings).frames(frames, count=len(clip))
        released = np.stack([frame.image for frame in made])
        add(float(np.square(released.astype(np.float32) - clip).mean()))
        yield released


def _parts(found: Estimate) -> dict[str, Any]:
    return {"value": found.value, "low": found.low, "high": found.high, "chance": found.chance}


def _shown(row: Row | None, column: str) -> str:
    if row is None:
        return "-"
    found = row.get(column)
    if not isinstance(found, dict):
        return "" if found is None else f"{found:.1f}"
    if found["low"] is None:
        return f"{100 * found['value']:.0f}"
    return f"{100 * found['value']:.0f} ({100 * found['low']:.0f} to {100 * found['high']:.0f})"


def _lines(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows, lines = result["rows"], []
    for name in result["order"]:
        promise, kept = result["promises"].get(name), result["kept"].get(name)
        said = (
            "" if promise is None else f"{format_epsilon(promise['epsilon'])} for {promise['unit']}"
        )
        size = "" if kept is None else f"{kept['kept_frames']} x {kept['kept_size']}²"
        lines.append([name, said, size,
                      *(_shown(rows.get(of, {}).get(name), column) for of, column in COLUMNS.values())])  # fmt: skip
    guessing = ["*guessing*", "", ""]
    for of, column in COLUMNS.values():
        raw = rows.get(of, {}).get("raw", {}).get(column)
        chance = raw["chance"] if isinstance(raw, dict) else None
        guessing.append("" if chance is None else f"{100 * chance:.0f}")
    return ["Video-DPRP", "true epsilon", "kept", *COLUMNS], [*lines, guessing]


def terminal(result: dict[str, Any]) -> Sequence[Any]:
    head, lines = _lines(result)
    table = Grid(*head, box=None, pad_edge=False)
    for line in lines:
        table.add_row(*line)
    return [table, f"Epsilons: relation replace, delta {DELTA:g}, every clip released once, "
            "accountant analytic-gaussian."]  # fmt: skip


def tables(result: dict[str, Any]) -> dict[str, str]:
    return {"large": markdown(*_lines(result), left=3)}
