"""An adversarial search against the constant that a loss states."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from keras import ops

from lipdp.bounds.probe import GradientProbe, Point
from lipdp.losses.base import per_row
from lipdp.numerics import unit_roundoff
from lipdp.testing.base import (
    Comparison,
    Tightness,
    adversarial_points,
    cotangents,
    hostile_points,
    scaled_to,
)

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


_ROWS = 64
_ASCENT_STEPS = 24


def check_loss(loss: Any, num_outputs: int, logit_bound: float, *, seed: int = 0) -> Tightness:
    """Searches for logits and a label that break the constant of a loss.

    Logits are zero, ties, one-hot, opposed pairs, spheres, and what a random ascent finds, all of
    norm at most ``logit_bound``; labels are of every kind, in range or not, whole, soft, huge or
    NaN. The computed gradient of each sample is compared with ``lipschitz * (1 + rounding)``,
    without further tolerance. If a finite constant is stated for unbounded logits, those up to
    1e30, infinite ones and NaN must respect it. No sample may influence another.

    Args:
        loss: A ``LipschitzLoss``.
        num_outputs: Number of logits of one sample (and position, if the loss has positions).
        logit_bound: Euclidean bound of one sample's logits; ``inf`` searches up to norm 100.
        seed: Of the search.

    Returns:
        The best ratios found.

    Raises:
        BoundViolation: If the constant is broken, or samples mix.
        UnsupportedLayer: If the loss does not return one value a sample.
    """
    search = _LossSearch(loss, num_outputs, logit_bound, np.random.default_rng(seed))
    for kind, draw in label_kinds(loss, num_outputs, _ROWS, search.rng):
        search.run(kind, draw)
    return search.result.tightness()


class _LossSearch:
    """Evaluates the gradients of a batch of independent samples at once, their logits flat."""

    def __init__(
        self, loss: Any, num_outputs: int, logit_bound: float, rng: np.random.Generator
    ) -> None:
        self.rng = rng
        self.loss = loss
        self.outputs = num_outputs
        self.shape = (_ROWS, *(() if loss.positions is None else (loss.positions,)), num_outputs)
        self.size = math.prod(self.shape[1:])
        self.radius = logit_bound if math.isfinite(logit_bound) else 100.0
        self.result = Comparison(loss.name)
        self.bound = self._stated(logit_bound)
        self.unbounded = self._stated(math.inf)
        self._point = Point(self.shape, dtype=loss.dtype)
        self._probe = GradientProbe(self._point, self._total, dtype=loss.dtype)

    def _stated(self, logit_bound: float) -> float:
        constant = self.loss.lipschitz(logit_bound, self.outputs)
        if not math.isfinite(constant):
            return constant
        unit = unit_roundoff(self.loss.dtype)
        return constant * (1.0 + self.loss.rounding(logit_bound, self.outputs, unit))

    def _total(self, labels: Any) -> Any:
        logits = self._point.value
        return ops.sum(per_row(self.loss.call(labels, logits), logits))

    def run(self, kind: str, draw: Any) -> None:
        """All logits against labels of one kind."""
        self._compare(kind, self._ascend(draw(), self._start()), self.bound)
        if math.isfinite(self.unbounded):
            for logits in self._extreme():
                norms = self._norms(draw(), logits)
                self._compare(f"{kind}, extreme logits", norms, self.unbounded)
        self._check_isolation(draw)

    def _compare(self, kind: str, norms: np.ndarray, bound: float) -> None:
        self.result.compare(kind, float(np.max(norms)), bound)

    def _gradients(self, labels: np.ndarray, logits: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            self._point.assign(logits.astype(self.loss.dtype).reshape(self.shape))
            labels = np.asarray(labels).astype(self.loss.dtype)
        return self._probe.probe(labels)[1][0].astype("float64").reshape(_ROWS, self.size)

    def _norms(self, labels: np.ndarray, logits: np.ndarray) -> np.ndarray:
        return np.linalg.norm(self._gradients(labels, logits), axis=-1)

    def _inside(self, logits: np.ndarray) -> np.ndarray:
        # Shortened by more than the rounding of the cast: the bound is for this ball exactly.
        lengths = np.linalg.norm(logits, axis=-1, keepdims=True)
        shorter = self.radius * (1.0 - 4.0 * unit_roundoff(self.loss.dtype))
        return logits * np.minimum(1.0, shorter / np.maximum(lengths, 1e-300))

    def _start(self) -> np.ndarray:
        special = adversarial_points((self.size,), self.radius, self.rng)
        special += [self.radius * v for v in cotangents(self.size, self.rng)]
        special += [self._opposed() for _ in range(_ROWS)]
        return self._inside(np.stack(special[:_ROWS]))

    def _opposed(self) -> np.ndarray:
        """One logit low, another high, the others at a common value."""
        logits = np.full(self.size, self.rng.normal() / math.sqrt(self.size))
        low, high = self.rng.integers(0, self.size, 2)
        logits[high], logits[low] = self.rng.random() + 0.5, -self.rng.random() - 0.5
        return scaled_to(logits, self.radius)

    def _extreme(self) -> Iterator[np.ndarray]:
        for size in (1e3, 1e15, 1e30, 3e38):
            yield size * self.rng.uniform(-1.0, 1.0, (_ROWS, self.size))
            yield self.rng.choice([-size, size], (_ROWS, self.size))
        hostile = np.stack(hostile_points((self.size,)))
        yield np.resize(hostile, (_ROWS, self.size))

    def _ascend(self, labels: np.ndarray, logits: np.ndarray) -> np.ndarray:
        """Random ascent of each row on its own; returns the norms reached."""
        best = self._norms(labels, logits)
        for step in np.geomspace(1.0, 1e-3, _ASCENT_STEPS):
            noise = self.rng.normal(size=logits.shape) / math.sqrt(self.size)
            moved = self._inside(logits + step * self.radius * noise)
            norms = self._norms(labels, moved)
            better = ~(norms <= best)
            logits, best = np.where(better[:, None], moved, logits), np.where(better, norms, best)
        return best

    def _check_isolation(self, draw: Any) -> None:
        labels, logits = draw(), self._inside(self.rng.normal(size=(_ROWS, self.size)))
        before = self._gradients(labels, logits)[0]
        for other_labels in (draw(), np.full_like(labels, 0), labels[::-1]):
            for size in (0.0, 1.0, 1e30, np.nan):
                others = size * self.rng.normal(size=logits.shape)
                mixed = np.array(other_labels)
                mixed[0], others[0] = labels[0], logits[0]
                after = self._gradients(mixed, others)[0]
                if not np.array_equal(before, after, equal_nan=True):
                    self.result.fail("the gradient of a sample depends on other samples", after)
