"""Batches of drawn units, padded to one shape and cut into micro-batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from lipdp.errors import InvalidState
from lipdp.privacy import Sampler
from lipdp.training.units import Units


@dataclass(frozen=True)
class Slots:
    """The shape of a drawn batch.

    Attributes:
        units: Most units that are kept of a draw.
        micro_batches: Parts that a batch is processed in.
        rows: Slots of one part.
    """

    units: int
    micro_batches: int
    rows: int

    @property
    def total(self) -> int:
        """Slots of the whole batch."""
        return self.micro_batches * self.rows


class PrivateBatches(keras.utils.PyDataset):
    """The items of a step are the parts of one fresh draw, in order.

    The drawn units lie in uniformly random distinct blocks of slots; the others hold zeros, label 0
    and mask 0. Units beyond the capacity are dropped at random (the draw is in random order), at
    the price that the plan states. So a unit that is added to the data takes an empty block and
    moves no other row, in distribution: masks by slot (dropout) are the same with and without it.

    Guarantees:

    * All parts of a step come from one draw, and a drawn row lies in exactly one part.
    * No part holds more rows than ``slots.rows``: memory does not grow with the batch.

    Args:
        x: Inputs, shape (N, ...), or a nest of such arrays.
        y: Targets, shape (N, ...).
        units: The units and their rows.
        sampler: Draws the units.
        slots: The shape of a batch.
        seed: Seed of the slots; None for the operating system.
    """

    def __init__(
        self,
        x: Any,
        y: np.ndarray,
        units: Units,
        sampler: Sampler,
        *,
        slots: Slots,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._x, self._y = x, y
        self._units = units
        self._sampler = sampler
        self._slots = slots
        self._rng = np.random.default_rng(None if seed is None else [seed, 1])
        self._expected = (-1, 0)

    @property
    def num_batches(self) -> int:
        """Parts of all steps of an epoch."""
        return self._sampler.steps_per_epoch * self._slots.micro_batches

    def on_epoch_end(self) -> None:
        """Tells the sampler."""
        self._sampler.end_epoch()

    def __getitem__(self, index: int) -> tuple[Any, np.ndarray, np.ndarray]:
        step, part = divmod(index, self._slots.micro_batches)
        if part == 0:
            self._rows, self._places = self._place(self._sampler.draw(step))
        elif (step, part) != self._expected:
            # Parts of two draws would hold a row twice.
            raise InvalidState("The parts of a batch were read out of order", received=index)
        self._expected = (step, part + 1)
        return self._part(part)

    def _place(self, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kept = drawn[: self._slots.units]
        most = self._units.most_rows
        blocks = self._rng.choice(self._slots.total // most, size=len(kept), replace=False)
        rows, places = self._units.rows_of(kept)
        return rows, blocks[places // most] * most + places % most

    def _part(self, part: int) -> tuple[Any, np.ndarray, np.ndarray]:
        here = self._places // self._slots.rows == part
        rows, slots = self._rows[here], self._places[here] % self._slots.rows
        mask = np.zeros(self._slots.rows, dtype="float32")
        mask[slots] = 1.0
        x = keras.tree.map_structure(lambda values: self._spread(values, rows, slots), self._x)
        return x, self._spread(self._y, rows, slots), mask

    def _spread(self, values: Any, rows: np.ndarray, slots: np.ndarray) -> np.ndarray:
        out = np.zeros((self._slots.rows, *values.shape[1:]), dtype=values.dtype)
        out[slots] = values[rows]
        return out
