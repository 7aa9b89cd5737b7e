"""What draws batches, and says what a draw is worth."""

from __future__ import annotations

import abc
import math
from typing import Any, ClassVar

import numpy as np

from lipdp.errors import InvalidValue
from lipdp.privacy.capacity import Capacity
from lipdp.privacy.phase import POISSON, Draw, Phase, check_noise_multiplier, is_number


class Sampler(abc.ABC):
    """Draws the rows of each step; the same object says what the draws cost.

    Args:
        num_examples: Number N of rows, public.
        expected_batch_size: Expected number b of rows in a batch, public, at most N.
        seed: Makes the draws reproducible, and the run not private; by default 128 bits of the
            operating system.

    Attributes:
        title: In words, for the statement.
        assumption: What the accounting assumes about the draws, in words with ``{unit}`` for a
            row or a user, and ``{access}`` for what is accounted as one.
        adjacencies: Relations under which the draws are accounted.

    Raises:
        InvalidValue: If a count is not a positive whole number, or b exceeds N.
    """

    title: ClassVar[str]
    assumption: ClassVar[str]
    adjacencies: ClassVar[tuple[str, ...]] = ("add-remove", "zero-out", "replace-one")

    def __init__(
        self, num_examples: int, expected_batch_size: int, seed: int | None = None
    ) -> None:
        self._num_examples = whole("The number of rows", num_examples)
        self._expected_batch_size = whole("The expected batch size", expected_batch_size)
        if self._expected_batch_size > self._num_examples:
            raise InvalidValue(
                f"The expected batch is larger than the data set of {num_examples}",
                received=expected_batch_size,
                fix="Use a batch size of at most the number of rows",
            )
        self._generator = np.random.default_rng(seed)

    @property
    def num_examples(self) -> int:
        """Number of rows N."""
        return self._num_examples

    @property
    def expected_batch_size(self) -> int:
        """Expected number of rows in a batch, b."""
        return self._expected_batch_size

    @property
    def sampling_rate(self) -> float:
        """Probability that one row takes part in an access."""
        return self._expected_batch_size / self._num_examples

    @property
    def steps_per_epoch(self) -> int:
        """Batches in which about as many rows are drawn as there are."""
        return math.ceil(self._num_examples / self._expected_batch_size)

    @property
    def steps_per_access(self) -> int:
        """Successive steps, from the start of an epoch, that together cost one access."""
        return 1

    @property
    def kind(self) -> Draw:
        """How the rows of an access are chosen."""
        return POISSON

    @abc.abstractmethod
    def draw(self, index: int = 0) -> np.ndarray:
        """Indices of one batch, distinct, in uniformly random order; maybe none.

        Args:
            index: Number of the batch in its epoch; 0 begins an epoch.

        Returns:
            Array of int64 of shape ``(rows drawn,)``.
        """

    @abc.abstractmethod
    def capacity(self, steps: int, delta: float) -> Capacity:
        """Slots of a padded batch, and what their overflow costs.

        Args:
            steps: Steps that are planned.
            delta: The delta of the whole guarantee.
        """

    def phase(self, noise_multiplier: float, accesses: int) -> Phase:
        """What a number of accesses is worth."""
        return Phase(self.sampling_rate, noise_multiplier, accesses, self.kind)

    @abc.abstractmethod
    def event(self, noise_multiplier: float) -> Any:
        """The ``dp_accounting`` event of one access.

        Args:
            noise_multiplier: Standard deviation of the noise over the sensitivity.
        """


def gaussian_event(noise_multiplier: float) -> Any:
    """The ``dp_accounting`` event of one access to every row."""
    from dp_accounting import GaussianDpEvent

    check_noise_multiplier(noise_multiplier)
    return GaussianDpEvent(noise_multiplier)


def whole(what: str, value: int) -> int:
    """The value, refused if it is not a whole number from 1 to 2^62."""
    if not is_number(value) or not 1 <= value < 2**62 or value != int(value):
        raise InvalidValue(f"{what} must be a whole number of at least 1", received=value)
    return int(value)
