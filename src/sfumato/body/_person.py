"""Who a virtual person is: the attributes that a recording would give away."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Colour = tuple[float, float, float]

# six steps from light to dark, as in the Fitzpatrick scale (linear RGB)
SKIN_TONES: tuple[Colour, ...] = (
    (0.80, 0.56, 0.45),
    (0.70, 0.44, 0.32),
    (0.56, 0.33, 0.22),
    (0.40, 0.22, 0.13),
    (0.23, 0.12, 0.07),
    (0.11, 0.058, 0.036),
)
HAIR_COLOURS: dict[str, Colour] = {
    "black": (0.012, 0.010, 0.010),
    "brown": (0.075, 0.035, 0.018),
    "blond": (0.50, 0.33, 0.13),
    "red": (0.30, 0.075, 0.022),
    "grey": (0.38, 0.37, 0.36),
}
HAIR_STYLES = ("short", "long", "bun", "bald")
BOTTOMS = ("trousers", "shorts", "skirt")
PATTERNS = ("plain", "stripes", "blocks")
CLOTHES_COLOURS: dict[str, Colour] = {
    "red": (0.48, 0.035, 0.035),
    "orange": (0.65, 0.20, 0.02),
    "yellow": (0.70, 0.48, 0.05),
    "green": (0.05, 0.26, 0.07),
    "teal": (0.02, 0.25, 0.25),
    "blue": (0.03, 0.09, 0.42),
    "purple": (0.17, 0.04, 0.28),
    "pink": (0.65, 0.22, 0.32),
    "white": (0.75, 0.75, 0.73),
    "grey": (0.18, 0.18, 0.19),
    "navy": (0.02, 0.03, 0.10),
    "brown": (0.15, 0.07, 0.03),
    "black": (0.02, 0.02, 0.022),
}


@dataclass(frozen=True)
class VirtualPerson:
    """A virtual person. ``build`` runs from -1 (slight) to 1 (heavy), ``skin`` from 0 to 5."""

    sex: str
    age: int
    height: float
    build: float
    skin: int
    hair: str
    hair_style: str
    top: str
    bottom: str
    bottom_kind: str
    sleeves: float
    pattern: str
    shoes: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def random_person(
    rng: np.random.Generator, *, youngest: int = 18, oldest: int = 80
) -> VirtualPerson:
    """Draw a person; every attribute is independent except height (of sex), hair (of age)."""
    sex = str(rng.choice(["female", "male"]))
    age = int(rng.integers(youngest, oldest + 1))
    mean, spread = (1.65, 0.065) if sex == "female" else (1.77, 0.07)
    skin = int(rng.integers(len(SKIN_TONES)))
    hair = "grey" if rng.random() < (age - 40) / 40 else str(rng.choice(list(HAIR_COLOURS)[:4]))
    styles = (0.25, 0.5, 0.25, 0.0) if sex == "female" else (0.76, 0.08, 0.04, 0.12)
    kinds = (0.55, 0.15, 0.3) if sex == "female" else (0.75, 0.25, 0.0)
    top, bottom = rng.choice(_unlike(SKIN_TONES[skin]), size=2, replace=False)
    return VirtualPerson(
        sex=sex,
        age=age,
        height=float(np.clip(rng.normal(mean, spread), 1.45, 2.0)),
        build=float(np.clip(rng.normal(0.05, 0.45), -1, 1)),
        skin=skin,
        hair=hair,
        hair_style=str(rng.choice(HAIR_STYLES, p=styles)),
        top=str(top),
        bottom=str(bottom),
        bottom_kind=str(rng.choice(BOTTOMS, p=kinds)),
        sleeves=float(rng.choice([0.0, 0.45, 0.95])),
        pattern=str(rng.choice(PATTERNS, p=(0.6, 0.25, 0.15))),
        shoes=str(rng.choice(["black", "brown", "white", "grey", "red"])),
    )


def _unlike(skin: Colour) -> list[str]:
    """Colours that do not look like bare skin."""
    return [
        name
        for name, colour in CLOTHES_COLOURS.items()
        if np.linalg.norm(np.sqrt(colour) - np.sqrt(skin)) > 0.22
    ]
