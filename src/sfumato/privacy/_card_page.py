"""A card as a page that a data-protection officer can read."""

from __future__ import annotations

from sfumato.privacy._card import Card
from sfumato.privacy._discrete import DRAWN_EXACTLY
from sfumato.privacy._frame_review import format_reviews
from sfumato.privacy._guarantee import Guarantee, NoGuarantee, format_epsilon, format_rate
from sfumato.privacy._units import UnitKind

# what tries to refute a promise, and what measures where there is none
_AUDITS = {True: "sfumato audit guarantee CARD", False: "attacks on the output (sfumato audit)"}
_PERSON_UNITS = {UnitKind.PERSON}
_WHOLE_UNITS = {UnitKind.RECORD, UnitKind.CLIP, UnitKind.VIDEO, UnitKind.PERSON}


def officer_view(promise: Guarantee | NoGuarantee) -> dict[str, str]:
    """The three risks of the WP29 opinion on anonymisation (05/2014), answered for this promise."""
    if isinstance(promise, NoGuarantee):
        return dict.fromkeys(
            ("singling out", "linkability", "inference"),
            "Not excluded by proof. See the audit's measured result, if there is one.",
        )
    if not promise.is_private:
        return dict.fromkeys(
            ("singling out", "linkability", "inference"),
            "Not excluded: the noise came from a seed (a test run).",
        )
    one = promise.unit.sentence
    power = format_rate(promise.attacker_power(0.01))
    if promise.unit.kind in _PERSON_UNITS:
        scope = "The bound is for a whole person."
    elif promise.unit.kind in _WHOLE_UNITS:
        scope = "A person who contributed several of these is protected less."
    else:
        scope = "The bound is for this part of a recording only, not for the person shown."
    return {
        "singling out": (
            f"Bounded for {one}: at one false alarm in a hundred, an attacker is right at most "
            f"{power} of the time. {scope}"
        ),
        "linkability": (
            f"Bounded in the same way for two releases only if both are counted together "
            f"(use the ledger). {scope}"
        ),
        "inference": (
            f"What can be learned because {one} took part is bounded by epsilon "
            f"{format_epsilon(promise.epsilon)} and delta {promise.delta:g}; what follows from the population at large is not "
            "limited by any guarantee of this kind."
        ),
    }


def markdown(card: Card) -> str:
    """The readable card."""
    promise = card.promise
    lines = [
        f"# Privacy card: {card.method}",
        "",
        card.done,
        "",
        "## The promise",
        "",
        str(promise),
        "",
    ]
    if isinstance(promise, Guarantee):
        lines += _numbers(promise)
    lines += ["## For the data-protection officer", ""]
    lines += ["| risk | answer |", "| --- | --- |"]
    lines += [_row(risk, answer) for risk, answer in officer_view(promise).items()]
    lines += ["", "## Checklist", ""]
    lines += ["| question | answer |", "| --- | --- |"]
    lines += [_row(question, answer) for question, answer in checklist(card).items()]
    lines += ["", "## Settings", "", "| setting | value |", "| --- | --- |"]
    lines += [_row(name, value) for name, value in sorted(card.settings.items())]
    lines += ["", "## Outputs", "", "| name | bytes | SHA-256 |", "| --- | --- | --- |"]
    lines += [_row(each.name, each.size, f"`{each.sha256}`") for each in card.outputs]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(card.versions.items()))
    lines += ["", f"Made on {card.created} on {card.device} with {versions}.", ""]
    lines += [
        "`sfumato verify OUTPUT` says whether this page is unchanged, and who signed its card.",
        "",
    ]
    return "\n".join(lines)


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def _numbers(promise: Guarantee) -> list[str]:
    return [
        "| quantity | value |",
        "| --- | --- |",
        f"| epsilon | {format_epsilon(promise.epsilon)} |",
        f"| delta | {promise.delta:g} |",
        f"| unit | {promise.unit} |",
        f"| relation | {promise.relation.value} |",
        f"| accountant | {promise.accountant} |",
        f"| Gaussian DP | mu {promise.mu:.3g} |",
        f"| attacker's best hit rate at 1 % / 0.1 % false alarms | "
        f"{format_rate(promise.attacker_power(0.01))} / {format_rate(promise.attacker_power(0.001))} |",
        "",
    ]


def _floating_point(promise: Guarantee | NoGuarantee) -> str:
    """Covered only where the promise itself says so; older cards and trainings do not."""
    if isinstance(promise, Guarantee) and DRAWN_EXACTLY in promise.public:
        return "Covered: everything random was drawn exactly, from integers."
    if isinstance(promise, NoGuarantee):
        return "Does not apply: nothing is proven."
    return "Not covered."


def checklist(card: Card) -> dict[str, str]:
    """The questions of NIST SP 800-226 and of "How to DP-fy ML", section 5.3."""
    promise = card.promise
    trust = {
        "central": "Central: whoever ran this tool saw the private recordings.",
        "local": "Local: each record was protected before anybody else could see it.",
    }[card.model_of_trust]
    answers = {
        "Setting (who is trusted)": trust,
        "What is released": ", ".join(output.name for output in card.outputs),
        "Randomness": promise.randomness,
        "Post-processing": "; ".join(card.post_processing) or "None.",
        "Tuning on private data": card.tuning,
        "Temporary files with private content": "; ".join(card.temporary_files) or "None.",
        "Floating-point attacks on the noise": _floating_point(promise),
        "How to check": f"sfumato verify OUTPUT; {_AUDITS[isinstance(promise, Guarantee)]}",
    }
    if card.detectors:
        answers["What looked for people and text"] = "; ".join(card.detectors)
    if card.reviews is not None:
        answers["Who looked at the output"] = format_reviews(card.reviews)
    if isinstance(promise, NoGuarantee):
        return {"Definition": "None: this method has no proven guarantee.", **answers}
    flavour = "pure" if promise.delta == 0 else "approximate"
    return {
        "Definition": f"({format_epsilon(promise.epsilon)}, {promise.delta:g}) {flavour} DP",
        "Unit of privacy": promise.unit.sentence,
        "Neighbouring data sets": f"{promise.relation.value}: {promise.relation.sentence}",
        "Mechanism": f"{promise.mechanism} ({promise.event.name})",
        "Accounting": promise.accountant,
        "Public by assumption": "; ".join(promise.public) or "Nothing.",
        "Assumptions the code does not enforce": "; ".join(promise.assumptions) or "None.",
        "Not covered": "; ".join(promise.not_covered) or "Nothing further is known.",
        **answers,
    }
