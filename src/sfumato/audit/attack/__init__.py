"""Attacks on releases and models."""

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
from sfumato.audit.attack._folder_attacks import (
    REID_ATTACKS,
    FolderAttack,
    ReleaseFolders,
    attack_folder,
    register_attack,
    visual_folder,
    voices_folder,
)
from sfumato.audit.attack._identity_views import (
    discriminant_features,
    gait_vector,
)
from sfumato.audit.attack._leak_audit import LeakAudit, audit_leaks
from sfumato.audit.attack._leaks import (
    ClipVerdict,
    Leak,
    LeakReport,
    Residual,
    find_leaks,
    joined,
)
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
from sfumato.audit.attack._probe_dataset import probe_dataset
from sfumato.audit.attack._reconstruct import Reconstruction, changed_places, halo, reconstruct
from sfumato.audit.attack._reid import Matches, Reidentification, reidentify
from sfumato.audit.attack._repeated import RepeatedRelease, repeated_release
from sfumato.audit.attack._speakers import (
    SpeakerVerification,
    attack_speakers,
    equal_error_rate,
)
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
from sfumato.audit.attack._voice_views import at_speaker_rate, pitch_track, voice_views

__all__ = [
    "METHODS",
    "REID_ATTACKS",
    "AtRate",
    "Attacker",
    "Attribute",
    "BayesAttacker",
    "ClipPairs",
    "ClipVerdict",
    "CrossData",
    "Effort",
    "FittingBlur",
    "FixedBlur",
    "FolderAttack",
    "Leak",
    "LeakAudit",
    "LeakReport",
    "Matches",
    "MembersReport",
    "Membership",
    "MembershipSuccess",
    "Model",
    "Obfuscation",
    "ProbeReport",
    "ProbeSettings",
    "Reconstruction",
    "Reidentification",
    "ReleaseFolders",
    "RepeatedRelease",
    "Residual",
    "Shadows",
    "SpeakerVerification",
    "Squares",
    "VisualReport",
    "action_protocols",
    "allowed_rate",
    "at_speaker_rate",
    "attack_folder",
    "attack_speakers",
    "audit_leaks",
    "audit_members",
    "averaged",
    "averaged_near",
    "changed_places",
    "cover_matrix",
    "cross_data",
    "cross_data_attack",
    "cross_infer",
    "deblurred",
    "discriminant_features",
    "equal_error_rate",
    "find_leaks",
    "gait_vector",
    "gathered",
    "halo",
    "infer",
    "joined",
    "learned",
    "lira_scores",
    "multi_label",
    "on_pictures",
    "over_time",
    "pair_clips",
    "pitch_track",
    "probe",
    "probe_dataset",
    "reconstruct",
    "register_attack",
    "reidentify",
    "repeated_release",
    "single_frame_attacks",
    "smoothed",
    "tikhonov",
    "train_shadows",
    "undo_frames",
    "undo_release",
    "unfinetuned",
    "views_of",
    "vispr_truth",
    "visual_attack",
    "visual_folder",
    "voice_views",
    "voices_folder",
    "without_annotated",
]  # fmt: skip
