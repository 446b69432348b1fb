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
from sfumato.audit._attacker import Attacker, Effort, Model, cross_infer
from sfumato.audit._bayes import BayesAttacker
from sfumato.audit._canary import CanaryRun, canary_run
from sfumato.audit._choice_code import choice_code
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
from sfumato.audit._identity_views import face_vectors, gait_of_clip, gait_vector, told_apart
from sfumato.audit._measure import Estimate, Measure, MeasureError, Result
from sfumato.audit._measures_file import measures_json, measures_path, write_measures
from sfumato.audit._members import MembersReport, audit_members
from sfumato.audit._membership import (
    AtRate,
    Membership,
    MembershipSuccess,
    Shadows,
    allowed_rate,
    lira_scores,
    train_shadows,
)
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
from sfumato.audit._reid import Matches, Reidentification, reidentify
from sfumato.audit._release_code import check_draws, check_release, release_scores
from sfumato.audit._repeated import RepeatedRelease, repeated_release
from sfumato.audit._scores import AttributeScores, ClassifierScores
from sfumato.audit._strength import Strength, strengths
from sfumato.audit._verdict import Verdict, audit_guarantee, verdict_paths, write_verdict
from sfumato.audit._views import views_of
from sfumato.audit._visual import Attribute, VisualReport, action_protocols, infer, visual_attack
from sfumato.data import pckh

__all__ = [
    "AtRate",
    "Attacker",
    "Attribute",
    "AttributeScores",
    "AuditError",
    "BayesAttacker",
    "CanaryRun",
    "ClassifierScores",
    "CorrectKeypoints",
    "Effort",
    "Estimate",
    "Finding",
    "HeadSizedKeypoints",
    "LowerBound",
    "Matches",
    "MeanPerClassAccuracy",
    "Measure",
    "MeasureError",
    "MembersReport",
    "Membership",
    "MembershipSuccess",
    "Model",
    "MultiLabel",
    "MultiLabelScores",
    "NormalizedAccuracyGain",
    "Obfuscation",
    "ProbeReport",
    "ProbeSettings",
    "Psnr",
    "Reidentification",
    "RepeatedRelease",
    "Result",
    "Shadows",
    "Ssim",
    "Strength",
    "TopOne",
    "Verdict",
    "VisualReport",
    "action_protocols",
    "allowed_rate",
    "audit_guarantee",
    "audit_members",
    "average_precision",
    "canary_run",
    "check_basis",
    "check_draws",
    "check_release",
    "check_release_noise",
    "check_table",
    "check_training",
    "choice_code",
    "class_f1",
    "cmap",
    "cross_infer",
    "delta_lower_bound",
    "distinguisher_scores",
    "epsilon_lower_bound",
    "face_vectors",
    "gait_of_clip",
    "gait_vector",
    "gaussian_fit",
    "infer",
    "lira_scores",
    "measures_json",
    "measures_path",
    "mnag",
    "nag",
    "one_run_lower_bound",
    "pckh",
    "probe",
    "reidentify",
    "release_scores",
    "repeated_release",
    "simulated_scores",
    "ssim",
    "strengths",
    "told_apart",
    "train_shadows",
    "unfinetuned",
    "verdict_paths",
    "views_of",
    "visual_attack",
    "write_measures",
    "write_verdict",
]
