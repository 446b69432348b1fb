"""Everything that applies to the promise on one card, run, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.audit.certify._canary import canary_run, has_public_half
from sfumato.audit.certify._conformance import Finding, check_training
from sfumato.audit.certify._epsilon import (
    AuditError,
    delta_lower_bound,
    epsilon_lower_bound,
)
from sfumato.audit.certify._ldp_code_audit import audit_ldp_code
from sfumato.audit.certify._release_code import check_release, release_scores, small_shape
from sfumato.audit.certify._training_code import TrainingCode, training_code
from sfumato.audit.certify._worst_case_simulation import affordable_trials, simulated_scores
from sfumato.files import parse_json, write_json, write_text
from sfumato.privacy import (
    Card,
    CardFor,
    ExponentialChoice,
    Guarantee,
    NoAccess,
    NoGuarantee,
    SelfComposed,
    card_for,
    check_outputs,
    delta_of,
    format_epsilon,
    promise_from_json,
)
from sfumato.privacy.verdict import ALARM, Attack, CurvePoint, VerdictFile
from sfumato.protect import Method, ProtectError, Shape, from_card, get, names, shape_of

PROMISE = "promise.json"
CURVE = (0.0, 0.1, 0.3)
_LEAST_CHOICES, _MOST_CHOICES = 500, 40_000


@dataclass
class Verdict:
    """What was promised, what attacks certified, what conforms, and what was not looked at."""

    promise: Guarantee | NoGuarantee
    attacks: list[Attack] = field(default_factory=list)
    curve: list[CurvePoint] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)

    @property
    def file(self) -> VerdictFile:
        """What is written, and what decides whether the promise is refuted."""
        return VerdictFile.of(
            self.promise,
            self.attacks,
            self.curve,
            [(each.check, each.conforms, each.detail) for each in self.findings],
            self.not_run,
        )

    @property
    def refuted(self) -> bool:
        """True when anything contradicts the promise."""
        return self.file.contradicted

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
                f"{100 * ALARM:g} % confidence, promised {point.promised:.4g}: {mark}."
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
        return self.file.to_json() | {"words": str(self)}


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
    | a training, whatever its switches | canaries and conformance of the training code |
    | a noisy release | sensitivity, noise and a distinguisher of the method's own code |
    | PASS-LDP | every entry of its table, and draws of the code that releases |
    | anything else | nothing, and the verdict says so |
    | no guarantee | nothing: there is none to falsify |

    The card must name the output it is asked about, and that must not have changed (R21). A card whose
    output is elsewhere may be named itself: its event can be attacked all the same.
    """
    named = Path(path)
    found = None if named.name == PROMISE else _card_about(named)
    card, output = (None, named) if found is None else (found.card, found.output)
    promise = _stored_promise(named) if card is None else card.promise
    if isinstance(promise, NoGuarantee):
        return Verdict(promise)
    say = progress or (lambda sentence: None)
    verdict = Verdict(promise)
    _simulate(verdict, promise, trials, confidence, generator or np.random.default_rng(), say)
    try:
        _run_code(verdict, promise, card, output, trials, confidence, say)
    except (AuditError, ProtectError) as error:
        what = promise.mechanism if card is None else card.method
        reason = str(error).rstrip(".")
        verdict.not_run.append(f"the code of {what} ({reason}); its event was simulated")
    return verdict


def _run_code(
    verdict: Verdict,
    promise: Guarantee,
    card: Card | None,
    output: Path,
    trials: int,
    confidence: float,
    say: Callable[[str], None],
) -> None:
    """Whatever code of ours made the release, run again on neighbours that show nobody."""
    training, choice = training_code(promise, card), _choice(promise)
    if training is not None:
        say("running the training step with canaries")
        _train(verdict, training, confidence)
    elif choice is not None and "PASS-LDP" in promise.mechanism:
        say("drawing donors for two samples of our own")
        _choose(verdict, choice, trials, confidence)
    elif isinstance(promise.event, NoAccess):
        return
    elif card is None:
        raise AuditError("it is not known from what code this promise came")
    else:
        say("releasing test pictures with the card's settings")
        _release(verdict, card, output, confidence)


def _stored_promise(path: Path) -> Guarantee | NoGuarantee:
    """The promise of a release of records, which has no card of its own."""
    try:
        return promise_from_json(parse_json(path.read_text(encoding="utf-8"))["promise"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AuditError(
            f"Expected a release's {PROMISE}, got a file that is not one ({type(error).__name__})."
        ) from None


def _card_about(path: Path) -> CardFor:
    found = card_for(path)
    if found.state == "changed" or not path.name.endswith(".card.json"):
        check_outputs(found.card, found.path.parent)
    return found


def verdict_paths(card: str | Path) -> tuple[Path, Path]:
    """Where the verdict about a card (or the output it stands beside) is written."""
    named = Path(card) if Path(card).name == PROMISE else card_for(card).path
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
            certified = delta_lower_bound(first, second, epsilon=epsilon, confidence=ALARM)
            promised = delta_of(event, epsilon, promise.relation)
            verdict.curve.append(CurvePoint(epsilon, certified, promised))


def _train(verdict: Verdict, code: TrainingCode, confidence: float) -> None:
    """The installed training code under the card's rate, noise and switches, with canaries."""
    if not code.calibrated:
        detail = (
            f"the plan for this epsilon has noise {code.plan.noise_multiplier:.4g}, the card "
            f"{code.noise:.4g}"
        )
        verdict.findings.append(Finding("calibration", False, detail))
    if code.plan.as_published:
        verdict.not_run.append(
            "conformance; the published form shares its batch, and its card says so"
        )
    else:
        verdict.findings += check_training(code.plan)
    bound = canary_run(code.plan, canaries=code.canaries).lower_bound(confidence)
    verdict.attacks.append(Attack(code.target, code.limit, bound))
    if has_public_half(code.plan.public_view) and not code.plan.as_published:
        alone = canary_run(code.plan, canaries=code.canaries, shared_batch=False)
        target = f"{code.target}, private stream alone"
        verdict.attacks.append(Attack(target, code.limit, alone.lower_bound(confidence)))


def _release(verdict: Verdict, card: Card, output: Path, confidence: float) -> None:
    """The release's own code under the card's settings, on two neighbours of our making."""
    promise = verdict.promise
    assert isinstance(promise, Guarantee)
    method = _noisy_method(card)
    if output.is_file():
        full = shape_of(output, count=method.needs_length)
        again = method.promise(full)
        assert isinstance(again, Guarantee)
        agrees = again.epsilon <= promise.epsilon * (1 + 1e-6) and again.delta <= promise.delta
        detail = f"epsilon {again.epsilon:.4g} at delta {again.delta:.4g}"
        verdict.findings.append(Finding("the card's settings give its epsilon", agrees, detail))
    elif method.noise_needs_size or method.needs_length:
        raise AuditError("its file is not beside the card, so its size is unknown")
    else:
        full = Shape(64, 64)
    shape = small_shape(method, full)
    verdict.findings += check_release(method, shape)
    small = method.promise(shape)
    assert isinstance(small, Guarantee)
    bound = epsilon_lower_bound(
        *release_scores(method, shape), delta=small.delta, confidence=confidence,
        method="brightest against darkest unit, Clopper-Pearson",
    )  # fmt: skip
    verdict.attacks.append(Attack("Release code", small.epsilon, bound))


def _noisy_method(card: Card) -> Method:
    if card.method not in names() or "release-code" not in get(card.method).audits:
        raise AuditError("it is not one of sfumato's noisy methods")
    return from_card(card)


def _choose(verdict: Verdict, choice: tuple[float, int], trials: int, confidence: float) -> None:
    """PASS-LDP: the table of one draw, and draws of the code that releases."""
    promise = verdict.promise
    assert isinstance(promise, Guarantee)
    epsilon, draws = choice
    count = max(_LEAST_CHOICES, min(trials, _MOST_CHOICES // draws))
    findings, scores = audit_ldp_code(epsilon, draws, trials=count)
    verdict.findings += findings
    bound = epsilon_lower_bound(
        *scores, delta=promise.delta, confidence=confidence,
        method="a sample on a donor against its opposite, Clopper-Pearson",
    )  # fmt: skip
    verdict.attacks.append(Attack("Release code", promise.epsilon, bound))


def _choice(promise: Guarantee) -> tuple[float, int] | None:
    """Epsilon a draw and draws of PASS-LDP; None for other events."""
    event = promise.event
    if isinstance(event, ExponentialChoice):
        return event.epsilon, 1
    if isinstance(event, SelfComposed) and isinstance(event.event, ExponentialChoice):
        return event.event.epsilon, event.count
    return None
