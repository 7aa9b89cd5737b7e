"""Labels of every kind, in their set and outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

#: Draws labels, one for each row.
Draw = Callable[[], np.ndarray]

_ODD = (0.5, 1e9, -1.0, -1e30, np.nan, np.inf, -np.inf)
_WILD = (0.0, 0.0, 1.0, 5.0, 1e-30, 3e38, -2.0, np.nan, np.inf)


def label_kinds(
    loss: Any, outputs: int, rows: int, rng: np.random.Generator
) -> Iterator[tuple[str, Draw]]:
    """Functions that draw labels for ``rows`` samples, by kind.

    Args:
        loss: A ``LipschitzLoss``.
        outputs: Number of logits of one sample (and position).
        rows: Number of samples.
        rng: Source of the random ones.
    """
    lead = (rows,) if loss.positions is None else (rows, loss.positions)
    task = loss.task_for(outputs)
    yield from _proper(task, outputs, lead, rng)
    if task != "regression":
        odd = np.array([*_ODD, outputs])
        shape = (*lead, outputs) if task == "multilabel" else lead
        yield "odd labels", lambda: rng.choice(odd, shape)
    vector, column = (*lead, outputs), (*lead, 1)
    yield "real labels", lambda: rng.normal(size=vector) * 10.0 ** rng.integers(-3, 4, column)
    yield "wild labels", lambda: rng.choice(np.array(_WILD), vector)


def _proper(
    task: str, outputs: int, lead: tuple[int, ...], rng: np.random.Generator
) -> Iterator[tuple[str, Draw]]:
    column, vector = (*lead, 1), (*lead, outputs)
    if task == "binary":
        yield "labels", lambda: rng.integers(0, 2, lead)
        yield "labels in a column", lambda: rng.integers(0, 2, column)
        yield "soft labels", lambda: rng.random(column)
    elif task == "multiclass":
        yield "labels", lambda: rng.integers(0, outputs, lead)
        yield "labels in a column", lambda: rng.integers(0, outputs, column)
        yield "one-hot labels", lambda: np.eye(outputs)[rng.integers(0, outputs, lead)]
        yield "soft labels", lambda: rng.dirichlet(np.full(outputs, 0.5), lead)
        yield "nearly soft labels", lambda: _nearly_simplex(outputs, lead, rng)
    elif task == "multilabel":
        yield "labels", lambda: rng.integers(0, 2, vector)
        yield "soft labels", lambda: rng.random(vector)


def _nearly_simplex(outputs: int, lead: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Rows that rounding may have moved off the simplex, some of them too far."""
    rows = rng.dirichlet(np.full(outputs, 0.2), lead) * (1.0 + rng.normal(size=(*lead, 1)) * 1e-3)
    return rows - rng.choice([0.0, 5e-7, 2e-6], rows.shape)
