"""A noise multiplier that changes from epoch to epoch, as planned before the first step."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lipdp.errors import InvalidValue
from lipdp.privacy.phase import is_number

Schedule = tuple[tuple[int, float], ...]


def check_schedule(schedule: Schedule) -> Schedule:
    """Refuses a schedule whose epochs do not rise from 0 on or whose factors are not positive.

    Args:
        schedule: Pairs ``(epoch, factor)``; before the first epoch the factor is 1.

    Raises:
        InvalidValue: If a pair is out of order or outside its domain.
    """
    last = -1
    for epoch, factor in schedule:
        whole = type(epoch) is int and epoch > last
        if not whole or not is_number(factor) or not 0.0 < factor < math.inf:
            raise InvalidValue(
                "A noise schedule needs rising epochs from 0 on and positive factors",
                received=schedule,
                fix="Use pairs such as ((0, 1.0), (10, 0.8))",
            )
        last = epoch
    return tuple((epoch, float(factor)) for epoch, factor in schedule)


def factor_at(schedule: Sequence[tuple[int, float]], epoch: int) -> float:
    """The factor of the noise multiplier in an epoch."""
    found = 1.0
    for start, factor in schedule:
        if start <= epoch:
            found = factor
    return found
