"""The attacks on a folder of recordings, as the command line runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.audit.attack._attacker import Space
from sfumato.audit.attack._clip_pairs import ClipPairs, pair_clips
from sfumato.audit.attack._identity_views import discriminant_features, gait_of_clip
from sfumato.audit.attack._reid import Reidentification, reidentify
from sfumato.audit.attack._speakers import speakers_folder
from sfumato.audit.attack._views import views_of
from sfumato.audit.attack._visual import action_protocols, visual_attack
from sfumato.audit.measure._measure import MeasureError, Result
from sfumato.data import audio_mnist
from sfumato.people import Box, face_detector, face_embedder, pose_estimator
from sfumato.progress import track

AS_IT_STANDS = "protected against a gallery of originals"
PARROT = "protected against a gallery protected in the same way"
Floats = npt.NDArray[np.float64]


def visual_folder(pairs: ClipPairs, *, at_people: bool = True, **facts: Any) -> list[Result]:
    """Every private attribute by the headline attacker and under domain shift; actions beside it."""
    masks = pairs.masks() if at_people else None
    how: dict[str, Any] = {"at": "people" if at_people else "all"}
    raw, shown = (views_of(pairs.clips(each), masks, **how) for each in (False, True))
    rows = visual_attack(raw, shown, pairs.private()).results(**facts)
    if "action" in pairs.facts:
        rows += action_protocols(raw, shown, pairs.fact("action"), **facts)
    return rows


def faces_folder(pairs: ClipPairs, **facts: Any) -> list[Result]:
    """All faces late in a protected file against all faces early in the originals.

    Who is who is the file itself, or the person where that is known; two files are as alike as the
    two nearest of their faces. Faces are looked for in the originals: the attacker is told where
    they were. Of a picture there is only one look.
    """
    detector, embedder = face_detector(), face_embedder()
    ids = list(pairs.facts.get("person", [str(number) for number in range(len(pairs))]))
    vectors: dict[str, list[Any]] = {n: [] for n in ("early", "late", "shown", "parrot")}
    clips = zip(pairs.clips(False), pairs.clips(True), strict=True)
    for raw, shown in track(clips, "clips", len(pairs)):
        first = range((len(raw) + 1) // 2)
        last = range(len(raw) // 2, len(raw))
        seen = [(number, box) for number, image in enumerate(raw) for box in detector.detect(image)]
        for name, frames, times in (("early", raw, first), ("parrot", shown, first),
                                    ("late", raw, last), ("shown", shown, last)):  # fmt: skip
            vectors[name].append([
                embedder.embed(frames[min(number, len(frames) - 1)],
                               _scaled(box, raw.shape, shown.shape, name))
                for number, box in seen if number in times
            ])  # fmt: skip
    kept = [i for i in range(len(ids)) if vectors["early"][i]]
    asked = [i for i in range(len(ids)) if vectors["late"][i]]
    if len(kept) < 2 or not asked:
        raise MeasureError(
            f"Expected faces in at least two originals, found {len(kept)}: nobody to recognise."
        )

    def matched(probes: str, gallery: str) -> Reidentification:
        measure = Reidentification()
        far = [[_nearest(vectors[probes][i], vectors[gallery][j]) for j in kept] for i in asked]
        measure.update_distances(far, [ids[i] for i in asked], [ids[j] for j in kept])
        return measure

    return _by_both_galleries("face", matched("late", "early"), matched("shown", "early"),
                  matched("shown", "parrot"), facts)  # fmt: skip


def _nearest(probes: list[Any], gallery: list[Any]) -> float:
    """The distance of the two nearest of two sets of faces."""
    apart = np.stack(probes)[:, None] - np.stack(gallery)[None]
    return float(np.linalg.norm(apart, axis=2).min())


def gait_folder(pairs: ClipPairs, **facts: Any) -> list[Result]:
    """How people are built and move, by poses found in the files; other recordings are the gallery."""
    estimator = pose_estimator()
    raw, shown = (
        np.stack([gait_of_clip(clip, estimator) for clip in pairs.clips(each)])
        for each in (False, True)
    )
    return _by_neighbours("gait", {"gait": raw}, {"gait": shown}, pairs.facts_of("person"), facts)


def rooms_folder(pairs: ClipPairs, **facts: Any) -> list[Result]:
    """The surroundings, with people masked out; other recordings of the same room are the gallery."""
    masks = pairs.masks()
    raw, shown = (
        views_of(pairs.clips(each), masks, at="surroundings", pictures=2) for each in (False, True)
    )
    return _by_neighbours("room", raw, shown, pairs.facts_of("room"), facts)


def voices_folder(originals: str, protected: str, **facts: Any) -> list[Result]:
    """AudioMNIST beside the same protected: speakers of later takes among those of earlier ones."""
    raw_known, raw_asked = (audio_mnist(originals, part) for part in ("train", "test"))
    shown_known, shown_asked = (audio_mnist(protected, part) for part in ("train", "test"))

    def matched(known: Any, asked: Any) -> Reidentification:
        gallery, probes = discriminant_features(
            {"mel": known.x.reshape(len(known.x), -1)},
            {"mel": asked.x.reshape(len(asked.x), -1)},
            known.attributes["speaker"].tolist(),
        )
        names, number = np.unique(known.attributes["speaker"], return_inverse=True)
        # a speaker is the mean of their takes: fewer and better vectors
        means = np.stack([gallery[number == k].mean(0) for k in range(len(names))])
        measure = Reidentification()
        measure.update(probes, asked.attributes["speaker"].tolist(), means, names.tolist())
        return measure

    return _by_both_galleries("speaker", matched(raw_known, raw_asked), matched(raw_known, shown_asked),
                  matched(shown_known, shown_asked), facts)  # fmt: skip


@dataclass(frozen=True)
class ReleaseFolders:
    """A folder of originals and the same folder protected, as an attack gets them."""

    originals: Path
    protected: Path
    labels: Path | None = None

    @cached_property
    def pairs(self) -> ClipPairs:
        """Files of the same name beside each other, with what is known about them."""
        return pair_clips(self.originals, self.protected, self.labels)


FolderAttack = Callable[[ReleaseFolders], list[Result]]
# who, or which room, is in protected recordings: what ``sfumato audit reid --by`` may name
REID_ATTACKS: dict[str, FolderAttack] = {
    "face": lambda folders: faces_folder(folders.pairs),
    "gait": lambda folders: gait_folder(folders.pairs),
    "room": lambda folders: rooms_folder(folders.pairs),
    "voice": lambda folders: _voices(folders),
}


def _voices(folders: ReleaseFolders) -> list[Result]:
    """AudioMNIST as it is published, or any folder of sound files with speakers."""
    packed = ("logmel.npz", "audioMNIST_meta.txt", "data/audioMNIST_meta.txt")
    if any((folders.originals / name).is_file() for name in packed):
        return voices_folder(str(folders.originals), str(folders.protected))
    return speakers_folder(folders.originals, folders.protected, folders.labels)


def register_attack(name: str, attack: FolderAttack) -> None:
    """Make an attack known to ``sfumato audit reid --by``."""
    if name in REID_ATTACKS:
        raise MeasureError(f"Expected a new name for an attack, got {name!r}, which is taken.")
    REID_ATTACKS[name] = attack


def attack_folder(
    by: str, originals: Path, protected: Path, labels: Path | None = None
) -> list[Result]:
    """Run one attack on two folders; results are entries of a measures file."""
    if by not in REID_ATTACKS:
        raise MeasureError(f"Expected --by out of {', '.join(REID_ATTACKS)}, got {by!r}.")
    return REID_ATTACKS[by](ReleaseFolders(originals, protected, labels))


def _by_neighbours(
    target: str, raw: dict[str, Any], shown: dict[str, Any], ids: Sequence[str], facts: Any
) -> list[Result]:
    """Nearest recording in the standardised views of the gallery."""

    def matched(gallery: dict[str, Any], probes: dict[str, Any]) -> Reidentification:
        space = Space.of(gallery)
        return reidentify(space(probes), space(gallery), ids)

    return _by_both_galleries(
        target, matched(raw, raw), matched(raw, shown), matched(shown, shown), facts
    )


def _by_both_galleries(
    target: str, raw: Reidentification, stands: Reidentification, parrot: Reidentification,
    facts: Any,
) -> list[Result]:  # fmt: skip
    rows = []
    before = raw.results()
    for note, measure in ((PARROT, parrot), (AS_IT_STANDS, stands)):
        for result, plain in zip(measure.results(), before, strict=True):
            rows.append(result.about(target=target, note=note, unprotected=plain.value, **facts))
    return rows


def _scaled(box: Box, raw: tuple[int, ...], shown: tuple[int, ...], name: str) -> Box:
    """The box at the size of the release, which may be smaller."""
    if name in ("early", "late") or raw[1:3] == shown[1:3]:
        return box
    y, x = shown[1] / raw[1], shown[2] / raw[2]
    return Box(box.x0 * x, box.y0 * y, box.x1 * x, box.y1 * y, box.score, box.source)
