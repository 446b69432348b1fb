"""The three questions of the WP29 opinion on anonymisation (05/2014), answered for what was done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sfumato.privacy import Card, NoGuarantee, officer_view

SINGLING_OUT, LINKABILITY, INFERENCE = "singling out", "linkability", "inference"

# What stays visible to whoever looks, by method; a proof, where there is one, is answered by its numbers.
_FACES = (
    "Possible: only the faces that were found are covered. Body, clothes, gait, place and whoever was "
    "not found single a person out.",
    "Possible: the same clothes, body, gait or room in another recording link the two.",
    "Possible: age, sex, health and activity can be read from body and movement; the blur or the blocks "
    "themselves can be matched against known faces.",
)
_FIGURE = (
    "Possible for whoever knows the person's outline, size or gait; faces, skin and clothes are gone where "
    "the person was found.",
    "Possible by gait, by stature and by the room, which stays visible.",
    "Possible: movement shows activity and health, stature hints at age and sex; appearance is hidden.",
)
_SHOWN = (
    "Possible: the people are shown as they were recorded, or where a mask leaves them open.",
    "Possible: faces, clothes and gait in another recording link the two.",
    "Possible: whatever can be seen of a person can be read.",
)
_AVATAR = (
    "Possible by movement: the avatar moves as the person did. Appearance is that of somebody who never "
    "lived, where the person was found.",
    "Possible by gait and by the room, which stays visible.",
    "Possible: activity and health from movement. Sex, age and skin of the avatar say nothing.",
)
_SKELETON = (
    "Possible by movement and proportions of the limbs; no pixel of the recording is released.",
    "Possible by gait and proportions; the room is not released.",
    "Possible: activity and health from movement; appearance, clothes and room are not released.",
)
_PICTURE = (
    "Possible: outlines, movement or coarse shapes of the whole picture stay, and nothing bounds what "
    "a trained attacker gets from them.",
    "Possible: the same scene or movement can be recognised in another recording.",
    "Possible: what moves and where stays visible to a trained attacker.",
)
_DONORS = (
    "Not by appearance: what is shown is another person's record. The choice of the donor still depends on "
    "the person, and nothing bounds that.",
    "Possible if draws are made anew in another release: keep one --state for all of them.",
    "Of the named private attributes as far as the audit measured; of attributes nobody named, not limited.",
)
_VOICE = (
    "Possible: an attacker who trains on speech changed this way still tells speakers apart; rhythm, accent "
    "and choice of words stay.",
    "Possible by way of speaking, by what is said and by background sound.",
    "Possible: the words themselves, mood, accent and health can still be heard.",
)
_MODEL = (
    "Possible: a model without a proof can remember single records; see the membership attack.",
    "Possible: two models trained on the same people can be compared.",
    "Possible: what the model learned of single people can come out in its answers.",
)
_BY_METHOD = {
    "avatar": _AVATAR, "skeleton": _SKELETON, "silhouette": _FIGURE, "selective": _FIGURE,
    "edges": _PICTURE, "isr": _PICTURE, "appearance-free": _PICTURE, "external": _PICTURE,
    "pass": _DONORS, "voice": _VOICE, "sgd": _MODEL, "public-only": _MODEL,
}  # fmt: skip
_COVERS = frozenset({"blur", "pixelate", "silhouette", "selective"})
_HIDE_PEOPLE = frozenset({"faces", "people"})
_SHOW_PEOPLE = frozenset({"background", "text", "mask file"})


def three_questions(card: Card) -> dict[str, str]:
    """Question -> answer: numbers where something is proven, else what this method leaves open."""
    if not isinstance(card.promise, NoGuarantee):
        return officer_view(card.promise)
    stages = card.method.split("+")
    # of a chain, what the last known stage leaves is what is seen
    answers = next((found for stage in reversed(stages) if (found := _of(stage, card))), _PICTURE)
    proof = "Not excluded by proof."
    return {
        question: f"{proof} {answer}"
        for question, answer in zip((SINGLING_OUT, LINKABILITY, INFERENCE), answers, strict=True)
    }


def _of(stage: str, card: Card) -> tuple[str, str, str] | None:
    regions = set(_regions(card.settings))
    covers = stage in _COVERS
    # a method that is limited to a region leaves the rest as recorded, whatever it does there
    if (covers or stage == card.method) and regions & _SHOW_PEOPLE and not regions & _HIDE_PEOPLE:
        return _SHOWN
    if covers:
        return _FACES if "faces" in regions else _FIGURE
    return _BY_METHOD.get(stage)


def _regions(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _regions(value)
        elif name == "region":
            yield str(value)
