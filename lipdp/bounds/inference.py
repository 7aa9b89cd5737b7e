"""The map of a model in inference mode, at its present weights: constants, norms, rounding errors.

Bounds of gradients hold for all weights that training can visit; certificates are about those of
now, which have a norm whether their set has one or not. Forward in topological order, for every
input of norm at most X: a bound of the norm of each tensor as computed, and one of how far it is
from the exact one. A layer passes the error of its input on, multiplied by its Lipschitz constant
between inputs of such norms, and adds its own: what its operations round, and what underflows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from lipdp.bounds.cotangent import Cotangent, give, joint_bound, part, start
from lipdp.bounds.graph import Call, Graph, graph_of
from lipdp.bounds.precision import usable, working_unit
from lipdp.bounds.rules import LayerBounds, MergeBounds, bounds_of, is_merging, merge_bounds_of
from lipdp.bounds.rules.base import Weightless
from lipdp.bounds.steps import check_single_input
from lipdp.bounds.underflow import MULTIPLIED, lost_at_present, unless_zero, vast, with_size
from lipdp.layers.base import LipschitzLayer
from lipdp.layers.clipping import BallLayer
from lipdp.numerics import HOST, gamma, times, unit_roundoff
from lipdp.projections import Projection


@dataclass(frozen=True)
class InferenceStep:
    """One call and what its rule says.

    Attributes:
        call: The call.
        rule: The rule of its layer.
        unit: Unit round-off in which it computes.
        xs: Bounds of the norms that it reads.
        factors: Its Lipschitz constant with respect to each input.
        joint: Whether the greatest factor is that of all inputs together.
        cast: Relative rounding of what it reads in its own dtype; 0 if that is exact.
        own: Bound of the error that it makes of exact inputs, beside what is lost.
        lost: What its tensors may lose by underflow, at norms 0.
        x_lost: The same of its output, at the norms that it reads.
        x_out: Bound of the norm of the computed output.
    """

    call: Call
    rule: LayerBounds | MergeBounds
    unit: float
    xs: tuple[float, ...]
    factors: tuple[float, ...]
    joint: bool
    cast: float
    own: float
    lost: float
    x_lost: float
    x_out: float

    def pull(self, cotangent: Cotangent) -> list[Cotangent]:
        """To each input its constant, or its share of the whole."""
        if self.joint:
            whole = times(cotangent.bound, max(self.factors))
            return [part(self.call.output, i, whole) for i in range(len(self.factors))]
        return [cotangent * factor for factor in self.factors]

    def push(self, errors: Sequence[float]) -> float:
        """Bound of the output's error that is due to errors of the inputs."""
        if self.joint:
            return times(max(self.factors), math.hypot(*errors))
        return math.fsum(times(f, e) for f, e in zip(self.factors, errors, strict=True))

    @property
    def reason(self) -> str:
        """Why its constant or the bound of its output is infinite; empty if both are finite."""
        if all(map(math.isfinite, (*self.factors, self.x_out))):
            return ""
        layer = self.call.layer
        name = f"the layer {layer.name!r} ({type(layer).__name__})"
        if not _has_finite_weights(layer):
            return f"{name} has a weight that is not finite"
        if not _is_covered(layer):
            return f"{name} has a weight outside the set that its bounds are proved for"
        if not all(map(math.isfinite, self.factors)):
            where = "" if all(map(math.isfinite, self.xs)) else ", where nothing bounds its input"
            return f"{name} has no finite Lipschitz constant{where}"
        if not all(map(math.isfinite, self.xs)):
            return f"nothing bounds the norm of what {name} reads, on which its rounding depends"
        return f"numbers may overflow at {name}"


def inference_steps(graph: Graph, input_norm: float = math.inf) -> list[InferenceStep]:
    """The calls of a graph in order.

    Args:
        graph: Of a model.
        input_norm: Bound of the norm of one sample; of several inputs, of each.

    Raises:
        UnsupportedLayer: If a layer has no proved bound.
        UnsafeSetting: If one computes in half or mixed precision.
    """
    norms = dict.fromkeys(graph.inputs, input_norm)
    steps: list[InferenceStep] = []
    for call in graph.calls:
        xs = tuple(norms[key] for key in call.inputs)
        step = _merge_step(call, xs) if is_merging(call.layer) else _layer_step(call, xs)
        norms[call.output] = step.x_out
        steps.append(step)
    return steps


def in_constraint_set(layer: Any) -> bool:
    """Whether every projected weight of a layer lies in the set that its bounds are proved for."""
    projected = ((v, v.constraint) for v in getattr(layer, "trainable_variables", ()))
    return all(
        constraint.bound_of(keras.ops.convert_to_numpy(v)) <= constraint.norm_bound
        for v, constraint in projected
        if isinstance(constraint, Projection)
    )


def _layer_step(call: Call, xs: tuple[float, ...]) -> InferenceStep:
    check_single_input(call)
    (x,), rule, unit = xs, bounds_of(call.layer, call.shapes), working_unit(call.layer)
    cast = _cast_factor(call, unit)
    exact = rule.rounding(unit) == 0.0 and cast == 0.0
    lipschitz = rule.lipschitz(x)
    bound, own = rule.inference_bound(x), rule.inference_error(x, unit)
    if not _is_covered(call.layer):
        bound = own = math.inf
    lost = lost_at_present(call, lipschitz)
    x_lost = unless_zero(lost * with_size(x, bound), bound, lambda: rule.inference_bound(vast(x)))
    if exact:  # It moves entries, or is the identity in inference.
        own = x_lost = 0.0
    moved = times(lipschitz, cast, x) if cast and math.isfinite(x) else 0.0
    x_out = usable(bound + own + moved + x_lost, unit)
    return InferenceStep(call, rule, unit, xs, (lipschitz,), False, cast, own, lost, x_lost, x_out)


def _merge_step(call: Call, xs: tuple[float, ...]) -> InferenceStep:
    rule, unit = merge_bounds_of(call.layer, call.shapes), working_unit(call.layer)
    cast = _cast_factor(call, unit)
    bound, slack = rule.forward_bound(xs), rule.rounding(unit)
    factors = tuple(usable(j, unit) for j in rule.jacobians(xs))
    lost = lost_at_present(call, max(rule.jacobians([1.0 + x for x in xs])))
    size = with_size(max(xs), bound)
    x_lost = unless_zero(lost * size, bound, lambda: rule.forward_bound([vast(x) for x in xs]))
    own = times(slack, bound)
    moved = math.fsum(times(f, cast, x) for f, x in zip(factors, xs, strict=True)) if cast else 0.0
    x_out = usable(bound + own + moved + x_lost, unit)
    return InferenceStep(call, rule, unit, xs, factors, rule.joint, cast, own, lost, x_lost, x_out)


def _cast_factor(call: Call, unit: float) -> float:
    """Relative rounding of a cast to the layer's dtype; from float32 to float64 it is exact."""
    others = [given for given in call.given if given != call.layer.compute_dtype]
    units = [unit_roundoff(given) for given in others if given in ("float32", "float64")]
    narrowed = len(units) < len(others) or any(u < unit for u in units)
    return gamma(1, unit) if narrowed else 0.0


def _is_covered(layer: Any) -> bool:
    """Whether a layer that only speaks of the set of its weights has them in it."""
    speaks_of_set = (
        isinstance(layer, LipschitzLayer)
        and type(layer).inference_bound is LipschitzLayer.inference_bound
    )
    return not speaks_of_set or in_constraint_set(layer)


def _has_finite_weights(layer: Any) -> bool:
    weights = getattr(layer, "weights", ())
    floats = (v for v in weights if keras.backend.is_float_dtype(v.dtype))
    return all(bool(keras.ops.all(keras.ops.isfinite(v))) for v in floats)


#: Below it, with some to spare, a number of float32 may be read as zero.
_LEAST_FACTOR = 2.0**-120


@dataclass(frozen=True)
class InferenceBounds:
    """What is proved of a model at its present weights, for inputs of norm at most ``input_norm``.

    Attributes:
        lipschitz: Lipschitz constant of the exact map between such inputs.
        lipschitz_rest: The same of the map to what the last layer reads.
        error: Bound of ``||computed outputs - exact outputs||``.
        reason: Why one of these is infinite, in words; empty if none is.
    """

    lipschitz: float
    lipschitz_rest: float
    error: float
    reason: str


@dataclass(frozen=True)
class _Error:
    """``|computed - exact| <= relative |exact| + a``, entry by entry, with ``||a|| <= absolute``.

    Only tensors whose norm has no bound, in front of a ball, have a relative part.
    """

    absolute: float = 0.0
    relative: float = 0.0


def inference_bounds(model: keras.Model, input_norm: float = math.inf) -> InferenceBounds:
    """Lipschitz constant and rounding error of a model, or why there is none.

    Args:
        model: A built Sequential or Functional model with one output.
        input_norm: Bound of the norm of one sample, of all inputs together.

    Raises:
        UnsupportedLayer: If a layer has no proved bound.
        UnsafeSetting: If one computes in half or mixed precision.
    """
    graph = graph_of(model)
    steps = inference_steps(graph, input_norm)
    errors = _errors(graph, steps)
    last = next(step for step in steps if step.call.output == graph.output)
    before = [constant_of(graph, steps, key) for key in last.call.inputs]
    lipschitz, error = constant_of(graph, steps), _total(errors[graph.output])
    finite = math.isfinite(lipschitz) and math.isfinite(error)
    return InferenceBounds(
        lipschitz, math.hypot(*before), error, "" if finite else _reason(steps, errors)
    )


def numerical_error(model: keras.Model, input_norm: float = math.inf) -> float:
    """Bound of the distance between computed and exact outputs of one sample, in inference mode.

    Each layer adds what its operations round and what underflows, both at its present weights and
    at the norms that its inputs can have, and passes its inputs' errors on, multiplied by its
    Lipschitz constants. In front of a ball, where outputs have no bound, layers that move entries
    or rescale them by at most 1 have errors in proportion, which the ball bounds. Infinite if other
    layers stand there, or numbers may overflow.

    Args:
        model: A built Sequential or Functional model with one output.
        input_norm: Bound of the norm of one sample, of all inputs together. Without one, something
            in the model must bound what it reads, such as ``lipdp.layers.BoundedInput``.
    """
    graph = graph_of(model)
    return _total(_errors(graph, inference_steps(graph, input_norm))[graph.output])


def _errors(graph: Graph, steps: Sequence[InferenceStep]) -> dict[int, _Error]:
    """The rounding error of each tensor."""
    errors = dict.fromkeys(graph.inputs, _Error())
    for step in steps:
        given = [
            _cast(step, errors[key], x) for key, x in zip(step.call.inputs, step.xs, strict=True)
        ]
        errors[step.call.output] = _unbounded(step, given[0]) or _bounded(step, given)
    return errors


def _total(found: _Error) -> float:
    return math.inf if found.relative else HOST * found.absolute


def _reason(steps: Sequence[InferenceStep], errors: dict[int, _Error]) -> str:
    """The first layer at which something has no bound."""
    for step in steps:
        steep = not all(map(math.isfinite, step.factors))
        if step.reason and (steep or math.isinf(_total(errors[step.call.output]))):
            return step.reason
    return "the constants of the layers multiply to more than a number can hold"


def _cast(step: InferenceStep, given: _Error, x: float) -> _Error:
    """The error of what a layer reads, in its dtype; numbers of float64 may overflow in float32."""
    if step.cast == 0.0:
        return given
    if math.isfinite(x):
        return _Error(given.absolute + step.cast * x, given.relative)
    if "float64" in step.call.given:
        return _Error(math.inf)
    return _Error(given.absolute, (1.0 + given.relative) * (1.0 + step.cast) - 1.0)


def _bounded(step: InferenceStep, given: Sequence[_Error]) -> _Error:
    if any(error.relative for error in given):
        return _Error(math.inf)
    return _Error(step.push([error.absolute for error in given]) + _own_error(step))


def _unbounded(step: InferenceStep, given: _Error) -> _Error | None:
    """The error behind a layer that reads a tensor without a bound, None if it is as any other."""
    layer = step.call.layer
    if len(step.xs) > 1 or math.isfinite(step.xs[0]):
        return None
    if isinstance(layer, BallLayer) and not layer.per_position:
        return _Error(_behind_ball(layer.radius, given) + _own_error(step))
    if not isinstance(step.rule, Weightless):
        return None
    if type(layer) is keras.layers.Rescaling:
        return _rescaled(step, step.rule, given)
    return given if _moves_only(step) else None


def _moves_only(step: InferenceStep) -> bool:
    """Whether a layer moves entries, or is the identity in inference."""
    return step.cast == 0.0 and step.rule.rounding(step.unit) == 0.0


def _behind_ball(radius: float, given: _Error) -> float:
    """Twice ``2 R r + a``, with ``r |y| + a`` the error of what the projection P reads.

    Proof: P is 1-Lipschitz, which is enough for ``||y|| <= 2 R``. Beyond, ``P(y) = P(t y)`` with
    ``t = 2 R / ||y||``, and the computed input, times t, is off by at most ``2 R r + a``; if that
    is at most R, it lies outside the ball too. Else ``2 R``, the diameter, is at most twice that.
    """
    return 2.0 * (2.0 * times(radius, given.relative) + given.absolute)


def _rescaled(step: InferenceStep, rule: Weightless, given: _Error) -> _Error:
    """``y = s x + o`` as computed is off by ``slack (|s x| + |o|)``, and ``|s x| <= |y| + |o|``.

    Factors above 1, and large offsets, are left out: they may overflow. So are factors that may be
    read as zero.
    """
    small = rule.gain <= 0.5 or (rule.gain <= 1.0 and rule.offset == 0.0)
    if not small or _underflows(step.call.layer) or math.isinf(usable(rule.offset, 2.0**-24)):
        return _Error(math.inf)
    slack, inherited = rule.rounding(step.unit), given.relative
    own = slack * (1.0 + inherited)
    return _Error(
        absolute=rule.gain * given.absolute * (1.0 + slack)
        + rule.offset * (inherited + own + slack)
        + MULTIPLIED * step.lost,
        relative=inherited + own,
    )


def _underflows(layer: Any) -> bool:
    scale = np.abs(np.asarray(layer.scale, "float64"))
    return bool(np.any((scale > 0.0) & (scale < _LEAST_FACTOR)))


def _own_error(step: InferenceStep) -> float:
    """What the layer adds; infinite where it may overflow, if it does not merely move entries."""
    if _moves_only(step):
        return 0.0
    own = step.own + MULTIPLIED * step.x_lost
    return own if math.isfinite(step.x_out) else math.inf


def lipschitz_constant(model: keras.Model) -> float:
    """Lipschitz constant of the inference-mode map from inputs to output, at the present weights.

    In exact arithmetic and in Euclidean norms (several inputs: of all of them together);
    ``numerical_error`` covers the rounding. Infinite if a layer has no finite constant.

    Raises:
        UnsupportedLayer: If a layer has no proved bound.
    """
    graph = graph_of(model)
    return constant_of(graph, inference_steps(graph))


def constant_of(graph: Graph, steps: Sequence[InferenceStep], to: int | None = None) -> float:
    """Lipschitz constant of the inference-mode map from the inputs to a tensor.

    Args:
        graph: Of a model.
        steps: Its calls.
        to: Key of the tensor; by default the output.
    """
    cotangents = start(graph.output if to is None else to, 1.0)
    for step in reversed(steps):
        # Behind the tensor, and beside it, nothing reads it.
        if step.call.output in cotangents:
            parts = step.pull(cotangents[step.call.output])
            give(cotangents, step.call.inputs, parts)
    return HOST * joint_bound([cotangents[key] for key in graph.inputs])
