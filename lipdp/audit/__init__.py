"""Audits: what was measured against what was proved."""

from lipdp.audit.gradients import GradientAudit, audit_gradients
from lipdp.audit.lower_bound import epsilon_lower_bound

__all__ = ["GradientAudit", "audit_gradients", "epsilon_lower_bound"]
