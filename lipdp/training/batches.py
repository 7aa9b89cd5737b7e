"""Poisson-sampled batches, padded to one shape."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from lipdp.privacy import PoissonSampler


class PrivateBatches(keras.utils.PyDataset):
    """Each item is a fresh Poisson draw in ``capacity`` slots, whatever its index.

    The drawn rows lie in uniformly random distinct slots; the others hold zeros, label 0 and mask
    0. Rows beyond the capacity are dropped at random (the draw is in random order), at the price
    in delta that the plan states. So a row that is added to the data takes an empty slot and moves
    no other row, in distribution: masks by slot (dropout) are the same with and without it.

    Args:
        x: Inputs, shape (N, ...), or a nest of such arrays.
        y: Targets, shape (N, ...).
        sampler: Draws the rows.
        capacity: Number of slots.
        steps: Number of batches an epoch.
        seed: Seed of the slots; None for the operating system.
    """

    def __init__(
        self,
        x: Any,
        y: np.ndarray,
        sampler: PoissonSampler,
        *,
        capacity: int,
        steps: int,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._x, self._y = x, y
        self._sampler = sampler
        self._capacity = capacity
        self._steps = steps
        self._rng = np.random.default_rng(None if seed is None else [seed, 1])

    @property
    def num_batches(self) -> int:
        """Number of batches an epoch."""
        return self._steps

    def __getitem__(self, index: int) -> tuple[Any, np.ndarray, np.ndarray]:
        rows = self._sampler.draw()[: self._capacity]
        slots = self._rng.choice(self._capacity, size=len(rows), replace=False)
        mask = np.zeros(self._capacity, dtype="float32")
        mask[slots] = 1.0
        x = keras.tree.map_structure(lambda values: self._spread(values, rows, slots), self._x)
        return x, self._spread(self._y, rows, slots), mask

    def _spread(self, values: Any, rows: np.ndarray, slots: np.ndarray) -> np.ndarray:
        out = np.zeros((self._capacity, *values.shape[1:]), dtype=values.dtype)
        out[slots] = values[rows]
        return out
