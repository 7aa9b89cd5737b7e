"""Audits: what was measured against what was proved."""

from lipdp.audit.gradients import GradientAudit, audit_gradients

__all__ = ["GradientAudit", "audit_gradients"]
