"""Attacks and measures: what a release still leaks and what it is still good for."""

from sfumato.audit._released import HidingScope, beside_release, hiding_scope, recordings_in
from sfumato.audit.attack._attacker import Attacker, Effort, Model, cross_infer
from sfumato.audit.attack._bayes import BayesAttacker
from sfumato.audit.attack._clip_pairs import ClipPairs, pair_clips
from sfumato.audit.attack._cover_matrices import FittingBlur, FixedBlur, Squares, cover_matrix
from sfumato.audit.attack._cross_data import (
    CrossData,
    cross_data,
    cross_data_attack,
    on_pictures,
    vispr_truth,
    without_annotated,
)
from sfumato.audit.attack._folder_attacks import REID_ATTACKS, visual_folder, voices_folder
from sfumato.audit.attack._identity_views import face_vectors, gait_of_clip, gait_vector, told_apart
from sfumato.audit.attack._leaks import Leak, LeakReport, Residual, find_leaks, joined, leaks_in
from sfumato.audit.attack._learned_inverse import learned
from sfumato.audit.attack._membership import (
    AtRate,
    Membership,
    MembershipSuccess,
    Shadows,
    allowed_rate,
    lira_scores,
    train_shadows,
)
from sfumato.audit.attack._membership_run import MembersReport, audit_members
from sfumato.audit.attack._probe import Obfuscation, ProbeReport, ProbeSettings, probe, unfinetuned
from sfumato.audit.attack._reconstruct import Reconstruction, changed_places, halo, reconstruct
from sfumato.audit.attack._reid import Matches, Reidentification, reidentify
from sfumato.audit.attack._repeated import RepeatedRelease, repeated_release
from sfumato.audit.attack._undo import (
    averaged,
    averaged_near,
    deblurred,
    gathered,
    smoothed,
    tikhonov,
)
from sfumato.audit.attack._undo_release import (
    METHODS,
    over_time,
    single_frame_attacks,
    undo_frames,
    undo_release,
)
from sfumato.audit.attack._views import views_of
from sfumato.audit.attack._visual import (
    Attribute,
    VisualReport,
    action_protocols,
    infer,
    multi_label,
    visual_attack,
)
from sfumato.audit.certify._canary import CanaryRun, canary_run
from sfumato.audit.certify._conformance import Finding, check_training
from sfumato.audit.certify._conformance_release import (
    check_basis,
    check_release_noise,
    check_table,
    distinguisher_scores,
)
from sfumato.audit.certify._epsilon import (
    AuditError,
    LowerBound,
    delta_lower_bound,
    epsilon_lower_bound,
    gaussian_fit,
)
from sfumato.audit.certify._ldp_code_audit import choice_code
from sfumato.audit.certify._one_run import one_run_lower_bound
from sfumato.audit.certify._release_code import check_draws, check_release, release_scores
from sfumato.audit.certify._strength import Strength, strengths
from sfumato.audit.certify._verdict import Verdict, audit_guarantee, verdict_paths, write_verdict
from sfumato.audit.certify._worst_case_simulation import simulated_scores
from sfumato.audit.measure._accuracy import (
    CorrectKeypoints,
    HeadSizedKeypoints,
    MeanPerClassAccuracy,
    Psnr,
    Ssim,
    TopOne,
    ssim,
)
from sfumato.audit.measure._measure import Estimate, Measure, MeasureError, Result
from sfumato.audit.measure._measures_file import measures_json, measures_path, write_measures
from sfumato.audit.measure._multi_label import (
    MultiLabel,
    MultiLabelScores,
    average_precision,
    class_f1,
    cmap,
)
from sfumato.audit.measure._nag import NormalizedAccuracyGain, UsefulAccuracyGain, mnag, nag
from sfumato.audit.measure._scores import AttributeScores, ClassifierScores
from sfumato.data import pckh

__all__ = [
    "METHODS",
    "REID_ATTACKS",
    "AtRate",
    "Attacker",
    "Attribute",
    "AttributeScores",
    "AuditError",
    "BayesAttacker",
    "CanaryRun",
    "ClassifierScores",
    "ClipPairs",
    "CorrectKeypoints",
    "CrossData",
    "Effort",
    "Estimate",
    "Finding",
    "FittingBlur",
    "FixedBlur",
    "HeadSizedKeypoints",
    "HidingScope",
    "Leak",
    "LeakReport",
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
    "Reconstruction",
    "Reidentification",
    "RepeatedRelease",
    "Residual",
    "Result",
    "Shadows",
    "Squares",
    "Ssim",
    "Strength",
    "TopOne",
    "UsefulAccuracyGain",
    "Verdict",
    "VisualReport",
    "action_protocols",
    "allowed_rate",
    "audit_guarantee",
    "audit_members",
    "average_precision",
    "averaged",
    "averaged_near",
    "beside_release",
    "canary_run",
    "changed_places",
    "check_basis",
    "check_draws",
    "check_release",
    "check_release_noise",
    "check_table",
    "check_training",
    "choice_code",
    "class_f1",
    "cmap",
    "cover_matrix",
    "cross_data",
    "cross_data_attack",
    "cross_infer",
    "deblurred",
    "delta_lower_bound",
    "distinguisher_scores",
    "epsilon_lower_bound",
    "face_vectors",
    "find_leaks",
    "gait_of_clip",
    "gait_vector",
    "gathered",
    "gaussian_fit",
    "halo",
    "hiding_scope",
    "infer",
    "joined",
    "leaks_in",
    "learned",
    "lira_scores",
    "measures_json",
    "measures_path",
    "mnag",
    "multi_label",
    "nag",
    "on_pictures",
    "one_run_lower_bound",
    "over_time",
    "pair_clips",
    "pckh",
    "probe",
    "reconstruct",
    "recordings_in",
    "reidentify",
    "release_scores",
    "repeated_release",
    "simulated_scores",
    "single_frame_attacks",
    "smoothed",
    "ssim",
    "strengths",
    "tikhonov",
    "told_apart",
    "train_shadows",
    "undo_frames",
    "undo_release",
    "unfinetuned",
    "verdict_paths",
    "views_of",
    "vispr_truth",
    "visual_attack",
    "visual_folder",
    "voices_folder",
    "without_annotated",
    "write_measures",
    "write_verdict",
]
