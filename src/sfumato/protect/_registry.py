"""Every method by name, of recordings and of data sets. A method is imported when it is asked for.

A plug-in package declares its class in the entry-point group ``sfumato.methods`` (of recordings) or
``sfumato.dataset_methods``, under the name that the class has; ``register`` does the same in Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module, metadata
from typing import Any, TypeVar

from sfumato.privacy import Card, Unit, UnitKind
from sfumato.protect._dataset_method import DatasetMethod
from sfumato.protect._method import Method, ProtectError, refuse_without_effect
from sfumato.settings import checked, shown


@cache  # it reads a file of every installed package
def entry_points(*, group: str) -> metadata.EntryPoints:
    return metadata.entry_points(group=group)


# name -> "module:Class"
_METHODS: dict[str, str] = {
    "appearance-free": "sfumato.protect.hide._motion_only:AppearanceFree",
    "avatar": "sfumato.protect.avatar._avatar:Avatar",
    "blur": "sfumato.protect.hide._filters:Blur",
    "dp-image": "sfumato.protect.noise._dp_image:DpImage",
    "dppix": "sfumato.protect.noise._laplace:DpPix",
    "dprp": "sfumato.protect.noise._dprp:VideoDprp",
    "edges": "sfumato.protect.hide._whole_picture:Edges",
    "external": "sfumato.protect.hide._external:External",
    "isr": "sfumato.protect.hide._whole_picture:InverseSuperResolution",
    "laplace": "sfumato.protect.noise._laplace:LaplaceNoise",
    "pixelate": "sfumato.protect.hide._filters:Pixelate",
    "randomized-response": "sfumato.protect.noise._random_pixels:GreyLevelResponse",
    "selective": "sfumato.protect.hide._motion_only:Selective",
    "silhouette": "sfumato.protect.hide._filters:Silhouette",
    "skeleton": "sfumato.protect.hide._whole_picture:Skeleton",
    "snow": "sfumato.protect.noise._random_pixels:Snow",
    "voice": "sfumato.protect.voice._voice:Voice",
}
_DATASET_METHODS: dict[str, str] = {
    "pass": "sfumato.attributes:Pass",
    "pass-ldp": "sfumato.attributes:PassLDP",
}
Kind = TypeVar("Kind", Method, DatasetMethod)
_GROUPS = {"sfumato.methods": _METHODS, "sfumato.dataset_methods": _DATASET_METHODS}
_MOST_STAGES = 16
# Settings by which an operator decides about one recording (protect/hide/_by_hand.py).
BY_HAND = ("leave_open", "start", "end", "cover")
# Settings that limit a method to a region; methods that work on regions anyway take them themselves.
REGION_SETTINGS = (
    "region",
    "detector",
    "on_miss",
    "every",
    "import_boxes",
    "public_mask",
    "keep_text",
    *BY_HAND,
)


def register(name: str, target: str, *, datasets: bool = False) -> None:
    """Add the class at ``target`` ("package.module:Class") under its name, for this process."""
    table = _DATASET_METHODS if datasets else _METHODS
    if table.get(name, target) != target or name in (_METHODS if datasets else _DATASET_METHODS):
        raise ProtectError(f"Expected a name that no other method has, got {shown(name)}.")
    table[name] = target


def names() -> list[str]:
    """Every method of recordings; imports none of them."""
    return sorted(_entries("sfumato.methods"))


def methods() -> dict[str, type[Method]]:
    """Name -> class of every method of recordings."""
    return {name: get(name) for name in names()}


def dataset_method_names() -> list[str]:
    """Every method of data sets; imports none of them."""
    return sorted(_entries("sfumato.dataset_methods"))


def dataset_methods() -> dict[str, type[DatasetMethod]]:
    """Name -> class of every method of data sets."""
    return {name: get_dataset_method(name) for name in dataset_method_names()}


def works_on_datasets(name: str) -> bool:
    """Whether a method releases records of a data set; imports none of them."""
    return name not in _METHODS and name in _entries("sfumato.dataset_methods")


def get(name: str) -> type[Method]:
    """The class of one method of recordings; call it with its settings."""
    return _loaded("sfumato.methods", name, Method)  # type: ignore[type-abstract]


def get_dataset_method(name: str) -> type[DatasetMethod]:
    """The class of one method of data sets."""
    return _loaded("sfumato.dataset_methods", name, DatasetMethod)  # type: ignore[type-abstract]


def _entries(group: str) -> dict[str, str]:
    """Our own methods, then plug-ins, which cannot replace them."""
    plugged = {entry.name: entry.value for entry in entry_points(group=group)}
    return plugged | _GROUPS[group]


def _loaded(group: str, name: str, kind: type[Kind]) -> type[Kind]:
    known = _GROUPS[group]
    target = known.get(name) or _entries(group).get(name)
    if target is None:
        everything = {each for entries in map(_entries, _GROUPS) for each in entries}
        if name in everything:
            raise ProtectError(
                f"Expected a method for {kind.releases}, got {name}, which is for something else: "
                "methods of recordings and of data sets cannot be chained or exchanged."
            )
        raise ProtectError(
            f"Expected a method out of {', '.join(sorted(everything))}, got {shown(name)}."
        )
    module, _, attribute = target.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        if name in known and module.startswith("sfumato."):
            raise
        raise ProtectError(
            f"Expected the plug-in method {name} at {target}, but it cannot be loaded ({error})."
        ) from None
    if not (isinstance(found, type) and issubclass(found, kind)) or found.name != name:
        raise ProtectError(
            f"Expected {target} to be a {kind.__name__} with the name {name}, got another thing: "
            "correct the plug-in."
        )
    return found


def from_card(card: Card) -> Method:
    """The method that a card tells of, with the settings that it tells."""
    return get(card.method).from_card(card)


def accepts(name: str, setting: str) -> bool:
    """Whether a method, or any stage of a chain ``a+b``, has this setting."""
    return any(setting in get(stage).accepted_settings() for stage in name.split("+"))


def make(name: str, settings: Mapping[str, Any]) -> Method:
    """A method with its settings; an unknown or missing one is named, never swallowed.

    ``a+b`` chains methods: a setting goes to every stage that has it, and ``b.setting`` to one
    alone. Any method can be limited by ``region``.
    """
    names = name.split("+")
    if len(names) == 1:
        return _single(name, settings)
    if len(names) > _MOST_STAGES:
        raise ProtectError(
            f"Expected at most {_MOST_STAGES} methods in a chain, got {len(names)}: take fewer."
        )
    if given := [setting for setting in settings if setting.rpartition(".")[2] in BY_HAND]:
        raise ProtectError(
            f"Expected one method where something is decided by hand ({given[0]}), got a chain: every "
            "stage numbers people anew. Take one method."
        )
    from sfumato.protect._chain import Chain

    return Chain([_single(each, share) for each, share in zip(names, _shares(names, settings))])


def _shares(names: Sequence[str], settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    shares: list[dict[str, Any]] = [{} for _ in names]
    for setting, value in settings.items():
        stage, dot, own = setting.partition(".")
        takers = [
            number
            for number, name in enumerate(names)
            if (dot and name == stage)
            or (
                not dot and (setting in get(name).accepted_settings() or setting in REGION_SETTINGS)
            )
        ]
        if not takers:
            raise ProtectError(
                f"None of the chained methods {', '.join(names)} has the setting {shown(setting)}."
            )
        for number in takers:
            # what is said for one stage alone goes before what is said for all
            if dot or setting not in shares[number]:
                shares[number][own if dot else setting] = value
    return shares


def _single(name: str, settings: Mapping[str, Any]) -> Method:
    found = get(name)
    accepted = found.accepted_settings()
    limits = {
        setting: value
        for setting, value in settings.items()
        if setting in REGION_SETTINGS and setting not in accepted
    }
    own = {setting: value for setting, value in settings.items() if setting not in limits}
    return _limited(name, own, limits) if limits else found(**own)


def _limited(name: str, own: dict[str, Any], limits: dict[str, Any]) -> Method:
    from sfumato.protect._limited import Limited
    from sfumato.protect.hide._by_hand import ByHand
    from sfumato.protect.hide._hiding import Hiding
    from sfumato.protect.hide._region import Region

    if "region" not in limits and any(limits.get(setting) is not None for setting in BY_HAND):
        raise ProtectError(
            f"Expected a method that covers the people it finds, such as blur or silhouette, or a "
            f"region, with {next(iter(limits))!r} (--except, --from, --to, --cover), got {name}: it has "
            "no tracks to leave open and no places to cover."
        )
    if get(name).medium == "sound":
        raise ProtectError(
            f"Expected no {next(iter(limits))!r} with the method {name}, which is for sound: leave it out."
        )
    if "region" not in limits:
        raise ProtectError(
            f"The method {name} works on the whole picture, so the setting {next(iter(limits))!r} "
            "needs a region: faces, people, background, text or a mask file."
        )
    # the same types and bounds as for methods that work on regions anyway
    limits = checked(Hiding.settings_schema(), limits, f"the method {name}", ProtectError)
    refuse_without_effect(Hiding, limits)  # type: ignore[type-abstract]
    decided = ByHand.of({name: limits.pop(name, None) for name in BY_HAND})
    region = Region(limits.pop("region") or Hiding.default_region, **limits, by_hand=decided)
    if region.public_mask and "unit" in own:
        unit = Unit.parse(own["unit"])
        if unit.kind is UnitKind.PIXELS:
            assert unit.pixel_count is not None
            assert unit.frame_count is not None
            own = own | {"unit": Unit.pixels(unit.pixel_count, frames=unit.frame_count)}
    return Limited(_single(name, own), region)
