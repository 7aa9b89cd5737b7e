from dataclasses import dataclass, field

import numpy as np
import pytest

from lipdp.errors import BoundViolation
from lipdp.testing import check_sampler


@dataclass
class Poisson:
    num_examples: int = 60
    sampling_rate: float = 0.2
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def draw(self):
        return np.flatnonzero(self.rng.random(self.num_examples) < self.sampling_rate)


class FixedSize(Poisson):
    def draw(self):
        size = round(self.num_examples * self.sampling_rate)
        return self.rng.choice(self.num_examples, size, replace=False)


class WrongRate(Poisson):
    def draw(self):
        return np.flatnonzero(self.rng.random(self.num_examples) < 1.03 * self.sampling_rate)


class Biased(Poisson):
    """Half of the records 10 % more often, half 10 % less."""

    def draw(self):
        factor = np.where(np.arange(self.num_examples) % 2, 1.1, 0.9)
        return np.flatnonzero(self.rng.random(self.num_examples) < factor * self.sampling_rate)


class Favourite(Poisson):
    """One record twice as often."""

    def draw(self):
        rates = np.full(self.num_examples, self.sampling_rate)
        rates[17] *= 2
        return np.flatnonzero(self.rng.random(self.num_examples) < rates)


class Blocks(Poisson):
    """Neighbours always together."""

    def draw(self):
        heads = np.flatnonzero(self.rng.random(self.num_examples // 2) < self.sampling_rate)
        return np.concatenate([2 * heads, 2 * heads + 1])


@dataclass
class Shuffled(Poisson):
    """Cuts a shuffled pass into batches whose sizes imitate a binomial."""

    queue: np.ndarray = field(default_factory=lambda: np.array([], dtype=int))

    def draw(self):
        size = self.rng.binomial(self.num_examples, self.sampling_rate)
        while len(self.queue) < size:
            fresh = np.setdiff1d(np.arange(self.num_examples), self.queue)
            self.queue = np.concatenate([self.queue, self.rng.permutation(fresh)])
        taken, self.queue = self.queue[:size], self.queue[size:]
        return taken


class Repeats(Poisson):
    def draw(self):
        return np.array([1, 1, 2])


class OutOfRange(Poisson):
    def draw(self):
        return np.array([self.num_examples])


@pytest.mark.parametrize(("count", "rate"), [(60, 0.2), (20, 0.3), (5000, 0.01), (3, 0.5), (9, 1)])
def test_a_poisson_sampler_passes(count, rate):
    report = check_sampler(Poisson(count, rate))
    assert report.draws >= 2000
    assert all(abs(score) <= 5 for score in report.scores.values())


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (FixedSize(), "variance of the batch sizes"),
        (FixedSize(20, 0.3), "variance of the batch sizes"),
        (WrongRate(), "mean of the batch sizes"),
        (Biased(), "inclusions"),
        (Favourite(), "mean|inclusions of a record"),
        (Favourite(500, 0.05), "inclusions of a record"),
        (Blocks(), "variance of the batch sizes"),
        (Shuffled(), "over records|overlap"),
        (Shuffled(3000, 0.02), "over records|overlap"),
        (Repeats(), "set of row numbers"),
        (OutOfRange(), "set of row numbers"),
        (Poisson(sampling_rate=0.0), "no probability"),
        (Poisson(sampling_rate=1.5), "no probability"),
    ],
)
def test_other_samplers_are_caught(sampler, message):
    with pytest.raises(BoundViolation, match=message):
        check_sampler(sampler)
