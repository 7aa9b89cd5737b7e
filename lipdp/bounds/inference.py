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

from lipdp.bounds.cotangent import Cotangent, part
from lipdp.bounds.graph import Call, Graph
from lipdp.bounds.precision import usable, working_unit
from lipdp.bounds.rules import LayerBounds, MergeBounds, bounds_of, is_merging, merge_bounds_of
from lipdp.bounds.steps import check_single_input
from lipdp.bounds.underflow import lost_at_present, unless_zero, vast, with_size
from lipdp.layers.base import LipschitzLayer
from lipdp.numerics import gamma, times, unit_roundoff
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
    cast = _cast(call, unit)
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
    cast = _cast(call, unit)
    bound, slack = rule.forward_bound(xs), rule.rounding(unit)
    factors = tuple(usable(j, unit) for j in rule.jacobians(xs))
    lost = lost_at_present(call, max(rule.jacobians([1.0 + x for x in xs])))
    size = with_size(max(xs), bound)
    x_lost = unless_zero(lost * size, bound, lambda: rule.forward_bound([vast(x) for x in xs]))
    own = times(slack, bound)
    moved = math.fsum(times(f, cast, x) for f, x in zip(factors, xs, strict=True)) if cast else 0.0
    x_out = usable(bound + own + moved + x_lost, unit)
    return InferenceStep(call, rule, unit, xs, factors, rule.joint, cast, own, lost, x_lost, x_out)


def _cast(call: Call, unit: float) -> float:
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
