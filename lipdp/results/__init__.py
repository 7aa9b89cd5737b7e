"""What a run leaves behind (JSON, no private data)."""

from lipdp.results.lines import epoch_line, opening_line
from lipdp.results.run import Certified, RunResult, Spent, TestMetrics

__all__ = ["Certified", "RunResult", "Spent", "TestMetrics", "epoch_line", "opening_line"]
