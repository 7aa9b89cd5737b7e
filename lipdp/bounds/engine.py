"""Backpropagation for bounds over Keras' own graph.

Forward in topological order, a bound X of every tensor's norm; backward, a bound G of the norm of
the loss's gradient with respect to it. A tensor with several consumers sums their G and a variable
used at several places sums its bounds (triangle inequality, with the rounding of that sum); the
parts of one concatenation share its G (``lipdp.bounds.cotangent``). Every layer's numbers are
inflated by its proved rounding slack, and by what it may lose where numbers underflow
(``lipdp.bounds.underflow``), so that they hold for the values that are computed.

Source: Bethune et al., "DP-SGD Without Clipping: The Lipschitz Neural Network Way" (ICLR 2024),
section 3; the proof of each step is the chain rule and ``||A u|| <= ||A||_2 ||u||``.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pandas as pd

from lipdp.bounds.cotangent import give, start
from lipdp.bounds.final import check_final
from lipdp.bounds.graph import Graph, graph_of
from lipdp.bounds.precision import loss_unit
from lipdp.bounds.steps import Step, forward_steps
from lipdp.bounds.underflow import MULTIPLIED, is_mostly_lost, lost
from lipdp.errors import UnboundedGradient, UnsupportedLayer
from lipdp.layers.clipping import AdaptiveCotangentClip, at_threshold
from lipdp.losses.base import LipschitzLoss
from lipdp.losses.wrappers import LossWrapper
from lipdp.numerics import HOST, gamma, times


@dataclass(frozen=True)
class BoundRow:
    """One variable of one layer, or a layer without variables.

    Attributes:
        layer: Name of the layer.
        variable: Name of the variable, or "" for none.
        output_bound: Bound X of the norm of the layer's output.
        lipschitz: Bound of the spectral norm of the layer's Jacobian, in training.
        bound: Bound D of the norm of one sample's gradient, or 0 without a variable.
    """

    layer: str
    variable: str
    output_bound: float
    lipschitz: float
    bound: float


@dataclass(frozen=True)
class GradientBounds:
    """Proved bounds of one sample's gradient, rounding included.

    Attributes:
        parameters: Bound of ``||dl/dv||`` for each v of ``model.trainable_variables``, in order.
        logit_bound: Bound of the norm of one sample's logits.
        loss_lipschitz: Bound of ``||dl/dz||``.
        unit: Coarsest unit round-off among the layers.
        entries: Entries of the largest tensor of one sample: no gradient entry sums more terms.
        rows: How they came about, layer by layer.
    """

    parameters: list[float]
    logit_bound: float
    loss_lipschitz: float
    unit: float
    entries: int
    rows: tuple[BoundRow, ...]

    @property
    def total(self) -> float:
        """Bound of the norm of the whole gradient, ``sqrt(sum D^2)``."""
        return math.sqrt(math.fsum(d * d for d in self.parameters))

    def to_frame(self) -> pd.DataFrame:
        """Table with columns layer, variable, output_bound, lipschitz, bound."""
        columns = ["layer", "variable", "output_bound", "lipschitz", "bound"]
        return pd.DataFrame(
            [[getattr(row, c) for c in columns] for row in self.rows], columns=columns
        )

    def __str__(self) -> str:
        return self.to_frame().to_string(index=False)


#: Below it numbers of float32 lose digits, and slacks, which are relative, mean nothing.
_LEAST = 2.0**-100


def gradient_bounds(model: keras.Model, loss: Any) -> GradientBounds:
    """Bound of the norm of one sample's gradient, for each trainable variable.

    Args:
        model: A built Sequential or Functional model with one output, of shape (n, K), or (n, T, K)
            with a loss over T positions.
        loss: A loss of ``lipdp.losses``.

    Guarantees:
        * For every input, label and weight inside the constraint sets, the gradient that automatic
          differentiation returns for variable i has Euclidean norm at most ``parameters[i]``.
        * Every layer or loss without a proof is refused, and so is an infinite bound.
        * A trainable variable of the model that no layer states a bound of is refused.

    Raises:
        UnsupportedLayer: If a layer, the loss or a trainable variable has no proved bound.
        UnboundedGradient: If a parameter's bound is infinite, or numbers on the way almost vanish.
        UnsafeSetting: If a layer, or the loss, computes in half or mixed precision.
    """
    loss = _checked_loss(loss)
    graph = graph_of(model)
    steps = forward_steps(graph)
    last = next(step for step in steps if step.call.output == graph.output)
    num_outputs = _num_outputs(last.call.shapes.output, loss)
    logit_bound = last.x_out
    slope, g = _loss_gradient(loss, last, num_outputs)
    g += lost(last.call.shapes.size, MULTIPLIED)
    _check_stated(model, steps)
    for step in steps:
        _check_sizes(step, step.x_out)
    totals, rows = _backward(graph, steps, g)
    found = [totals[id(v)] for v in model.trainable_variables]
    _check_finite(model, found, rows)
    parameters = [bound * HOST for bound in found]
    return GradientBounds(
        parameters,
        logit_bound=logit_bound,
        loss_lipschitz=slope,
        unit=max(step.unit for step in steps),
        entries=max(step.call.shapes.entries for step in steps),
        rows=tuple(rows),
    )


def _loss_gradient(loss: LipschitzLoss, last: Step, num_outputs: int) -> tuple[float, float]:
    """The constant of the loss, and a bound of the computed gradient of the logits.

    It holds for logits that are cast to the dtype of the loss, as Keras does, and for a loss that
    computes in theirs, as in a private ``fit``. Of the two casts, forward and back, each rounds an
    entry at most once, by the unit of the coarser dtype.
    """
    unit = max(last.unit, loss_unit(loss))
    cast = 0.0 if last.call.layer.compute_dtype == loss.dtype else gamma(1, unit)
    seen = times(last.x_out, 1.0 + cast)
    slope = loss.lipschitz(seen, num_outputs)
    slack = loss.rounding(seen, num_outputs, unit)
    return slope, times(slope, 1.0 + slack, 1.0 + cast)


def _checked_loss(loss: Any) -> LipschitzLoss:
    if isinstance(loss, LipschitzLoss):
        inner: Any = loss
        while inner is not None:
            check_final(inner, LipschitzLoss, "loss")
            inner = inner.loss if isinstance(inner, LossWrapper) else None
        return loss
    raise UnsupportedLayer(
        "The loss has no proved Lipschitz constant",
        received=getattr(loss, "name", loss),
        fix="Use a loss of lipdp.losses: TemperedCrossentropy, MulticlassHinge, "
        "MeanAbsoluteError, MeanSquaredError(target_bound=...), ...",
    )


def _num_outputs(shape: tuple[int, ...], loss: LipschitzLoss) -> int:
    wanted = () if loss.positions is None else (loss.positions,)
    if len(shape) != len(wanted) + 1 or shape[:-1] != wanted:
        raise UnsupportedLayer(
            "The model's output does not have the shape that the loss takes",
            received=(None, *shape),
            fix="End with keras.layers.Flatten() or a dense layer of shape (n, K); for logits at "
            "T positions use lipdp.losses.PositionwiseLoss(loss, positions=T)",
        )
    return int(shape[-1])


def _backward(
    graph: Graph, steps: list[Step], g_output: float
) -> tuple[dict[int, float], list[BoundRow]]:
    cotangents = start(graph.output, g_output)
    totals: dict[int, float] = defaultdict(float)
    rows: list[BoundRow] = []
    readers = Counter(key for step in steps for key in step.call.inputs)
    uses = Counter(id(v) for step in steps for v in step.variables)
    unit = max(step.unit for step in steps)
    for step in reversed(steps):
        cotangent = cotangents[step.call.output] * _of_sum(readers[step.call.output], unit)
        bounds = step.parameter_bounds(cotangent.bound)
        _check_count(step, bounds)
        for variable, bound in zip(step.variables, bounds, strict=True):
            totals[id(variable)] += bound
        rows = _rows(step, bounds) + rows
        given = step.pull(cotangent)
        _check_sizes(step, *(one.bound for one in given))
        give(cotangents, step.call.inputs, given)
    return {key: total * _of_sum(uses[key], unit) for key, total in totals.items()}, rows


def _of_sum(count: int, unit: float) -> float:
    """A computed sum of so many tensors is at most so many times the sum of their norms."""
    return 1.0 + gamma(count, unit) if count > 1 else 1.0


def _check_count(step: Step, bounds: list[float]) -> None:
    if len(bounds) != len(step.variables):
        raise UnsupportedLayer(
            f"The layer {step.call.layer.name!r} does not state a bound for each trained variable",
            received={"variables": [v.name for v in step.variables], "bounds": bounds},
            fix="Return them from parameter_bounds in the order of trainable_variables",
        )


def _rows(step: Step, bounds: list[float]) -> list[BoundRow]:
    pairs = [(v.name, b) for v, b in zip(step.variables, bounds, strict=True)] or [("", 0.0)]
    name, lipschitz = step.call.layer.name, step.jacobian
    return [BoundRow(name, variable, step.x_out, lipschitz, bound) for variable, bound in pairs]


def _check_stated(model: keras.Model, steps: list[Step]) -> None:
    """A trained variable without a bound would get no noise.

    A model trains whatever variable is trainable, a layer that is frozen as a whole names none.
    """
    stated = {id(v) for step in steps for v in step.variables}
    missing = [v.path for v in model.trainable_variables if id(v) not in stated]
    if missing:
        raise UnsupportedLayer(
            "The model trains variables that no layer of its graph states a bound for",
            received=missing,
            fix="Set layer.trainable = True for a frozen layer with a trained variable, and then "
            "variable.trainable = False for each that is not trained; take layers off the model "
            "that are not in its graph",
        )


def _check_sizes(step: Step, *bounds: float) -> None:
    """Bounds near underflow hold, but say nothing about the model."""
    for bound in bounds:
        if is_mostly_lost(bound, step.lost):
            raise UnboundedGradient(
                f"Numbers become so small at the layer {step.call.layer.name!r} that they may "
                "vanish in rounding",
                received=bound,
                fix="Leave factors such as Rescaling(1e-30) out",
            )


def _check_finite(model: keras.Model, found: list[float], rows: list[BoundRow]) -> None:
    if any(0.0 < bound < _LEAST for bound in found):
        raise UnboundedGradient(
            "A gradient is so small that its noise could vanish in rounding",
            received=min(bound for bound in found if bound > 0.0),
            fix="Leave factors such as Rescaling(1e-30) out",
        )
    # Written so that NaN fails too.
    if all(0.0 <= bound < np.inf for bound in found):
        return
    bad = [f"{row.layer}/{row.variable}" for row in rows if not 0.0 <= row.bound < np.inf]
    raise UnboundedGradient(
        f"The gradient of {', '.join(bad)} has no finite bound",
        received=f"model {model.name!r}",
        fix="Start the model with lipdp.layers.BoundedInput, and either constrain the weights "
        "(lipdp.layers.SpectralDense), or normalise in front of the layer "
        "(SphereNormalization) and clip behind it (CotangentClip)",
    )


def adaptive_clips(model: keras.Model) -> tuple[AdaptiveCotangentClip, ...]:
    """The layers of a model whose thresholds are trained, each once."""
    layers = model._flatten_layers(include_self=False)
    found = {id(one): one for one in layers if isinstance(one, AdaptiveCotangentClip)}
    return tuple(one for one in found.values() if one.trainable_variables)


def gradient_bounds_now(model: keras.Model, loss: Any) -> GradientBounds:
    """Bounds of one sample's gradient at the present thresholds.

    ``gradient_bounds`` itself takes each trained threshold at its minimum; its noise is scaled up
    with the threshold while training.

    Args:
        model: A built model.
        loss: A loss of ``lipdp.losses``.

    Raises:
        LipdpError: As ``gradient_bounds``.
    """
    clips = adaptive_clips(model)
    radii = [float(keras.ops.convert_to_numpy(clip.radius())) for clip in clips]
    with at_threshold(clips, radii):
        return gradient_bounds(model, loss)
