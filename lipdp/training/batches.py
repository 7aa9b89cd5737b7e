"""Batches of drawn units, padded to one shape and cut into micro-batches."""

from __future__ import annotations

import abc
import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from lipdp.errors import InvalidState
from lipdp.privacy import Sampler
from lipdp.training.units import Units

_ALIGNMENT = 64


@dataclass(frozen=True)
class Slots:
    """The shape of a drawn batch.

    Attributes:
        units: Most units that are kept of a draw.
        micro_batches: Parts that a batch is processed in.
        rows: Most slots of one part.
        smaller: Fewer slots that a part may have where a draw leaves many empty, increasing.
    """

    units: int
    micro_batches: int
    rows: int
    smaller: tuple[int, ...] = ()

    def fitting(self, rows: int) -> int:
        """Slots of one part of a batch that holds so many rows."""
        needed = max(1, -(-rows // self.micro_batches))
        index = bisect.bisect_left(self.smaller, needed)
        return self.smaller[index] if index < len(self.smaller) else self.rows


def outline_of(slots: int, shape: Sequence[int], like: Any) -> keras.KerasTensor:
    """Shape and type of so many rows."""
    return keras.KerasTensor((slots, *shape), keras.backend.standardize_dtype(like.dtype))


class EpochBatches(keras.utils.PyDataset, abc.ABC):
    """Items of one epoch after the other; item 0 of each begins it.

    Args:
        endless: Whether one reader serves all epochs; Keras would start another for each. Several
            replicas of TensorFlow do not end while such a reader is left, at exit neither.
    """

    def __init__(self, *, endless: bool) -> None:
        super().__init__()
        self._endless = endless

    @property
    @abc.abstractmethod
    def parts_per_epoch(self) -> int:
        """Items of an epoch."""

    @property
    @abc.abstractmethod
    def outline(self) -> tuple[Any, Any, Any]:
        """Inputs, targets and mask of an item of most slots, as shapes and types alone."""

    @property
    def num_batches(self) -> int | None:
        """Items until Keras starts a new reader."""
        return None if self._endless else self.parts_per_epoch

    @property
    def steps_per_epoch(self) -> int | None:
        """What ``fit`` is to be told of the items of an epoch."""
        return self.parts_per_epoch if self._endless else None


class PrivateBatches(EpochBatches):
    """The items of a step are the parts of one fresh draw, in order.

    The drawn units lie in uniformly random distinct blocks of slots; the others hold zeros, label 0
    and mask 0. Units beyond the capacity are dropped at random (the draw is in random order), at
    the price that the plan states. A batch has no more slots than the next size that fits, which
    depends on the number of rows alone. Masks by slot (dropout) are independent over slots, so in
    distribution a unit that is added to the data changes nothing for the other rows.

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
        endless: Whether one reader serves all epochs.
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
        endless: bool = True,
    ) -> None:
        super().__init__(endless=endless)
        self._x, self._y = x, y
        self._units = units
        self._sampler = sampler
        self._slots = slots
        self._rng = np.random.default_rng(None if seed is None else [seed, 1])
        self._expected = (-1, 0)
        self._batch = _Placed(np.empty(0, int), np.empty(0, int), slots.rows)

    @property
    def parts_per_epoch(self) -> int:
        """Parts of all steps of an epoch."""
        return self._sampler.steps_per_epoch * self._slots.micro_batches

    @property
    def outline(self) -> tuple[Any, Any, Any]:
        """Inputs, targets and mask of a part of most slots; no row is read."""
        slots = len(self._own(np.arange(self._slots.rows)))
        x = keras.tree.map_structure(lambda rows: outline_of(slots, rows.shape[1:], rows), self._x)
        return (
            x,
            outline_of(slots, self._y.shape[1:], self._y),
            keras.KerasTensor((slots,), "float32"),
        )

    def __getitem__(self, index: int) -> tuple[Any, np.ndarray, np.ndarray]:
        step, part = divmod(index % self.parts_per_epoch, self._slots.micro_batches)
        if part == 0:
            self._batch = self._place(self._sampler.draw(step))
        elif (step, part) != self._expected:
            # Parts of two draws would hold a row twice.
            raise InvalidState("The parts of a batch were read out of order", received=index)
        self._expected = (step, part + 1)
        return self._part(part)

    def _place(self, drawn: np.ndarray) -> _Placed:
        kept = drawn[: self._slots.units]
        most = self._units.most_rows
        size = self._slots.fitting(len(kept) * most)
        blocks = size * self._slots.micro_batches // most
        block = self._rng.choice(blocks, size=len(kept), replace=False)
        rows, places = self._units.rows_of(kept)
        return _Placed(rows, block[places // most] * most + places % most, size)

    def _part(self, part: int) -> tuple[Any, np.ndarray, np.ndarray]:
        row_of, taken = map(self._own, self._batch.part(part))
        x = keras.tree.map_structure(lambda values: _gathered(values, row_of, taken), self._x)
        return x, _gathered(self._y, row_of, taken), taken.astype("float32")

    def _own(self, slots: np.ndarray) -> np.ndarray:
        """Of the slots of a part those that this process reads: all."""
        return slots


@dataclass(frozen=True)
class _Placed:
    """Drawn rows, their slots in the whole batch, and the slots of one part."""

    rows: np.ndarray
    places: np.ndarray
    size: int

    def part(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        """The row of each slot of a part (0 if it is empty), and whether it is taken."""
        here = self.places // self.size == part
        slots = self.places[here] % self.size
        row_of, taken = np.zeros(self.size, int), np.zeros(self.size, bool)
        row_of[slots], taken[slots] = self.rows[here], True
        return row_of, taken


def _gathered(values: Any, row_of: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """The rows of the taken slots, zeros in the others; each row is copied once."""
    if isinstance(values, np.ndarray) and not values.dtype.hasobject:
        out = _aligned((len(row_of), *values.shape[1:]), values.dtype)
        # All row numbers are valid; any other mode copies twice.
        np.take(values, row_of, axis=0, out=out, mode="clip")
    else:
        # What reads rows may keep those it returns.
        out = np.array(values[row_of])
    out[~taken] = 0
    return out


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Room for an array at a multiple of 64 bytes: TensorFlow copies what begins elsewhere."""
    size = math.prod(shape) * dtype.itemsize
    room = np.empty(size + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    return room[start : start + size].view(dtype).reshape(shape)
