"""Batches that several processes draw alike, of which each reads its own part."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipdp.errors import InvalidState
from lipdp.privacy import find_sampler
from lipdp.training.batches import PrivateBatches
from lipdp.training.plan import TrainingPlan
from lipdp.training.processes import Processes
from lipdp.training.units import Units


class SharedBatches(PrivateBatches):
    """One process's slots of the batches that follow from agreed seeds.

    Guarantees:

    * The draw of a step follows from the seeds and the step's number alone, whatever was read
      ahead: a reader begins with the seeds, and reads in order
      (``test_shared_batches.py::test_a_reader_begins_with_the_seeds``).
    * A drawn row is read by exactly one process
      (``test_shared_batches.py::test_each_row_is_read_by_one_process``).

    Args:
        x: Inputs, shape (N, ...), or a nest of such arrays; all rows, in every process.
        y: Targets, shape (N, ...).
        units: The units and their rows.
        plan: What is going to be done.
        processes: Those that train.
    """

    def __init__(
        self,
        x: Any,
        y: np.ndarray,
        units: Units,
        plan: TrainingPlan,
        processes: Processes,
    ) -> None:
        super().__init__(x, y, units, plan.sampler, slots=plan.slots, endless=True)
        self._plan = plan
        self._processes = processes
        self._next = 0

    def __getitem__(self, index: int) -> tuple[Any, np.ndarray, np.ndarray]:
        if index == 0:
            self._begin()
        elif index != self._next:
            # The parts of different processes would be of different draws.
            raise InvalidState("The batches were read out of order", received=index)
        self._next = index + 1
        return super().__getitem__(index)

    def _begin(self) -> None:
        draws = find_sampler(self._plan.budget.sampling)
        request, seeds = self._plan.request, self._processes.seeds
        self._sampler = draws(request.num_units, request.batch_size, seeds.sampling)
        self._rng = np.random.default_rng(seeds.slots)

    def _own(self, slots: np.ndarray) -> np.ndarray:
        return self._processes.part(slots)
