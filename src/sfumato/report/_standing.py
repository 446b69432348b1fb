"""What a release can be relied on for, in a tone and a few words."""

from __future__ import annotations

from sfumato.privacy import Guarantee, format_epsilon
from sfumato.report._collect import ReportedRelease


def standing(release: ReportedRelease) -> tuple[str, str]:
    """Tone and the few words that stand beside a release's name."""
    promise = release.card.promise
    if release.intact == "changed":
        return "bad", "Changed since: the promise does not hold for it"
    if release.forged:
        return "bad", "The card was changed after it was signed"
    if release.page_changed:
        return "bad", "The readable page beside the card was changed"
    if not isinstance(promise, Guarantee):
        return "warn", "No guarantee: only measurements"
    if not promise.is_private:
        return "bad", "Test run: NOT PRIVATE"
    if audit_tone(release) == "bad":
        return "bad", "Promise refuted by the audit"
    stated = f"epsilon {format_epsilon(promise.epsilon)}, {promise.terms}"
    if release.intact is None:
        return "warn", f"Promised: {stated}; its file was not here to be compared"
    return "good", f"Proven: {stated}"


def audit_outcome(release: ReportedRelease) -> tuple[str, str]:
    if release.verdict is None:
        return "plain", "No verdict of an audit was given."
    return release.verdict.outcome(release.card)


def audit_tone(release: ReportedRelease) -> str:
    return audit_outcome(release)[0]
