"""``sfumato account``: noise for a promise, the promise of a noise, or a paper's claim set right."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer
from pydantic import Field
from rich.table import Table

from sfumato.cli._output import JSON, emit
from sfumato.privacy import (
    ACCOUNTANTS,
    PUBLISHED,
    AccountingError,
    Event,
    Group,
    Guarantee,
    NoGuarantee,
    Relation,
    Unit,
    calibrate_dpsgd,
    calibrate_event,
    dpsgd_event,
    dpsgd_schedule,
    epsilon_of,
    format_epsilon,
    format_rate,
    truths,
)
from sfumato.settings import Settings, validated

app = typer.Typer(add_completion=False)


class _Numbers(Settings):
    """What an accountant can tell anything about, in a time that somebody would wait."""

    epsilon: Annotated[float, Field(ge=1e-6, le=1e6)] | None
    noise_multiplier: Annotated[float, Field(ge=1e-3, le=1e6)] | None
    delta: Annotated[float, Field(ge=1e-30, lt=1)] | None
    batch: Annotated[int, Field(ge=1, le=10**12)] | None
    records: Annotated[int, Field(ge=1, le=10**12)] | None
    sampling_rate: Annotated[float, Field(ge=1e-9, le=1)] | None
    steps: Annotated[int, Field(ge=1, le=10**8)] | None
    epochs: Annotated[float, Field(gt=0, le=10**6)] | None
    group: Annotated[int, Field(ge=1, le=1000)]


_ASSUMPTIONS = (
    "every unit joins a batch by its own secret coin, and nothing shows who did",
    "each unit's gradient is clipped, and the noisy sum is divided by a constant",
)


@app.command()
def account(
    epsilon: float | None = typer.Option(None, help="The promise to keep: finds the noise."),
    noise_multiplier: float | None = typer.Option(
        None, help="Noise over clip norm: finds the epsilon."
    ),
    delta: float | None = typer.Option(None, help="Well below 1 / records, such as 1e-6."),
    batch: int | None = typer.Option(None, help="Expected batch size."),
    records: int | None = typer.Option(None, help="Records (persons, for unit person)."),
    sampling_rate: float | None = typer.Option(None, help="Instead of batch and records."),
    steps: int | None = typer.Option(None, help="Training steps."),
    epochs: float | None = typer.Option(None, help="Instead of steps."),
    relation: str | None = typer.Option(
        None, help="How neighbours differ: add-remove, replace or zero-out."
    ),
    unit: str = typer.Option("record", help="Who is protected: record, clip, masked-tokens ..."),
    group: int = typer.Option(1, help="Records per person, to state it for a whole person."),
    accountant: str = typer.Option("pld", help=f"One of {', '.join(ACCOUNTANTS)}."),
    as_published: str | None = typer.Option(
        None, help=f"A paper's setting: {', '.join(PUBLISHED)} or all."
    ),
    as_json: bool = JSON,
) -> None:
    """Account for DP-SGD, before or after training.

    The noise for a promise:  sfumato account --epsilon 0.5 --delta 1e-6 --batch 128 --records 40000
    --epochs 150 --relation replace

    What a noise gives:  sfumato account --noise-multiplier 1.1 --delta 1e-5 --sampling-rate 0.01
    --steps 10000 --relation add-remove

    What a paper's setting really gives:  sfumato account --as-published maskdp-ntu
    """
    if as_published is not None:
        _published(as_published, as_json)
        return
    numbers = {"epsilon": epsilon, "noise_multiplier": noise_multiplier, "delta": delta,
               "batch": batch, "records": records, "sampling_rate": sampling_rate,
               "steps": steps, "epochs": epochs, "group": group}  # fmt: skip
    validated(_Numbers, numbers, "sfumato account", AccountingError)
    if (epsilon is None) == (noise_multiplier is None):
        raise AccountingError(
            "Expected either --epsilon (to find the noise) or --noise-multiplier (to find epsilon); "
            "try sfumato account --help."
        )
    if relation is None:
        raise AccountingError(
            "Expected --relation add-remove, replace or zero-out: epsilon has no meaning without it."
        )
    if delta is None:
        raise AccountingError("Expected --delta, well below 1 / records, such as --delta 1e-6.")
    q, count = dpsgd_schedule(
        batch=batch, records=records, sampling_rate=sampling_rate, steps=steps, epochs=epochs
    )
    kind = Relation.parse(relation)

    def event(noise: float) -> Event:
        single = dpsgd_event(noise, q, count)
        return Group(single, group) if group > 1 else single

    if noise_multiplier is None:
        assert epsilon is not None
        noise = calibrate_dpsgd(epsilon, delta, q, count, kind, _searchable(accountant))
        if group > 1:
            noise = calibrate_event(event, epsilon, delta, kind, accountant, guess=noise * group)
    else:
        noise = noise_multiplier
    made = event(noise)
    promise = Guarantee(
        mechanism=f"DP-SGD, {count} Poisson steps at rate {q:.4g}, noise multiplier {_up(noise)}",
        unit=_stated_unit(unit, group),
        relation=kind,
        delta=delta,
        event=made,
        accountant=accountant,
        assumptions=_ASSUMPTIONS,
        not_covered=("tuning, early stopping and statistics taken from the private data",),
    )
    check = epsilon_of(made, delta, kind, "rdp")
    payload = {
        "noise_multiplier": noise,
        "sampling_rate": q,
        "steps": count,
        "guarantee": promise.to_json(),
        "mu": promise.mu,
        "true_positive_rate_at_1_percent": promise.attacker_power(0.01),
        "true_positive_rate_at_0.1_percent": promise.attacker_power(0.001),
        "rdp_epsilon": check if math.isfinite(check) else None,
    }
    emit(as_json, payload, _summary(noise, promise, check), "", str(promise))


def _stated_unit(unit: str, group: int) -> Unit:
    """What the promise is about: ``--group`` counts records, so it can only state a person who has them."""
    stated = Unit.parse(unit)
    if group == 1:
        return stated
    if stated == Unit.record():
        return Unit.person(group)
    needed = Unit.record().needed_for(stated)
    if needed is None or needed > group:
        raise AccountingError(
            f"Expected --unit record or person(m) with m up to {group} beside --group {group}, which "
            f"counts the records of one person, got {stated}."
        )
    return stated


def _searchable(accountant: str) -> str:
    return "pld" if accountant == "analytic-gaussian" else accountant


def _summary(noise: float, promise: Guarantee, check: float) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in (
        ("noise multiplier", f"{_up(noise)}   (standard deviation of the noise / clip norm)"),
        (
            "epsilon",
            f"{format_epsilon(promise.epsilon)}   at delta {promise.delta:g}, unit {promise.unit}, "
            f"relation {promise.relation.value}, accountant {promise.accountant}",
        ),
        ("cross-check", f"{format_epsilon(check)}   by Renyi divergences (never below)"),
        ("mu-GDP", f"{format_epsilon(promise.mu)}   a Gaussian release that protects no better"),
        (
            "attacker",
            f"right at most {format_rate(promise.attacker_power(0.01))} when wrong 1 % of the time, "
            f"{format_rate(promise.attacker_power(0.001))} when wrong 0.1 %",
        ),
    ):
        table.add_row(f"[bold]{name}[/bold]", value)
    return table


def _up(noise: float) -> str:
    """Five significant digits, rounded up: whoever types it in again keeps the promise."""
    scale = 10.0 ** (4 - math.floor(math.log10(noise)))
    return f"{math.ceil(noise * scale * (1 - 1e-12)) / scale:.10g}"


def _published(name: str, as_json: bool) -> None:
    lines: list[str] = []
    rows: list[dict[str, Any]] = []
    seen: set[tuple[str, float]] = set()
    for setting, claimed, truth in truths(name):
        if not any(known == setting.name for known, _ in seen):
            lines += ["", f"[bold]{setting.name}[/bold]: {setting.paper}. Claims {setting.claim}."]
        if (setting.name, claimed) not in seen and claimed:
            noise = setting.noise_multiplier(claimed)
            lines.append(f"  claimed epsilon {claimed:g} (noise {noise:.4g}); true:")
        seen.add((setting.name, claimed))
        lines.append(
            f"    [bold]{truth.stated:>18}[/bold]  {truth.what}; unit {truth.unit}, "
            f"{truth.relation.value}, delta {truth.delta:g}, {truth.accountant}"
        )
        if isinstance(truth.promise, NoGuarantee):
            lines.append(f"    {truth.promise.reason}")
        rows.append(
            {
                "setting": setting.name,
                "paper": setting.paper,
                "claim": setting.claim,
                "claimed_epsilon": claimed or None,
                "what": truth.what,
                "epsilon": truth.epsilon if math.isfinite(truth.epsilon) else None,
                "bound": "at least" if truth.at_least is not None else "at most",
                "unit": str(truth.unit),
                "relation": truth.relation.value,
                "delta": truth.delta,
                "accountant": truth.accountant,
                "promise": None if truth.promise is None else truth.promise.to_json(),
            }
        )
    emit(as_json, {"rows": rows}, "\n".join(lines[1:]))
