"""Whether the samples of a batch leave each other alone, forwards, backwards and in the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lipdp.testing._layer_probe import LayerProbe
from lipdp.testing._points import norm
from lipdp.testing._report import Comparison

_ROWS = 4


def check_isolation(
    single: LayerProbe,
    draw: Callable[[], np.ndarray],
    result: Comparison,
    rng: np.random.Generator,
) -> None:
    """Changes some rows of a batch and watches the others, bit by bit.

    Args:
        single: A built layer, seen with one row.
        draw: Gives a random sample.
        result: Of the search.
        rng: Source of the random cotangents.

    Raises:
        BoundViolation: If a row's output or input gradient depends on another row, if a variable's
            gradient is not the sum over rows, or if the layer's state depends on the data.
    """
    probe = LayerProbe(single.layer, single.shape, rows=_ROWS)
    batch, fresh = (np.stack([draw() for _ in range(_ROWS)]) for _ in range(2))
    cotangent, other = (rng.normal(size=(_ROWS, probe.output_size)) for _ in range(2))
    for row in range(_ROWS):
        for data, signal in ((fresh, other), (0.0, 0.0), (1e15, 1e15), (np.nan, np.nan)):
            after = _all_but(row, batch, data), _all_but(row, cotangent, signal)
            _check_rows(probe, (batch, cotangent), after, row, result)
    _check_state(probe, (batch, fresh), result)
    _check_additivity(single, probe, batch, cotangent, result)


def _all_but(row: int, batch: np.ndarray, value: np.ndarray | float) -> np.ndarray:
    """The batch with all rows but one replaced."""
    others = np.array(np.broadcast_to(value, batch.shape), dtype="float64")
    others[row] = batch[row]
    return others


def _check_rows(
    probe: LayerProbe, before: tuple[Any, Any], after: tuple[Any, Any], row: int, result: Comparison
) -> None:
    outputs = [probe.forward(batch)[row] for batch, _ in (before, after)]
    if not np.array_equal(*outputs, equal_nan=True):
        result.fail("the output of a row depends on other rows of the batch", _difference(*outputs))
    pulled = [probe.pullback(batch, signal)[0][row] for batch, signal in (before, after)]
    if not np.array_equal(*pulled, equal_nan=True):
        result.fail(
            "the gradient of a row depends on other rows of the batch", _difference(*pulled)
        )


def _check_state(probe: LayerProbe, batches: Sequence[np.ndarray], result: Comparison) -> None:
    states = []
    for data in batches:
        probe.forward(data)
        states.append(probe.state())
    for one, other in zip(*states, strict=True):
        if not np.array_equal(one, other, equal_nan=True):
            result.fail("its state is updated from data", _difference(one, other))


def _check_additivity(
    single: LayerProbe,
    probe: LayerProbe,
    batch: np.ndarray,
    cotangent: np.ndarray,
    result: Comparison,
) -> None:
    if probe.draws_randomness():
        return  # Slots have different random numbers: rows cannot be compared one by one.
    whole = probe.pullback(batch, cotangent)[1]
    parts = [single.pullback(batch[i : i + 1], cotangent[i])[1] for i in range(_ROWS)]
    for total, *rows in zip(whole, *parts, strict=True):
        excess = norm(total - np.sum(rows, axis=0))
        if not excess <= 1e-3 * sum(norm(r) for r in rows):
            result.fail("the gradient of a variable is not the sum over the rows", excess)


def _difference(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.max(np.abs(np.asarray(one, "float64") - np.asarray(other, "float64"))))
