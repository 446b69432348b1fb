"""``sfumato account``: noise for a promise, the promise of a noise, or a paper's claim set right."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from rich.table import Table

from sfumato.cli._help import EXPERT
from sfumato.cli._output import emit
from sfumato.cli._verb import verb, verbs

if TYPE_CHECKING:
    from sfumato.privacy.dpsgd import DpsgdPromise

app = verbs()


@verb(
    app,
    "sfumato account --epsilon 0.5 --delta 1e-6 --batch 128 --records 40000 --epochs 150 "
    "--relation replace",
    "sfumato account --noise-multiplier 1.1 --delta 1e-5 --sampling-rate 0.01 --steps 10000 "
    "--relation add-remove",
    "sfumato account --as-published maskdp-ntu",
)
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
    accountant: str = typer.Option(
        "pld", help="pld, rdp or analytic-gaussian.", rich_help_panel=EXPERT
    ),
    as_published: str | None = typer.Option(
        None,
        help="A paper's setting: maskdp-ntu, maskdp-ucf, maskdp-tsh, pose-mpii, video-dprp, pass or all.",
    ),
    *,
    as_json: bool,
) -> None:
    """The noise that a DP-SGD promise needs, the promise of a noise, or what a paper's setting gives."""
    from sfumato.privacy.dpsgd import dpsgd_promise

    if as_published is not None:
        _published(as_published, as_json)
        return
    found = dpsgd_promise(
        epsilon=epsilon, noise_multiplier=noise_multiplier, delta=delta, batch=batch, records=records,
        sampling_rate=sampling_rate, steps=steps, epochs=epochs, relation=relation, unit=unit,
        group=group, accountant=accountant,
    )  # fmt: skip
    emit(as_json, found.to_json(), _summary(found), "", escape(str(found.guarantee)))


def _summary(found: DpsgdPromise) -> Table:
    from sfumato.privacy import format_epsilon, format_rate

    promise = found.guarantee
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in (
        (
            "noise multiplier",
            f"{found.noise_in_words}   (standard deviation of the noise / clip norm)",
        ),
        (
            "epsilon",
            f"{format_epsilon(promise.epsilon)}   at delta {promise.delta:g}, unit {promise.unit}, "
            f"relation {promise.relation.value}, accountant {promise.accountant}",
        ),
        (
            "cross-check",
            f"{format_epsilon(found.rdp_epsilon)}   by Renyi divergences (never below)",
        ),
        ("mu-GDP", f"{format_epsilon(promise.mu)}   a Gaussian release that protects no better"),
        (
            "attacker",
            f"right at most {format_rate(promise.attacker_power(0.01))} when wrong 1 % of the time, "
            f"{format_rate(promise.attacker_power(0.001))} when wrong 0.1 %",
        ),
    ):
        table.add_row(f"[bold]{name}[/bold]", value)
    return table


def _published(name: str, as_json: bool) -> None:
    from sfumato.privacy import NoGuarantee, truths

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
