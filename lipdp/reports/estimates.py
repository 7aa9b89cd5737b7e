"""What repeated runs say about the mean, and what test rows say about an accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: Of all intervals of a report.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """The mean over runs.

    Attributes:
        mean: Of the values.
        half_width: Of the 95 % interval around it (Student's t); None for one run.
        count: Number of runs.
    """

    mean: float
    half_width: float | None
    count: int

    @property
    def share_interval(self) -> tuple[float, float] | None:
        """The part of the interval where shares can lie, within 0 and 1; None for one run."""
        if self.half_width is None:
            return None
        low, high = self.mean - self.half_width, self.mean + self.half_width
        return max(low, 0.0), min(high, 1.0)

    @property
    def is_cut(self) -> bool:
        """Whether the interval goes beyond where shares can lie."""
        whole = self.mean, self.half_width or 0.0
        return whole[0] - whole[1] < 0 or whole[0] + whole[1] > 1


def estimate(values: Sequence[float]) -> Estimate:
    """Mean with its Student-t interval, for independent runs of roughly normal results.

    Args:
        values: At least one.
    """
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Estimate(mean, None, count)
    from scipy.stats import t

    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    quantile = float(t.ppf(0.5 + CONFIDENCE / 2, count - 1))
    return Estimate(mean, quantile * math.sqrt(variance / count), count)


def row_interval(accuracy: float, rows: int) -> tuple[float, float]:
    """The 95 % interval (Wilson) of an accuracy measured on so many independent test rows."""
    from scipy.stats import norm

    z = float(norm.ppf(0.5 + CONFIDENCE / 2))
    share = z * z / rows
    center = (accuracy + share / 2) / (1 + share)
    spread = z / (1 + share) * math.sqrt(accuracy * (1 - accuracy) / rows + share / (4 * rows))
    return center - spread, center + spread
