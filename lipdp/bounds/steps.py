"""One call of the graph with its proved numbers, forward and backward."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from lipdp.bounds.cotangent import Cotangent, part
from lipdp.bounds.graph import Call, Graph
from lipdp.bounds.precision import usable, working_unit
from lipdp.bounds.rules import LayerBounds, MergeBounds, bounds_of, is_merging, merge_bounds_of
from lipdp.bounds.rules.refusals import is_refused, way_out
from lipdp.bounds.underflow import lost_by, unless_zero, vast, with_size
from lipdp.errors import UnsupportedLayer
from lipdp.numerics import gamma, times, unit_roundoff


@dataclass(frozen=True)
class Step(abc.ABC):
    """One call and what its rule says.

    Attributes:
        call: The call.
        unit: Unit round-off in which it computes.
        slack: Relative rounding slack of all its bounds.
        jacobian: Bound of the Jacobian norm in training, the greatest over the inputs.
        lost: What its tensors may lose by underflow, at norms 0; see ``lipdp.bounds.underflow``.
        x_lost: The same of its output, at the norms that it reads.
        x_out: Bound of the norm of the computed output.
    """

    call: Call
    unit: float
    slack: float
    jacobian: float
    lost: float
    x_lost: float
    x_out: float

    @property
    def variables(self) -> list[Any]:
        """The trained variables of the layer."""
        return list(self.call.layer.trainable_variables)

    @abc.abstractmethod
    def parameter_bounds(self, g: float) -> list[float]:
        """Bounds of the computed gradients of ``variables`` at a cotangent of norm at most g."""

    @abc.abstractmethod
    def pull(self, cotangent: Cotangent) -> list[Cotangent]:
        """The cotangent of each input in training."""

    def _with_lost(self, given: Cotangent, g: float, of_vast: Callable[[], float]) -> Cotangent:
        """What is given on of a cotangent of norm g, and what is lost of it."""
        lost = unless_zero(self.lost * with_size(g, given.bound), given.bound, of_vast)
        return _usable(given + Cotangent(lost), self.unit)


@dataclass(frozen=True)
class LayerStep(Step):
    """A layer of one input, of norm at most ``x``."""

    rule: LayerBounds
    x: float

    def parameter_bounds(self, g: float) -> list[float]:
        """As the rule says, and what is lost."""
        bounds = self.rule.parameter_bounds(self.x, g)
        lost = self.lost * with_size(self.x) * with_size(g)

        def of_vast(index: int) -> float:
            return self.rule.parameter_bounds(vast(self.x), vast(g))[index]

        return [
            times(b, 1.0 + self.slack) + unless_zero(lost, b, partial(of_vast, i))
            for i, b in enumerate(bounds)
        ]

    def pull(self, cotangent: Cotangent) -> list[Cotangent]:
        """A form stays a form through a linear backward pass only."""
        g = cotangent.bound
        if self.rule.linear_backward:
            given = cotangent * times(self.jacobian, 1.0 + self.slack)
        else:
            given = Cotangent(times(self.rule.backward_bound(self.x, g), 1.0 + self.slack))
        of_vast = partial(self.rule.backward_bound, self.x, vast(g))
        return [self._with_lost(given, g, of_vast)]


@dataclass(frozen=True)
class MergeStep(Step):
    """A layer of several inputs, of norms at most ``xs``."""

    rule: MergeBounds
    xs: tuple[float, ...]

    def parameter_bounds(self, g: float) -> list[float]:
        """No weights."""
        return []

    def pull(self, cotangent: Cotangent) -> list[Cotangent]:
        """To each input its Jacobian, or its share of the whole, and what is lost."""
        g, factors = cotangent.bound, self.rule.jacobians([vast(x) for x in self.xs])
        return [
            self._with_lost(given * (1.0 + self.slack), g, partial(times, factor, vast(g)))
            for given, factor in zip(self._shares(cotangent), factors, strict=True)
        ]

    def _shares(self, cotangent: Cotangent) -> list[Cotangent]:
        """To each input its Jacobian, or its share of the whole."""
        factors = [usable(j, self.unit) for j in self.rule.jacobians(self.xs)]
        if self.rule.joint:
            whole = times(cotangent.bound, max(factors))
            return [part(self.call.output, i, whole) for i in range(len(factors))]
        return [cotangent * factor for factor in factors]


def _usable(cotangent: Cotangent, unit: float) -> Cotangent:
    """The form, or an infinite one if cotangents of that size may overflow, here or further on."""
    return cotangent if math.isfinite(usable(cotangent.bound, unit)) else Cotangent(math.inf)


def forward_steps(graph: Graph) -> list[Step]:
    """The calls of a graph in order, each with the norm bounds of what it reads and makes."""
    norms = dict.fromkeys(graph.inputs, math.inf)
    steps: list[Step] = []
    for call in graph.calls:
        step = step_of(call, tuple(norms[key] for key in call.inputs))
        norms[call.output] = step.x_out
        steps.append(step)
    return steps


def step_of(call: Call, xs: tuple[float, ...]) -> Step:
    """One call with inputs of norms at most ``xs``.

    Raises:
        UnsupportedLayer: If the layer has no proved bound.
        UnsafeSetting: If it computes in half or mixed precision.
    """
    if is_merging(call.layer):
        return _merge_step(call, xs)
    check_single_input(call)
    return _layer_step(call, xs[0])


def check_single_input(call: Call) -> None:
    """Refuses a layer of several inputs that is none of the known ones.

    Raises:
        UnsupportedLayer: If it is one.
    """
    if len(call.inputs) != 1:
        raise UnsupportedLayer(
            f"The layer {call.layer.name!r} merges several tensors and has no rule",
            received=type(call.layer).__name__,
            fix=way_out(call.layer)
            if is_refused(call.layer)
            else "Use Add, Average, Subtract, Concatenate or Multiply of keras.layers",
        )


def _layer_step(call: Call, x: float) -> LayerStep:
    rule = bounds_of(call.layer, call.shapes)
    unit = working_unit(call.layer)
    slack = _with_casts(rule.rounding(unit), call, unit)
    bound, jacobian = rule.forward_bound(x), rule.backward_bound(x, 1.0)
    lost = lost_by(call, jacobian)
    x_lost = unless_zero(lost * with_size(x, bound), bound, lambda: rule.forward_bound(vast(x)))
    x_out = usable(times(bound, 1.0 + slack) + x_lost, unit)
    return LayerStep(call, unit, slack, jacobian, lost, x_lost, x_out, rule, x)


def _merge_step(call: Call, xs: tuple[float, ...]) -> MergeStep:
    rule = merge_bounds_of(call.layer, call.shapes)
    unit = working_unit(call.layer)
    slack = _with_casts(rule.rounding(unit), call, unit)
    bound, jacobian = rule.forward_bound(xs), max(rule.jacobians(xs))
    lost = lost_by(call, max(rule.jacobians([1.0 + x for x in xs])))
    size = with_size(max(xs), bound)
    x_lost = unless_zero(lost * size, bound, lambda: rule.forward_bound([vast(x) for x in xs]))
    x_out = usable(times(bound, 1.0 + slack) + x_lost, unit)
    return MergeStep(call, unit, slack, jacobian, lost, x_lost, x_out, rule, xs)


def _with_casts(slack: float, call: Call, unit: float) -> float:
    """The slack with the casts to the layer's dtype and back.

    A cast rounds each entry once, by the unit of the narrower dtype; from float32 to float64 it is
    exact, and its gradient's is not.
    """
    others = [given for given in call.given if given != call.layer.compute_dtype]
    units = [unit_roundoff(given) for given in others if given in ("float32", "float64")]
    back = gamma(1, max([unit, *units]))
    return (1.0 + slack) * (1.0 + back) - 1.0 if others else slack
