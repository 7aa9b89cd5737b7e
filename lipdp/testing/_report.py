"""What a harness found: the best ratio of measured to bound, or a violation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lipdp.errors import BoundViolation


@dataclass(frozen=True)
class Tightness:
    """How close an adversarial search came to each bound of a part.

    Attributes:
        part: Name of the part.
        ratios: Largest measured value over bound, by quantity; below 1 if the search failed to
            attain the bound, 0 where the bound is infinite and nothing was compared.
    """

    part: str
    ratios: Mapping[str, float]

    @property
    def best(self) -> float:
        """The largest of the ratios."""
        return max(self.ratios.values(), default=0.0)


class Comparison:
    """Collects measurements of one part and stops at the first above its bound."""

    def __init__(self, part: str) -> None:
        self.part = part
        self._ratios: dict[str, float] = {}

    def compare(self, quantity: str, measured: float, bound: float) -> None:
        """Compares one measurement with its bound, which includes every slack.

        Raises:
            BoundViolation: If the bound is no number in [0, inf], or below the measurement, or the
                bound is finite and the measurement is not.
        """
        if math.isnan(bound) or bound < 0:
            raise BoundViolation(
                f"{self.part}: the bound of its {quantity} is none", received=bound
            )
        if not math.isinf(bound) and not measured <= bound:
            raise BoundViolation(
                f"{self.part}: its {quantity} is above the bound",
                received={"measured": float(measured), "bound": float(bound)},
                fix="The proof or the code is wrong: correct it before training privately",
            )
        ratio = measured / bound if bound > 0 and not math.isinf(bound) else 0.0
        self._ratios[quantity] = max(float(ratio), self._ratios.get(quantity, 0.0))

    def fail(self, what: str, received: object) -> None:
        """Reports a property that is not a bound.

        Raises:
            BoundViolation: Always.
        """
        raise BoundViolation(f"{self.part}: {what}", received=received)

    def tightness(self) -> Tightness:
        """The ratios so far."""
        return Tightness(self.part, MappingProxyType(dict(self._ratios)))
