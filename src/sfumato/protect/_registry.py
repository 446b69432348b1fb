"""Every method by name. A method is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from sfumato.privacy import Unit, UnitKind
from sfumato.protect._method import Method, ProtectError
from sfumato.settings import checked, shown

_METHODS: dict[str, str] = {
    "appearance-free": "sfumato.protect.hide._motion_only:AppearanceFree",
    "avatar": "sfumato.protect.avatar:Avatar",
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
}
_MOST_STAGES = 16
# Settings that limit a method to a region; methods that work on regions anyway take them themselves.
REGION_SETTINGS = (
    "region",
    "detector",
    "on_miss",
    "every",
    "import_boxes",
    "public_mask",
)


def methods() -> dict[str, type[Method]]:
    """Name -> class of every release method."""
    return {name: get(name) for name in _METHODS}


def get(name: str) -> type[Method]:
    """The class of one method; call it with its settings."""
    if name not in _METHODS:
        raise ProtectError(
            f"Expected a method out of {', '.join(sorted(_METHODS))}, got {shown(name)}."
        )
    module, attribute = _METHODS[name].split(":")
    found: type[Method] = getattr(import_module(module), attribute)
    return found


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
    from sfumato.protect.hide._hiding import Hiding
    from sfumato.protect.hide._region import Region

    if "region" not in limits:
        raise ProtectError(
            f"The method {name} works on the whole picture, so the setting {next(iter(limits))!r} "
            "needs a region: faces, people, background or a mask file."
        )
    # the same types and bounds as for methods that work on regions anyway
    limits = checked(Hiding.settings_schema(), limits, f"the method {name}", ProtectError)
    region = Region(limits.pop("region") or Hiding.default_region, **limits)
    if region.public_mask and "unit" in own:
        unit = Unit.parse(own["unit"])
        if unit.kind is UnitKind.PIXELS:
            assert unit.pixel_count is not None
            assert unit.frame_count is not None
            own = own | {"unit": Unit.pixels(unit.pixel_count, frames=unit.frame_count)}
    return Limited(_single(name, own), region)
