"""Batches of a fixed size: drawn anew for each step, or cut from one order of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipdp.errors import InvalidValue
from lipdp.privacy.capacity import Capacity
from lipdp.privacy.phase import Draw
from lipdp.privacy.sampler import Sampler, gaussian_event


class FixedSizeSampler(Sampler):
    """Each batch is a uniformly random set of exactly b rows, independent of the others.

    Accounted for a row that is replaced by another.

    Guarantees:

    * A draw has exactly b distinct rows, every set of b rows with the same probability.
    * ``kind`` is accounted under replace-one alone.
    """

    title = "fixed size, without replacement"
    assumption = (
        "each step draws a uniformly random set of exactly the batch size of {unit}s,"
        " independently of the other steps"
    )
    adjacencies = ("replace-one",)

    @property
    def kind(self) -> Draw:
        """Sets of b out of N rows."""
        return Draw("fixed-size", self._num_examples, self._expected_batch_size)

    def draw(self, index: int = 0) -> np.ndarray:
        """A set of b rows; the index does not matter."""
        drawn = self._generator.choice(
            self._num_examples, self._expected_batch_size, replace=False, shuffle=True
        )
        return drawn.astype(np.int64)

    def capacity(self, steps: int, delta: float) -> Capacity:
        """Every draw has exactly b rows."""
        return Capacity(self._expected_batch_size, 0.0)

    def event(self, noise_multiplier: float) -> Any:
        """The noise multiplier of the event is over the change by a replacement, ``2 D``."""
        from dp_accounting import SampledWithoutReplacementDpEvent

        event = gaussian_event(noise_multiplier / 2.0)
        return SampledWithoutReplacementDpEvent(
            self._num_examples, self._expected_batch_size, event
        )


class ShuffledSampler(Sampler):
    """Cuts a random order of the rows into batches, a new order each epoch.

    A new order begins with batch 0, once the last batch of the old one was drawn: whoever reads
    the first batches ahead, to learn their shape, changes nothing.

    Nothing is gained from the shuffling (it is not known how much could be): a row is in one
    batch of an epoch, so the batches of an epoch together are one Gaussian mechanism on all rows
    (parallel composition), and E epochs cost ``mu = sqrt(E) / z``. It holds where the neighbour
    has as many rows in the same places, so not for rows that are added or removed.

    Guarantees:

    * The batches of an epoch are disjoint, and a row is in at most one of them.
    * An epoch is one access of sampling rate 1.
    """

    title = "shuffled fixed batches, without amplification"
    assumption = "each {unit} is in at most one batch of an epoch"
    adjacencies = ("zero-out", "replace-one")

    def __init__(
        self, num_examples: int, expected_batch_size: int, seed: int | None = None
    ) -> None:
        super().__init__(num_examples, expected_batch_size, seed)
        self._order = self._generator.permutation(self._num_examples)
        self._over = False

    @property
    def sampling_rate(self) -> float:
        """Every row is in an epoch."""
        return 1.0

    @property
    def steps_per_access(self) -> int:
        """An epoch is one access."""
        return self.steps_per_epoch

    def draw(self, index: int = 0) -> np.ndarray:
        """The batch of that number in this epoch; the last one may be shorter."""
        if not 0 <= index < self.steps_per_epoch:
            raise InvalidValue("An epoch has no such batch", received=index)
        if index == 0 and self._over:
            self._order = self._generator.permutation(self._num_examples)
            self._over = False
        self._over = self._over or index == self.steps_per_epoch - 1
        size = self._expected_batch_size
        return self._order[index * size : (index + 1) * size].astype(np.int64)

    def capacity(self, steps: int, delta: float) -> Capacity:
        """No batch is larger than b."""
        return Capacity(self._expected_batch_size, 0.0)

    def event(self, noise_multiplier: float) -> Any:
        """One Gaussian event an epoch."""
        return gaussian_event(noise_multiplier)


class FullBatchSampler(Sampler):
    """Every row, in every step.

    Guarantees:

    * Each draw holds each row once.

    Args:
        num_examples: Number N of rows.
        expected_batch_size: N as well.
        seed: As for ``Sampler``; orders the rows.

    Raises:
        InvalidValue: If the batch size is not the number of rows.
    """

    title = "full batch"
    assumption = "each {access} uses every {unit} once"

    def __init__(
        self, num_examples: int, expected_batch_size: int, seed: int | None = None
    ) -> None:
        super().__init__(num_examples, expected_batch_size, seed)
        if self._expected_batch_size != self._num_examples:
            raise InvalidValue(
                "A full batch holds every row",
                received=expected_batch_size,
                fix=f"Use batch_size={num_examples}, or another sampling",
            )

    def draw(self, index: int = 0) -> np.ndarray:
        """All rows."""
        return self._generator.permutation(self._num_examples).astype(np.int64)

    def capacity(self, steps: int, delta: float) -> Capacity:
        """One slot more, for the row that a neighbour may have."""
        return Capacity(self._num_examples + 1, 0.0)

    def event(self, noise_multiplier: float) -> Any:
        """A Gaussian event."""
        return gaussian_event(noise_multiplier)
