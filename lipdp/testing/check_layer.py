"""An adversarial search against the bounds that a layer states."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from lipdp.bounds.probe import GradientProbe, Point
from lipdp.bounds.rules import bounds_of, merge_bounds_of
from lipdp.bounds.rules.base import Shapes
from lipdp.errors import BoundViolation, InvalidValue
from lipdp.layers.base import LipschitzLayer
from lipdp.numerics import unit_roundoff
from lipdp.testing.base import (
    Comparison,
    Tightness,
    adversarial_points,
    copies,
    cotangents,
    hostile_points,
    id_points,
    norm,
    put_back,
    restore,
    scaled_to,
    weight_settings,
)

_COTANGENTS = (1e-3, 0.03, 1.0, 50.0)
#: The factors are products of floats.
_ROUNDING = 1.0 + 2.0**-40


def check_growth(part: str, rule: Any, x: float) -> None:
    """Bounds must not fall as g grows, and grow at most in proportion to it.

    Noise that follows an adaptive threshold relies on it.

    Args:
        part: Name for the message.
        rule: States ``backward_bound`` and ``parameter_bounds``.
        x: Bound of the input.

    Raises:
        BoundViolation: If a bound does not.
    """
    for low, high in itertools.pairwise(_COTANGENTS):
        before = [rule.backward_bound(x, low), *rule.parameter_bounds(x, low)]
        after = [rule.backward_bound(x, high), *rule.parameter_bounds(x, high)]
        for a, b in zip(before, after, strict=True):
            if a > b * _ROUNDING or b > a * (high / low) * _ROUNDING:
                raise BoundViolation(
                    f"{part}: a bound does not grow as it must with g, from {low} to {high}",
                    received=(a, b),
                    fix="It must be nondecreasing in g, and at most in proportion to g",
                )


class LayerProbe:
    """Runs a layer on batches of fixed size, from the same state each time.

    Restoring the state repeats a layer's random numbers, so that a difference between two calls is
    due to the inputs.

    Args:
        layer: A built layer of one input and one output.
        shape: Of one sample.
        rows: Batch size.
        training: Mode of the layer.
    """

    def __init__(
        self, layer: Any, shape: Sequence[int], rows: int = 1, training: bool = True
    ) -> None:
        self.layer = layer
        self.shape = tuple(shape)
        self.rows = rows
        self.training = training
        self._state = copies(layer.non_trainable_variables)
        self._point = Point((rows, *self.shape), dtype=layer.compute_dtype)
        self.output_shape = self.forward(np.zeros((rows, *self.shape))).shape[1:]
        self._probe = GradientProbe([self._point, layer], self._function)

    @property
    def output_size(self) -> int:
        """Number of entries of one sample's output."""
        return int(np.prod(self.output_shape))

    def cast(self, array: np.ndarray) -> np.ndarray:
        """In the precision of the layer."""
        with np.errstate(over="ignore"):
            return np.asarray(array).astype(self.layer.compute_dtype)

    def restore(self) -> None:
        """Puts the layer's state back."""
        restore(self.layer.non_trainable_variables, self._state)

    def state(self) -> list[np.ndarray]:
        """The layer's non-trainable variables now."""
        return copies(self.layer.non_trainable_variables)

    def draws_randomness(self) -> bool:
        """Whether a call moves the state, as that of a random generator."""
        self.forward(np.zeros((self.rows, *self.shape)))
        pairs = zip(self.state(), self._state, strict=True)
        return any(not np.array_equal(now, before) for now, before in pairs)

    def forward(self, batch: np.ndarray) -> np.ndarray:
        """Outputs of a batch (rows, ...)."""
        self.restore()
        tensor = ops.convert_to_tensor(self.cast(batch))
        return np.asarray(ops.convert_to_numpy(self.layer(tensor, training=self.training)))

    def pullback(
        self, batch: np.ndarray, cotangent: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """``J^T u`` with respect to the batch, and to each trainable variable of the layer.

        Args:
            batch: Shape (rows, ...).
            cotangent: Shape of the outputs, or flat.
        """
        self.restore()
        self._point.assign(self.cast(batch))
        shaped = self.cast(np.reshape(cotangent, (self.rows, *self.output_shape)))
        _, gradients = self._probe.probe(shaped)
        return gradients[0], gradients[1:]

    def _function(self, cotangent: Any) -> Any:
        output = self.layer(self._point.value, training=self.training)
        return ops.sum(output * ops.cast(cotangent, output.dtype))


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


_SHUFFLES = 3

Parts = list[np.ndarray]


def check_merge(
    layer: Any,
    shapes: Sequence[tuple[int, ...]],
    radii: Sequence[float],
    *,
    rule: Callable[[Any], Any] | None,
    result: Comparison,
    rng: np.random.Generator,
) -> None:
    """Compares outputs, gradients of each input and differences of outputs with their bounds.

    Args:
        layer: Without weights.
        shapes: Of one sample of each input.
        radii: Bounds of the norms of the inputs.
        rule: As in ``check_layer``.
        result: Of the search.
        rng: Source of random inputs.

    Raises:
        BoundViolation: If a bound is broken or samples mix.
    """
    search = _MergeSearch(layer, shapes, radii, result)
    stated = rule(layer) if rule else merge_bounds_of(layer, search.shapes)

    def draw() -> np.ndarray:
        return _flat([scaled_to(rng.normal(size=s), r) for s, r in zip(shapes, radii, strict=True)])

    check_isolation(search.probe, draw, result, rng)
    points = list(_points(shapes, radii, rng))
    for one, other in zip(points, [*points[1:], points[0]], strict=True):
        search.try_point(stated, one, cotangents(search.probe.output_size, rng))
        search.try_pair(stated, one, other)


def _points(
    shapes: Sequence[tuple[int, ...]], radii: Sequence[float], rng: np.random.Generator
) -> Iterator[Parts]:
    """Special points of each ball, alike ones together and shuffled."""
    special = [adversarial_points(s, r, rng) for s, r in zip(shapes, radii, strict=True)]
    yield from (list(parts) for parts in zip(*special, strict=True))
    for _ in range(_SHUFFLES):
        shuffled = [[column[i] for i in rng.permutation(len(column))] for column in special]
        yield from (list(parts) for parts in zip(*shuffled, strict=True))


class _Packed(keras.layers.Layer):
    """A layer of several inputs as a layer of one, in which they lie flat, side by side."""

    def __init__(self, layer: Any, shapes: Sequence[tuple[int, ...]]) -> None:
        super().__init__(dtype=layer.compute_dtype, name="packed")
        self.layer = layer
        self.shapes = [tuple(shape) for shape in shapes]
        self.cuts = [int(c) for c in np.cumsum([math.prod(s) for s in shapes])]
        self(ops.zeros((1, self.cuts[-1]), dtype=self.compute_dtype))

    def call(self, inputs: Any, training: bool = False) -> Any:
        """The layer's output."""
        parts = ops.split(inputs, self.cuts[:-1], axis=1)
        shaped = [ops.reshape(p, (-1, *s)) for p, s in zip(parts, self.shapes, strict=True)]
        return self.layer(shaped, training=training)


class _MergeSearch:
    """Measures one layer."""

    def __init__(
        self,
        layer: Any,
        shapes: Sequence[tuple[int, ...]],
        radii: Sequence[float],
        result: Comparison,
    ) -> None:
        self.radii, self.result = list(radii), result
        self.packed = _Packed(layer, shapes)
        self.probe = LayerProbe(self.packed, (self.packed.cuts[-1],))
        self.inference = LayerProbe(self.packed, self.probe.shape, training=False)
        self.shapes = Shapes(tuple(shapes), self.probe.output_shape)
        self.unit = unit_roundoff(layer.compute_dtype)

    def try_point(self, stated: Any, parts: Parts, signals: list[np.ndarray]) -> None:
        """The output, and the gradients of the inputs at each cotangent."""
        slack = 1.0 + stated.rounding(self.unit)
        sizes = [norm(self.probe.cast(part)) for part in parts]
        point = _flat(parts)
        output = self.probe.forward(point[None])
        reached = [sizes, [max(x, r) for x, r in zip(sizes, self.radii, strict=True)]]
        for xs in reached:
            self.result.compare("output", norm(output), stated.forward_bound(xs) * slack)
        for signal in [*signals, scaled_to(output.ravel().astype("float64"), 1.0)]:
            whole = self.probe.pullback(point[None], signal)[0][0]
            g = norm(self.probe.cast(signal)) * slack
            for xs in reached:
                self._compare(whole, [j * g for j in stated.jacobians(xs)], stated.joint)

    def _compare(self, whole: np.ndarray, bounds: list[float], joint: bool) -> None:
        for i, part in enumerate(self._split(whole)):
            self.result.compare(f"gradient of input {i}", norm(part), bounds[i])
        if joint:
            self.result.compare("gradient of all inputs", norm(whole), max(bounds))

    def try_pair(self, stated: Any, one: Parts, other: Parts) -> None:
        """A difference of outputs against the differences of the inputs."""
        ends = [self.probe.cast(_flat(parts)) for parts in (one, other)]
        outputs = [self.inference.forward(end[None]).astype("float64") for end in ends]
        xs = [max(norm(a), norm(b)) for a, b in zip(*map(self._split, ends), strict=True)]
        gap = self._split(ends[0].astype("float64") - ends[1])
        moves = [j * norm(part) for j, part in zip(stated.jacobians(xs), gap, strict=True)]
        bound = math.hypot(*moves) if stated.joint else math.fsum(moves)
        error = 2.0 * stated.rounding(self.unit) * stated.forward_bound(xs)
        change = norm(outputs[0] - outputs[1])
        self.result.compare("difference of outputs", change, bound + error)

    def _split(self, flat: np.ndarray) -> list[np.ndarray]:
        return np.split(flat, self.packed.cuts[:-1])


def _flat(parts: Parts) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts])


_DENSE_OUTPUTS = 8
_ASCENT_STEPS = 8
_REFINEMENTS = 3


def check_layer(
    layer: Any,
    input_shape: Sequence[int] | Sequence[Sequence[int]],
    radius: float | Sequence[float],
    *,
    ids: int | None = None,
    rule: Callable[[Any], Any] | None = None,
    seed: int = 0,
) -> Tightness:
    """Searches for an input, weights and a cotangent that break a bound of a layer.

    The layer is built, its weights are pushed out of their constraint sets and projected back, and
    on inputs of norm at most ``radius`` (zero, ties, one-hot, spheres, and what ascent finds) the
    computed output, input gradient and gradients of each variable are compared with the stated
    bounds times ``1 + rounding``, without further tolerance. Small layers get whole Jacobians and
    exact singular vectors, larger ones a power iteration. If a finite output bound is stated for
    unbounded inputs, rows of NaN, infinity and 3e38 must respect it. In inference mode, differences
    of outputs are compared with ``lipschitz``. The layer's weights are put back.

    Args:
        layer: A ``LipschitzLayer``, or a plain Keras layer with a known rule.
        input_shape: Shape of one sample, without batch axis; a list of shapes for a layer that is
            called on a list of tensors.
        radius: Finite bound of the Euclidean norm of one sample; of several inputs, of each.
        ids: Number of valid ids if the layer takes ids instead of numbers. It gets some of all
            kinds, out of range too, and its output and gradients must stay within their bounds.
        rule: Maps the layer, at each setting of its weights, to what states its bounds in its
            place, with the methods of a ``LipschitzLayer`` (or, for several inputs, ``joint``,
            ``forward_bound(xs)``, ``jacobians(xs)`` and ``rounding(unit)``).
        seed: Of the search.

    Returns:
        The best ratios found.

    Raises:
        BoundViolation: If a bound is broken, samples mix, ``linear_backward`` is not true, or a
            bound grows wrongly with that of the cotangent.
        InvalidValue: If a radius is not positive and finite.
        UnsupportedLayer: If nothing states bounds for this layer.
    """
    rng, result = np.random.default_rng(seed), Comparison(layer.name)
    if any(isinstance(size, Sequence) for size in input_shape):
        shapes = [_shape(shape) for shape in input_shape]
        radii = [_positive(r) for r in np.broadcast_to(radius, len(shapes))]
        check_merge(layer, shapes, radii, rule=rule, result=result, rng=rng)
        return result.tightness()
    shape, r = _shape(input_shape), _positive(radius)
    layer(ops.zeros((1, *shape), dtype=layer.compute_dtype))
    search = _Search(layer, rule or _own_bounds(shape), shape, radius=r, result=result, rng=rng)
    search.ids = ids
    with put_back(layer.trainable_variables):
        for setting in weight_settings(layer.trainable_variables, rng):
            search.run(every=1 if setting in ("initial", "random") else 3)
        search.run_hostile()
        check_isolation(search.probe, search.sample, result, rng)
    return result.tightness()


def _shape(sizes: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in sizes)


def _positive(radius: Any) -> float:
    if not 0 < radius < math.inf:
        raise InvalidValue("The radius is not positive and finite", received=radius, fix="Use 1.0")
    return float(radius)


def _own_bounds(shape: tuple[int, ...]) -> Callable[[Any], Any]:
    def stated(layer: Any) -> Any:
        if isinstance(layer, LipschitzLayer):
            return layer
        output = layer(ops.zeros((1, *shape), dtype=layer.compute_dtype))
        return bounds_of(layer, Shapes((shape,), tuple(output.shape[1:])))

    return stated


class _Search:
    """The search at one setting of the weights."""

    def __init__(
        self,
        layer: Any,
        rule: Callable[[Any], Any],
        shape: tuple[int, ...],
        *,
        radius: float,
        result: Comparison,
        rng: np.random.Generator,
    ) -> None:
        self._state_bounds = rule
        self.radius = radius
        self.result = result
        self.rng = rng
        self.probe = LayerProbe(layer, shape)
        self.inference = LayerProbe(layer, shape, training=False)
        self.names = [v.name for v in layer.trainable_variables]
        self.unit = unit_roundoff(layer.compute_dtype)
        self.ids: int | None = None

    def sample(self) -> np.ndarray:
        """A random input."""
        if self.ids is not None:
            return self.rng.integers(0, self.ids, size=self.probe.shape)
        return scaled_to(self.rng.normal(size=self.probe.shape), self.radius)

    def run(self, every: int) -> None:
        """Inputs of the ball: each ``every``-th special one, and what ascent finds."""
        self.rule = self._state_bounds(self.probe.layer)
        check_growth(self.probe.layer.name, self.rule, self.radius)
        self.slack = 1.0 + self.rule.rounding(self.unit)
        self._check_linearity()
        points = self._special()
        points = points[::every] + [self._ascend(point) for point in points[-8:-5]]
        directions = [self._try_point(point) for point in points]
        self._try_pairs(points, directions)

    def _special(self) -> list[np.ndarray]:
        if self.ids is not None:
            return id_points(self.probe.shape, self.ids, self.rng)
        return adversarial_points(self.probe.shape, self.radius, self.rng)

    def _check_linearity(self) -> None:
        if not getattr(self.rule, "linear_backward", False):
            return
        for x in (0.0, 1e-3 * self.radius, self.radius, 1e3 * self.radius, math.inf):
            for g in (1e-6, 0.3, 17.0, 1e6):
                one, many = self.rule.backward_bound(x, 1.0), self.rule.backward_bound(x, g)
                if not math.isclose(many, g * one, rel_tol=1e-12):
                    received = {"x": x, "g": g, "at g": many, "at 1": one}
                    self.result.fail("its backward bound is not linear in g as claimed", received)

    def run_hostile(self) -> None:
        """Rows outside every ball, if the layer claims to contain them."""
        if math.isinf(self.rule.forward_bound(math.inf)):
            return
        for point in hostile_points(self.probe.shape):
            output = self.probe.forward(point[None])
            bound = self.rule.forward_bound(math.inf) * self.slack
            self.result.compare("output of a hostile row", norm(output), bound)
            for cotangent in cotangents(self.probe.output_size, self.rng):
                self._try_cotangent(point, cotangent, math.inf)

    def _ascend(self, point: np.ndarray) -> np.ndarray:
        """Gradient ascent of ``||f(t)||`` on the sphere: a power iteration if f is linear."""
        for _ in range(_ASCENT_STEPS):
            gradient, _ = self.probe.pullback(point[None], self.probe.forward(point[None]))
            if not 0 < norm(gradient) < math.inf:
                break
            point = scaled_to(gradient[0].astype("float64"), self.radius)
        return point

    def _try_point(self, point: np.ndarray) -> np.ndarray:
        """Compares all bounds at one input; returns the best input direction found."""
        size = norm(self.probe.cast(point))
        output = self.probe.forward(point[None])
        for x in {size, max(size, self.radius)}:
            self.result.compare("output", norm(output), self.rule.forward_bound(x) * self.slack)
        best, direction = -1.0, point
        for cotangent in self._cotangents(point, output, size):
            gradients = self._try_cotangent(point, cotangent, size)
            if norm(gradients[0]) > best:
                best, direction = norm(gradients[0]), gradients[0][0]
        return direction

    def _cotangents(self, point: np.ndarray, output: np.ndarray, size: float) -> list[np.ndarray]:
        dense = self.probe.output_size <= _DENSE_OUTPUTS
        found = cotangents(self.probe.output_size, self.rng, one_hot=not dense)
        if norm(output) > 0 and np.all(np.isfinite(output)):
            found.append(scaled_to(output.ravel().astype("float64"), 1.0))
        if dense:
            return found + self._singular_vectors(point, size)
        return found + self._refined(point, found[-1])

    def _singular_vectors(self, point: np.ndarray, size: float) -> list[np.ndarray]:
        """Left singular vectors of the whole Jacobians, for the input and for each variable.

        All unit vectors are tried on the way.
        """
        units = np.eye(self.probe.output_size)
        rows = [self._try_cotangent(point, unit, size) for unit in units]
        matrices = [np.stack([np.ravel(g) for g in column]) for column in zip(*rows, strict=True)]
        finite = [m.astype("float64") for m in matrices if np.all(np.isfinite(m))]
        return [np.linalg.svd(m, full_matrices=False)[0][:, 0] for m in finite]

    def _refined(self, point: np.ndarray, start: np.ndarray) -> list[np.ndarray]:
        """A power iteration whose forward products are finite differences of the layer."""
        step, cotangent, found = 1e-2 * self.radius, start, []
        for _ in range(_REFINEMENTS):
            direction = scaled_to(self._pull(point, cotangent)[0][0].astype("float64"), step)
            ahead, behind = (
                self.probe.forward(p[None]) for p in (point + direction, point - direction)
            )
            change = (ahead.astype("float64") - behind).ravel()
            if not 0 < norm(change) < math.inf:
                break
            cotangent = scaled_to(change, 1.0)
            found.append(cotangent)
        return found

    def _pull(self, point: np.ndarray, cotangent: np.ndarray) -> list[np.ndarray]:
        gradient, gradients = self.probe.pullback(point[None], cotangent)
        return [gradient, *gradients]

    def _try_cotangent(
        self, point: np.ndarray, cotangent: np.ndarray, size: float
    ) -> list[np.ndarray]:
        length = norm(self.probe.cast(cotangent))
        gradients = self._pull(point, cotangent)
        names = ["input gradient", *(f"gradient of {name}" for name in self.names)]
        for x in {size, max(size, self.radius)}:
            bounds = [self.rule.backward_bound(x, length)]
            bounds += self.rule.parameter_bounds(x, length)
            if len(bounds) != len(gradients):
                self.result.fail("it states another number of bounds than it has variables", bounds)
            for name, gradient, bound in zip(names, gradients, bounds, strict=True):
                self.result.compare(name, norm(gradient), bound * self.slack)
        return gradients

    def _try_pairs(self, points: list[np.ndarray], directions: list[np.ndarray]) -> None:
        """Differences of outputs in inference mode, along the steepest directions and across."""
        constant = self.rule.lipschitz(self.radius) if hasattr(self.rule, "lipschitz") else math.inf
        if math.isinf(constant):
            return
        outputs = self.inference.forward
        for point, direction in zip(points, directions, strict=True):
            away = scaled_to(np.asarray(direction, "float64"), self.radius)
            for one, other in ((away, -away), (point, points[-1]), (point, 0.9 * point)):
                gap = norm(self.probe.cast(one).astype("float64") - self.probe.cast(other))
                change = norm(outputs(one[None]).astype("float64") - outputs(other[None]))
                # Each output is right to its relative slack, which does not shrink with the gap.
                error = 2.0 * (self.slack - 1.0) * self.rule.forward_bound(self._size(one))
                self.result.compare("difference of outputs", change, constant * gap + error)

    def _size(self, point: np.ndarray) -> float:
        return max(self.radius, norm(self.probe.cast(point)))
