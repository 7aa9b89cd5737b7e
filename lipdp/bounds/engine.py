"""Backpropagation for bounds over Keras' own graph.

Forward in topological order, a bound X of every tensor's norm; backward, a bound G of the norm of
the loss's gradient with respect to it. A tensor with several consumers sums their G and a variable
used at several places sums its bounds (triangle inequality). Every layer's numbers are inflated by
its proved rounding slack, so that they hold for the values that are computed.

Source: Bethune et al., "DP-SGD Without Clipping: The Lipschitz Neural Network Way" (ICLR 2024),
section 3; the proof of each step is the chain rule and ``||A u|| <= ||A||_2 ||u||``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from lipdp.bounds.graph import Call, Graph, graph_of
from lipdp.bounds.precision import working_unit
from lipdp.bounds.rules import LayerBounds, bounds_of
from lipdp.bounds.table import BoundRow, GradientBounds
from lipdp.errors import UnboundedGradient, UnsupportedLayer
from lipdp.losses.base import LipschitzLoss
from lipdp.projections import Projection
from lipdp.rounding import times


@dataclass(frozen=True)
class _Step:
    """One call with its rule, its slack factor and the bound of its input."""

    call: Call
    rule: LayerBounds
    slack: float
    x: float
    x_out: float


def gradient_bounds(model: keras.Model, loss: Any) -> GradientBounds:
    """Bound of the norm of one sample's gradient, for each trainable variable.

    Args:
        model: A built Sequential or Functional model with one output of shape (n, K).
        loss: A loss of ``lipdp.losses``.

    Guarantees:
        * For every input, label and weight inside the constraint sets, the gradient that automatic
          differentiation returns for variable i has Euclidean norm at most ``parameters[i]``.
        * Every layer or loss without a proof is refused, and so is an infinite bound.

    Raises:
        UnsupportedLayer: If a layer or the loss has no proved bound.
        UnboundedGradient: If a parameter's bound is infinite.
        UnsafeSetting: If a layer computes in half or mixed precision.
    """
    loss = _checked_loss(loss)
    graph = graph_of(model)
    steps = _forward(graph)
    num_outputs = _num_outputs(graph)
    logit_bound = steps[-1].x_out
    slope = loss.lipschitz(logit_bound, num_outputs)
    unit = _unit(graph.calls[-1].layer)
    g = slope * (1.0 + loss.rounding(logit_bound, num_outputs, unit))
    totals, rows = _backward(graph, steps, g)
    _check_finite(model, totals, rows)
    parameters = [totals.get(id(v), 0.0) for v in model.trainable_variables]
    return GradientBounds(parameters, logit_bound, slope, tuple(rows))


def lipschitz_constant(model: keras.Model) -> float:
    """Lipschitz constant of the inference-mode map from input to output, at the present weights.

    In exact arithmetic and in Euclidean norms; ``numerical_error`` covers the rounding. Infinite
    if a layer has no finite constant.

    Raises:
        UnsupportedLayer: If a layer has no proved bound.
    """
    graph = graph_of(model)
    steps = _forward(graph)
    cotangents = {graph.output: 1.0}
    for step in reversed(steps):
        g = cotangents.get(step.call.output, 0.0)
        _give(cotangents, step.call, times(step.rule.lipschitz(step.x), g))
    return math.sqrt(math.fsum(cotangents.get(key, 0.0) ** 2 for key in graph.inputs))


def numerical_error(model: keras.Model) -> float:
    """Bound of the distance between computed and exact outputs of one sample, in inference mode.

    Each layer adds its slack times its output bound and passes its input's error on, multiplied by
    its Lipschitz constant. Infinite if a weight lies outside its constraint set.
    """
    graph = graph_of(model)
    errors = dict.fromkeys(graph.inputs, 0.0)
    for step in _forward(graph):
        inherited = times(step.rule.lipschitz(step.x), errors[step.call.inputs[0]])
        own = times(step.slack, step.x_out if in_constraint_set(step.call.layer) else math.inf)
        errors[step.call.output] = inherited + own
    return errors[graph.output]


def in_constraint_set(layer: Any) -> bool:
    """Whether every projected weight of a layer lies in the set that its bounds are proved for."""
    projected = ((v, v.constraint) for v in getattr(layer, "trainable_variables", ()))
    return all(
        constraint.bound_of(keras.ops.convert_to_numpy(v)) <= constraint.norm_bound
        for v, constraint in projected
        if isinstance(constraint, Projection)
    )


def _checked_loss(loss: Any) -> LipschitzLoss:
    if isinstance(loss, LipschitzLoss):
        return loss
    raise UnsupportedLayer(
        "The loss has no proved Lipschitz constant",
        received=getattr(loss, "name", loss),
        fix="Use a loss of lipdp.losses: TemperedCrossentropy, MulticlassHinge, "
        "MeanAbsoluteError, ... (squared error has none for unbounded targets)",
    )


def _num_outputs(graph: Graph) -> int:
    shape = graph.calls[-1].output_shape
    if len(shape) != 1:
        raise UnsupportedLayer(
            "The model's output is not one vector of logits a sample",
            received=(None, *shape),
            fix="End with keras.layers.Flatten() or a dense layer of shape (n, K)",
        )
    return int(shape[0])


def _unit(layer: Any) -> float:
    return working_unit(str(getattr(layer, "compute_dtype", "unknown")))


def _forward(graph: Graph) -> list[_Step]:
    norms = dict.fromkeys(graph.inputs, math.inf)
    steps = []
    for call in graph.calls:
        if len(call.inputs) != 1:
            raise UnsupportedLayer(
                f"The layer {call.layer.name!r} merges several tensors and has no rule",
                received=type(call.layer).__name__,
                fix="Use a chain of layers with one input each",
            )
        rule = bounds_of(call.layer, math.prod(call.output_shape))
        slack = rule.rounding(_unit(call.layer))
        x = norms[call.inputs[0]]
        norms[call.output] = times(rule.forward_bound(x), 1.0 + slack)
        steps.append(_Step(call, rule, slack, x, norms[call.output]))
    return steps


def _backward(
    graph: Graph, steps: list[_Step], g_output: float
) -> tuple[dict[int, float], list[BoundRow]]:
    cotangents = {graph.output: g_output}
    totals: dict[int, float] = defaultdict(float)
    rows: list[BoundRow] = []
    for step in reversed(steps):
        g, grow = cotangents.get(step.call.output, 0.0), 1.0 + step.slack
        bounds = [times(b, grow) for b in step.rule.parameter_bounds(step.x, g)]
        variables = step.call.layer.trainable_variables
        for variable, bound in zip(variables, bounds, strict=True):
            totals[id(variable)] += bound
        rows = _rows(step, variables, bounds) + rows
        _give(cotangents, step.call, times(step.rule.backward_bound(step.x, g), grow))
    return totals, rows


def _give(cotangents: dict[int, float], call: Call, g: float) -> None:
    key = call.inputs[0]
    cotangents[key] = cotangents.get(key, 0.0) + g


def _rows(step: _Step, variables: list[Any], bounds: list[float]) -> list[BoundRow]:
    lipschitz = step.rule.backward_bound(step.x, 1.0)
    pairs = [(v.name, b) for v, b in zip(variables, bounds, strict=True)] or [("", 0.0)]
    name = step.call.layer.name
    return [BoundRow(name, variable, step.x_out, lipschitz, bound) for variable, bound in pairs]


def _check_finite(model: keras.Model, totals: dict[int, float], rows: list[BoundRow]) -> None:
    # Written so that NaN fails too.
    if all(0.0 <= totals.get(id(v), 0.0) < np.inf for v in model.trainable_variables):
        return
    bad = [f"{row.layer}/{row.variable}" for row in rows if not 0.0 <= row.bound < np.inf]
    raise UnboundedGradient(
        f"The gradient of {', '.join(bad)} has no finite bound",
        received=f"model {model.name!r}",
        fix="Start the model with lipdp.layers.BoundedInput, and either constrain the weights "
        "(lipdp.layers.SpectralDense), or normalise in front of the layer "
        "(SphereNormalization) and clip behind it (CotangentClip)",
    )
