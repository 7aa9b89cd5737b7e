"""From a compiled model and its rows to an armed optimizer and sampled batches."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from lipdp.errors import InvalidState
from lipdp.privacy import PoissonSampler
from lipdp.training.batches import PrivateBatches
from lipdp.training.optimizer import Mechanism, enter_constraint_sets
from lipdp.training.plan import make_plan
from lipdp.training.settings import check_model
from lipdp.training.state import PrivateState


def prepare_batches(
    model: keras.Model,
    state: PrivateState,
    x: Any,
    y: np.ndarray,
    batch_size: int,
    epochs: int,
) -> PrivateBatches:
    """Makes the plan, arms the optimizer with it and returns the sampled batches.

    Args:
        model: A model compiled with a budget.
        state: What the model remembers; takes the plan.
        x: Inputs, shape (N, ...), or a nest of such arrays.
        y: Targets, shape (N, ...).
        batch_size: Expected batch size.
        epochs: Epochs asked for.

    Raises:
        LipdpError: If anything has no proof, or nothing is left of the budget.
    """
    if state.budget is None:
        raise InvalidState("The model has no privacy budget", fix="Compile with privacy=...")
    if not model.built:
        model.build((None, *x.shape[1:]))
    check_model(model)
    model.loss.check_labels(y, int(model.output_shape[-1]))
    enter_constraint_sets(model.trainable_variables)
    plan = make_plan(
        model,
        model.loss,
        state.budget,
        state.ledger,
        num_examples=len(y),
        batch_size=batch_size,
        epochs=epochs,
    )
    state.plan = plan
    seed = plan.budget.seed
    model.optimizer.arm(Mechanism(plan.stddevs, plan.expected_batch_size), seed)
    # The noise is part of the traced step: a new plan needs a new trace.
    model.train_function = None
    sampler = PoissonSampler(plan.num_examples, plan.expected_batch_size, seed=seed)
    return PrivateBatches(
        x, y, sampler, capacity=plan.capacity.rows, steps=plan.steps_per_epoch, seed=seed
    )
