"""A phase: equal private accesses in a row, the unit that is composed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lipdp.errors import InvalidValue, UnknownName

#: How the rows of one access may be chosen.
DRAWS = ("poisson", "fixed-size", "truncated-poisson")

#: By how many times the bound of one row a neighbour changes the sum of a batch that it is in.
ADJACENCIES: Mapping[str, float] = MappingProxyType(
    {"add-remove": 1.0, "zero-out": 1.0, "replace-one": 2.0}
)

_MOST_ROWS = 2**62

#: More steps than anyone takes; counts up to here are exact as floating-point numbers.
MOST_STEPS = 2**53


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
            raise UnknownName(
                "There is no such draw", received=self.name, fix=f"Use one of {DRAWS}"
            )
        counts = (self.num_examples, self.most_rows)
        if any(type(count) is not int for count in counts) or not self._fits(*counts):
            raise InvalidValue(
                "The counts of rows do not fit the draw", received=(self.name, *counts)
            )

    def _fits(self, num_examples: int, most_rows: int) -> bool:
        if self.name == "poisson":
            return num_examples == most_rows == 0
        most = num_examples if self.name == "fixed-size" else _MOST_ROWS
        return 1 <= num_examples <= _MOST_ROWS and 1 <= most_rows <= most


POISSON = Draw()


@dataclass(frozen=True)
class Phase:
    """Equal accesses by the Gaussian mechanism to randomly drawn rows.

    Attributes:
        sampling_rate: Probability q that one row enters the batch, ``0 < q <= 1``.
        noise_multiplier: Standard deviation of the noise over the sensitivity, at least 0.
        steps: Number of accesses, from 0 to 2^53.
        draw: How the rows are chosen; with ``q = 1`` all of them are. Of a fixed size, q is
            that part of the rows.

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
        _check_draw(self.draw, self.sampling_rate)
        object.__setattr__(self, "sampling_rate", float(self.sampling_rate))
        object.__setattr__(self, "noise_multiplier", float(self.noise_multiplier))
        object.__setattr__(self, "steps", int(self.steps))

    @property
    def event(self) -> Any:
        """One access as a ``dp_accounting`` event, for the accountants of that library.

        Sets of a fixed size are accounted there for a replaced row, whose change is twice the bound
        of one row. A truncated event is of a neighbour of N + 1 rows; one of N rows may cost more,
        and ``account`` tries both.
        """
        import dp_accounting as library

        q, z, draw = self.sampling_rate, self.noise_multiplier, self.draw
        if draw.name == "fixed-size":
            replaced = library.GaussianDpEvent(z / 2.0)
            return library.SampledWithoutReplacementDpEvent(
                draw.num_examples, draw.most_rows, replaced
            )
        if draw.name == "truncated-poisson":
            return library.dp_event.TruncatedSubsampledGaussianDpEvent(
                draw.num_examples + 1, q, draw.most_rows, z
            )
        event = library.GaussianDpEvent(z)
        return event if q == 1.0 else library.PoissonSampledDpEvent(q, event)


def _check_draw(draw: Draw, sampling_rate: float) -> None:
    if not isinstance(draw, Draw):
        raise InvalidValue("A phase needs a Draw", received=draw)
    if draw.name == "truncated-poisson" and sampling_rate == 1.0:
        raise InvalidValue("A truncated draw needs a sampling rate below 1", received=draw)
    if draw.name == "fixed-size" and sampling_rate != draw.most_rows / draw.num_examples:
        raise InvalidValue(
            "The sampling rate is not the part of the rows that is drawn",
            received=(sampling_rate, draw),
            fix="Use the rows of a draw over the number of rows",
        )


def is_number(value: object) -> bool:
    """Whether a value is a real number and neither NaN nor a boolean."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return False
    try:
        return not isinstance(value, str) and not math.isnan(float(value))
    except (TypeError, ValueError, OverflowError):
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
    """Refuses a number of steps that is not a whole number from 0 to 2^53."""
    if not is_number(value) or not 0 <= value <= MOST_STEPS or value != int(value):
        raise InvalidValue(
            "The number of steps must be a whole number of at least 0 and at most 2^53",
            received=value,
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


def check_adjacency(name: str) -> str:
    """Returns the name of a known relation between neighbouring data sets.

    Raises:
        UnknownName: If it is not known.
    """
    if name not in ADJACENCIES:
        raise UnknownName(
            "There is no adjacency of this name",
            received=name,
            fix=f"Use one of: {', '.join(sorted(ADJACENCIES))}",
        )
    return name
