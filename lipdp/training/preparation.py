"""From a compiled model and its rows to an armed optimizer and sampled batches."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from lipdp.bounds import adaptive_clips
from lipdp.bounds.graph import check_row_shape
from lipdp.errors import InvalidState
from lipdp.privacy import PrivacyLedger
from lipdp.training.batches import PrivateBatches
from lipdp.training.devices import Devices, devices_of
from lipdp.training.gate import StepGate
from lipdp.training.host_noise import HostNoise, PlainHostNoise, SecureNoise
from lipdp.training.optimizer import enter_constraint_sets
from lipdp.training.parts import rows_at_a_time
from lipdp.training.plan import Request, TrainingPlan, make_plan
from lipdp.training.processes import Processes, digest_of_rows, digest_of_weights
from lipdp.training.settings import check_model
from lipdp.training.shared_batches import SharedBatches
from lipdp.training.state import PrivateState
from lipdp.training.stream import RowStream, StreamBatches
from lipdp.training.units import Units


@dataclass(frozen=True)
class Sizes:
    """What ``fit`` was told about sizes.

    Attributes:
        batch_size: Expected units of a batch.
        micro_batch_size: Most rows that are processed at a time; None for ``rows_at_a_time``.
        epochs: Number of the epoch to stop before.
        initial_epoch: Number of the first epoch.
    """

    batch_size: int
    micro_batch_size: int | None
    epochs: int
    initial_epoch: int = 0


def prepare_batches(
    model: keras.Model,
    state: PrivateState,
    x: Any,
    y: np.ndarray,
    units: Units,
    sizes: Sizes,
    processes: Processes,
) -> PrivateBatches:
    """Makes the plan, arms the optimizer with it and returns the sampled batches.

    Args:
        model: A model compiled with a budget.
        state: What the model remembers; takes the plan.
        x: Inputs, shape (N, ...), or a nest of such arrays.
        y: Targets, shape (N, ...).
        units: What is drawn, and its rows.
        sizes: Batch size and epochs.
        processes: Those that train.

    Raises:
        LipdpError: If anything has no proof, or nothing is left of the budget.
    """
    if not model.built:
        model.build((None, *x.shape[1:]))
        # Its variables are new, and remember the ledger from here on.
        state.gather(model)
    check_row_shape(model, keras.tree.flatten(x)[0].shape[1:])
    model.loss.check_labels(y, int(model.output_shape[-1]))
    if processes.several:
        # Before the plan, which might refuse the ledger of one process alone.
        processes.check(ledger=_spent(state.ledger), **_data(x, y, units))
    plan = _planned(model, state, len(units), sizes, units, processes)
    if processes.several:
        return SharedBatches(x, y, units, plan, processes)
    return PrivateBatches(
        x,
        y,
        units,
        plan.sampler,
        slots=plan.slots,
        seed=plan.budget.seed,
        endless=plan.mechanism.replicas == 1,
    )


def prepare_stream(
    model: keras.Model, state: PrivateState, stream: RowStream, sizes: Sizes, processes: Processes
) -> StreamBatches:
    """The same for rows that cannot be drawn at random.

    Args:
        model: A built model compiled with a budget.
        state: What the model remembers; takes the plan.
        stream: The rows, with labels that were checked.
        sizes: Batch size and epochs.
        processes: This one alone.

    Raises:
        LipdpError: If anything has no proof, or nothing is left of the budget.
    """
    plan = _planned(model, state, len(stream), sizes, None, processes)
    endless = plan.mechanism.replicas == 1
    return StreamBatches(stream, sizes.batch_size, plan.slots, endless=endless)


def _planned(
    model: keras.Model,
    state: PrivateState,
    count: int,
    sizes: Sizes,
    units: Units | None,
    processes: Processes,
) -> TrainingPlan:
    if state.budget is None:
        raise InvalidState("The model has no privacy budget", fix="Compile with privacy=...")
    state.gate = None
    check_model(model)
    if model.optimizer.built:
        model.optimizer.require(model.trainable_variables)
    state.check_statistics(layer.name for layer in model._flatten_layers(include_self=False))
    if not model.optimizer.built:
        # Which clips are trained may have changed since the model was compiled.
        model.optimizer.watch(adaptive_clips(model))
    devices = devices_of(model)
    enter_constraint_sets(model.trainable_variables)
    rows_per_unit = 1 if units is None else units.most_rows
    request = Request(
        num_units=count,
        batch_size=sizes.batch_size,
        epochs=sizes.epochs,
        initial_epoch=sizes.initial_epoch,
        rows_per_unit=rows_per_unit,
        unit="row" if units is None else units.word,
        micro_batch_size=(
            rows_at_a_time(model, devices, sizes.batch_size * rows_per_unit)
            if sizes.micro_batch_size is None
            else sizes.micro_batch_size
        ),
        devices=devices,
        static_shapes=bool(model.jit_compile),
        stream=units is None,
    )
    state.plan = plan = make_plan(model, model.loss, state.budget, state.ledger, request)
    if processes.several:
        processes.check(**_planned_alike(model, plan))
    state.gate = _armed(model, plan, processes.seeds.noise)
    # The noise is part of the traced step, and so is what a layer was: a new plan needs new traces.
    model.train_function = model.test_function = None
    return plan


def _spent(ledger: PrivacyLedger) -> bytes:
    """All but the names of sessions, which each process may have given itself."""
    accesses = (ledger.phases, ledger.other_accesses, ledger.overflow_delta, sorted(ledger.units))
    flags = (ledger.adjacency, ledger.unknown_history, ledger.calibrated, ledger.seeded)
    return repr((accesses, flags)).encode()


def _data(x: Any, y: np.ndarray, units: Units) -> dict[str, bytes]:
    """The private data, of which processes compare digests."""
    drawn = digest_of_rows(*units.rows_of(np.arange(len(units))))
    return {"inputs": digest_of_rows(x), "targets": digest_of_rows(y), "groups": drawn}


def _planned_alike(model: keras.Model, plan: TrainingPlan) -> dict[str, bytes]:
    """Whatever else decides a training."""
    versions = (keras.version(), np.__version__)
    numbers = (plan.budget, plan.steps, plan.affordable_steps, plan.phases, plan.delta, plan.slots)
    request = dataclasses.replace(plan.request, devices=Devices())
    texts = {
        "versions": repr(versions),
        "model": model.to_json(),
        "plan": repr((request, numbers, plan.mechanism, plan.sensitivities)),
    }
    compared = {name: text.encode() for name, text in texts.items()}
    return {**compared, "weights": digest_of_weights(model)}


def _armed(model: keras.Model, plan: TrainingPlan, seed: int | None) -> StepGate:
    mechanism, optimizer = plan.mechanism, model.optimizer
    several = mechanism.replicas > 1
    with model.distribute_strategy.scope() if several else contextlib.nullcontext():
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
        optimizer.arm(mechanism, seed)
    source = _host_noise(model, plan, seed) if mechanism.from_host else None

    def bring_noise(factor: float) -> None:
        if source is not None:
            # A traced step may keep the variables' values to itself between steps.
            getattr(model, "jax_state_sync", lambda: None)()
            optimizer.noise.load(source.draw(mechanism, factor), source.shapes)

    return StepGate(model, mechanism.micro_batches, bring_noise)


def _host_noise(model: keras.Model, plan: TrainingPlan, seed: int | None) -> HostNoise:
    shapes = [tuple(v.shape) for v in model.trainable_variables]
    if plan.shares.grids:
        return SecureNoise(shapes)
    return PlainHostNoise(shapes, plan.dtype, seed)
