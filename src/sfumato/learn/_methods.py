"""The methods of the papers by name: each is the one private step with its switches set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.learn._plan import Plan
from sfumato.privacy import Relation, Unit, UnitKind


class MethodError(SfumatoError):
    """A method that does not exist, or switches that it does not have."""


@dataclass(frozen=True)
class TrainingMethod:
    """Which switches a method sets; further switches may be added where it leaves them open."""

    summary: str
    # the unit of the public view that belongs to the method
    view: UnitKind | None = None
    clips: bool = False
    projector: bool = False
    person: bool = False
    private: bool = True
    public: bool = True


METHODS: dict[str, TrainingMethod] = {
    "dp-sgd": TrainingMethod("clip every record's gradient, add noise"),
    "multiclip": TrainingMethod("several clips a record, averaged before clipping", clips=True),
    "maskdp": TrainingMethod("noise for private pixels only; public pixels train without",
                             UnitKind.MASKED_TOKENS),
    "projected": TrainingMethod("noise projected on a subspace of public gradients", projector=True),
    "feature": TrainingMethod("a many-to-one view of every record trains without noise",
                              UnitKind.FEATURES),
    "feature-projective": TrainingMethod("feature and projected together", UnitKind.FEATURES, projector=True),
    "person-dp-sgd": TrainingMethod("clip everything of one person at once", person=True),
    "sgd": TrainingMethod("no noise and no promise: epsilon is infinite", private=False, public=False),
    "public-only": TrainingMethod("the public view alone: epsilon 0 at its unit, infinite for the record",
                                  UnitKind.MASKED_TOKENS, private=False),
}  # fmt: skip


def plan_for(method: str, **settings: Any) -> Plan:
    """A plan for a method by name; what the name does not settle is passed on to ``Plan``.

    The unit and the relation follow only where the method leaves no choice: the unit of a public
    view is the view's. The relation is always the caller's to say.
    """
    if method not in METHODS:
        raise MethodError(f"Expected a method out of {', '.join(METHODS)}, got {method!r}.")
    kind = METHODS[method]
    view = settings.get("public_view")
    if method == "public-only":
        if view is None:
            raise MethodError(
                "Expected a public view for public-only training, got none: pass "
                "MaskedPixels() or a feature map."
            )
    elif kind.view is None and view is not None and not kind.public:
        raise MethodError(f"Expected no public view with {method}, got {view!r}.")
    elif kind.view is not None and (view is None or view.unit.kind is not kind.view):
        raise MethodError(
            f"Expected a public view of unit {kind.view.value} with {method}, got {view!r}."
        )
    if kind.clips and settings.get("clips", 1) < 2:
        raise MethodError("Expected at least 2 clips a record with multiclip, got fewer.")
    if kind.projector and settings.get("projector") is None:
        raise MethodError(f"Expected a projector with {method}, got none: pass Subspace(...).")
    if view is not None:
        settings.setdefault("unit", view.unit)
    elif kind.person:
        settings.setdefault("unit", Unit.person())
    if kind.person and not str(settings.get("unit", "")).startswith("person"):
        raise MethodError(f"Expected unit person with {method}, got {settings.get('unit')}.")
    if not kind.private:
        _refuse_epsilon(method, settings)
        settings["epsilon"] = 0.0 if method == "public-only" else math.inf
        settings.setdefault("delta", 0.0)
        settings.setdefault("clip_norm", math.inf)
        if method == "sgd":
            settings.setdefault("unit", Unit.record())
            settings.setdefault("relation", Relation.ADD_REMOVE)
    return Plan(**settings)


def _refuse_epsilon(method: str, settings: dict[str, Any]) -> None:
    asked = settings.pop("epsilon", None)
    if asked is not None:
        raise MethodError(
            f"Expected no epsilon with {method}, got {asked}: its epsilon follows from the method."
        )


@dataclass(frozen=True)
class TrainingPreset:
    """A paper's training settings."""

    method: str
    batch: int
    clip_norm: float
    rate: float
    epochs: int
    warmup_epochs: int = 0
    schedule: str = "constant"
    clips: int = 1
    frames: int = 16
    size: int = 224
    width: int | None = None  # as the size, unless it is said


PRESETS: dict[str, TrainingPreset] = {
    "maskdp": TrainingPreset("maskdp", 128, 1.0, 0.01, 150, 20, "cosine"),
    "maskdp-ucf101": TrainingPreset("maskdp", 128, 1.0, 0.01, 300, 20, "cosine"),
    "multiclip": TrainingPreset("multiclip", 8, 0.4, 0.01, 50, clips=3),
    "dp-sgd": TrainingPreset("dp-sgd", 8, 0.4, 0.01, 50),
    # the pose paper names neither its batch nor its rate; 64 is what its numbers fit (SOUNDNESS G7)
    "pose": TrainingPreset("feature-projective", 64, 0.01, 0.01, 25, size=256, width=192),
}
