"""Which rows a step reads, and what the draw is worth to the accountant."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from scipy import stats

from lipdp.errors import InvalidValue, UnknownName
from lipdp.privacy.phase import (
    POISSON,
    Draw,
    Phase,
    check_delta,
    check_sampling_rate,
    check_steps,
    is_number,
)
from lipdp.privacy.pld import offers_truncation
from lipdp.privacy.secure_noise import ExactBinomial

#: The part of delta that all overflows together may take.
_SHARE = 1e-3
#: scipy's binomial tails agree with exact sums to 1e-10 relative; this is added to them.
_TAIL_ERROR = 1e-6
_ROUND_TO = 8


@dataclass(frozen=True)
class Capacity:
    """Rows of a padded batch.

    Attributes:
        rows: Rows c that fit; of a larger draw a uniformly random c are kept.
        overflow_probability_per_step: Price in delta of one step, ``P(Binomial(N, q) >= c)``.
    """

    rows: int
    overflow_probability_per_step: float


def capacity(num_examples: int, sampling_rate: float, steps: int, delta: float) -> Capacity:
    """Least capacity whose overflow takes at most a thousandth of delta over all steps.

    Where fewer than c of the *other* rows are drawn, the row in question always fits, in both
    neighbours alike, and the step is the plain mechanism. The larger neighbour of N rows has N
    other rows, so what is left has probability at most ``P(Binomial(N, q) >= c)`` a step, and
    such an event adds at most its probability to delta. With ``c = N + 1`` nothing overflows
    and the price is exactly 0; with ``c = N`` it is not: one row more may be drawn.

    Args:
        num_examples: Number N of rows.
        sampling_rate: Probability q that one row is drawn.
        steps: Number of steps that are planned.
        delta: The delta of the whole guarantee.

    Raises:
        InvalidValue: If an argument is outside its domain.
    """
    if not is_number(num_examples) or num_examples < 1 or num_examples != int(num_examples):
        raise InvalidValue(
            "The number of rows must be a whole number of at least 1", received=num_examples
        )
    check_sampling_rate(sampling_rate)
    check_steps(steps)
    check_delta(delta)
    allowed = _SHARE * delta / max(1, steps)
    rows = _least_rows(int(num_examples), sampling_rate, allowed)
    rows = min(-(-rows // _ROUND_TO) * _ROUND_TO, int(num_examples) + 1)
    return Capacity(rows, overflow_probability(int(num_examples), sampling_rate, rows))


def overflow_probability(num_examples: int, sampling_rate: float, rows: int) -> float:
    """Upper bound of ``P(Binomial(N, q) >= rows)``; exactly 0 where rows exceed N."""
    if rows > num_examples:
        return 0.0
    tail = float(stats.binom.sf(rows - 1, num_examples, sampling_rate))
    if not math.isfinite(tail):
        return 1.0
    return min(1.0, tail * (1.0 + _TAIL_ERROR) + math.ulp(0.0))


def _least_rows(num_examples: int, sampling_rate: float, allowed: float) -> int:
    low, high = 0, num_examples + 1
    while high - low > 1:
        middle = (low + high) // 2
        if overflow_probability(num_examples, sampling_rate, middle) <= allowed:
            high = middle
        else:
            low = middle
    return high


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

    def event(self, noise_multiplier: float) -> Any:
        """One access as a ``dp_accounting`` event.

        Args:
            noise_multiplier: Standard deviation of the noise over the sensitivity.
        """
        return self.phase(noise_multiplier, 1).event


def whole(what: str, value: int) -> int:
    """The value, refused if it is not a whole number from 1 to 2^62."""
    if not is_number(value) or not 1 <= value < 2**62 or value != int(value):
        raise InvalidValue(f"{what} must be a whole number of at least 1", received=value)
    return int(value)


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


SAMPLERS: Mapping[str, type[Sampler]] = MappingProxyType(
    {
        "poisson": PoissonSampler,
        "truncated-poisson": TruncatedPoissonSampler,
        "shuffled": ShuffledSampler,
        "fixed-size": FixedSizeSampler,
        "full-batch": FullBatchSampler,
    }
)


def find_sampler(name: str) -> type[Sampler]:
    """The sampler of that name.

    Raises:
        UnknownName: If there is none.
    """
    if name not in SAMPLERS:
        raise UnknownName(
            "There is no sampling scheme of this name",
            received=name,
            fix=f"Use one of: {', '.join(SAMPLERS)}",
        )
    return SAMPLERS[name]


def check_sampling(name: str, adjacency: str) -> None:
    """Refuses a sampling scheme that has no accounting under the adjacency.

    Raises:
        UnknownName: If there is no such scheme.
        InvalidValue: If it is not accounted under the adjacency.
    """
    allowed = find_sampler(name).adjacencies
    if adjacency not in allowed:
        raise InvalidValue(
            f"Sampling {name!r} is not accounted under this adjacency",
            received=adjacency,
            fix=f"Use adjacency {' or '.join(repr(one) for one in allowed)}, or another sampling",
        )
