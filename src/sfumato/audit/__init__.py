"""Attacks and measures: what a release still leaks and what it is still good for."""

from sfumato.audit._accuracy import (
    CorrectKeypoints,
    HeadSizedKeypoints,
    MeanPerClassAccuracy,
    Psnr,
    Ssim,
    TopOne,
    ssim,
)
from sfumato.audit._bayes import BayesAttacker
from sfumato.audit._canary import CanaryRun, canary_run
from sfumato.audit._conformance import Finding, check_training
from sfumato.audit._conformance_release import (
    check_basis,
    check_release_noise,
    check_table,
    distinguisher_scores,
)
from sfumato.audit._epsilon import (
    AuditError,
    LowerBound,
    delta_lower_bound,
    epsilon_lower_bound,
    gaussian_fit,
)
from sfumato.audit._measure import Estimate, Measure, MeasureError, Result
from sfumato.audit._measures_file import measures_json, measures_path, write_measures
from sfumato.audit._multi_label import (
    MultiLabel,
    MultiLabelScores,
    average_precision,
    class_f1,
    cmap,
)
from sfumato.audit._nag import NormalizedAccuracyGain, mnag, nag
from sfumato.audit._one_run import one_run_lower_bound
from sfumato.audit._pairs import simulated_scores
from sfumato.audit._probe import Obfuscation, ProbeReport, ProbeSettings, probe, unfinetuned
from sfumato.audit._repeated import RepeatedRelease, repeated_release
from sfumato.audit._scores import AttributeScores, ClassifierScores
from sfumato.audit._strength import Strength, strengths
from sfumato.audit._verdict import Verdict, audit_guarantee, verdict_paths, write_verdict
from sfumato.data import pckh

__all__ = [
    "AttributeScores",
    "AuditError",
    "BayesAttacker",
    "CanaryRun",
    "ClassifierScores",
    "CorrectKeypoints",
    "Estimate",
    "Finding",
    "HeadSizedKeypoints",
    "LowerBound",
    "MeanPerClassAccuracy",
    "Measure",
    "MeasureError",
    "MultiLabel",
    "MultiLabelScores",
    "NormalizedAccuracyGain",
    "Obfuscation",
    "ProbeReport",
    "ProbeSettings",
    "Psnr",
    "RepeatedRelease",
    "Result",
    "Ssim",
    "Strength",
    "TopOne",
    "Verdict",
    "audit_guarantee",
    "average_precision",
    "canary_run",
    "check_basis",
    "check_release_noise",
    "check_table",
    "check_training",
    "class_f1",
    "cmap",
    "delta_lower_bound",
    "distinguisher_scores",
    "epsilon_lower_bound",
    "gaussian_fit",
    "measures_json",
    "measures_path",
    "mnag",
    "nag",
    "one_run_lower_bound",
    "pckh",
    "probe",
    "repeated_release",
    "simulated_scores",
    "ssim",
    "strengths",
    "unfinetuned",
    "verdict_paths",
    "write_measures",
    "write_verdict",
]
