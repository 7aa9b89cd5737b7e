"""Poisson sampling: each row enters the batch by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipdp.errors import InvalidValue
from lipdp.privacy.phase import check_noise_multiplier, is_number


class PoissonSampler:
    """Draws batches in which each row is included independently with probability q.

    Guarantees:

    * q is exactly ``expected_batch_size / num_examples``: a row is in the batch when an unbiased
      integer below ``num_examples`` falls below ``expected_batch_size``.
    * Without a seed the generator is seeded by the operating system (128 bits).
    * ``event`` is what one draw is worth to an accountant.

    Args:
        num_examples: Number N of rows, public.
        expected_batch_size: Expected number b of rows in a batch, public, at most N.
        seed: Makes the draws reproducible, and the run not private.

    Raises:
        InvalidValue: If a count is not a positive whole number, or b exceeds N.
    """

    def __init__(
        self, num_examples: int, expected_batch_size: int, seed: int | None = None
    ) -> None:
        self._num_examples = _count("The number of rows", num_examples)
        self._expected_batch_size = _count("The expected batch size", expected_batch_size)
        if self._expected_batch_size > self._num_examples:
            raise InvalidValue(
                "The expected batch is larger than the data set",
                received=(expected_batch_size, num_examples),
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
        """Probability q = b / N that one row enters a batch."""
        return self._expected_batch_size / self._num_examples

    def draw(self) -> np.ndarray:
        """Indices of one batch, distinct, in uniformly random order; maybe none.

        Returns:
            Array of int64 of shape ``(rows drawn,)``.
        """
        tickets = self._generator.integers(self._num_examples, size=self._num_examples)
        drawn = np.flatnonzero(tickets < self._expected_batch_size).astype(np.int64)
        return self._generator.permutation(drawn)

    def event(self, noise_multiplier: float) -> Any:
        """The ``dp_accounting`` event of one step on one draw.

        Args:
            noise_multiplier: Standard deviation of the noise over the sensitivity.
        """
        from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent

        check_noise_multiplier(noise_multiplier)
        event = GaussianDpEvent(noise_multiplier)
        rate = self.sampling_rate
        return event if rate == 1.0 else PoissonSampledDpEvent(rate, event)


def _count(what: str, value: int) -> int:
    if not is_number(value) or not 1 <= value < 2**62 or value != int(value):
        raise InvalidValue(f"{what} must be a whole number of at least 1", received=value)
    return int(value)
