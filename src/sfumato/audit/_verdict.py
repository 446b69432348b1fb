"""Everything that applies to the promise on one card, run, and what came of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.audit._canary import canary_run
from sfumato.audit._conformance import Finding, check_training
from sfumato.audit._conformance_release import (
    check_basis,
    check_release_noise,
    distinguisher_scores,
)
from sfumato.audit._epsilon import AuditError, LowerBound, delta_lower_bound, epsilon_lower_bound
from sfumato.audit._pairs import affordable_trials, simulated_scores
from sfumato.files import write_json, write_text
from sfumato.learn import MaskedPixels, Plan
from sfumato.privacy import (
    Card,
    Gaussian,
    Guarantee,
    NoAccess,
    NoGuarantee,
    PoissonSampled,
    SelfComposed,
    SharedBatch,
    UnitKind,
    delta_of,
    epsilon_of,
    format_epsilon,
    promise_from_json,
    read_card,
)
from sfumato.protect._release import shape_of
from sfumato.protect.video import VideoDprp
from sfumato.protect.video._extent import unit_extent

# Steps of a training that are really run; a longer one is audited by its first steps.
MOST_STEPS = 100
PROMISE = "promise.json"
CURVE = (0.0, 0.1, 0.3)
CURVE_CONFIDENCE = 0.999
_DISTINGUISHER_DRAWS = 40_000_000


@dataclass(frozen=True)
class Attack:
    """A certified lower limit beside the epsilon that it must not exceed."""

    target: str
    promised: float
    bound: LowerBound

    @property
    def refutes(self) -> bool:
        return self.bound.exceeds(self.promised)


@dataclass(frozen=True)
class CurvePoint:
    """Certified delta at a small epsilon beside the promised one: the most sensitive certificate."""

    epsilon: float
    certified: float
    promised: float

    @property
    def refutes(self) -> bool:
        return self.certified > self.promised * (1 + 1e-9) + 1e-12


@dataclass
class Verdict:
    """What was promised, what attacks certified, what conforms, and what was not looked at."""

    promise: Guarantee | NoGuarantee
    attacks: list[Attack] = field(default_factory=list)
    curve: list[CurvePoint] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)

    @property
    def refuted(self) -> bool:
        """True when anything contradicts the promise."""
        return (
            any(attack.refutes for attack in self.attacks)
            or any(point.refutes for point in self.curve)
            or any(not finding.conforms for finding in self.findings)
        )

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        promise = self.promise
        if isinstance(promise, NoGuarantee):
            yield f"There is no guarantee to falsify: {promise.reason}"
            yield "What still leaks can be measured by attacks on the output (sfumato audit)."
            return
        yield (
            f"Promised: epsilon {format_epsilon(promise.epsilon)} at delta {promise.delta:g} for "
            f"{promise.unit.sentence}, {promise.relation.value} ({promise.mechanism})."
        )
        if not promise.is_private:
            yield "The noise came from a seed: whoever knows it can remove it, so nothing is private."
        for attack in self.attacks:
            mark = "REFUTED" if attack.refutes else "not refuted"
            yield f"{attack.target}: {attack.bound}; promised {attack.promised:.3g}: {mark}."
            if attack.bound.gaussian_fit is not None:
                yield (
                    f"  (Diagnostic, not a certificate: a Gaussian fit would say "
                    f"{attack.bound.gaussian_fit:.3g}.)"
                )
        for point in self.curve:
            mark = "REFUTED" if point.refutes else "not refuted"
            yield (
                f"delta at epsilon {point.epsilon:g} is at least {point.certified:.4g} with "
                f"{100 * CURVE_CONFIDENCE:g} % confidence, promised {point.promised:.4g}: {mark}."
            )
        for finding in self.findings:
            yield f"{'conforms' if finding.conforms else 'WRONG'}: {finding.check} ({finding.detail})."
        for reason in self.not_run:
            yield f"Not run: {reason}."
        yield (
            "The promise is REFUTED: do not rely on it."
            if self.refuted
            else "Nothing here contradicts the promise. An audit can refute a promise, never prove it."
        )

    def to_json(self) -> dict[str, Any]:
        promise = self.promise
        return {
            "promise": promise.to_json(),
            "falsifiable": isinstance(promise, Guarantee),
            "refuted": self.refuted,
            "attacks": [
                {"target": a.target, "promised": a.promised, "refutes": a.refutes}
                | {key: _plain(value) for key, value in a.bound.to_json().items()}
                for a in self.attacks
            ],
            "delta_curve": [vars(point) | {"refutes": point.refutes} for point in self.curve],
            "delta_curve_confidence": CURVE_CONFIDENCE,
            "conformance": [finding.to_json() for finding in self.findings],
            "not_run": list(self.not_run),
            "words": str(self),
        }


def audit_guarantee(
    path: str | Path,
    *,
    trials: int = 20_000,
    confidence: float = 0.95,
    progress: Callable[[str], None] | None = None,
    generator: np.random.Generator | None = None,
) -> Verdict:
    """Try to refute the promise of a card, of the output beside it, or of a ``promise.json``.

    | what the promise says | what is run beside the simulation of its event |
    | --- | --- |
    | a training with Poisson batches | canaries and conformance of the training code |
    | ``dprp`` with its output beside the card | basis, noise and distinguisher of the release code |
    | anything else | nothing, and the verdict says so |
    | no guarantee | nothing: there is none to falsify |
    """
    named = Path(path)
    card = None if named.name == PROMISE else read_card(named)
    promise = _stored_promise(named) if card is None else card.promise
    if isinstance(promise, NoGuarantee):
        return Verdict(promise)
    say = progress or (lambda sentence: None)
    verdict = Verdict(promise)
    _simulate(verdict, promise, trials, confidence, generator or np.random.default_rng(), say)
    step = _training_step(promise)
    if step is not None:
        say("running the training step with canaries")
        _train(verdict, promise, step, confidence)
    elif card is not None and card.method == VideoDprp.name:
        say("releasing test pictures with the card's settings")
        _release(verdict, card, named, confidence)
    elif not isinstance(promise.event, NoAccess):
        what = promise.mechanism if card is None else card.method
        verdict.not_run.append(
            f"the code of {what}; its event was simulated from its description alone"
        )
    return verdict


def _stored_promise(path: Path) -> Guarantee | NoGuarantee:
    """The promise of a release of records, which has no card of its own."""
    try:
        return promise_from_json(json.loads(path.read_text(encoding="utf-8"))["promise"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AuditError(
            f"Expected a release's {PROMISE}, got a file that is not one ({type(error).__name__})."
        ) from None


def verdict_paths(card: str | Path) -> tuple[Path, Path]:
    """Where the verdict about a card (or the output it stands beside) is written."""
    named = Path(card)
    base = named.name.removesuffix(".card.json")
    return named.with_name(f"{base}.audit.json"), named.with_name(f"{base}.audit.md")


def write_verdict(verdict: Verdict, card: str | Path, *, force: bool = False) -> tuple[Path, Path]:
    """``OUTPUT.audit.json`` and the same in words, beside the card."""
    machine, words = verdict_paths(card)
    write_json(machine, verdict.to_json(), force=force)
    lines = str(verdict).splitlines()
    text = "# Audit of the guarantee\n\n" + "".join(f"- {line.strip()}\n" for line in lines)
    write_text(words, text, force=force)
    return machine, words


def _simulate(
    verdict: Verdict,
    promise: Guarantee,
    trials: int,
    confidence: float,
    generator: np.random.Generator,
    say: Callable[[str], None],
) -> None:
    event = promise.event
    if isinstance(event, NoAccess):
        verdict.not_run.append("a simulation; the event says that nothing private was read")
        return
    count = affordable_trials(event, trials)
    say(f"simulating {count} runs on each of two neighbours")
    try:
        first, second = simulated_scores(event, promise.relation, count, generator)
    except AuditError as error:
        verdict.not_run.append(f"a simulation ({error})")
        return
    bound = epsilon_lower_bound(
        first,
        second,
        delta=promise.delta,
        confidence=confidence,
        method="simulated mechanism on its worst neighbours, Clopper-Pearson",
    )
    verdict.attacks.append(Attack("Accounting", promise.epsilon, bound))
    for epsilon in CURVE:
        if epsilon < max(promise.epsilon, 1e-9):
            certified = delta_lower_bound(
                first, second, epsilon=epsilon, confidence=CURVE_CONFIDENCE
            )
            promised = delta_of(event, epsilon, promise.relation)
            verdict.curve.append(CurvePoint(epsilon, certified, promised))


def _training_step(promise: Guarantee) -> tuple[float, Gaussian, int, bool] | None:
    """Sampling rate, noise, steps and shared batch of a training; None for other events."""
    event = promise.event
    if isinstance(event, SharedBatch):
        return event.probability, event.event, event.steps, True
    if isinstance(event, SelfComposed) and isinstance(event.event, PoissonSampled):
        return event.event.probability, event.event.event, event.count, False
    return None


def _train(
    verdict: Verdict,
    promise: Guarantee,
    step: tuple[float, Gaussian, int, bool],
    confidence: float,
) -> None:
    """The installed training code under the card's rate and noise, with canaries of our own."""
    rate, noise, steps, shared = step
    if shared:
        verdict.not_run.append(
            "the training code; the card states the published shared batch and its true epsilon"
        )
        return
    taken = min(steps, MOST_STEPS)
    event = SelfComposed(PoissonSampled(rate, noise), taken)
    limit = epsilon_of(event, promise.delta, promise.relation)
    share = Fraction(rate).limit_denominator(1_000_000)
    masked = promise.unit.kind is UnitKind.MASKED_TOKENS
    plan = Plan(
        epsilon=limit, delta=promise.delta, records=share.denominator, batch=share.numerator,
        steps=taken, clip_norm=1.0, relation=promise.relation,
        unit="masked-tokens" if masked else "record",  # type: ignore[arg-type]
        public_view=MaskedPixels(private="rest") if masked else None,
    )  # fmt: skip
    if abs(plan.noise_multiplier / noise.noise_multiplier - 1) > 0.01:
        finding = Finding(
            "calibration",
            False,
            f"the plan for this epsilon has noise {plan.noise_multiplier:.4g}, the card "
            f"{noise.noise_multiplier:.4g}",
        )
        verdict.findings.append(finding)
    verdict.findings += check_training(plan)
    target = f"Training code, {'all' if taken == steps else 'first'} {taken} steps"
    verdict.attacks.append(Attack(target, limit, canary_run(plan).lower_bound(confidence)))


def _release(verdict: Verdict, card: Card, path: Path, confidence: float) -> None:
    """The basis and the noise of a Video-DPRP release, from the card's settings."""
    assert isinstance(card.promise, Guarantee)
    output = path.with_name(path.name.removesuffix(".card.json"))
    if not output.is_file():
        verdict.not_run.append(
            "the release; its file is not beside the card, so its size is unknown"
        )
        return
    known = VideoDprp.accepted_settings()
    method = VideoDprp(**{k: v for k, v in card.settings.items() if k in known})
    shape = shape_of(output, count=method.needs_length)
    promise = method.promise(shape)
    assert isinstance(promise, Guarantee)
    agrees = promise.epsilon <= card.promise.epsilon * (1 + 1e-6)
    verdict.findings.append(
        Finding("the card's settings give its epsilon", agrees, f"epsilon {promise.epsilon:.4g}")
    )
    basis, scale = method.basis(shape), method.scale(shape)
    pixels, frames = unit_extent(method.unit, shape)
    generator = method.randomness.generator()
    try:
        verdict.findings.append(
            check_basis(basis, shape.height, shape.width, pixels=pixels, frames=frames)
        )
        verdict.findings.append(
            check_release_noise(basis, scale, shape.height, shape.width, generator=generator)
        )
    except AuditError as error:
        verdict.not_run.append(f"the basis ({error})")
        return
    count = int(np.clip(_DISTINGUISHER_DRAWS // basis.coefficients, 500, 20_000))
    scores = distinguisher_scores(
        basis, scale, shape.height, shape.width,
        pixels=pixels, frames=frames, trials=count, generator=generator,
    )  # fmt: skip
    bound = epsilon_lower_bound(
        *scores, delta=promise.delta, confidence=confidence,
        method="brightest against darkest unit, Clopper-Pearson",
    )  # fmt: skip
    verdict.attacks.append(Attack("Release code", promise.epsilon, bound))


def _plain(value: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return value
