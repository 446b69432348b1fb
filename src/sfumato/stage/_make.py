"""A whole staged data set from one seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sfumato.body import (
    INDEX,
    Camera,
    Motion,
    SkinnedBody,
    VirtualPerson,
    fit,
    procedural_body,
    random_person,
)
from sfumato.errors import SfumatoError
from sfumato.settings import Seed, checked, schema_of, shown
from sfumato.stage._actions import ACTIONS, UnknownActionError, controls
from sfumato.stage._clip import Clip, film
from sfumato.stage._motion import CONTROL, to_motion
from sfumato.stage._room import KINDS, Room, make_room

_STRAY = 0.6  # metres that an actor may go from the middle and stay in the picture


class StageError(SfumatoError):
    """A staging that cannot be done as asked."""


@dataclass(frozen=True)
class Actor:
    """A person with a style of moving."""

    name: str
    person: VirtualPerson
    vigour: float
    pace: float


@dataclass(frozen=True)
class Staging:
    """What to stage. Everything follows from these values; the same values give the same bytes.

    ``habit`` is how often an action happens in the kind of room where it belongs: with 0 the
    background says nothing about the action, with 1 nearly everything.
    """

    clips: Annotated[int, Field(ge=1, le=10**6)] = 96
    actors: Annotated[int, Field(ge=1, le=10**5)] = 8
    rooms: Annotated[int, Field(ge=1, le=10**5)] = 12
    actions: tuple[str, ...] = tuple(ACTIONS)[:12]
    frames: Annotated[int, Field(ge=1, le=10**5)] = 16
    fps: Annotated[float, Field(ge=0.01, le=1000)] = 10.0
    width: Annotated[int, Field(ge=16, le=8192)] = 64
    height: Annotated[int, Field(ge=16, le=8192)] = 64
    habit: Annotated[float, Field(ge=0, le=1)] = 0.5
    seed: Seed = 0

    def __post_init__(self) -> None:
        checked(schema_of(type(self)), vars(self), "a staging", StageError)
        unknown = [name for name in self.actions if name not in ACTIONS]
        if unknown or not self.actions:
            raise UnknownActionError(
                f"Expected actions out of {', '.join(ACTIONS)}, got {', '.join(unknown) or 'none'}."
            )


def parse_size(text: str) -> tuple[int, int]:
    """``"64x48"`` -> (64, 48)."""
    width, cross, height = text.lower().partition("x")
    if not (cross and all(side.isdecimal() and len(side) < 6 for side in (width, height))):
        raise StageError(f"Expected a size like 64x64 (width x height), got {shown(text)}.")
    return int(width), int(height)


@dataclass(frozen=True)
class Performance:
    """Motion captured elsewhere, fitted to joints of the shared skeleton: (T, 24, 3) in metres."""

    action: str
    joints: npt.NDArray[np.float64]
    fps: float = 30.0


def cast(staging: Staging) -> tuple[Actor, ...]:
    """The actors."""
    out = []
    for i in range(staging.actors):
        rng = np.random.default_rng([staging.seed, 1, i])
        person = random_person(rng)
        vigour, pace = rng.uniform(0.8, 1.12), rng.uniform(0.8, 1.2) - 0.002 * (person.age - 40)
        out.append(Actor(f"actor{i:02d}", person, float(vigour), float(pace)))
    return tuple(out)


def rooms(staging: Staging) -> tuple[Room, ...]:
    """The rooms, kinds in turn."""
    return tuple(
        make_room(KINDS[i % len(KINDS)], 1000 * staging.seed + i) for i in range(staging.rooms)
    )


def clips(
    staging: Staging,
    *,
    performances: Sequence[Performance] = (),
    first: int = 0,
    bodies: Sequence[SkinnedBody] = (),
) -> Iterator[Clip]:
    """Stage clip after clip from number ``first``; each depends on the seed and its number only.

    Actions are dealt in turn, so that classes are balanced. With ``performances`` the motion of
    the actions they name is taken from them. ``bodies``, one an actor, are used instead of their own.
    """
    actors, places = cast(staging), rooms(staging)
    bodies = bodies or [procedural_body(actor.person) for actor in actors]
    if len(bodies) != len(actors):
        raise StageError(f"Expected a body for each of {len(actors)} actors, got {len(bodies)}.")
    given: Mapping[str, list[Performance]] = {
        name: [p for p in performances if p.action == name] for name in staging.actions
    }
    for number in range(first, staging.clips):
        rng = np.random.default_rng([staging.seed, 2, number])
        action = staging.actions[number % len(staging.actions)]
        who = int(rng.integers(len(actors)))
        room = _room_for(action, places, staging.habit, rng)
        camera = _camera(staging, room, rng)
        if given[action]:
            chosen = given[action][int(rng.integers(len(given[action])))]
            motion = _replay(chosen, bodies[who], staging, rng)
        else:
            motion = _perform(actors[who], bodies[who], action, staging, rng)
        yield film(
            bodies[who], motion, room, camera,
            action=action, actor=actors[who].name, person=actors[who].person,
        )  # fmt: skip


def _room_for(action: str, places: Sequence[Room], habit: float, rng: np.random.Generator) -> Room:
    at_home = [room for room in places if room.kind == ACTIONS[action].home]
    choice = at_home if at_home and rng.random() < habit else list(places)
    return choice[int(rng.integers(len(choice)))]


def _camera(staging: Staging, room: Room, rng: np.random.Generator) -> Camera:
    half, height, deep = room.size
    azimuth = rng.uniform(-0.55, 0.55)
    eye = np.array([np.sin(azimuth) * deep, rng.uniform(1.2, 2.0), np.cos(azimuth) * deep])
    eye = np.clip(eye, [-half + 0.1, 0.2, 0.2], [half - 0.1, height - 0.2, deep - 0.1])
    target = np.array([rng.uniform(-0.25, 0.25), rng.uniform(0.85, 1.0), 0.0])
    view = 2 * np.rad2deg(np.arctan(1.35 / np.linalg.norm(eye - target)))  # 2.7 m tall at the actor
    wide = 2 * np.rad2deg(np.arctan(np.tan(np.deg2rad(view) / 2) * staging.width / staging.height))
    return Camera.look(staging.width, staging.height, eye, target, field_of_view=float(wide))


def _perform(
    actor: Actor, body: SkinnedBody, action: str, staging: Staging, rng: np.random.Generator
) -> Motion:
    times = np.arange(staging.frames) / staging.fps
    rows = controls(action, times, rng=rng, vigour=actor.vigour, pace=actor.pace)
    rows[:, CONTROL["turn"]] += rng.uniform(-60, 60)
    rows[:, CONTROL["drift"]] += rng.uniform(-0.25, 0.25)
    if action in {"walk", "run"}:  # these really go somewhere, within the free space
        speed = (0.9 if action == "walk" else 1.6) * actor.pace
        way = times - times.mean()
        rows[:, CONTROL["step"]] += np.clip(way * speed, -_STRAY, _STRAY)
    return to_motion(rows, body)


def _replay(
    performance: Performance, body: SkinnedBody, staging: Staging, rng: np.random.Generator
) -> Motion:
    wanted = np.arange(staging.frames) / staging.fps * performance.fps
    last = len(performance.joints) - 1
    start = rng.uniform(0, max(last - wanted[-1], 0.0))
    picked = performance.joints[np.clip(np.rint(start + wanted), 0, last).astype(int)]
    found = fit(picked, body, smooth=0).motion
    # the actor keeps an own size: the way is scaled with it, and the lowest foot meets the floor
    way = (found.translation - found.translation.mean(0)) / found.scale
    way[:, [0, 2]] *= min(1.0, _STRAY / max(float(np.abs(way[:, [0, 2]]).max()), _STRAY))
    moved = Motion(found.rotations, way)
    feet = [INDEX[f"{side}_{end}"] for side in ("left", "right") for end in ("ankle", "toe")]
    low = (body.joints(moved)[:, feet, 1] - body.rest_joints[feet, 1]).min()
    return Motion(moved.rotations, moved.translation - np.array([0, low, 0]))


@dataclass(frozen=True)
class Recordings:
    """A staged data set in memory: N clips of T frames.

    ``mask`` is True on the (synthetic) person, which is what training may read as public.
    """

    x: npt.NDArray[np.uint8]
    y: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]
    owners: tuple[str, ...]
    attributes: Mapping[str, npt.NDArray[np.int64]]
    classes: tuple[str, ...]
    attribute_classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


AGES = ("18-34", "35-54", "55-80")
BUILDS = ("slight", "medium", "heavy")


def traits(clip: Clip, staging: Staging) -> dict[str, int]:
    """Everything about a clip that an attacker may want, as class numbers."""
    person = clip.person
    return {
        "actor": int(clip.actor.removeprefix("actor")),
        "sex": ("female", "male").index(person.sex),
        "age": int(np.searchsorted([35, 55], person.age, side="right")),
        "build": int(np.searchsorted([-0.25, 0.35], person.build, side="right")),
        "skin": person.skin,
        "room": clip.room.seed - 1000 * staging.seed,
        "room_kind": KINDS.index(clip.room.kind),
    }


def trait_classes(staging: Staging) -> dict[str, tuple[str, ...]]:
    """The names behind the class numbers of ``traits``."""
    return {
        "actor": tuple(f"actor{i:02d}" for i in range(staging.actors)),
        "sex": ("female", "male"),
        "age": AGES,
        "build": BUILDS,
        "skin": tuple(str(i) for i in range(6)),
        "room": tuple(f"room{i:02d}" for i in range(staging.rooms)),
        "room_kind": KINDS,
    }


def make_records(
    staging: Staging | None = None, *, performances: Sequence[Performance] = ()
) -> Recordings:
    """Stage a data set in memory."""
    plan = staging or Staging()
    made = list(clips(plan, performances=performances))
    rows = [traits(clip, plan) for clip in made]
    return Recordings(
        x=np.stack([clip.frames for clip in made]),
        y=np.array([plan.actions.index(clip.action) for clip in made]),
        mask=np.stack([clip.mask for clip in made]),
        owners=tuple(clip.actor for clip in made),
        attributes={name: np.array([row[name] for row in rows]) for name in rows[0]},
        classes=plan.actions,
        attribute_classes=trait_classes(plan),
    )
