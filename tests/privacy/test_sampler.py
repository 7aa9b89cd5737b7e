import math

import numpy as np
import pytest
from scipy import stats

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


def test_every_set_of_rows_has_its_probability():
    """All 32 sets of 5 rows, at ``0.4^|S| 0.6^(5 - |S|)``; chi-square at 5 sigma."""
    sampler, draws = PoissonSampler(5, 2, seed=8), 40_000
    masks = [int(np.sum(1 << sampler.draw())) for _ in range(draws)]
    sizes = np.array([mask.bit_count() for mask in range(32)])
    expected = draws * 0.4**sizes * 0.6 ** (5 - sizes)
    pearson = np.sum((np.bincount(masks, minlength=32) - expected) ** 2 / expected)
    assert stats.chi2.sf(pearson, 31) > 5.7e-7


def test_a_draw_costs_no_look_at_all_rows():
    """So many rows would take hours one by one, and more memory than there is."""
    sampler = PoissonSampler(2**50, 1000, seed=9)
    sizes = [len(sampler.draw()) for _ in range(100)]
    assert abs(np.mean(sizes) - 1000) < 5 * math.sqrt(1000 / 100)
