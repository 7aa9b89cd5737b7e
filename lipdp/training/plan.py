"""Every number of a private training, decided before its first step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from lipdp.bounds import GradientBounds, gradient_bounds, in_constraint_set
from lipdp.errors import BudgetExhausted, InvalidState, InvalidValue, UnsafeSetting
from lipdp.privacy import (
    Capacity,
    Phase,
    PrivacyBudget,
    PrivacyLedger,
    allocate,
    calibrate_noise_multiplier,
    capacity,
    max_steps,
)
from lipdp.rounding import gamma, unit_roundoff


@dataclass(frozen=True)
class TrainingPlan:
    """What ``fit`` is going to do; a frozen record that everything else reads.

    Attributes:
        num_examples: Rows of the training set, N (public).
        expected_batch_size: b; the divisor of the noisy sum.
        sampling_rate: q = b / N.
        steps_per_epoch: Steps an epoch, ``ceil(N / b)``.
        steps: Steps asked for.
        affordable_steps: Steps that the budget allows, at most ``steps``.
        capacity: Slots of a padded batch and the price in delta of their overflow.
        noise_multiplier: z, of all variables together.
        stddevs: Standard deviation of the noise on each variable's summed gradient.
        sensitivities: Bound of each variable's change of the summed gradient by one row.
        budget: What was asked for.
        delta: delta of the statement, overflow included.
        dtype: Dtype of the trainable variables.
        bounds: The proof of the sensitivities.
    """

    num_examples: int
    expected_batch_size: int
    sampling_rate: float
    steps_per_epoch: int
    steps: int
    affordable_steps: int
    capacity: Capacity
    noise_multiplier: float
    stddevs: tuple[float, ...]
    sensitivities: tuple[float, ...]
    budget: PrivacyBudget
    delta: float
    dtype: str
    bounds: GradientBounds

    @property
    def covers_summation(self) -> bool:
        """Whether the rounding of the sum over the batch is inside the sensitivities."""
        return _exact_sums(self.bounds)


def make_plan(
    model: keras.Model,
    loss: Any,
    budget: PrivacyBudget,
    ledger: PrivacyLedger,
    *,
    num_examples: int,
    batch_size: int,
    epochs: int,
) -> TrainingPlan:
    """Decides noise, capacity and number of steps.

    Args:
        model: A built model whose weights lie in their constraint sets.
        loss: A loss of ``lipdp.losses``.
        budget: What may be spent.
        ledger: What this model has already cost on the same data.
        num_examples: Rows of the training set.
        batch_size: Expected batch size.
        epochs: Epochs of ``ceil(N / b)`` steps each.

    Guarantees:
        * ``sum (sensitivity / stddev)^2 <= 1 / noise_multiplier^2`` over the variables.
        * ``affordable_steps`` more steps keep the ledger's epsilon at delta within the budget.

    Raises:
        InvalidValue: If the batch is larger than the data.
        BudgetExhausted: If not one step is affordable, or the ledger's history is unknown.
    """
    _check_sizes(num_examples, batch_size, epochs)
    _check_history(ledger)
    bounds = gradient_bounds(model, loss)
    dtype = _dtype(model)
    delta = budget.resolve_delta(num_examples)
    q = batch_size / num_examples
    steps_per_epoch = math.ceil(num_examples / batch_size)
    steps = steps_per_epoch * epochs
    slots = capacity(num_examples, q, steps, delta)
    p = slots.overflow_probability_per_step
    z = _noise_multiplier(budget, ledger, q, steps, _left(delta, steps * p))
    sensitivities = _sensitivities(bounds, slots.rows)
    return TrainingPlan(
        num_examples=num_examples,
        expected_batch_size=batch_size,
        sampling_rate=q,
        steps_per_epoch=steps_per_epoch,
        steps=steps,
        affordable_steps=affordable_steps(budget, ledger, Phase(q, z, steps), p, delta),
        capacity=slots,
        noise_multiplier=z,
        stddevs=_stddevs(model, sensitivities, z, budget.allocation, dtype),
        sensitivities=sensitivities,
        budget=budget,
        delta=delta,
        dtype=dtype,
        bounds=bounds,
    )


def _check_sizes(num_examples: int, batch_size: int, epochs: int) -> None:
    if not 1 <= batch_size <= num_examples:
        raise InvalidValue(
            f"The expected batch size must lie between 1 and the {num_examples} training rows",
            received=batch_size,
            fix="Lower the batch size",
        )
    if epochs < 1:
        raise InvalidValue("The number of epochs must be at least 1", received=epochs)


def _check_history(ledger: PrivacyLedger) -> None:
    if ledger.unknown_history:
        raise BudgetExhausted(
            "What these weights have already learned from the data is unknown (they were loaded "
            "without a ledger, or trained without privacy)",
            fix="Start from new weights, or, if all earlier training used public data only, call "
            "model.declare_public_history()",
        )


def _dtype(model: keras.Model) -> str:
    dtypes = {keras.backend.standardize_dtype(v.dtype) for v in model.trainable_variables}
    if not dtypes:
        raise InvalidState("The model has no trainable variables, so there is nothing to train")
    if len(dtypes) > 1:
        raise UnsafeSetting(
            "The trainable variables have several dtypes",
            received=sorted(dtypes),
            fix="Use one dtype for all layers",
        )
    for layer in model.layers:
        if not in_constraint_set(layer):
            raise InvalidState(f"A weight of layer {layer.name!r} is not in its constraint set")
    return dtypes.pop()


def _left(delta: float, overflow: float) -> float:
    """What overflow leaves of delta, less the rounding of these sums in float64."""
    return (delta - overflow) * (1.0 - 1e-9)


def _noise_multiplier(
    budget: PrivacyBudget, ledger: PrivacyLedger, q: float, steps: int, delta: float
) -> float:
    """The given one; else that of the training so far; else calibrated for all the steps."""
    if budget.noise_multiplier is not None:
        return budget.noise_multiplier
    if ledger.phases:
        return ledger.phases[-1].noise_multiplier
    if budget.epsilon is None:
        raise InvalidValue("A budget needs epsilon or noise_multiplier", received=budget)
    return calibrate_noise_multiplier(
        budget.epsilon, delta, q, steps, accountant=budget.accountant, adjacency=budget.adjacency
    )


def _sensitivities(bounds: GradientBounds, rows: int) -> tuple[float, ...]:
    """Bounds of the change of the computed sum.

    In float64 the rounding of the sum is covered. A kernel's gradient is one sum over rows and
    positions, of at most n = rows times entries terms, whose absolute values add up to at most
    ``rows D`` in norm: each of the two neighbouring sums is exact up to ``gamma_n rows D`` (Higham,
    section 4.2). In float32 that term is not included and the statement says so.
    """
    slack = 0.0
    if _exact_sums(bounds):
        slack = 2.0 * rows * gamma(rows * bounds.entries, bounds.unit)
    return tuple(d * (1.0 + slack) for d in bounds.parameters)


def _exact_sums(bounds: GradientBounds) -> bool:
    """Whether sums over the batch run in float64, in every layer."""
    return bounds.unit == unit_roundoff("float64")


def _stddevs(
    model: keras.Model, sensitivities: tuple[float, ...], z: float, strategy: str, dtype: str
) -> tuple[float, ...]:
    sizes = [math.prod(v.shape) for v in model.trainable_variables]
    stddevs = allocate(sensitivities, sizes, z, strategy)
    # The step multiplies in the model's dtype: round up, so that the noise is never too small.
    up = [np.nextafter(np.dtype(dtype).type(s), np.dtype(dtype).type(np.inf)) for s in stddevs]
    return tuple(float(u) if s > 0.0 else 0.0 for u, s in zip(up, stddevs, strict=True))


def affordable_steps(
    budget: PrivacyBudget, ledger: PrivacyLedger, ahead: Phase, overflow: float, delta: float
) -> int:
    """Steps of the phase ahead that the budget still allows after what the ledger holds.

    Args:
        budget: What may be spent; without epsilon every step is affordable.
        ledger: What was spent.
        ahead: Sampling rate, noise multiplier and number of the steps asked for.
        overflow: Probability that one draw overflows its slots.
        delta: delta of the statement, overflow included.

    Raises:
        BudgetExhausted: If not one step is affordable.
    """
    if budget.epsilon is None:
        return ahead.steps
    left = _left(delta - ledger.overflow_delta, ahead.steps * overflow)
    allowed = 0
    if left > 0.0:
        allowed = max_steps(
            ledger.phases,
            ahead.sampling_rate,
            ahead.noise_multiplier,
            budget.epsilon,
            left,
            ahead.steps,
            accountant=budget.accountant,
            adjacency=budget.adjacency,
        )
    if allowed < 1:
        raise BudgetExhausted(
            "The privacy budget is spent: not one more step is affordable",
            received=budget.epsilon,
            fix="Compile with a larger epsilon, such as "
            f"PrivacyBudget(epsilon={2 * budget.epsilon:g})",
        )
    return allowed
