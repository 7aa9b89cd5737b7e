"""By how much computed outputs may differ from exact ones, in inference mode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from lipdp.bounds.engine import constant_of
from lipdp.bounds.graph import Graph, graph_of
from lipdp.bounds.inference import InferenceStep, inference_steps
from lipdp.bounds.precision import usable
from lipdp.bounds.rules.base import Weightless
from lipdp.bounds.underflow import MULTIPLIED
from lipdp.layers.clipping import BallLayer
from lipdp.numerics import HOST, times

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
    """Of each tensor."""
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
