"""Sorting two tensors against each other."""

from __future__ import annotations

from typing import Any

from keras import ops


def ordered(a: Any, b: Any) -> tuple[Any, Any]:
    """``(larger, smaller)`` entry by entry, with a permutation as derivative even at ties.

    ``minimum`` and ``maximum`` may both point at the same entry of a tie, a Jacobian of norm
    sqrt 2. Selecting by one mask cannot, and it is exact where ``b - relu(b - c)`` rounds.
    """
    first = a > b
    return ops.where(first, a, b), ops.where(first, b, a)
