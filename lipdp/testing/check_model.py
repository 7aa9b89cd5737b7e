"""An adversarial search against the bounds that the engine proves for a whole model."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np

from lipdp.bounds import adaptive_clips, gradient_bounds
from lipdp.errors import InvalidValue
from lipdp.testing._label_kinds import label_kinds
from lipdp.testing._model_pairs import check_rows, try_pairs
from lipdp.testing._model_probe import ModelProbe, Rows
from lipdp.testing._points import adversarial_points, hostile_points, norm, scaled_to
from lipdp.testing._report import Comparison, Tightness
from lipdp.testing._weights import assign_projected, copies, push, put_back, restore

_LABELS = 8


def check_model(
    model: keras.Model, loss: Any, *, steps: int = 12, starts: int = 8, seed: int = 0
) -> Tightness:
    """Searches for an input, a label and weights that break a bound of a model.

    Each start takes extreme weights of the constraint sets, an input (zero, ties, spheres of all
    sizes) and the worst of some labels, and ascends the norm of one variable's gradient, relative
    to its bound in ``gradient_bounds``, over inputs and weights at once: the gradient of
    ``||dl/dv||`` is a difference of gradients at ``v`` moved along ``dl/dv`` and back. Every
    gradient that is computed on the way, and those of hostile rows (NaN, infinity, 3e38), is
    compared with its bound without tolerance. Differences of outputs are compared with
    ``lipschitz_constant``, up to ``numerical_error``, and no row may influence the output of
    another one. The weights are put back.

    Args:
        model: A model that ``gradient_bounds`` accepts.
        loss: A loss of ``lipdp.losses``.
        steps: Of each ascent.
        starts: Number of ascents, each from weights of its own; the first from the present ones,
            projected.
        seed: Of the search.

    Returns:
        The best ratios found: one for each variable, and one for differences of outputs.

    Raises:
        BoundViolation: If a bound is broken.
        InvalidValue: If there are no starts.
        InvalidValue: If a clipping threshold is trained: its "gradient" is a count.
        UnsupportedLayer: As ``gradient_bounds``.
        UnboundedGradient: As ``gradient_bounds``.
    """
    if starts < 1 or steps < 0:
        raise InvalidValue("A search needs a start", received={"starts": starts, "steps": steps})
    _check_fixed(model)
    with put_back(model.trainable_variables):
        for variable in model.trainable_variables:
            assign_projected(variable, variable.value)
        search = _ModelSearch(model, loss, np.random.default_rng(seed))
        for start in range(starts):
            search.run(start, steps)
    return search.result.tightness()


class _ModelSearch:
    """One row, one label and one setting of the weights at a time."""

    def __init__(self, model: keras.Model, loss: Any, rng: np.random.Generator) -> None:
        self.rng = rng
        self.bounds = gradient_bounds(model, loss).parameters
        self.probe = ModelProbe(model, loss)
        self.variables = self.probe.variables
        self.result = Comparison(model.name)
        outputs = int(model.outputs[0].shape[-1])
        kinds = [draw for _, draw in label_kinds(loss, outputs, 1, rng)]
        # Of one shape, since each new one compiles anew.
        self.labels = [draw for draw in kinds if draw().shape == kinds[0]().shape]

    def run(self, start: int, steps: int) -> None:
        """An ascent of one variable's ratio, then hostile rows and pairs at the last weights."""
        if start:
            push(self.variables, self.rng)
        row = [self._start(i) for i in range(len(self.probe.shapes))]
        check_rows(self.probe, row, self.result, self.rng)
        if self.variables:
            row = self._ascend(row, start % len(self.variables), steps)
            self._try_hostile(row)
        try_pairs(self.probe, row, self.result, self.rng)

    def _start(self, index: int) -> np.ndarray:
        shape = self.probe.shapes[index]
        if self.probe.whole[index]:
            ids = self.rng.integers(-2, 12, size=shape)
            return np.full(shape, ids.flat[0]) if self.rng.random() < 0.5 else ids
        points = adversarial_points(shape, 10.0 ** self.rng.uniform(-1.5, 1.5), self.rng)
        return points[self.rng.integers(len(points))]

    def _ratios(self, row: Rows, label: np.ndarray) -> list[float]:
        """Compares every gradient with its bound."""
        norms = [norm(g) for g in self.probe.gradients(row, label)[1]]
        for variable, measured, bound in zip(self.variables, norms, self.bounds, strict=True):
            self.result.compare(f"gradient of {variable.path}", measured, bound)
        return [n / b if b > 0 else 0.0 for n, b in zip(norms, self.bounds, strict=True)]

    def _ascend(self, row: Rows, target: int, steps: int) -> Rows:
        label, best = self._worst_label(row, target)
        stuck = False
        for step, length in enumerate(np.geomspace(0.7, 0.03, steps) if steps else ()):
            moves = self._directions(row, label, target, stuck)
            # Projections cost more than gradients, so weights move less often.
            weights = self.variables if step % 3 == 0 else []
            before = copies(weights)
            moved = [_moved(a, d, length) for a, d in zip(row, moves, strict=False)]
            for v, value, direction in zip(weights, before, moves[len(row) :], strict=False):
                assign_projected(v, _moved(value, direction, length))
            ratio = self._ratios(moved, label)[target]
            stuck = not ratio > best
            if stuck:
                restore(weights, before)
            else:
                row, best = moved, ratio
        return row

    def _worst_label(self, row: Rows, target: int) -> tuple[np.ndarray, float]:
        best, worst = -1.0, self.labels[0]()
        for i in range(_LABELS):
            label = self.labels[i % 2 * self.rng.integers(len(self.labels))]()
            ratio = self._ratios(row, label)[target]
            if ratio > best:
                best, worst = ratio, label
        return worst, best

    def _directions(self, row: Rows, label: np.ndarray, target: int, stuck: bool) -> Rows:
        """Gradient of ``||dl/dv||`` with respect to inputs and variables; random ones if stuck."""
        shapes = [*self.probe.shapes, *(v.shape for v in self.variables)]
        if stuck:
            return [self.rng.normal(size=shape) for shape in shapes]
        gradient = self.probe.gradients(row, label)[1][target].astype("float64")
        variable = self.variables[target]
        (value,) = copies([variable])
        step = scaled_to(gradient, 1e-2 * max(norm(value), 1e-2))
        ends = []
        for sign in (1.0, -1.0):
            variable.assign((value + sign * step).astype(value.dtype))
            inputs, others = self.probe.gradients(row, label)
            ends.append([*inputs, *others])
        variable.assign(value)
        return [a.astype("float64") - b for a, b in zip(*ends, strict=True)]

    def _try_hostile(self, row: Rows) -> None:
        label = self.labels[0]()
        for index, shape in enumerate(self.probe.shapes):
            for point in hostile_points(shape):
                self._ratios([*row[:index], point, *row[index + 1 :]], label)


def _moved(array: np.ndarray, direction: np.ndarray, length: float) -> np.ndarray:
    """The array moved by a fraction of its own norm; left alone if there is no direction."""
    if not 0 < norm(direction) < math.inf:
        return array
    return array + scaled_to(np.asarray(direction, "float64"), length * max(norm(array), 1e-2))


def _check_fixed(model: keras.Model) -> None:
    clips = adaptive_clips(model)
    if clips:
        raise InvalidValue(
            "The thresholds of adaptive clips are trained by counts, which no ascent can follow",
            received=[clip.name for clip in clips],
            fix="Set trainable = False on these layers: they then clip at their present threshold",
        )
