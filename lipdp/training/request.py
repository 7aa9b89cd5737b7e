"""What ``fit`` was asked for, and how it becomes Keras' own fit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from lipdp.bounds.graph import check_row_shape
from lipdp.certificates.chunks import RowChunks, is_read_by_rows
from lipdp.errors import InvalidData, InvalidValue, UnsafeSetting
from lipdp.training.arrays import (
    as_inputs,
    as_rows,
    check_held_out,
    check_pair,
    split_validation,
)
from lipdp.training.backup import KnownBackup
from lipdp.training.callbacks import (
    deletes_backup,
    has_remote_backup,
    ledger_path,
    unknown_callbacks,
)
from lipdp.training.heap import HeapReuse
from lipdp.training.ledger_callback import LedgerCallback, RemoveLedgerFile
from lipdp.training.ledger_file import LedgerFile
from lipdp.training.metrics import sums_over_rows
from lipdp.training.parts import most_bytes_of_a_row
from lipdp.training.plan import TrainingPlan
from lipdp.training.preparation import Sizes, prepare_batches, prepare_stream
from lipdp.training.processes import Processes, SameWeights, processes_of
from lipdp.training.rehearsal import rehearse
from lipdp.training.state import PrivateState
from lipdp.training.stream import RowStream
from lipdp.training.units import Units, grouped_rows, single_rows

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
    """Those that a part of a batch is expected to have, as many for each device."""
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
