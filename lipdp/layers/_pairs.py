"""Sorting pairs of entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from lipdp.layers._backward import with_backward

Pair = tuple[Any, Any]


def sort_pairs(x: Any, part: Callable[[Any], Pair], join: Callable[[Pair], Any]) -> Any:
    """The larger entries of two parts of x in place of the first, the smaller ones of the second.

    The derivative is a permutation even at ties, where those of ``minimum`` and ``maximum`` may
    both point at the same entry, a Jacobian of norm sqrt 2. Selecting by one mask cannot, and it is
    exact where ``b - relu(b - c)`` rounds. Backward the same mask selects once more: half of what
    automatic differentiation makes of two selections.

    Args:
        x: Any tensor.
        part: Its two parts, of one shape, which hold each entry once at the places that
            ``join`` reads.
        join: The inverse.
    """
    if isinstance(x, keras.KerasTensor):
        # A graph of plain operations, for export.
        a, b = part(x)
        return join(_exchanged((a, b), a > b))

    def function(x: Any) -> tuple[Any, Callable[[Any], Any]]:
        a, b = part(x)
        in_order = a > b
        return join(_exchanged((a, b), in_order)), lambda u: join(_exchanged(part(u), in_order))

    return with_backward(function, x)


def _exchanged(pair: Pair, in_order: Any) -> Pair:
    """The pair with its parts exchanged where they are not in order; its own transpose."""
    a, b = pair
    return ops.where(in_order, a, b), ops.where(in_order, b, a)
