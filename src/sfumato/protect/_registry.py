"""Every method by name. A method is imported when it is asked for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from sfumato.protect._method import Method, ProtectError

_METHODS: dict[str, str] = {
    "dp-image": "sfumato.protect.video:DpImage",
    "dppix": "sfumato.protect.video:DpPix",
    "dprp": "sfumato.protect.video:VideoDprp",
    "laplace": "sfumato.protect.video:LaplaceNoise",
    "randomized-response": "sfumato.protect.video:GreyLevelResponse",
    "snow": "sfumato.protect.video:Snow",
}


def methods() -> dict[str, type[Method]]:
    """Name -> class of every release method."""
    return {name: get(name) for name in _METHODS}


def get(name: str) -> type[Method]:
    """The class of one method; call it with its settings."""
    if name not in _METHODS:
        raise ProtectError(f"Expected a method out of {', '.join(sorted(_METHODS))}, got {name!r}.")
    module, attribute = _METHODS[name].split(":")
    found: type[Method] = getattr(import_module(module), attribute)
    return found


def make(name: str, settings: Mapping[str, Any]) -> Method:
    """A method with its settings; an unknown or missing one is named, never swallowed."""
    found = get(name)
    accepted = found.accepted_settings()
    if unknown := sorted(set(settings) - set(accepted)):
        raise ProtectError(
            f"The method {name} has no setting {unknown[0]!r}: expected some of "
            f"{', '.join(sorted(accepted))}."
        )
    missing = [
        parameter.name
        for parameter in accepted.values()
        if parameter.default is inspect.Parameter.empty and parameter.name not in settings
    ]
    if missing:
        raise ProtectError(f"The method {name} needs the setting {missing[0]!r}: please give it.")
    return found(**settings)
