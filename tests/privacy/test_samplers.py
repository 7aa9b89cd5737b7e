"""Statistics of every sampler at 5 standard errors, with fixed seeds."""

import itertools
import math
import sys

import numpy as np
import pytest
from scipy import stats

from lipdp.errors import BoundViolation, InvalidValue, UnknownName
from lipdp.privacy import (
    ADJACENCIES,
    SAMPLERS,
    Draw,
    FixedSizeSampler,
    FullBatchSampler,
    Phase,
    PoissonSampler,
    Sampler,
    ShuffledSampler,
    TruncatedPoissonSampler,
    epsilon_of,
    find_sampler,
)
from lipdp.privacy.sampling import check_sampling
from lipdp.testing import check_sampler
from tests.privacy.conftest import needs_truncation

NAMES = [
    pytest.param(name, marks=needs_truncation if name == "truncated-poisson" else ())
    for name in SAMPLERS
]


def _make(name, rows=60, batch=12, seed=None):
    return find_sampler(name)(rows, rows if name == "full-batch" else batch, seed)


def _z(successes, draws, rate):
    return (successes - draws * rate) / math.sqrt(draws * rate * (1 - rate))


def _sets(draws):
    """How often each set of rows came."""
    found = {}
    for drawn in draws:
        key = tuple(sorted(drawn))
        found[key] = found.get(key, 0) + 1
    return found


@pytest.mark.parametrize("name", NAMES)
def test_draws_are_distinct_valid_indices(name):
    sampler = _make(name, seed=1)
    for _ in range(3):
        for index in range(sampler.steps_per_epoch):
            drawn = sampler.draw(index)
            assert drawn.dtype == np.int64 and drawn.ndim == 1
            assert len(np.unique(drawn)) == len(drawn)
            assert len(drawn) <= sampler.capacity(100, 1e-5).rows
            assert len(drawn) == 0 or 0 <= drawn.min() <= drawn.max() < sampler.num_examples


@pytest.mark.parametrize("name", NAMES)
def test_without_a_seed_the_system_chooses(name):
    one, other = _make(name), _make(name)
    # Equal with probability 1e-10, which comes from draws of up to three rows.
    assert not np.array_equal(one.draw(0), other.draw(0))
    one, other = _make(name, seed=7), _make(name, seed=7)
    assert np.array_equal(one.draw(0), other.draw(0))


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_a_draw_is_random(name):
    """Which slot a row takes says nothing about the row: sorted draws would be caught."""
    sampler = _make(name, seed=2)
    rises = total = 0
    for step in range(3000):
        drawn = sampler.draw(step % sampler.steps_per_epoch)
        if len(drawn) >= 2:
            rises, total = rises + int(drawn[0] < drawn[1]), total + 1
    assert abs(_z(rises, total, 0.5)) < 5


@pytest.mark.parametrize("name", NAMES)
def test_the_price_names_the_draw(name):
    sampler = _make(name)
    phase = sampler.phase(2.0, 3)
    assert phase == Phase(sampler.sampling_rate, 2.0, 3, sampler.kind)
    for adjacency in ADJACENCIES:
        if adjacency in sampler.adjacencies:
            check_sampling(name, adjacency)
            assert 0.0 < epsilon_of([phase], 1e-5, adjacency=adjacency) < math.inf
        else:
            with pytest.raises(InvalidValue, match="not accounted"):
                check_sampling(name, adjacency)


def test_shuffled_and_fixed_size_are_refused_for_rows_added_or_removed():
    assert "add-remove" not in ShuffledSampler.adjacencies
    assert FixedSizeSampler.adjacencies == ("replace-one",)


class TestFixedSize:
    def test_every_set_is_as_likely(self):
        """20 sets of 3 out of 6; a set 10 % more likely lies 7 standard errors away."""
        sampler, draws = FixedSizeSampler(6, 3, seed=3), 100_000
        found = _sets(sampler.draw() for _ in range(draws))
        assert len(found) == math.comb(6, 3)
        assert all(abs(_z(count, draws, 1 / 20)) < 5 for count in found.values())

    def test_sizes_are_exact_and_draws_independent(self):
        sampler = FixedSizeSampler(50, 10, seed=4)
        draws = [sampler.draw() for _ in range(5000)]
        assert {len(drawn) for drawn in draws} == {10}
        overlaps = [len(np.intersect1d(a, b)) for a, b in itertools.pairwise(draws)]
        variance = 2.0 * 0.8 * 40 / 49
        assert abs(np.mean(overlaps) - 2.0) < 5 * math.sqrt(variance / len(overlaps))
        assert abs(np.var(overlaps) - variance) < 0.15

    def test_is_not_taken_for_poisson(self):
        with pytest.raises(BoundViolation, match="variance of the batch sizes"):
            check_sampler(FixedSizeSampler(60, 12, seed=5))

    def test_event(self):
        import dp_accounting as library

        expected = library.SampledWithoutReplacementDpEvent(50, 10, library.GaussianDpEvent(1.0))
        assert FixedSizeSampler(50, 10).event(2.0) == expected


class TestShuffled:
    def test_an_epoch_holds_each_row_once(self):
        for rows, batch in [(60, 12), (61, 12), (5, 5), (7, 1)]:
            sampler = ShuffledSampler(rows, batch, seed=6)
            batches = [sampler.draw(i) for i in range(sampler.steps_per_epoch)]
            assert sorted(np.concatenate(batches)) == list(range(rows))
            assert all(len(drawn) == batch for drawn in batches[:-1])
            assert len(batches[-1]) == rows - batch * (len(batches) - 1)

    def test_a_batch_stays_the_same_until_the_next_epoch_begins(self):
        """A second reader that begins inside an epoch would else part the rows anew within it."""
        sampler = ShuffledSampler(60, 12, seed=7)
        first = [sampler.draw(i) for i in range(4)]
        for index in (0, 3, 0, 1):
            assert np.array_equal(sampler.draw(index), first[index])
        last = sampler.draw(4)
        assert np.array_equal(sampler.draw(2), first[2])
        assert np.array_equal(sampler.draw(4), last)
        assert sorted(np.concatenate([*first, last])) == list(range(60))
        assert not np.array_equal(sampler.draw(0), first[0])
        assert not np.array_equal(sampler.draw(2), first[2])

    def test_each_epoch_has_a_new_uniform_order(self):
        """24 orders of 4 rows, and 576 pairs of successive ones by their first rows."""
        sampler, epochs = ShuffledSampler(4, 4, seed=8), 24_000
        orders = [tuple(sampler.draw(0)) for _ in range(epochs)]
        counts = {one: orders.count(one) for one in set(orders)}
        assert len(counts) == 24
        assert all(abs(_z(count, epochs, 1 / 24)) < 5 for count in counts.values())
        same = sum(a[0] == b[0] for a, b in itertools.pairwise(orders))
        assert abs(_z(same, epochs - 1, 1 / 4)) < 5

    def test_an_epoch_is_one_access(self):
        sampler = ShuffledSampler(61, 12)
        assert (sampler.steps_per_epoch, sampler.steps_per_access) == (6, 6)
        assert sampler.phase(1.3, 15) == Phase(1.0, 1.3, 15)

    def test_there_is_no_batch_beyond_the_epoch(self):
        sampler = ShuffledSampler(60, 12)
        for index in (-1, 5):
            with pytest.raises(InvalidValue, match="no such batch"):
                sampler.draw(index)

    def test_is_not_taken_for_poisson(self):
        class Claims(ShuffledSampler):
            sampling_rate = 0.2

            def draw(self, index=0):
                self._next = getattr(self, "_next", -1) + 1
                return super().draw(self._next % self.steps_per_epoch)

        with pytest.raises(BoundViolation):
            check_sampler(Claims(60, 12, seed=9))


class TestTruncated:
    @pytest.fixture(autouse=True)
    def any_accountant(self, monkeypatch):
        """How rows are drawn needs none that knows what it costs."""
        module = sys.modules[TruncatedPoissonSampler.__module__]
        monkeypatch.setattr(module, "offers_truncation", lambda: True)

    def test_what_is_kept_of_a_draw_is_uniform(self):
        """Of 4 rows at most 2: each of the 6 pairs is as likely, and each single row."""
        sampler, draws = TruncatedPoissonSampler(4, 2, seed=10, most_rows=2), 100_000
        found = _sets(sampler.draw() for _ in range(draws))
        chances = [math.comb(4, k) / 16 for k in range(5)]
        assert abs(_z(found[()], draws, chances[0])) < 5
        for row in range(4):
            assert abs(_z(found[row,], draws, chances[1] / 4)) < 5
        for pair in itertools.combinations(range(4), 2):
            assert abs(_z(found[pair], draws, sum(chances[2:]) / 6)) < 5

    def test_only_large_draws_are_cut(self):
        sampler = TruncatedPoissonSampler(2000, 100, seed=11)
        assert sampler.kind == Draw("truncated-poisson", 2000, 130)
        sizes = np.array([len(sampler.draw()) for _ in range(4000)])
        assert sizes.max() == 130 == sampler.capacity(10, 1e-5).rows
        assert sampler.capacity(10, 1e-5).overflow_probability_per_step == 0.0
        expected = stats.binom.sf(129, 2000, 0.05)
        assert abs(_z(np.sum(sizes == 130), 4000, expected)) < 5

    def test_is_not_taken_for_poisson(self):
        with pytest.raises(BoundViolation):
            check_sampler(TruncatedPoissonSampler(60, 12, seed=12, most_rows=12))

    @pytest.mark.parametrize("most", [0, -1, 2.5, math.nan, "3", True])
    def test_impossible_counts_are_refused(self, most):
        with pytest.raises(InvalidValue):
            TruncatedPoissonSampler(60, 12, most_rows=most)

    def test_a_full_batch_cannot_be_truncated(self):
        with pytest.raises(InvalidValue, match="smaller than the data"):
            TruncatedPoissonSampler(60, 60)

    @needs_truncation
    def test_event(self):
        import dp_accounting

        event = TruncatedPoissonSampler(60, 12, most_rows=20).event(1.5)
        kind = dp_accounting.dp_event.TruncatedSubsampledGaussianDpEvent
        assert event == kind(61, 0.2, 20, 1.5)


def test_the_full_batch_is_everything():
    sampler = FullBatchSampler(50, 50, seed=13)
    assert sorted(sampler.draw()) == list(range(50))
    assert sampler.capacity(10, 1e-5).rows == 51
    assert (sampler.sampling_rate, sampler.steps_per_epoch) == (1.0, 1)
    with pytest.raises(InvalidValue, match="every row"):
        FullBatchSampler(50, 49)


def test_poisson_passes_and_a_biased_one_is_caught():
    assert check_sampler(PoissonSampler(60, 12, seed=14)).draws >= 2000

    class Biased(PoissonSampler):
        """Leaves out row 0 from three draws in ten."""

        def draw(self, index=0):
            drawn = super().draw()
            return drawn[drawn != 0] if self._generator.random() < 0.3 else drawn

    with pytest.raises(BoundViolation, match="inclusions"):
        check_sampler(Biased(60, 12, seed=15))


def test_unknown_schemes_are_refused():
    with pytest.raises(UnknownName, match="poisson"):
        find_sampler("bootstrap")
    with pytest.raises(UnknownName):
        check_sampling("bootstrap", "add-remove")
    assert all(issubclass(kind, Sampler) for kind in SAMPLERS.values())
