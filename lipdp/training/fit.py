"""What ``fit`` was asked for, and how it becomes the arguments of Keras' own."""

from __future__ import annotations

import contextlib
import dataclasses
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
from lipdp.training.ledger_callback import LedgerCallback
from lipdp.training.ledger_file import KnownBackup, LedgerFile, RemoveLedgerFile
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
from lipdp.training.report import EpsilonLog
from lipdp.training.settings import check_model
from lipdp.training.state import PrivateState


@dataclass(frozen=True)
class FitRequest:
    """What a private ``fit`` was asked for; its arguments are described there."""

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


@dataclass(frozen=True)
class PreparedFit:
    """A private ``fit`` of which no step has run yet.

    Attributes:
        plan: What it is going to do.
        gate: Lets its steps run.
        batches: Draws its rows.
        options: Arguments of Keras' ``fit``.
    """

    plan: TrainingPlan
    gate: StepGate
    batches: PrivateBatches | StreamBatches
    options: dict[str, Any]


@dataclass(frozen=True)
class DrawnRows:
    """Rows in arrays, of which units are drawn.

    Attributes:
        x: Inputs, shape (N, ...), or a nest of such arrays.
        y: Targets, shape (N, ...).
        units: What is drawn, and its rows.
    """

    x: Any
    y: np.ndarray
    units: Units

    def __len__(self) -> int:
        """Units, N."""
        return len(self.units)


def prepare_fit(model: keras.Model, state: PrivateState, asked: FitRequest) -> PreparedFit:
    """Makes the plan, arms the optimizer with it and hands out what Keras' ``fit`` needs.

    Args:
        model: A model compiled with a budget.
        state: What the model remembers; its ledger takes what earlier runs wrote.
        asked: The arguments of ``fit``.

    Raises:
        LipdpError: If anything has no proof, or nothing is left of the budget.
    """
    callbacks = _flat(asked.callbacks)
    state.remember_callbacks(unknown_callbacks(callbacks))
    # A ledger that was loaded since then may count under another adjacency.
    state.set_budget(state.budget)
    state.gather(model)
    path = ledger_path(callbacks, asked.ledger_file)
    file = None if path is None else LedgerFile(path)
    found = _continue_from(file, state)
    # No process writes the file before all have read it: here each waits for the others.
    processes = processes_of(model, state.budget, callbacks, _held_out_sums(state, asked))
    state.ledger.begin_session(processes.seeds.session)
    rows, validation = _rows(model, state, asked, processes)
    plan = _planned(model, state, asked, rows, processes)
    gate = _armed(model, plan, processes.seeds.noise)
    batches = batches_of(rows, plan, processes)
    at_a_time = _rows_at_a_time(plan)
    ours = [
        LedgerCallback(
            plan,
            gate,
            file if processes.is_first else None,
            batches.micro_batches_per_epoch,
        ),
        EpsilonLog(plan),
        *([SameWeights(processes)] if processes.several else []),
        HeapReuse(at_a_time * most_bytes_of_a_row(model)),
    ]
    behind: list[keras.callbacks.Callback] = []
    if path is not None and has_remote_backup(callbacks):
        behind.append(KnownBackup(state.ledger, path, found=found))
    if file is not None and asked.ledger_file is None and deletes_backup(callbacks):
        behind.append(RemoveLedgerFile(file))
    options = {
        "x": batches,
        "epochs": asked.epochs,
        "initial_epoch": asked.initial_epoch,
        "steps_per_epoch": batches.steps_per_epoch,
        # The microbatches of a batch come in order; which rows a batch holds is random already.
        "shuffle": False,
        "callbacks": [*ours, *callbacks, *behind],
        "validation_data": validation,
        "validation_batch_size": asked.validation_batch_size or at_a_time,
    }
    return PreparedFit(plan, gate, batches, options)


def batches_of(
    rows: DrawnRows | RowStream, plan: TrainingPlan, processes: Processes
) -> PrivateBatches | StreamBatches:
    """What draws the rows as planned, in padded batches.

    Args:
        rows: In arrays, or a stream, which cannot be drawn at random.
        plan: What is going to be done.
        processes: Those that train; of a stream this one alone.
    """
    endless = plan.mechanism.replicas == 1
    if isinstance(rows, RowStream):
        return StreamBatches(rows, plan.expected_batch_size, plan.slots, endless=endless)
    if processes.several:
        return SharedBatches(rows.x, rows.y, rows.units, plan, processes)
    return PrivateBatches(
        rows.x,
        rows.y,
        rows.units,
        plan.sampler,
        slots=plan.slots,
        seed=plan.budget.seed,
        endless=endless,
    )


def _planned(
    model: keras.Model,
    state: PrivateState,
    asked: FitRequest,
    rows: DrawnRows | RowStream,
    processes: Processes,
) -> TrainingPlan:
    if state.budget is None:
        raise InvalidState("The model has no privacy budget", fix="Compile with privacy=...")
    check_model(model)
    if model.optimizer.built:
        model.optimizer.require(model.trainable_variables)
    state.check_statistics(layer.name for layer in model._flatten_layers(include_self=False))
    if not model.optimizer.built:
        # Which clips are trained may have changed since the model was compiled.
        model.optimizer.watch(adaptive_clips(model))
    devices = devices_of(model)
    enter_constraint_sets(model.trainable_variables)
    units = rows.units if isinstance(rows, DrawnRows) else None
    rows_per_unit = 1 if units is None else units.most_rows
    request = Request(
        num_units=len(rows),
        batch_size=asked.batch_size,
        epochs=asked.epochs,
        initial_epoch=asked.initial_epoch,
        rows_per_unit=rows_per_unit,
        unit="row" if units is None else units.word,
        micro_batch_size=(
            rows_at_a_time(model, devices, asked.batch_size * rows_per_unit)
            if asked.micro_batch_size is None
            else asked.micro_batch_size
        ),
        devices=devices,
        static_shapes=bool(model.jit_compile),
        stream=units is None,
    )
    plan = make_plan(model, model.loss, state.budget, state.ledger, request)
    if processes.several:
        processes.check(**_planned_alike(model, plan))
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


def _rows(
    model: keras.Model, state: PrivateState, asked: FitRequest, processes: Processes
) -> tuple[DrawnRows | RowStream, Any]:
    """The rows to train on, checked against the model, and the held-out ones."""
    check_held_out((asked.x, asked.y), asked.validation_data)
    if asked.y is None and hasattr(asked.x, "__iter__") and not isinstance(asked.x, _ARRAYS):
        return _stream(model, state, asked, processes), asked.validation_data
    x, y, validation = _arrays(model, asked)
    if processes.several:
        processes.check(held_out_rows=_outline(validation, asked.validation_batch_size))
    units = _units(asked, len(y), processes.seeds.units)
    if not model.built:
        model.build((None, *x.shape[1:]))
        # Its variables are new, and remember the ledger from here on.
        state.gather(model)
    check_row_shape(model, keras.tree.flatten(x)[0].shape[1:])
    model.loss.check_labels(y, int(model.output_shape[-1]))
    if processes.several:
        # Before the plan, which might refuse the ledger of one process alone.
        processes.check(ledger=_spent(state.ledger), **_data(x, y, units))
    return DrawnRows(x, y, units), validation


def _stream(
    model: keras.Model, state: PrivateState, asked: FitRequest, processes: Processes
) -> RowStream:
    if processes.several:
        raise InvalidData(
            "Several processes cannot tell whether a stream brings them the same rows",
            received=type(asked.x).__name__,
            fix="Pass arrays, or train in one process",
        )
    if asked.groups is not None or asked.validation_split:
        raise InvalidData(
            "A stream has no groups, and no part of it can be split off",
            fix="Pass arrays, and validation_data",
        )
    if not model.built:
        raise InvalidData("Build the model before it trains on a stream", fix="model.build()")
    outputs = int(model.output_shape[-1])
    return RowStream(
        asked.x,
        "poisson" if state.budget is None else state.budget.sampling,
        lambda shape: check_row_shape(model, shape),
        lambda y: model.loss.check_labels(y, outputs),
    )


def _arrays(model: keras.Model, asked: FitRequest) -> tuple[Any, np.ndarray, Any]:
    num_inputs = len(model.inputs) if model.built else 1
    rows, targets = as_inputs(asked.x, num_inputs), as_rows("y", asked.y)
    check_pair(rows, targets)
    if not asked.validation_split or asked.validation_data is not None:
        return rows, targets, _in_chunks(asked.validation_data)
    if asked.groups is not None:
        raise UnsafeSetting(
            "validation_split takes the last rows, and their users have other rows that train",
            received=asked.validation_split,
            fix="Pass validation_data of other users",
        )
    return split_validation(rows, targets, asked.validation_split)


def _units(asked: FitRequest, count: int, seed: int | None) -> Units:
    if (asked.groups is None) != (asked.max_examples_per_user is None):
        raise InvalidValue(
            "groups and max_examples_per_user belong together",
            received=f"{'max_examples_per_user' if asked.groups is None else 'groups'} alone",
            fix="Give the user of each row, and the most rows of a user",
        )
    if asked.groups is None or asked.max_examples_per_user is None:
        return single_rows(count)
    return grouped_rows(asked.groups, asked.max_examples_per_user, seed, count=count)


def _held_out_sums(state: PrivateState, asked: FitRequest) -> list[str]:
    if asked.validation_data is None and not asked.validation_split:
        return []
    names = ("metrics", "weighted_metrics")
    return sums_over_rows([state.compile_arguments.get(name) for name in names])


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
    """Rows that a microbatch is expected to have, as many for each device."""
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
