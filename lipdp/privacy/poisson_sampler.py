"""Poisson sampling: each row enters the batch by itself."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lipdp.errors import InvalidValue
from lipdp.privacy._exact_binomial import ExactBinomial
from lipdp.privacy._pld import offers_truncation
from lipdp.privacy.capacity import Capacity, capacity
from lipdp.privacy.phase import Draw
from lipdp.privacy.sampler import Sampler, gaussian_event, whole


class PoissonSampler(Sampler):
    """Draws batches in which each row is included independently with probability q.

    Guarantees:

    * q is exactly ``b / N``: the number of rows has the exact binomial law (``ExactBinomial``), and
      all sets of that many rows are equally probable (NumPy's ``choice``: Floyd's algorithm or a
      partial shuffle, from unbiased integers), which is the same as each row by itself:
      ``P(S) = P(K = |S|) / C(N, |S|) = q^|S| (1 - q)^(N - |S|)``
      (``test_every_set_of_rows_has_its_probability``, ``test_sampler``).
    * A draw takes time for its own rows, not for all N, where they are fewer than a fiftieth
      (``test_a_draw_costs_no_look_at_all_rows``).
    * Without a seed the generator is seeded by the operating system (128 bits)
      (``test_unseeded_samplers_differ_and_seeded_ones_agree``).
    * ``event`` is what one draw is worth to an accountant (``test_the_event_is_the_draw``).
    """

    title = "Poisson"
    assumption = "each step draws each {unit} independently of all others"

    def draw(self, index: int = 0) -> np.ndarray:
        """Each row by itself; the index does not matter."""
        drawn = self._generator.choice(self._num_examples, self._number(), replace=False)
        return drawn.astype(np.int64, copy=False)

    @functools.cached_property
    def _number(self) -> Callable[[], int]:
        """Draws how many rows are in a batch."""
        count, expected = self._num_examples, self._expected_batch_size
        if expected == count:
            return lambda: count
        return ExactBinomial(count, expected, self._bits).draw

    def _bits(self, count: int) -> int:
        return int.from_bytes(self._generator.bytes(-(-count // 8)), "little") >> (-count % 8)

    def capacity(self, steps: int, delta: float) -> Capacity:
        """Enough slots that overflow takes at most a thousandth of delta."""
        return capacity(self._num_examples, self.sampling_rate, steps, delta)

    def event(self, noise_multiplier: float) -> Any:
        """A Poisson-sampled Gaussian event."""
        from dp_accounting import PoissonSampledDpEvent

        event = gaussian_event(noise_multiplier)
        rate = self.sampling_rate
        return event if rate == 1.0 else PoissonSampledDpEvent(rate, event)


class TruncatedPoissonSampler(PoissonSampler):
    """Poisson sampling of which at most c rows are kept, a uniformly random part.

    Batches are shorter than padded Poisson batches, at a price in epsilon: a row that is added may
    push another one out (Ganesh et al. 2025, arXiv 2508.15089, by dp-accounting 0.6 and newer).

    Guarantees:

    * A draw never has more than ``most_rows`` rows.
    * The price of the truncation is inside epsilon; nothing is taken from delta.

    Args:
        num_examples: Number N of rows.
        expected_batch_size: Expected number b of rows before truncation, less than N.
        seed: As for ``Sampler``.
        most_rows: c; by default ``b + 3 sqrt(b)``, rounded up. Where the noise multiplier is 2 or
            more, that costs 1 to 3 % of epsilon; with less noise it may cost several times as much
            (``truncation_price``).

    Raises:
        InvalidValue: If the installed dp-accounting does not offer it, b is N, or c is not a
            whole number of at least 1.
    """

    title = "truncated Poisson"
    assumption = (
        "each step draws each {unit} independently of all others, and keeps a uniformly random part"
        " of a draw that is too large"
    )

    def __init__(
        self,
        num_examples: int,
        expected_batch_size: int,
        seed: int | None = None,
        most_rows: int | None = None,
    ) -> None:
        super().__init__(num_examples, expected_batch_size, seed)
        if not offers_truncation():
            raise InvalidValue(
                "Truncated Poisson sampling needs an accountant of dp-accounting 0.6 or newer",
                fix="Install dp-accounting>=0.6, or use sampling='poisson'",
            )
        if self._expected_batch_size == self._num_examples:
            raise InvalidValue("A truncated draw needs a batch smaller than the data")
        default = math.ceil(expected_batch_size + 3.0 * math.sqrt(expected_batch_size))
        most = whole("The most rows of a draw", default if most_rows is None else most_rows)
        self._kind = Draw("truncated-poisson", self._num_examples, most)

    @property
    def kind(self) -> Draw:
        """Truncated draws."""
        return self._kind

    def draw(self, index: int = 0) -> np.ndarray:
        """The first c rows of a Poisson draw in random order."""
        return super().draw()[: self._kind.most_rows]

    def capacity(self, steps: int, delta: float) -> Capacity:
        """A slot for each row that is kept."""
        return Capacity(self._kind.most_rows, 0.0)

    def event(self, noise_multiplier: float) -> Any:
        """A truncated Gaussian event where the larger neighbour has one row more than N.

        Where it has N rows it may cost more: ``account`` tries both.
        """
        import dp_accounting

        return dp_accounting.dp_event.TruncatedSubsampledGaussianDpEvent(
            self._num_examples + 1, self.sampling_rate, self._kind.most_rows, noise_multiplier
        )
