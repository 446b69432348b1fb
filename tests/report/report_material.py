"""Made-up promises, measures, pictures and whole runs: a report shows them, it makes none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from sfumato.privacy import Card, Gaussian, Guarantee, NoGuarantee, Output
from sfumato.privacy._guarantee import OS_ENTROPY, SEEDED
from sfumato.report import Report, collect, render


def proven(noise: float = 1.0, *, seeded: bool = False) -> Guarantee:
    return Guarantee(
        mechanism="Gaussian noise on everything",
        unit="record",
        relation="add-remove",
        delta=1e-5,
        event=Gaussian(noise),
        accountant="analytic-gaussian",
        assumptions=("settings were chosen without looking",),
        not_covered=("a person with several records",),
        randomness=SEEDED if seeded else OS_ENTROPY,
    )


def unproven() -> NoGuarantee:
    return NoGuarantee(mechanism="box blur", reason="Blur can be undone.", not_covered=("gait",))


def a_measure(**changes: Any) -> dict[str, Any]:
    return {
        "name": "attribute attack",
        "group": "privacy",
        "target": "sex",
        "value": 0.71,
        "low": 0.66,
        "high": 0.76,
        "confidence": 0.95,
        "higher_is_better": False,
        "bounds": [0, 1],
        "chance": 0.5,
        "unprotected": 0.97,
        **changes,
    }


def a_verdict(certified: float | str = 1.25, **changes: Any) -> dict[str, Any]:
    """What ``sfumato audit guarantee`` writes about ``proven()``."""
    attack = {
        "target": "Accounting",
        "promised": proven().epsilon,
        "refutes": False,
        "epsilon_at_least": certified,
        "confidence": 0.95,
        "beside": [{"confidence": 0.99, "epsilon_at_least": 1.1}],
        "delta": 1e-5,
        "method": "simulated mechanism",
        "trials": 5000,
        "gaussian_fit_diagnostic": None,
    }
    return {
        "promise": proven().to_json(),
        "falsifiable": True,
        "refuted": False,
        "attacks": [attack],
        "delta_curve": [{"epsilon": 0.1, "certified": 0.3, "promised": 0.4, "refutes": False}],
        "delta_curve_confidence": 0.999,
        "conformance": [{"check": "noise", "conforms": True, "detail": "as stated"}],
        "not_run": ["the code of noise"],
        "words": "Nothing here contradicts the promise.",
        **changes,
    }


def all_kinds() -> list[dict[str, Any]]:
    """Values, a curve for each group, bars and a matrix."""
    over_epsilon = [
        a_measure(epsilon=e, value=v, low=v - 0.03, high=v + 0.03)
        for e, v in ((0.5, 0.52), (2.0, 0.58), (8.0, 0.71))
    ]
    useful = [
        a_measure(
            name="top-1",
            group="utility",
            target="action",
            epsilon=e,
            value=v,
            low=v - 0.04,
            high=v + 0.04,
            higher_is_better=True,
            chance=0.1,
            unprotected=0.9,
        )
        for e, v in ((0.5, 0.3), (2.0, 0.55), (8.0, 0.8))
    ]
    bars = {
        "name": "F1",
        "group": "privacy",
        "higher_is_better": False,
        "bounds": [0, 1],
        "chance": 0.2,
        "per_class": {"face": 0.12, "skin colour": 0.4, "relationship": 0.22},
    }
    matrix = {
        "name": "actions",
        "group": "utility",
        "labels": ["wave", "sit", "fall"],
        "matrix": [[8, 1, 1], [2, 7, 1], [0, 0, 10]],
    }
    return [*over_epsilon, *useful, bars, matrix]


def make_release(
    target: Path,
    promise: Guarantee | NoGuarantee | None = None,
    *,
    content: bytes = b"protected",
    **card: Any,
) -> Path:
    """Write a released file and its card; return the file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    given = {"method": "noise", "done": "A video was protected.", "settings": {"fps": 15}}
    made = Card(promise=promise or proven(), outputs=(Output.of(target),), **{**given, **card})
    made.write(target)
    return target


def make_run(folder: Path) -> Path:
    """A folder with every kind of content."""
    make_release(folder / "walk.mp4")
    make_release(folder / "blurred.mp4", unproven(), content=b"blurred")
    make_release(folder / "sheet.png", content=sheet(folder / "sheet.png").read_bytes())
    (folder / "walk.mp4.audit.json").write_text(json.dumps(a_verdict()))
    measures = {
        "schema": "sfumato-measures",
        "version": 1,
        "title": "visual privacy",
        "settings": {"attacker": "trains and tests on protected"},
        "commands": ["sfumato audit visual RUN"],
        "measures": all_kinds(),
    }
    (folder / "attacks.measures.json").write_text(json.dumps(measures))
    (folder / "speed.json").write_text(json.dumps({"rows": [{"method": "dct", "fps": 31.5}]}))
    return folder


def page_of(*runs: Path, with_originals: bool = False) -> str:
    return render(Report(collect(runs, with_originals=with_originals), made_on="2026-01-02"))


def sheet(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8)
    done, encoded = cv2.imencode(path.suffix, picture)
    assert done
    path.write_bytes(encoded.tobytes())
    return path
