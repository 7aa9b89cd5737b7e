"""What ``fit`` was asked for, and how it becomes Keras' own fit."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from lipdp.bounds import adaptive_clips
from lipdp.bounds.graph import check_row_shape
from lipdp.certificates.certify import RowChunks, is_read_by_rows
from lipdp.errors import InvalidData, InvalidState, InvalidValue, UnsafeSetting
from lipdp.privacy import PrivacyLedger
from lipdp.training.batches import PrivateBatches, RowStream, StreamBatches
from lipdp.training.callbacks import (
    deletes_backup,
    has_remote_backup,
    ledger_path,
    unknown_callbacks,
)
from lipdp.training.data import (
    Units,
    as_inputs,
    as_rows,
    check_held_out,
    check_pair,
    grouped_rows,
    single_rows,
    split_validation,
)
from lipdp.training.devices import Devices, devices_of
from lipdp.training.gate import StepGate
from lipdp.training.ledger_callback import LedgerCallback, RemoveLedgerFile
from lipdp.training.ledger_file import KnownBackup, LedgerFile
from lipdp.training.memory import HeapReuse, most_bytes_of_a_row, rows_at_a_time
from lipdp.training.metrics import sums_over_rows
from lipdp.training.noise import HostNoise, PlainHostNoise, SecureNoise
from lipdp.training.optimizer import enter_constraint_sets
from lipdp.training.plan import Request, TrainingPlan, make_plan
from lipdp.training.processes import (
    Processes,
    SameWeights,
    SharedBatches,
    digest_of_rows,
    digest_of_weights,
    processes_of,
)
from lipdp.training.rehearsal import rehearse
from lipdp.training.settings import check_model
from lipdp.training.state import PrivateState


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


_ARRAYS = (np.ndarray, list, tuple, dict, str, keras.utils.PyDataset)


@dataclass(frozen=True)
class FitRequest:
    """The arguments of a private ``fit``; see there."""

    x: Any
    y: Any
    batch_size: int
    micro_batch_size: int | None
    groups: Any
    max_examples_per_user: int | None
    ledger_file: Any
    epochs: int
    callbacks: Any
    validation_split: float
    validation_data: Any
    validation_batch_size: int | None
    initial_epoch: int = 0

    def prepare(self, model: keras.Model, state: PrivateState) -> dict[str, Any]:
        """Makes everything ready and returns the arguments of Keras' ``fit``."""
        callbacks = _flat(self.callbacks)
        state.remember_callbacks(unknown_callbacks(callbacks))
        # A ledger that was loaded since then may count under another adjacency.
        state.set_budget(state.budget)
        state.gather(model)
        path = ledger_path(callbacks, self.ledger_file)
        file = None if path is None else LedgerFile(path)
        found = _continue_from(file, state)
        # No process writes the file before all have read it: here each waits for the others.
        processes = processes_of(model, state.budget, callbacks, self._held_out_sums(state))
        state.ledger.begin_session(processes.seeds.session)
        batches, validation = self._batches(model, state, processes)
        if state.plan is None or state.gate is None:
            raise InvalidValue("The plan is missing")
        with _open_gate(state):
            rehearse(model, batches.outline, replicas=state.plan.mechanism.replicas)
        rows = _rows_at_a_time(state.plan)
        return {
            "x": batches,
            "epochs": self.epochs,
            "initial_epoch": self.initial_epoch,
            "steps_per_epoch": batches.steps_per_epoch,
            # The parts of a batch come in order; which rows a batch holds is random already.
            "shuffle": False,
            "callbacks": [
                LedgerCallback(
                    state.plan,
                    state.gate,
                    file if processes.is_first else None,
                    batches.parts_per_epoch,
                ),
                *([SameWeights(processes)] if processes.several else []),
                HeapReuse(rows * most_bytes_of_a_row(model)),
                *callbacks,
                *(
                    [KnownBackup(state.ledger, path, found=found)]
                    if path is not None and has_remote_backup(callbacks)
                    else []
                ),
                *self._after_backup(callbacks, file),
            ],
            "validation_data": validation,
            "validation_batch_size": self.validation_batch_size or rows,
        }

    def _held_out_sums(self, state: PrivateState) -> list[str]:
        if self.validation_data is None and not self.validation_split:
            return []
        names = ("metrics", "weighted_metrics")
        return sums_over_rows([state.compile_arguments.get(name) for name in names])

    def _after_backup(
        self, callbacks: Sequence[keras.callbacks.Callback], file: LedgerFile | None
    ) -> list[keras.callbacks.Callback]:
        if file is None or self.ledger_file is not None or not deletes_backup(callbacks):
            return []
        return [RemoveLedgerFile(file)]

    def _batches(
        self, model: keras.Model, state: PrivateState, processes: Processes
    ) -> tuple[Any, Any]:
        check_held_out((self.x, self.y), self.validation_data)
        sizes = Sizes(self.batch_size, self.micro_batch_size, self.epochs, self.initial_epoch)
        if self.y is None and hasattr(self.x, "__iter__") and not isinstance(self.x, _ARRAYS):
            stream = self._stream(model, state, processes)
            return prepare_stream(model, state, stream, sizes, processes), self.validation_data
        rows, targets, validation = self._data(model)
        if processes.several:
            processes.check(held_out_rows=_outline(validation, self.validation_batch_size))
        units = self._units(len(targets), processes.seeds.units)
        return prepare_batches(model, state, rows, targets, units, sizes, processes), validation

    def _stream(self, model: keras.Model, state: PrivateState, processes: Processes) -> RowStream:
        if processes.several:
            raise InvalidData(
                "Several processes cannot tell whether a stream brings them the same rows",
                received=type(self.x).__name__,
                fix="Pass arrays, or train in one process",
            )
        if self.groups is not None or self.validation_split:
            raise InvalidData(
                "A stream has no groups, and no part of it can be split off",
                fix="Pass arrays, and validation_data",
            )
        if not model.built:
            raise InvalidData("Build the model before it trains on a stream", fix="model.build()")
        outputs = int(model.output_shape[-1])
        sampling = "poisson" if state.budget is None else state.budget.sampling
        return RowStream(
            self.x,
            sampling,
            lambda shape: check_row_shape(model, shape),
            lambda y: model.loss.check_labels(y, outputs),
        )

    def _data(self, model: keras.Model) -> tuple[Any, np.ndarray, Any]:
        num_inputs = len(model.inputs) if model.built else 1
        rows, targets = as_inputs(self.x, num_inputs), as_rows("y", self.y)
        check_pair(rows, targets)
        if not self.validation_split or self.validation_data is not None:
            return rows, targets, _in_chunks(self.validation_data)
        if self.groups is not None:
            raise UnsafeSetting(
                "validation_split takes the last rows, and their users have other rows that train",
                received=self.validation_split,
                fix="Pass validation_data of other users",
            )
        return split_validation(rows, targets, self.validation_split)

    def _units(self, count: int, seed: int | None) -> Units:
        if (self.groups is None) != (self.max_examples_per_user is None):
            raise InvalidValue(
                "groups and max_examples_per_user belong together",
                received=f"{'max_examples_per_user' if self.groups is None else 'groups'} alone",
                fix="Give the user of each row, and the most rows of a user",
            )
        if self.groups is None or self.max_examples_per_user is None:
            return single_rows(count)
        return grouped_rows(self.groups, self.max_examples_per_user, seed, count=count)


@contextlib.contextmanager
def _open_gate(state: PrivateState) -> Iterator[None]:
    """Inside, nothing is compared with the planned model: a rehearsal leaves constraints out."""
    gate, state.gate = state.gate, None
    try:
        yield
    finally:
        state.gate = gate


def _flat(callbacks: Any) -> list[keras.callbacks.Callback]:
    """All callbacks of a nest, as Keras takes them, one alone too."""
    found = keras.tree.flatten(callbacks or [])
    for one in found:
        if not isinstance(one, keras.callbacks.Callback) or isinstance(
            one, keras.callbacks.CallbackList
        ):
            raise InvalidValue(
                "A private fit takes callbacks one by one, to look at each",
                received=type(one).__name__,
                fix="Pass a list of keras.callbacks.Callback",
            )
    return found


def _rows_at_a_time(plan: TrainingPlan) -> int:
    """Rows that a part of a batch is expected to have, as many for each device."""
    request = plan.request
    rows, devices = request.batch_size * request.rows_per_unit, request.devices.parts
    return -(-rows // (plan.slots.micro_batches * devices)) * devices


def _outline(*nests: Any) -> bytes:
    """Shapes of arrays: processes that read different numbers of batches would wait for ever."""
    outline = [
        one if one is None or isinstance(one, int) else getattr(one, "shape", type(one).__name__)
        for one in keras.tree.flatten(nests)
    ]
    return repr(outline).encode()


def _in_chunks(data: Any) -> Any:
    """Held-out rows that are read when asked for, as Keras takes them."""
    if isinstance(data, tuple) and len(data) == 2 and is_read_by_rows(data[0]):
        return RowChunks(*data)
    return data


def _continue_from(file: LedgerFile | None, state: PrivateState) -> bool:
    """What an interrupted run wrote counts, even if its weights are older or lost.

    Returns:
        Whether there was anything.
    """
    earlier = None if file is None else file.read()
    if earlier is not None:
        state.ledger.merge(earlier)
    return earlier is not None
