"""A phase: equal private steps in a row, the unit that is composed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from lipdp.errors import InvalidValue


@dataclass(frozen=True)
class Phase:
    """Equal steps of the Poisson-sampled Gaussian mechanism.

    Attributes:
        sampling_rate: Probability q that one row enters the batch, ``0 < q <= 1``.
        noise_multiplier: Standard deviation of the noise over the sensitivity, at least 0.
        steps: Number of steps taken, at least 0.

    Raises:
        InvalidValue: If one of them is outside its domain.
    """

    sampling_rate: float
    noise_multiplier: float
    steps: int

    def __post_init__(self) -> None:
        check_sampling_rate(self.sampling_rate)
        check_noise_multiplier(self.noise_multiplier)
        check_steps(self.steps)
        object.__setattr__(self, "sampling_rate", float(self.sampling_rate))
        object.__setattr__(self, "noise_multiplier", float(self.noise_multiplier))
        object.__setattr__(self, "steps", int(self.steps))


def is_number(value: object) -> bool:
    """Whether a value is a real number and neither NaN nor a boolean."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return False
    try:
        return not isinstance(value, str) and not math.isnan(float(value))
    except (TypeError, ValueError):
        return False


def check_sampling_rate(value: float) -> None:
    """Refuses a sampling rate outside (0, 1]."""
    if not is_number(value) or not 0.0 < value <= 1.0:
        raise InvalidValue(
            "The sampling rate must lie in (0, 1]",
            received=value,
            fix="Use the expected batch size over the number of rows",
        )


def check_noise_multiplier(value: float) -> None:
    """Refuses a noise multiplier that is negative or not finite."""
    if not is_number(value) or not 0.0 <= value < math.inf:
        raise InvalidValue(
            "The noise multiplier must be finite and at least 0",
            received=value,
            fix="Use the noise's standard deviation over the sensitivity",
        )


def check_steps(value: int) -> None:
    """Refuses a number of steps that is not a whole number of at least 0."""
    if not is_number(value) or value == math.inf or value != int(value) or value < 0:
        raise InvalidValue(
            "The number of steps must be a whole number of at least 0", received=value
        )


def check_delta(value: float) -> None:
    """Refuses a delta outside (0, 1)."""
    if not is_number(value) or not 0.0 < value < 1.0:
        raise InvalidValue(
            "delta must lie strictly between 0 and 1",
            received=value,
            fix="Use a number well below one over the number of rows, such as 1e-5",
        )


def check_epsilon(value: float) -> None:
    """Refuses an epsilon that is not positive and finite."""
    if not is_number(value) or not 0.0 < value < math.inf:
        raise InvalidValue("epsilon must be positive and finite", received=value)


def merge_phases(phases: Iterable[Phase]) -> tuple[Phase, ...]:
    """Adds up the steps of equal phases and drops the empty ones, sorted.

    The order of the steps does not change what their composition costs.
    """
    total: dict[tuple[float, float], int] = {}
    for phase in phases:
        key = (phase.sampling_rate, phase.noise_multiplier)
        total[key] = total.get(key, 0) + phase.steps
    return tuple(Phase(q, z, steps) for (q, z), steps in sorted(total.items()) if steps)
