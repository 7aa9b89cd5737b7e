"""An adversarial search against the bounds that the engine proves for a whole model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from lipdp.bounds import adaptive_clips, gradient_bounds, lipschitz_constant, numerical_error
from lipdp.bounds.probe import GradientProbe, Point
from lipdp.errors import InvalidValue
from lipdp.losses.base import per_row
from lipdp.testing.base import (
    Comparison,
    Tightness,
    adversarial_points,
    assign_projected,
    copies,
    hostile_points,
    norm,
    push,
    put_back,
    restore,
    scaled_to,
)
from lipdp.testing.check_loss import label_kinds

#: One array for each input of a model.
Rows = list[np.ndarray]


class ModelProbe:
    """Runs a model on rows, from the same state each time, so that random masks repeat.

    Args:
        model: A built model of one output.
        loss: A loss of one value a sample.
    """

    def __init__(self, model: keras.Model, loss: Any) -> None:
        self.model, self.loss = model, loss
        self.variables = list(model.trainable_variables)
        self.shapes = [tuple(t.shape[1:]) for t in model.inputs]
        self.whole = ["int" in str(t.dtype) for t in model.inputs]
        self._state = copies(model.non_trainable_variables)
        self._points = [Point((1, *shape), _float_type(model)) for shape in self.shapes]
        self._probe = GradientProbe([*self._points, model], self._function)

    def gradients(self, row: Sequence[np.ndarray], label: np.ndarray) -> tuple[Rows, Rows]:
        """The loss's gradients of one sample in training mode.

        Args:
            row: One array of one sample for each input.
            label: Of shape (1, ...).

        Returns:
            One array for each input, and one for each trained variable.
        """
        self._restore()
        with np.errstate(over="ignore", invalid="ignore"):
            for point, value in zip(self._points, row, strict=True):
                point.assign(np.asarray(value)[None].astype(point.value.dtype))
            label = np.asarray(label).astype(self.loss.dtype)
        _, found = self._probe.probe(label)
        count = len(self._points)
        return [g[0] for g in found[:count]], found[count:]

    def forward(self, batch: Sequence[np.ndarray]) -> np.ndarray:
        """Outputs in inference mode, flat, shape (rows, entries)."""
        with np.errstate(over="ignore", invalid="ignore"):
            arrays = [self._cast(a, i) for i, a in enumerate(batch)]
        # Compiled, as users predict, and since a search asks for the same shape many times.
        output = np.asarray(self.model.predict_on_batch(self._nest(arrays)))
        return output.reshape(len(output), -1)

    def _cast(self, array: np.ndarray, index: int) -> np.ndarray:
        dtype = self.model.inputs[index].dtype if self.whole[index] else _float_type(self.model)
        return np.asarray(array).astype(dtype)

    def _restore(self) -> None:
        restore(self.model.non_trainable_variables, self._state)

    def _nest(self, tensors: list[Any]) -> Any:
        if isinstance(self.model, keras.Sequential):
            return tensors[0]
        return keras.tree.pack_sequence_as(self.model.input, tensors)

    def _function(self, label: Any) -> Any:
        inputs = self._nest([point.value for point in self._points])
        logits = self.model(inputs, training=True)
        return ops.sum(per_row(self.loss.call(label, logits), logits))


def _float_type(model: keras.Model) -> str:
    """The widest of the model's layers."""
    doubles = any(layer.compute_dtype == "float64" for layer in model.layers)
    return "float64" if doubles else "float32"


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
    """Distances of pairs of rows, all inputs together."""
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
