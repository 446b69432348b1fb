"""The audit writes its verdict by the schema the report reads by, and both raise one alarm."""

from __future__ import annotations

import json
import math

import pytest

from sfumato.audit import Finding, LowerBound, Verdict
from sfumato.audit.certify._verdict import Attack
from sfumato.privacy import Bounds, Card, Gaussian, Guarantee, Output
from sfumato.privacy.verdict import ALARM, CurvePoint, alarm_threshold, parse_verdict
from sfumato.report import parse_verdict as parse_for_the_report

PROMISE = Guarantee(
    mechanism="test noise",
    unit="frame",
    relation="replace",
    delta=1e-5,
    event=Gaussian(1.0, Bounds.DIFFERENCE),
    accountant="analytic-gaussian",
)
CARD = Card(
    method="test",
    done="Done.",
    promise=PROMISE,
    outputs=(Output(name="a.mp4", sha256="0" * 64, size=1),),
)


def verdict(*beside: tuple[float, float], limit: float = 1.0) -> Verdict:
    made = Verdict(PROMISE)
    bound = LowerBound(limit, 0.95, 1e-5, "a test", 1000, beside)
    made.attacks.append(Attack("Accounting", PROMISE.epsilon, bound))
    return made


def tone(found: Verdict) -> str:
    read = parse_for_the_report(json.loads(json.dumps(found.to_json(), allow_nan=False)))
    return read.outcome(CARD)[0]


ABOVE = PROMISE.epsilon + 1


@pytest.mark.parametrize(
    ("beside", "limit", "refuted"),
    [
        # a sound mechanism exceeds its epsilon at 99.9 % in one audit out of a thousand: no alarm
        (((0.99, ABOVE), (0.999, ABOVE), (ALARM, 0.5)), ABOVE, False),
        (((0.99, ABOVE), (ALARM, ABOVE)), ABOVE, True),
        (((ALARM, ABOVE), (0.99, 0.5)), 0.5, True),
        # nobody stated a limit at the confidence of alarms
        (((0.99, 0.5),), ABOVE, True),
        ((), ABOVE, True),
        (((ALARM, math.inf),), 1.0, True),
        (((ALARM, 0.5),), 1.0, False),
    ],
)
def test_audit_and_report_raise_the_same_alarm(
    beside: tuple[tuple[float, float], ...], limit: float, refuted: bool
) -> None:
    found = verdict(*beside, limit=limit)
    assert found.refuted is refuted
    assert tone(found) == ("bad" if refuted else "good")
    assert found.to_json()["refuted"] is refuted


def test_every_part_of_a_verdict_can_refute() -> None:
    sound = verdict((ALARM, 0.5))
    assert tone(sound) == "good"
    sound.curve.append(CurvePoint(0.1, 0.2, 0.3))
    assert tone(sound) == "good"
    sound.curve.append(CurvePoint(0.3, 0.4, 0.3))
    assert (sound.refuted, tone(sound)) == (True, "bad")
    broken = verdict((ALARM, 0.5))
    broken.findings.append(Finding("noise", False, "half of it"))
    assert (broken.refuted, tone(broken)) == (True, "bad")


def test_what_is_written_is_read_back_whole() -> None:
    found = verdict((0.99, 0.7), (ALARM, 0.5))
    found.curve.append(CurvePoint(0.1, 0.2, 0.3))
    found.findings.append(Finding("noise", True, "as stated"))
    found.not_run.append("the code of test")
    assert parse_verdict(json.loads(json.dumps(found.to_json()))) == found.file


def test_a_flag_cannot_hide_what_the_numbers_say() -> None:
    told = verdict((ALARM, ABOVE)).to_json()
    told["refuted"] = False
    told["attacks"][0]["refutes"] = False
    assert parse_verdict(told).outcome(CARD)[0] == "bad"


def test_the_alarm_stands_at_one_place() -> None:
    assert ALARM == 0.9999
    assert alarm_threshold(ALARM, 2.0) == 2.0
    assert alarm_threshold(0.95, 3.0, ((0.99, 2.0), (ALARM, 1.0))) == 1.0
    assert alarm_threshold(0.95, 3.0, ((0.99, 2.0),)) == 3.0
