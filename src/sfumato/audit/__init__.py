"""Attacks and measures: what a release still leaks and what it is still good for.

The verbs stand here; everything they are made of is one level down, in ``attack``, ``certify`` and
``measure``.
"""

from sfumato.audit._released import audit_output_path, hiding_scope, recordings_in
from sfumato.audit.attack import (
    REID_ATTACKS,
    ProbeSettings,
    attack_folder,
    audit_leaks,
    audit_members,
    cross_data,
    cross_data_attack,
    find_leaks,
    on_pictures,
    pair_clips,
    probe,
    probe_dataset,
    register_attack,
    undo_release,
    visual_folder,
)
from sfumato.audit.certify import (
    AuditError,
    Finding,
    LowerBound,
    Verdict,
    audit_guarantee,
    epsilon_lower_bound,
    strengths,
    verdict_paths,
    write_verdict,
)
from sfumato.audit.measure import (
    Estimate,
    Measure,
    MeasureError,
    Result,
    cmap,
    measures_json,
    measures_path,
    mnag,
    nag,
    write_measures,
)
from sfumato.data import pckh

__all__ = [
    "REID_ATTACKS", "AuditError", "Estimate", "Finding", "LowerBound", "Measure",
    "MeasureError", "ProbeSettings", "Result", "Verdict", "attack_folder", "audit_guarantee",
    "audit_leaks", "audit_members", "audit_output_path", "cmap", "cross_data", "cross_data_attack",
    "epsilon_lower_bound", "find_leaks", "hiding_scope", "measures_json",
    "measures_path", "mnag", "nag", "on_pictures", "pair_clips", "pckh", "probe",
    "probe_dataset", "recordings_in", "register_attack", "strengths", "undo_release",
    "verdict_paths", "visual_folder", "write_measures", "write_verdict",
]  # fmt: skip
