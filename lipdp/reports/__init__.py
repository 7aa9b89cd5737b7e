"""Reports a person can read: one HTML file a run, no private data."""

from lipdp.reports.run import not_private_reason, write_report

__all__ = ["not_private_reason", "write_report"]
