"""Contrast by the formula of WCAG 2.2, over the colours that the studio's pages use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sfumato

STATIC = Path(sfumato.__file__).parent / "studio" / "static"
_COLOUR = re.compile(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
_GROUNDS = ("paper", "raised", "sunken", "tint")
# Text needs 4.5 to 1, what is only drawn 3 to 1.
_TEXT = ("ink", "muted", "accent", "good", "warn", "bad")
_DRAWN = ("edge", "brand", "found", "bridged", "held", "open", "by-hand")


def colours(theme: int) -> dict[str, str]:
    text = (STATIC / "css" / "colours.css").read_text("utf-8")
    return {match[1]: match[2 + theme] for match in _COLOUR.finditer(text)}


def luminance(colour: str) -> float:
    def linear(value: float) -> float:
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_formula_knows_its_two_ends() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_drawings_stand_out_from_every_ground(theme: int) -> None:
    known = colours(theme)
    pairs = [(name, ground, 4.5) for name in _TEXT for ground in _GROUNDS]
    pairs += [(name, ground, 3.0) for name in _DRAWN for ground in ("paper", "raised", "tint")]
    pairs += [("on-accent", "accent", 4.5), ("raised", "good", 4.5), ("raised", "bad", 4.5)]
    faint = {
        f"{name} on {ground}": round(contrast(known[name], known[ground]), 2)
        for name, ground, least in pairs
        if contrast(known[name], known[ground]) < least
    }
    assert faint == {}


def test_colours_are_named_in_one_file_only() -> None:
    """A colour that is written elsewhere escapes this test; black under pictures is no text's ground."""
    elsewhere = {
        f"{sheet.name}: {found}"
        for sheet in STATIC.glob("css/*.css")
        if sheet.name != "colours.css"
        for found in re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[;\s)])", sheet.read_text("utf-8"))
        if found != "#10100f"
    }
    assert elsewhere == set()


def test_every_named_colour_is_defined_in_both_themes() -> None:
    used = {
        name
        for sheet in STATIC.glob("css/*.css")
        for name in re.findall(r"var\(--([a-z-]+)\)", sheet.read_text("utf-8"))
    }
    assert used
    assert used <= set(colours(0)) == set(colours(1))


def test_pages_load_nothing_from_elsewhere_and_have_no_inline_code() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:", page) == []
    ours = [file for file in STATIC.rglob("*") if file.suffix in (".js", ".css", ".html", ".svg")]
    for file in (each for each in ours if each.parent.name != "vendor"):
        text = file.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert re.findall(r"https?://|@import|eval\(|HTML\b|document\.write", text) == [], file
