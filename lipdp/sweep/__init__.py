"""Many runs of one configuration, the best of them, and what choosing it cost."""

from lipdp.sweep.costs import cost_notes
from lipdp.sweep.records import Best, Choosing, RepeatCost, SweepResult, TrialRecord
from lipdp.sweep.run import Progress, sweep

__all__ = [
    "Best",
    "Choosing",
    "Progress",
    "RepeatCost",
    "SweepResult",
    "TrialRecord",
    "cost_notes",
    "sweep",
]
