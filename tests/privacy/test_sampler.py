import math

import numpy as np
import pytest

from lipdp.errors import InvalidValue
from lipdp.privacy import PoissonSampler


def _pair_covariance(draw, pair=(3, 11), draws=20000):
    hits = np.array([np.isin(pair, draw()) for _ in range(draws)], dtype=float)
    return float(np.cov(hits.T)[0, 1])


def test_batch_sizes_are_binomial():
    sampler = PoissonSampler(60000, 256, seed=1)
    sizes = np.array([len(sampler.draw()) for _ in range(2000)])
    assert abs(sizes.mean() - 256) <= 1.1
    assert abs(sizes.std() - 15.97) <= 0.8


def test_rows_are_included_independently():
    assert abs(_pair_covariance(PoissonSampler(20, 6, seed=2).draw)) <= 0.0045


def test_a_fixed_size_sampler_is_caught():
    generator = np.random.default_rng(3)
    assert _pair_covariance(lambda: generator.choice(20, 6, replace=False)) < -0.0045


def test_every_row_has_the_same_rate():
    sampler = PoissonSampler(10, 3, seed=4)
    counts = np.sum([np.bincount(sampler.draw(), minlength=10) for _ in range(20000)], axis=0)
    assert np.all(np.abs(counts / 20000 - 0.3) < 5 * math.sqrt(0.21 / 20000))


def test_draws_are_distinct_valid_indices_in_random_order():
    sampler = PoissonSampler(1000, 500, seed=5)
    firsts = []
    for _ in range(400):
        drawn = sampler.draw()
        assert drawn.dtype == np.int64
        assert len(np.unique(drawn)) == len(drawn)
        assert drawn.min() >= 0 and drawn.max() < 1000
        firsts.append(drawn[0])
    assert abs(np.mean(firsts) - 499.5) < 5 * 288.7 / math.sqrt(400)


def test_empty_draws_happen():
    sampler = PoissonSampler(100, 3, seed=6)
    empty = np.mean([len(sampler.draw()) == 0 for _ in range(4000)])
    expected = 0.97**100
    assert abs(empty - expected) < 5 * math.sqrt(expected / 4000)


def test_unseeded_samplers_differ_and_seeded_ones_agree():
    one, other = PoissonSampler(1000, 500), PoissonSampler(1000, 500)
    assert not np.array_equal(one.draw(), other.draw())
    one, other = PoissonSampler(1000, 500, seed=7), PoissonSampler(1000, 500, seed=7)
    assert np.array_equal(one.draw(), other.draw())


def test_the_full_batch_holds_every_row():
    sampler = PoissonSampler(50, 50)
    assert sampler.sampling_rate == 1.0
    assert sorted(sampler.draw()) == list(range(50))


def test_the_event_is_the_draw():
    import dp_accounting

    sampler = PoissonSampler(60000, 256)
    event = sampler.event(1.5)
    assert event == dp_accounting.PoissonSampledDpEvent(
        256 / 60000, dp_accounting.GaussianDpEvent(1.5)
    )
    assert PoissonSampler(5, 5).event(1.5) == dp_accounting.GaussianDpEvent(1.5)
    with pytest.raises(InvalidValue):
        sampler.event(-1.0)


@pytest.mark.parametrize(("rows", "batch"), [(0, 1), (10, 0), (10, 11), (10.5, 2), (10, None)])
def test_impossible_counts_are_refused(rows, batch):
    with pytest.raises(InvalidValue):
        PoissonSampler(rows, batch)


class Scripted:
    """A generator that hands out what it was given, and does not shuffle."""

    def __init__(self, *draws):
        self.draws = list(draws)

    def integers(self, high, size, dtype=None):
        draw = np.array(self.draws.pop(0), dtype=dtype)
        assert draw.shape == (size,) and draw.max(initial=0) < high
        return draw

    def permutation(self, drawn):
        return drawn


def test_a_tie_of_16_bits_is_decided_by_the_rest_of_the_rate():
    """2 of 5 rows: 2^16 2 = 26214 5 + 2, so a tie wins in 2 cases of 5."""
    sampler = PoissonSampler(5, 2)
    sampler._generator = Scripted([26213, 26214, 26214, 26215, 0], [1, 2])
    assert set(sampler.draw()) == {0, 1, 4}


def test_a_rate_of_one_draws_every_row():
    sampler = PoissonSampler(4, 4)
    sampler._generator = Scripted([0, 1, 2**16 - 1, 2**15], [])
    assert set(sampler.draw()) == {0, 1, 2, 3}


def test_rates_below_a_word_come_from_ties_alone():
    sampler = PoissonSampler(10**6, 1)
    words = np.ones(10**6, dtype=np.uint16)
    words[[7, 8]] = 0
    sampler._generator = Scripted(words, [2**16 - 1, 2**16])
    assert set(sampler.draw()) == {7}
