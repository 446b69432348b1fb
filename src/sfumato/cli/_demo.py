"""The main job end to end, on people who never lived: stage, protect, count, train, check.

Everything it prints was computed in this run.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sfumato import protect, stage
from sfumato.audit import audit_guarantee, write_verdict
from sfumato.data import ArrayRecords, Records
from sfumato.data import staged as staged_records
from sfumato.errors import SfumatoError
from sfumato.learn import (
    Adam,
    MaskedPixels,
    Plan,
    Run,
    StartingWeights,
    VideoClips,
    save_model,
    train,
)
from sfumato.ledger import Ledger
from sfumato.media import VideoWriter
from sfumato.models import VideoViT
from sfumato.privacy import (
    Guarantee,
    Relation,
    Unit,
    checked_card,
    format_epsilon,
)

Say = Callable[[str], None]

# Four kinds of protection: proven, hidden, erased, replaced. Those that are installed are shown.
WAYS: dict[str, dict[str, Any]] = {
    "dprp": {"epsilon": 8.0, "delta": 1e-5, "unit": "pixels(16, frames=1)"},
    "blur": {},
    "silhouette": {},
    "avatar": {},
}
UNIT = "pixels(16, frames=1)"
PREPARE = VideoClips(frames=8, height=32, width=32)
EPSILON = 0.5


@dataclass
class Summary:
    """What the demo made and found, for its last screen and for machines."""

    files: list[str] = field(default_factory=list)
    releases: list[dict[str, Any]] = field(default_factory=list)
    trainings: list[dict[str, Any]] = field(default_factory=list)
    budget: str = ""
    device: str = "cpu"


def run(out: Path, *, clip: Path | None, force: bool, say: Say) -> Summary:
    """Do everything once, into the folder ``out``; a real ``clip`` is protected instead if given."""
    if out.exists() and not force:
        raise SfumatoError(
            f"Expected no folder at {str(out)!r}, but one is there: choose --out or pass --force."
        )
    out.mkdir(parents=True, exist_ok=True)
    summary = Summary()
    say(f"1. Stage: a synthetic person in a synthetic room (device {summary.device}).")
    source = clip or _stage_clip(out / "original.mp4", force)
    say("2. Protect it, every way that is installed; each output has its card.")
    ledger = _open_ledger(out / "ledger.db", force)
    for name, settings in WAYS.items():
        if name in protect.names():
            _protect(source, out, name, settings, ledger, summary, force, say)
    summary.budget = str(ledger.show("demo"))
    say("3. Train on staged clips at one epsilon: the whole clip private, or the person only.")
    _train_all(out, summary, force, say)
    say("4. Audit: try to refute what is proven, by running the code again on neighbours.")
    for made in (*summary.releases, *summary.trainings):
        if made["proven"]:
            verdict = audit_guarantee(out / made["output"], trials=20_000)
            write_verdict(verdict, out / made["output"], force=force)
            made["refuted"] = verdict.refuted
            say(f"   {made['method']}: {'REFUTED' if verdict.refuted else 'not refuted'}")
    return summary


def _stage_clip(target: Path, force: bool) -> Path:
    staging = stage.Staging(
        clips=1, frames=64, fps=15.0, width=320, height=240, actions=("wave",), seed=27
    )
    made = next(iter(stage.clips(staging)))
    with VideoWriter(target, rate=Fraction(15), size=(320, 240), force=force) as writer:
        for picture in made.frames:
            writer.write(picture)
    return target


def _open_ledger(path: Path, force: bool) -> Ledger:
    if force:
        path.unlink(missing_ok=True)
    ledger = Ledger.open(path)
    ledger.create("demo", owner="demo", epsilon=10.0, delta=1e-5, unit=UNIT, relation="replace")
    return ledger


def _protect(
    source: Path,
    out: Path,
    name: str,
    settings: dict[str, Any],
    ledger: Ledger,
    summary: Summary,
    force: bool,
    say: Say,
) -> None:
    target = out / f"{name}.mp4"
    made = protect.release(
        protect.make(name, settings),
        source,
        target,
        force=force,
        spend=lambda promise: ledger.spending(
            "demo", promise, key=name, acknowledge_no_guarantee=True
        ),
    )
    checked_card(target)
    proven = isinstance(made, Guarantee)
    summary.files.append(target.name)
    summary.releases.append(
        {"method": name, "output": target.name, "proven": proven, "promise": made.to_json()}
    )
    if isinstance(made, Guarantee):
        say(
            f"   {name}: epsilon {format_epsilon(made.epsilon)} for {made.unit.sentence}, relation "
            f"{made.relation.value}, delta {made.delta:g}, released once, accountant {made.accountant}"
        )
    else:
        say(f"   {name}: {made.reason}")


def _train_all(out: Path, summary: Summary, force: bool, say: Say) -> None:
    """A backbone from public clips, where anything happens anywhere; then the private ones two ways."""
    public = staged_records(_staging(320, 101, habit=0.0))
    private, held_out = split_people(staged_records(_staging(960, 202, habit=0.8)))
    torch.manual_seed(0)  # the first weights are public
    backbone = VideoViT(
        len(_ACTIONS), clip=(3, 8, 32, 32), tubelet=(2, 8, 8), width=96, depth=3, heads=3
    )
    say(f"   public pre-training on {len(public)} clips of other people in other rooms")
    _fit(backbone, public, _plain_plan(len(public), 120), rate=5e-4)
    backbone.requires_grad_(False)
    backbone.head.requires_grad_(True)
    plans: list[tuple[str, Plan | None]] = [
        ("before", None),
        ("DP-SGD", _private_plan(len(private), None)),
        ("MaskDP", _private_plan(len(private), MaskedPixels())),
    ]
    for name, plan in plans:
        model = copy.deepcopy(backbone)
        made: dict[str, Any] = {"method": name, "proven": False, "promise": None,
                                "words": f"public clips only; guessing gives {100 / len(_ACTIONS):.0f} %"}  # fmt: skip
        if plan is not None:
            run = _fit(model, private, plan, rate=4e-3)
            target = out / f"{name.lower()}.safetensors"
            save_model(run, plan, target, method=name.lower(), force=force)
            summary.files.append(target.name)
            promise = run.guarantee
            assert isinstance(promise, Guarantee)
            made |= {"output": target.name, "proven": True, "promise": promise.to_json(),
                     "words": f"epsilon {format_epsilon(promise.epsilon)}, {plan.terms}"}  # fmt: skip
        accuracy = _accuracy(model, held_out)
        summary.trainings.append(made | {"held_out_accuracy": accuracy})
        say(f"   {name}: {100 * accuracy:.1f} % of held-out clips right; {made['words']}")


def split_people(records: ArrayRecords, held_out: int = 2) -> tuple[ArrayRecords, ArrayRecords]:
    """Clips to learn from, and those of the last people, whom no training sees.

    Staged people are public, being synthetic. Here they stand for real ones: they are private, and
    the rooms are public.
    """
    assert records.mask is not None
    assert records.owners is not None
    people = sorted(set(records.owners))[-held_out:]
    last = np.array([owner in people for owner in records.owners])
    first, second = (
        ArrayRecords(records.x[chosen], records.y[chosen], mask=~records.mask[chosen])
        for chosen in (~last, last)
    )
    return first, second


_ACTIONS = ("wave", "sit", "walk", "jump")


def _staging(clips: int, seed: int, habit: float) -> stage.Staging:
    return stage.Staging(
        clips=clips,
        actors=12,
        rooms=18,
        actions=_ACTIONS,
        frames=8,
        fps=8.0,
        width=32,
        height=32,
        habit=habit,
        seed=seed,
    )


def _plain_plan(records: int, steps: int) -> Plan:
    return Plan(
        epsilon=float("inf"),
        delta=0.0,
        records=records,
        batch=64,
        steps=steps,
        clip_norm=float("inf"),
        relation=Relation.REPLACE,
        unit=Unit.record(),
    )


def _private_plan(records: int, view: MaskedPixels | None) -> Plan:
    return Plan(
        epsilon=EPSILON,
        delta=1e-5,
        records=records,
        batch=160,
        steps=50,
        clip_norm=1.0,
        relation=Relation.REPLACE,
        unit=Unit.record() if view is None else Unit.masked_tokens(),
        public_view=view,
    )


def _fit(model: VideoViT, records: Records, plan: Plan, rate: float) -> Run:
    others = StartingWeights(other_data=True)  # the backbone saw other people in other rooms
    return train(model, records, plan, optimizer=Adam(rate=rate), prepare=PREPARE, start=others)


def _accuracy(model: torch.nn.Module, records: ArrayRecords) -> float:
    model.eval()
    right = 0
    with torch.no_grad():
        for index in range(len(records)):
            record = records[index]
            scores = model(PREPARE(record.x, 1)[None])
            right += int(scores.argmax(1)[0] == int(record.y))
    model.train()
    return right / len(records)


def closing_lines(summary: Summary, out: Path) -> Sequence[str]:
    """The last screen, for a newcomer."""
    lines = ["", "What you have now", f"  {out}/ holds the outputs, each with a .card.md to read:"]
    for made in summary.releases:
        mark = "proven" if made["proven"] else "not proven"
        lines.append(f"    {made['output']:<16} {mark}")
    lines += ["", "The budget of the recording (ledger.db)", f"  {summary.budget}", ""]
    lines.append(
        "Models trained on private clips, scored on clips of other people in the same rooms"
    )
    for made in summary.trainings:
        lines.append(
            f"    {made['method']:<8} {100 * made['held_out_accuracy']:5.1f} %  {made['words']}"
        )
    lines += [
        "  DP-SGD hides a whole clip. MaskDP hides what the person's pixels show, and learns from the",
        "  room, which is public here, without noise; so are a person's outline and the label.",
        "",
    ]
    return lines
