"""Public views by name: what training files, cards and audits call them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from sfumato.learn.views._masked_pixels import MaskedPixels
from sfumato.learn.views._public_view import PublicView, ViewError
from sfumato.privacy import Unit, UnitKind
from sfumato.settings import checked, parse_pairs, schema_of

_HERE = "sfumato.learn.views"
# name -> "module:class", imported when it is asked for
VIEWS: dict[str, str] = {
    "masked-pixels": f"{_HERE}._masked_pixels:MaskedPixels",
    "low-frequency": f"{_HERE}._feature_maps:LowFrequency",
    "pixelate": f"{_HERE}._feature_maps:PixelateFeatures",
    "blur": f"{_HERE}._feature_maps:BlurFeatures",
}


def register_view(name: str, where: str) -> None:
    """Make a view known by name; ``where`` is ``"module:class"``."""
    if name in VIEWS:
        raise ViewError(f"Expected a new name for a public view, got {name!r}, which is taken.")
    VIEWS[name] = where


def make_view(name: str, settings: Mapping[str, Any]) -> PublicView:
    """The view of that name with its settings checked by the types of its fields."""
    if name not in VIEWS:
        raise ViewError(f"Expected a public view out of {', '.join(VIEWS)}, got {name!r}.")
    module, _, attribute = VIEWS[name].partition(":")
    kind: type[PublicView] = getattr(import_module(module), attribute)
    return kind(**checked(schema_of(kind), settings, f"view {name}", ViewError))


def view_of_unit(unit: Unit) -> PublicView | None:
    """The view beside which a promise about this unit was made; None for units without a view."""
    if unit.kind is UnitKind.MASKED_TOKENS:
        return MaskedPixels(private="rest")
    if unit.view is None:
        return None
    name, *settings = unit.view.split()  # what a view's ``name`` writes
    return make_view(name, parse_pairs(settings))
