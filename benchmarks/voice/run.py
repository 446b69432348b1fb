"""Every algorithm against every attacker: equal error rates of speakers, and digits still understood."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from benchmarks.voice.digits import recognition, spoken_digits
from benchmarks.voice.recordings import (
    Recording,
    digit_strings,
    synthetic_digits,
    synthetic_voices,
)
from benchmarks.voice.strangers import by_stranger, cosine, every_pair, every_pair_by_length
from benchmarks.voice.turns import turns_followed
from benchmarks.voice.undo import undone_scores
from sfumato.audit.attack import (
    SpeakerVerification,
    at_speaker_rate,
    attack_speakers,
    pitch_track,
    voice_views,
)
from sfumato.audit.measure import Estimate
from sfumato.files import write_json
from sfumato.models import SpeakerEncoder
from sfumato.privacy import Randomness
from sfumato.progress import track
from sfumato.protect.voice import OverlapAdd, Timeline, effect_for

Floats = npt.NDArray[np.float64]
# "timing" is no algorithm but a floor: noise where the recording is loud, and silence elsewhere
ALGORITHMS = ("none", "mcadams", "world", "distort", "timing")
# seeds: the attacker's, ours, ours a speaker, the attacker's of made voices
_OWN, _RELEASE, _SPEAKERS, _MADE = 1_000_000, 2_000_000, 3_000_000, 4_000_000
_STRANGERS = "semi-informed by strangers"  # as in the challenges: trained on other speakers


def run(
    data: Path | None = None,
    work: Path | None = None,
    algorithms: str = ",".join(ALGORITHMS),
    train: Annotated[int, Field(ge=4, le=80)] = 40,
    test: Annotated[int, Field(ge=4, le=20)] = 20,
    voices: Annotated[int, Field(ge=6, le=60)] = 20,
    epochs: Annotated[int, Field(ge=1, le=100)] = 20,
    quick: bool = False,
) -> dict[str, Any]:
    """``data`` is the folder of fsdd; ``work`` keeps what is measured already, to go on from there."""
    folder = data or Path(__file__).parents[3] / "shared" / "data" / "fsdd"
    if quick:
        train, test, voices, epochs = 4, 4, 6, 1
    encoder = SpeakerEncoder.pretrained()
    cells: list[dict[str, Any]] = []
    wanted = [(a, d) for a in algorithms.split(",") for d in ("digits", "synthetic")]
    for algorithm, kind in track(wanted, "cells", len(wanted)):
        place = None if work is None else work / f"{algorithm}-{kind}.json"
        if place is not None and place.is_file():
            cells.append(json.loads(place.read_text(encoding="utf-8")))
            continue
        if kind == "digits":
            cell = _digits(
                algorithm,
                digit_strings(folder, train=train, test=test),
                synthetic_digits(voices),
                encoder,
                epochs,
            )
        else:
            cell = _synthetic(algorithm, synthetic_voices(voices), encoder)
        cells.append({"algorithm": algorithm, "data": kind, **cell})
        if place is not None:
            write_json(place, cells[-1], force=True)
    place = None if work is None else work / "turns.json"
    if place is not None and place.is_file():
        turns = json.loads(place.read_text(encoding="utf-8"))
    else:
        turns = turns_followed(digit_strings(folder, train=train, test=test), encoder, quick)
        if place is not None:
            write_json(place, turns, force=True)
    settings = {"train": train, "test": test, "voices": voices, "epochs": epochs}
    length = _length_alone(digit_strings(folder, train=train, test=test))
    return {"cells": cells, "turns": turns, "length": length, "settings": settings}


def changed(algorithm: str, sound: Floats, rate: int, seed: int) -> Floats:
    """A recording through an algorithm, with the secrets of a seed."""
    if algorithm == "none":
        return sound
    if algorithm == "timing":
        return _timing(sound, rate, seed)
    who = Timeline([], rate)
    effect = effect_for(algorithm, lambda: [sound], rate, who, Randomness(seed))  # type: ignore[arg-type]
    through = OverlapAdd(effect)
    return np.concatenate([through.push(sound), through.flush()])


def _timing(sound: Floats, rate: int, seed: int) -> Floats:
    """Nothing but when it is loud (within 26 dB of the loudest, every 8 ms), and how long it is."""
    hop = rate // 125
    frames = np.pad(sound, (0, -len(sound) % hop)).reshape(-1, hop)
    level = np.log((frames**2).mean(1) + 1e-10)
    loud = np.repeat(level > np.quantile(level, 0.95) - 6.0, hop)[: len(sound)]
    return np.asarray(0.1 * np.random.default_rng(seed).standard_normal(len(sound)) * loud)


def _digits(
    algorithm: str, recordings: Sequence[Recording], others: Sequence[Recording],
    encoder: SpeakerEncoder, epochs: int,
) -> dict[str, Any]:  # fmt: skip
    known = [each for each in recordings if not each.test]
    asked = [each for each in recordings if each.test]
    own = [changed(algorithm, r.sound, 8000, _OWN + n) for n, r in enumerate(known)]
    released = [changed(algorithm, r.sound, 8000, _RELEASE + n) for n, r in enumerate(asked)]
    a_speaker = [changed(algorithm, r.sound, 8000, _SPEAKERS + r.speaker) for r in asked]
    made = [changed(algorithm, r.sound, 8000, _MADE + n) for n, r in enumerate(others)]
    views = {
        name: voice_views(sounds, 8000, encoder)
        for name, sounds in (
            ("clear", [r.sound for r in known]),
            ("own", own),
            ("released", released),
            ("a speaker", a_speaker),
            ("made", made),
        )
    }
    ids = [[r.speaker for r in known]] * 2 + [[r.speaker for r in asked]]
    attacks = {}
    for secrets, name in (("recording", "released"), ("speaker", "a speaker")):
        found = attack_speakers(views["clear"], views["own"], views[name], ids)
        for view in ("network", "everything"):
            chosen = [
                views[each] if view == "everything" else {view: views[each][view]}
                for each in ("made", "own", name)
            ]
            found[f"{_STRANGERS}, {view}"] = every_pair(
                chosen[0], [r.speaker for r in others], chosen[1], ids[1], chosen[2], ids[2]
            )
        attacks[secrets] = {attacker: _rates(measure) for attacker, measure in found.items()}
    if algorithm == "mcadams":
        means = _means(views["clear"]["network"], ids[0])
        scores, error = undone_scores(released, 8000, encoder, means, _coefficients(len(asked)))
        measure = SpeakerVerification()
        measure.update(scores, ids[2])
        attacks["recording"]["undo"] = _rates(measure) | {"coefficient_error": error}
    mine, theirs = (spoken_digits(s, r, encoder) for s, r in ((own, known), (released, asked)))
    clear = spoken_digits([r.sound for r in known], known, encoder)
    rates = {
        "trained on protected": recognition(mine, theirs, epochs=epochs).mean(),
        "trained on originals": recognition(clear, theirs, epochs=epochs).mean(),
    }
    return {
        "attacks": attacks,
        "digits": {name: float(rate) for name, rate in rates.items()},
        "digits_tested": len(theirs[1]),
        "pitch_correlation": _pitch([r.sound for r in asked], released, 8000),
        "speakers": len(set(ids[2])),
        "trials": len(asked),
    }


def _length_alone(recordings: Sequence[Recording]) -> dict[str, Any]:
    """The semi-informed attacker who is told how long a recording is, and nothing else."""
    seconds = np.log([len(each.sound) for each in recordings])[:, None]
    asked = np.array([each.test for each in recordings])
    who = np.array([each.speaker for each in recordings])
    facts = np.hstack([seconds, seconds**2])
    known, told = ({"network": facts[rows]} for rows in (~asked, asked))
    found = attack_speakers(known, known, told, [who[~asked], who[~asked], who[asked]])
    lengths = np.array([len(each.sound) for each in recordings], float)
    strangers = every_pair_by_length(
        who[~asked].tolist(), lengths[~asked], who[asked].tolist(), lengths[asked]
    )
    return _rates(found["semi-informed, network"]) | {"strangers": _rates(strangers)}


def _coefficients(count: int) -> list[float]:
    """The coefficients that our releases were made with, to see how near the attacker's guess is."""
    return [float(Randomness(_RELEASE + n).generator().uniform(0.5, 0.9)) for n in range(count)]


def _synthetic(
    algorithm: str, recordings: Sequence[Recording], encoder: SpeakerEncoder
) -> dict[str, Any]:
    """As in the challenges: it trains on protected speech of other speakers, half of them."""
    made = [changed(algorithm, r.sound, 16_000, _OWN + n) for n, r in enumerate(recordings)]
    vectors, clear = (
        np.stack([encoder.embed(each) for each in sounds])
        for sounds in (made, [r.sound for r in recordings])
    )
    who = np.array([r.speaker for r in recordings])
    test = np.array([r.test for r in recordings])
    half = (who.max() + 1) // 2
    others, enrolled, asked = who < half, (who >= half) & ~test, (who >= half) & test
    names = (who[enrolled] - half).tolist()
    truth = who[asked] - half
    network = [{"network": vectors[rows]} for rows in (others, enrolled, asked)]
    by_others = by_stranger(network[0], who[others].tolist(), network[1], names, network[2])
    attacks = {}
    for attacker, scores in (
        ("ignorant", cosine(vectors[asked], _means(clear[enrolled], names))),
        ("lazy-informed", cosine(vectors[asked], _means(vectors[enrolled], names))),
        (f"{_STRANGERS}, network", by_others),
    ):
        measure = SpeakerVerification()
        measure.update(scores, truth)
        attacks[attacker] = _rates(measure)
    return {
        "attacks": {"recording": attacks},
        "pitch_correlation": _pitch(
            [r.sound for r in recordings if r.test],
            [m for m, r in zip(made, recordings) if r.test], 16_000,
        ),
        "speakers": int(who.max() + 1 - half),
        "trials": int(asked.sum()),
    }  # fmt: skip


def _means(vectors: Floats, ids: Sequence[int]) -> Floats:
    names = np.asarray(ids)
    return np.stack([vectors[names == k].mean(0) for k in range(names.max() + 1)])


def _rates(measure: SpeakerVerification) -> dict[str, Any]:
    def plain(estimate: Estimate) -> list[float]:
        return [float(each or 0.0) for each in (estimate.value, estimate.low, estimate.high)]

    return {"eer": plain(measure.compute()), "rank_one": plain(measure.rank_one())}


def _pitch(before: Sequence[Floats], after: Sequence[Floats], rate: int) -> float | None:
    """The mean correlation of pitch, where both have one; none where nothing has."""
    found = []
    for one, other in zip(before, after, strict=True):
        tracks = [pitch_track(at_speaker_rate(each, rate)) for each in (one, other)]
        both = (tracks[0] > 0) & (tracks[1] > 0)
        if both.sum() > 10 and all(t[both].std() > 0 for t in tracks):
            first, second = (np.log(track[both]) for track in tracks)
            found.append(float(np.corrcoef(first, second)[0, 1]))
    return float(np.mean(found)) if len(found) > len(before) // 2 else None


def terminal(result: Mapping[str, Any]) -> list[str]:
    return [table for part in tables(result).values() for table in (part, "")]


def tables(result: Mapping[str, Any]) -> dict[str, str]:
    """Markdown: attackers by algorithm, for both kinds of recordings."""
    cells = {(c["algorithm"], c["data"]): c for c in result["cells"]}
    names = [a for a in ALGORITHMS if (a, "digits") in cells]
    head = ["", *names]
    rows = []
    for secrets in ("recording", "speaker"):
        attackers = [cells[n, "digits"]["attacks"][secrets] for n in names]
        for attacker in sorted({name for each in attackers for name in each} - {"undo"}):
            values = [cells[n, "digits"]["attacks"][secrets].get(attacker) for n in names]
            rows.append([f"{attacker}; secret a {secrets}", *map(_shown, values)])
    if ("mcadams", "digits") in cells and "mcadams" in names:
        undo = cells["mcadams", "digits"]["attacks"]["recording"].get("undo")
        rows.append(["undo McAdams by search; secret a recording",
                     *(_shown(undo if n == "mcadams" else None) for n in names)])  # fmt: skip
    for name in ("trained on protected", "trained on originals"):
        shares = [cells[n, "digits"]["digits"][name] for n in names]
        rows.append(
            [f"digits understood, recogniser {name}", *(f"{100 * s:.1f} %" for s in shares)]
        )
    rows.append(["pitch correlation", *(_number(cells[n, "digits"]) for n in names)])
    made = [n for n in names if (n, "synthetic") in cells]
    more = []
    for attacker in ("ignorant", "lazy-informed", f"{_STRANGERS}, network"):
        values = [cells[n, "synthetic"]["attacks"]["recording"][attacker] for n in made]
        more.append([attacker, *map(_shown, values)])
    more.append(["pitch correlation", *(_number(cells[n, "synthetic"]) for n in made)])
    followed = [
        [f"{row['seconds']:.1f} s", str(row["talks"]), f"{row['found']:.1f}", f"{100 * row['pure']:.0f} %",
         f"{100 * row['worst']:.0f} %"]
        for row in result["turns"]
    ]  # fmt: skip
    return {
        "digits": _table(head, rows),
        "synthetic": _table(["", *made], more),
        "length": "Told the length of a recording and nothing else: "
        f"{_shown(result['length'])}; by strangers, of two targets: "
        f"{_shown(result['length']['strangers'])}.",
        "turns": _table(["a turn", "talks of two", "speakers found", "of time with whom it belongs to",
                         "worst talk"], followed),
    }  # fmt: skip


def _number(cell: Mapping[str, Any]) -> str:
    value = cell["pitch_correlation"]
    return "no pitch left" if value is None else f"{value:.2f}"


def _shown(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    value, low, high = (100 * each for each in found["eer"])
    return f"{value:.0f} % ({low:.0f}-{high:.0f}), rank-1 {100 * found['rank_one'][0]:.0f} %"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
