"""The cast: 32 diverse virtual people, baked once and kept in the user's cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sfumato import store
from sfumato.body._body import BodyError, SkinnedBody
from sfumato.body._person import VirtualPerson, random_person
from sfumato.body._procedural import procedural_body
from sfumato.files import atomic_output

CAST_SIZE = 32
BodyKind = Literal["anny", "procedural"]
_FORMAT = 3  # counts changes of what is baked; an older file is baked anew
Watch = Callable[[Iterable[int]], Iterable[int]]


def people(seed: int = 0, count: int = CAST_SIZE) -> tuple[VirtualPerson, ...]:
    """Who is in the cast: sexes alternate, ages, builds and skin tones are spread evenly."""
    rng = np.random.default_rng([seed, 32])
    ages = np.linspace(18, 78, count)[rng.permutation(count)]
    builds = np.linspace(-0.9, 0.9, count)[rng.permutation(count)]
    tones = np.arange(count)[rng.permutation(count)] % 6
    made = []
    for i in range(count):
        wanted = ("female", "male")[i % 2]
        person = random_person(rng)
        while person.sex != wanted or person.skin != tones[i]:
            person = random_person(rng)
        values = {**person.to_json(), "age": int(ages[i]), "build": float(builds[i])}
        made.append(VirtualPerson(**values))
    return tuple(made)


def cast_of(
    kind: BodyKind = "anny",
    *,
    seed: int = 0,
    count: int = CAST_SIZE,
    progress: bool = True,
    cache: Path | None = None,
) -> tuple[SkinnedBody, ...]:
    """The bodies of the cast. The same seed gives the same people on every machine.

    ``anny`` needs the extra ``[avatar]`` for the first bake (about half a minute); afterwards the
    baked file serves. ``procedural`` needs nothing.
    """
    if kind == "procedural":
        return _procedural(seed, count)
    if kind != "anny":
        raise BodyError(f"Expected a body out of anny and procedural, got {kind!r}.")
    file = (cache or cache_folder()) / f"anny-{_FORMAT}-{seed}-{count}.safetensors"
    if not file.is_file():
        _bake(file, seed, count, _bar if progress else iter)
    return load_bodies(file)


@lru_cache(maxsize=2)
def _procedural(seed: int, count: int) -> tuple[SkinnedBody, ...]:
    return tuple(procedural_body(person, detail=2) for person in people(seed, count))


def cache_folder() -> Path:
    """Where baked bodies lie, beside the models (``SFUMATO_CACHE``)."""
    return store.cache_folder().parent / "bodies"


def _bake(file: Path, seed: int, count: int, watch: Watch) -> None:
    from sfumato.body._anny import AnnyShop

    shop = AnnyShop(file.parent / "anny")
    cast = people(seed, count)
    bodies = [shop.body(cast[i], np.random.default_rng([seed, 33, i])) for i in watch(range(count))]
    save_bodies(file, bodies)


def save_bodies(file: Path, bodies: Iterable[SkinnedBody]) -> None:
    """Write bodies compactly: half precision where a millimetre does not matter."""
    from safetensors.numpy import save_file

    arrays: dict[str, npt.NDArray[Any]] = {}
    traits = []
    for i, body in enumerate(bodies):
        arrays[f"{i}.vertices"] = body.vertices
        arrays[f"{i}.faces"] = body.faces
        arrays[f"{i}.weights"] = body.weights.astype(np.float16)
        arrays[f"{i}.rest"] = np.asarray(body.rest, dtype=np.float64)
        arrays[f"{i}.colours"] = body.colours.astype(np.float16)
        traits.append(body.traits)
    with atomic_output(file, force=True) as temporary:
        save_file(arrays, temporary, metadata={"traits": json.dumps(traits)})


def load_bodies(file: Path) -> tuple[SkinnedBody, ...]:
    """Read what ``save_bodies`` wrote."""
    from safetensors import safe_open

    def read() -> Iterator[SkinnedBody]:
        with safe_open(str(file), "numpy") as stored:
            for i, traits in enumerate(json.loads(stored.metadata()["traits"])):
                weights = stored.get_tensor(f"{i}.weights").astype(np.float32)
                yield SkinnedBody(
                    vertices=stored.get_tensor(f"{i}.vertices"),
                    faces=stored.get_tensor(f"{i}.faces"),
                    weights=weights / weights.sum(1, keepdims=True),
                    rest=stored.get_tensor(f"{i}.rest"),
                    colours=stored.get_tensor(f"{i}.colours").astype(np.float32),
                    traits=traits,
                )

    return tuple(read())


def _bar(numbers: Iterable[int]) -> Iterator[int]:
    from rich.console import Console
    from rich.progress import track

    yield from track(numbers, "Baking virtual people (once)", console=Console(stderr=True))
