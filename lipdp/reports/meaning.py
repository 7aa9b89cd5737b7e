"""What epsilon and delta mean for one person."""

from __future__ import annotations

import math


def meaning(epsilon: float, delta: float, false_alarms: float = 0.01) -> dict[str, float]:
    """The factor e^epsilon, and the most true alarms that any membership test can raise.

    Source: the trade-off of (epsilon, delta)-privacy, Kairouz, Oh, Viswanath 2015, theorem 2.1:
    power <= min(delta + e^epsilon a, 1 - e^-epsilon (1 - delta - a)) at false alarm rate a.
    """
    factor = math.exp(epsilon) if epsilon < 700 else math.inf
    power = min(delta + factor * false_alarms, 1 - (1 - delta - false_alarms) / factor, 1.0)
    return {"factor": factor, "power": power}
