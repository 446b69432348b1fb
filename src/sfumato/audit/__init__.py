"""Attacks and measures: what a release still leaks and what it is still good for."""

from sfumato.audit._bayes import BayesAttacker
from sfumato.audit._measure import Measure, MeasureError
from sfumato.audit._nag import NormalizedAccuracyGain, mnag, nag
from sfumato.audit._probe import Obfuscation, ProbeReport, ProbeSettings, probe, unfinetuned
from sfumato.audit._repeated import RepeatedRelease, repeated_release
from sfumato.audit._scores import AttributeScores, ClassifierScores

__all__ = [
    "AttributeScores",
    "BayesAttacker",
    "ClassifierScores",
    "Measure",
    "MeasureError",
    "NormalizedAccuracyGain",
    "Obfuscation",
    "ProbeReport",
    "ProbeSettings",
    "RepeatedRelease",
    "mnag",
    "nag",
    "probe",
    "repeated_release",
    "unfinetuned",
]
