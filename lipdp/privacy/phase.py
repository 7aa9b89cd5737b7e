"""A phase: equal private accesses in a row, the unit that is composed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from lipdp.errors import InvalidValue, UnknownName

#: How the rows of one access may be chosen.
DRAWS = ("poisson", "fixed-size", "truncated-poisson")


@dataclass(frozen=True, order=True)
class Draw:
    """How the rows of one access are chosen, as far as accounting must know.

    Attributes:
        name: ``"poisson"`` (each row by itself), ``"fixed-size"`` (a uniformly random set of a
            fixed size), or ``"truncated-poisson"`` (of a larger Poisson draw a random part).
        num_examples: Number N of rows; 0 for a Poisson draw, whose rate says everything.
        most_rows: Rows of a draw: exactly so many if of fixed size, at most so many if truncated.

    Raises:
        UnknownName: If there is no such draw.
        InvalidValue: If the counts do not fit the name.
    """

    name: str = "poisson"
    num_examples: int = 0
    most_rows: int = 0

    def __post_init__(self) -> None:
        if self.name not in DRAWS:
            raise UnknownName("There is no such draw", received=self.name, fix=f"Use one of {DRAWS}")
        counts = (self.num_examples, self.most_rows)
        if any(type(count) is not int for count in counts) or (
            counts != (0, 0) if self.name == "poisson" else min(counts) < 1
        ):
            raise InvalidValue("The counts of rows do not fit the draw", received=(self.name, *counts))


POISSON = Draw()


@dataclass(frozen=True)
class Phase:
    """Equal accesses by the Gaussian mechanism to randomly drawn rows.

    Attributes:
        sampling_rate: Probability q that one row enters the batch, ``0 < q <= 1``.
        noise_multiplier: Standard deviation of the noise over the sensitivity, at least 0.
        steps: Number of accesses, at least 0.
        draw: How the rows are chosen; with ``q = 1`` all of them are.

    Raises:
        InvalidValue: If one of them is outside its domain.
    """

    sampling_rate: float
    noise_multiplier: float
    steps: int
    draw: Draw = POISSON

    def __post_init__(self) -> None:
        check_sampling_rate(self.sampling_rate)
        check_noise_multiplier(self.noise_multiplier)
        check_steps(self.steps)
        if self.draw.name == "truncated-poisson" and self.sampling_rate == 1.0:
            raise InvalidValue("A truncated draw needs a sampling rate below 1", received=self)
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
    total: dict[tuple[float, float, Draw], int] = {}
    for phase in phases:
        key = (phase.sampling_rate, phase.noise_multiplier, phase.draw)
        total[key] = total.get(key, 0) + phase.steps
    return tuple(Phase(q, z, n, draw) for (q, z, draw), n in sorted(total.items()) if n)
