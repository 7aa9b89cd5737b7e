"""By how much computed outputs may differ from exact ones, in inference mode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from lipdp.bounds.graph import graph_of
from lipdp.bounds.precision import usable
from lipdp.bounds.rules.base import Weightless
from lipdp.bounds.steps import LayerStep, Step, forward_steps
from lipdp.bounds.underflow import MULTIPLIED
from lipdp.layers._clip import BallLayer
from lipdp.projections import Projection
from lipdp.rounding import HOST, times

#: Below it, with some to spare, a number of float32 may be read as zero.
_LEAST_FACTOR = 2.0**-120


@dataclass(frozen=True)
class _Error:
    """``|computed - exact| <= relative |exact| + a``, entry by entry, with ``||a|| <= absolute``.

    Only tensors whose norm has no bound, in front of a ball, have a relative part.
    """

    absolute: float = 0.0
    relative: float = 0.0


def numerical_error(model: keras.Model) -> float:
    """Bound of the distance between computed and exact outputs of one sample, in inference mode.

    Each layer adds its slack times its output bound, and what underflows, and passes its inputs'
    errors on, multiplied by its Lipschitz constants. In front of a ball, where outputs have no
    bound, layers that move entries or rescale them by at most 1 have errors in proportion, which
    the ball bounds. Infinite if other layers stand there, or a weight lies outside its constraint
    set.
    """
    graph = graph_of(model)
    errors = dict.fromkeys(graph.inputs, _Error())
    for step in forward_steps(graph):
        given = [errors[key] for key in step.call.inputs]
        errors[step.call.output] = _unbounded(step, given[0]) or _bounded(step, given)
    found = errors[graph.output]
    return math.inf if found.relative else HOST * found.absolute


def _bounded(step: Step, given: Sequence[_Error]) -> _Error:
    if any(error.relative for error in given):
        return _Error(math.inf)
    return _Error(step.push_error([error.absolute for error in given]) + _own_error(step))


def _unbounded(step: Step, given: _Error) -> _Error | None:
    """The error behind a layer that reads a tensor without a bound, None if it is as any other."""
    layer = step.call.layer
    if not isinstance(step, LayerStep) or math.isfinite(step.x):
        return None
    if isinstance(layer, BallLayer) and not layer.per_position:
        return _Error(_behind_ball(layer.radius, given) + _own_error(step))
    if not isinstance(step.rule, Weightless):
        return None
    if type(layer) is keras.layers.Rescaling:
        return _rescaled(step, step.rule, given)
    return given if step.forward_slack == 0.0 else None  # It moves entries, or is the identity.


def _behind_ball(radius: float, given: _Error) -> float:
    """Twice ``2 R r + a``, with ``r |y| + a`` the error of what the projection P reads.

    Proof: P is 1-Lipschitz, which is enough for ``||y|| <= 2 R``. Beyond, ``P(y) = P(t y)`` with
    ``t = 2 R / ||y||``, and the computed input, times t, is off by at most ``2 R r + a``; if that
    is at most R, it lies outside the ball too. Else ``2 R``, the diameter, is at most twice that.
    """
    return 2.0 * (2.0 * times(radius, given.relative) + given.absolute)


def _rescaled(step: Step, rule: Weightless, given: _Error) -> _Error:
    """``y = s x + o`` as computed is off by ``slack (|s x| + |o|)``, and ``|s x| <= |y| + |o|``.

    Factors above 1, and large offsets, are left out: they may overflow. So are factors that may be
    read as zero.
    """
    small = rule.gain <= 0.5 or (rule.gain <= 1.0 and rule.offset == 0.0)
    if not small or _underflows(step.call.layer) or math.isinf(usable(rule.offset, 2.0**-24)):
        return _Error(math.inf)
    slack, inherited = step.forward_slack, given.relative
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


def _own_error(step: Step) -> float:
    if step.forward_slack == 0.0:
        return 0.0  # Exact, for every input: what moves entries, or is the identity in inference.
    x = step.x_out if in_constraint_set(step.call.layer) else math.inf
    return times(step.forward_slack, x) + MULTIPLIED * step.x_lost


def in_constraint_set(layer: Any) -> bool:
    """Whether every projected weight of a layer lies in the set that its bounds are proved for."""
    projected = ((v, v.constraint) for v in getattr(layer, "trainable_variables", ()))
    return all(
        constraint.bound_of(keras.ops.convert_to_numpy(v)) <= constraint.norm_bound
        for v, constraint in projected
        if isinstance(constraint, Projection)
    )
