"""Table ``guarantees``: every release and training that promises an epsilon, and what audits certify.

Each row makes a real release of a made-up recording (or a real training of made-up clips), writes its
card, and audits it as ``sfumato audit guarantee`` does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.harness.markdown import markdown
from sfumato import protect
from sfumato.attributes import DonorSet, PassLDP, PassTraining
from sfumato.attributes import release as release_records
from sfumato.audit import Verdict, audit_guarantee
from sfumato.data import ArrayRecords
from sfumato.errors import SfumatoError
from sfumato.learn import make_job, parse_config, run_job
from sfumato.media import VideoWriter
from sfumato.privacy import Guarantee
from sfumato.settings import Count

WIDTH, HEIGHT, FRAMES = 32, 24, 8
_DP = {"epsilon": 4.0, "delta": 1e-5}
_SMALL = {"block": 4, "kept_frames": 2, "kept_size": 4}
RELEASES: dict[str, tuple[str, dict[str, Any]]] = {
    "laplace": ("laplace", {"epsilon": 4.0, "unit": "pixels(1, frames=2)"}),
    "dppix": ("dppix", {"epsilon": 4.0, "unit": "pixels(16, frames=1)", "b": 4}),
    "snow": ("snow", {"unit": "pixels(2, frames=1)", "p": 0.9}),
    "randomized-response": ("randomized-response", {"epsilon": 8.0, "unit": "pixels(1, frames=1)"}),
    "dp-image": ("dp-image", {**_DP, "unit": "frame"}),
    "dprp, basis dct": ("dprp", {**_DP, "unit": "pixels(4, frames=2)", **_SMALL}),
    "dprp, basis srht": (
        "dprp", {**_DP, "unit": "pixels(4, frames=2)", "basis": "srht", "k": 60, "block": 4},
    ),
    "dprp, basis gaussian": (
        "dprp", {**_DP, "unit": "pixels(4, frames=2)", "basis": "gaussian", "k": 60, "block": 4},
    ),
}  # fmt: skip
_PUBLIC = {"kind": "synthetic", "clips": 8, "seed": 5}
TRAININGS: dict[str, dict[str, Any]] = {
    "dp-sgd": {},
    "multiclip": {"training": {"clips": 2}},
    "maskdp": {"view": {"kind": "masked-pixels", "private": "rest"}},
    "projected": {"projector": {"public": _PUBLIC, "rank": 4}},
    "feature": {"view": {"kind": "pixelate", "block": 8}},
    "feature-projective": {
        "view": {"kind": "low-frequency", "size": 4},
        "projector": {"public": _PUBLIC, "rank": 4},
    },
    "person-dp-sgd": {},
}


def run(*, only: str | None = None, trials: Count = 20_000) -> dict[str, Any]:
    """One row a method: promised epsilon, certified lower limits at 95 and 99 %, verdict."""
    chosen = [*RELEASES, "pass-ldp", *TRAININGS]
    if only:
        names = [name.strip() for name in only.split(";")]
        if unknown := sorted(set(names) - set(chosen)):
            raise SfumatoError(f"Expected rows out of {'; '.join(chosen)}, got {unknown[0]!r}.")
        chosen = names
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(chosen):
            work = Path(folder) / str(number)
            work.mkdir()
            verdict = audit_guarantee(_made(name, work), trials=trials)
            rows += _rows(name, verdict)
    return {"title": "Promises and what audits certify", "trials": trials, "rows": rows}


def _made(name: str, folder: Path) -> Path:
    if name in RELEASES:
        method, settings = RELEASES[name]
        return _released(method, settings, folder)
    return _donated(folder) if name == "pass-ldp" else _trained(name, folder)


def _released(name: str, settings: dict[str, Any], folder: Path) -> Path:
    rng = np.random.default_rng(0)
    source, target = folder / "in.mkv", folder / "out.mkv"
    with VideoWriter(source, rate=10, size=(WIDTH, HEIGHT), codec="ffv1") as writer:
        for _ in range(FRAMES):
            writer.write(rng.integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8))
    protect.make(name, settings).apply(source, target)
    return target


def _trained(name: str, folder: Path) -> Path:
    more = dict(TRAININGS[name])
    training = {"batch": 8, "steps": 4, **more.pop("training", {})}
    config = parse_config({
        "out": str(folder / "run"), "method": name,
        "data": {"kind": "synthetic", "clips": 16, "people": 16},
        "input": {"frames": 4, "height": 16, "width": 16},
        "model": {"tubelet": [2, 8, 8], "width": 12, "depth": 1, "heads": 2},
        "privacy": {**_DP}, "training": training, **more,
    })  # fmt: skip
    run_job(make_job(config))
    return folder / "run" / "model.safetensors"


def _donated(folder: Path) -> Path:
    """PASS-LDP: records of other people replaced by donors'."""
    rng = np.random.default_rng(0)
    count = 64
    x = rng.standard_normal((count, 8)).astype(np.float32)
    records = ArrayRecords(
        x, np.zeros(count),
        owners=[f"person {number}" for number in range(count)],
        attributes={"sex": x[:, 0] > 0, "word": (x[:, 1] > 0).astype(int)},
    )  # fmt: skip
    known, asked = (ArrayRecords(
        records.x[part], records.y[part], owners=[f"person {n}" for n in range(count)[part]],
        attributes={key: value[part] for key, value in records.attributes.items()},
    ) for part in (slice(0, 40), slice(40, count)))  # fmt: skip
    method = PassLDP(
        ["sex"], ["word"], DonorSet.prototypes(known, "word", 4, declared="synthetic"),
        epsilon=2.0, dimension=16, training=PassTraining(steps=5, batch=40, start_temperature=None),
    ).fit(known)  # fmt: skip
    release_records(method, asked, folder / "release")
    return folder / "release" / "promise.json"


def _rows(name: str, verdict: Verdict) -> Iterator[dict[str, Any]]:
    promise = verdict.promise
    assert isinstance(promise, Guarantee)
    code = [attack for attack in verdict.attacks if attack.target != "Accounting"]
    if not code:
        raise SfumatoError(f"Expected the code of {name} to be run, but: {verdict.not_run}.")
    for attack in code:
        sure = dict(attack.bound.beside)
        alone = attack.target.endswith("private stream alone")
        yield {
            "method": f"{name}, private stream" if alone else name,
            "unit": str(promise.unit),
            "relation": promise.relation.value,
            "delta": promise.delta,
            "accountant": promise.accountant,
            "promised": attack.promised,
            "certified_95": attack.bound.epsilon,
            "certified_99": sure[0.99],
            "simulated_95": verdict.attacks[0].bound.epsilon,
            "audit": attack.bound.method,
            "conforming_checks": sum(finding.conforms for finding in verdict.findings),
            "checks": len(verdict.findings),
            "verdict": "REFUTED" if verdict.refuted else "not refuted",
        }


HEAD = (
    "method", "unit", "relation", "delta", "accountant", "promised", "certified 95 %", "99 %",
    "simulated 95 %", "checks", "verdict",
)  # fmt: skip
_SAID = "Certified by the code itself, and by a simulation of its event."


def _line(row: dict[str, Any]) -> list[str]:
    return [
        row["method"], row["unit"], row["relation"], f"{row['delta']:g}", row["accountant"],
        f"{row['promised']:.3g}", f"{row['certified_95']:.2f}", f"{row['certified_99']:.2f}",
        f"{row['simulated_95']:.2f}", f"{row['conforming_checks']} of {row['checks']}",
        row["verdict"],
    ]  # fmt: skip


def terminal(result: dict[str, Any]) -> Sequence[Any]:
    table = Table(*HEAD, box=None, pad_edge=False)
    for row in result["rows"]:
        table.add_row(*_line(row))
    return [_SAID, table]


def tables(result: dict[str, Any]) -> dict[str, str]:
    return {"promises": markdown(HEAD, [_line(row) for row in result["rows"]], left=5)}
