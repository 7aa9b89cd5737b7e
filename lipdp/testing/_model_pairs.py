"""Differences of a model's outputs, in inference mode."""

from __future__ import annotations

import math

import numpy as np

from lipdp.bounds import lipschitz_constant, numerical_error
from lipdp.testing._model_probe import ModelProbe, Rows
from lipdp.testing._points import norm
from lipdp.testing._report import Comparison

_PAIRS = 16
_STEPS = 24


def try_pairs(probe: ModelProbe, row: Rows, result: Comparison, rng: np.random.Generator) -> None:
    """A random ascent of ``||f(a) - f(b)|| / ||a - b||`` over pairs near a row, close and far.

    Raises:
        BoundViolation: If a difference is above ``lipschitz_constant`` times the distance, by more
            than the ``numerical_error`` of both outputs.
    """
    constant = lipschitz_constant(probe.model)
    error = 2.0 * numerical_error(probe.model)
    if not math.isfinite(constant + error):
        return
    ones = [_around(a, 1.0, rng) for a in row]
    others = [_around(a, 10.0 ** rng.uniform(-2, 0), rng) for a in row]
    at, best = probe.forward(ones).astype("float64"), np.zeros(_PAIRS)
    for _ in range(_STEPS):
        noise = [0.3 * norm(a[0] - b[0]) for a, b in zip(ones, others, strict=True)]
        new = [_shaken(a, s, rng) for a, s in zip(others, noise, strict=True)]
        changes = np.linalg.norm(probe.forward(new) - at, axis=1)
        gaps = _distances(ones, new)
        for change, gap in zip(changes, gaps, strict=True):
            result.compare("difference of outputs", change, constant * gap + error)
        better = changes > best * gaps
        best = np.where(better, changes / np.maximum(gaps, 1e-300), best)
        for old, fresh in zip(others, new, strict=True):
            old[better] = fresh[better]


def check_rows(probe: ModelProbe, row: Rows, result: Comparison, rng: np.random.Generator) -> None:
    """Changes all rows of a batch but the first, and watches the first, bit by bit.

    Raises:
        BoundViolation: If its output depends on the others.
    """
    batch = [_around(a, 1.0, rng) for a in row]
    before = probe.forward(batch)[0]
    for value in (0.0, 1e15, np.nan):
        others = [np.concatenate([a[:1], np.full_like(a[1:], value)]) for a in batch]
        after = probe.forward(others)[0]
        if not np.array_equal(before, after, equal_nan=True):
            result.fail("the output of a row depends on other rows", after)


def _distances(ones: Rows, others: Rows) -> np.ndarray:
    """Of pairs of rows, all inputs together."""
    squares = [np.square(x - y).reshape(_PAIRS, -1) for x, y in zip(ones, others, strict=True)]
    return np.sqrt(np.sum(np.concatenate(squares, axis=1), axis=1))


def _around(array: np.ndarray, size: float, rng: np.random.Generator) -> np.ndarray:
    return _shaken(np.stack([array] * _PAIRS), size * max(norm(array), 1e-3), rng)


def _shaken(batch: np.ndarray, size: float, rng: np.random.Generator) -> np.ndarray:
    noise = rng.normal(size=batch.shape)
    lengths = np.linalg.norm(noise.reshape(len(batch), -1), axis=1)
    noise *= (size / lengths).reshape(-1, *[1] * (batch.ndim - 1))
    # In single precision, so that the model sees the numbers whose distance is taken.
    return (batch + noise).astype("float32").astype("float64")
