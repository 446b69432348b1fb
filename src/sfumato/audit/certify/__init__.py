"""Lower bounds on epsilon, and whether code does what its card says."""

from sfumato.audit.certify._canary import CanaryRun, canary_run
from sfumato.audit.certify._conformance import Finding, check_training
from sfumato.audit.certify._conformance_release import (
    check_basis,
    check_release_noise,
    check_table,
)
from sfumato.audit.certify._epsilon import (
    AuditError,
    delta_lower_bound,
    epsilon_lower_bound,
    gaussian_fit,
)
from sfumato.audit.certify._one_run import one_run_lower_bound
from sfumato.audit.certify._release_code import check_draws
from sfumato.audit.certify._strength import Strength, strengths
from sfumato.audit.certify._verdict import Verdict, audit_guarantee, verdict_paths, write_verdict
from sfumato.audit.certify._worst_case_simulation import simulated_scores
from sfumato.privacy.verdict import LowerBound

__all__ = [
    "AuditError", "CanaryRun", "Finding", "LowerBound", "Strength", "Verdict",
    "audit_guarantee", "canary_run", "check_basis", "check_draws",
    "check_release_noise", "check_table", "check_training",
    "delta_lower_bound", "epsilon_lower_bound", "gaussian_fit",
    "one_run_lower_bound", "simulated_scores", "strengths", "verdict_paths",
    "write_verdict",
]  # fmt: skip
