"""Reports a person can read: one HTML file of one run or of several, no private data."""

from lipdp.reports.loading import LoadedRun, load_runs, notes_on_unseen
from lipdp.reports.pareto import pareto_files, write_pareto_report
from lipdp.reports.run import not_private_reason, write_report

__all__ = [
    "LoadedRun",
    "load_runs",
    "not_private_reason",
    "notes_on_unseen",
    "pareto_files",
    "write_pareto_report",
    "write_report",
]
