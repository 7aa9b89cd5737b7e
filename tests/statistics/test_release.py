"""The Gaussian mechanism on arrays: its cost, its noise, its grid."""

import math

import numpy as np
import pytest

from lipdp.errors import InvalidData, InvalidValue
from lipdp.privacy import effective_multiplier
from lipdp.privacy.secure_noise import grid_of
from lipdp.statistics.mechanism import Query, release

SECURE = pytest.mark.parametrize("secure", [False, True])


def queries(*sensitivities, size=4):
    return [Query(np.zeros(size), s) for s in sensitivities]


@SECURE
@pytest.mark.parametrize("z", [0.01, 1.0, 7.3, 1e5])
@pytest.mark.parametrize("sensitivities", [(1.0,), (2.0, 5.0), (1e-3, 1.0, 1e3)])
def test_all_queries_together_cost_one_mechanism(secure, z, sensitivities):
    found = release(queries(*sensitivities), z, secure_noise=secure)
    each = [r.stddev / s for r, s in zip(found, sensitivities, strict=True)]
    # The grid of secure noise costs a thousandth.
    assert z <= effective_multiplier(each) <= z * (1.002 if secure else 1 + 1e-12)


@pytest.mark.parametrize("size", [1, 1000])
def test_secure_noise_pays_for_the_grid(size):
    """Rounding moves the sum by up to half a width an entry, in each of two neighbours."""
    (found,) = release([Query(np.zeros(size), 3.0)], 2.0, secure_noise=True)
    grid = grid_of(6.0, 3.0, size)
    assert found.stddev >= 2.0 * (3.0 + grid * math.sqrt(size)) > 6.0


@SECURE
def test_the_noise_has_its_size(secure):
    """20,000 draws a query: an error of 3 % in the standard deviation is 6 standard errors."""
    first, second = release(queries(1.0, 3.0, size=20_000), 2.0, secure_noise=secure)
    for noise, stddev in ((first, 2.0 * math.sqrt(2)), (second, 6.0 * math.sqrt(2))):
        assert abs(noise.values.mean()) < 5.0 * stddev / math.sqrt(20_000)
        assert abs(noise.values.std() / stddev - 1.0) < 5.0 / math.sqrt(40_000) + 1e-3
        assert noise.stddev == pytest.approx(stddev, rel=2e-3)
    # Not one draw for both.
    together = np.corrcoef(first.values, second.values)[0, 1]
    assert abs(together) < 5.0 / math.sqrt(20_000)


@SECURE
def test_values_are_kept_in_their_shape(secure):
    values = np.arange(6.0).reshape(2, 3) * 1e6
    (found,) = release([Query(values, 1.0)], 1.0, secure_noise=secure)
    assert found.values.shape == (2, 3)
    np.testing.assert_allclose(found.values, values, atol=8.0)


def test_secure_noise_lies_on_the_grid():
    values = np.random.default_rng(0).normal(size=1000)
    (found,) = release([Query(values, 1.0)], 1.0, secure_noise=True)
    # grid_of: the largest power of two below 1 / (1024 sqrt(1000)) is 2^-15.
    whole = found.values * 2.0**15
    assert (whole == np.round(whole)).all() and (whole % 2 == 1).any()
    (plain,) = release([Query(values, 1.0)], 1.0)
    assert (plain.values * 2.0**15 != np.round(plain.values * 2.0**15)).any()


@SECURE
def test_a_seed_repeats(secure):
    asked = queries(1.0, 1.0, size=5)
    one, two, other = (release(asked, 1.0, secure_noise=secure, seed=s) for s in (1, 1, 2))
    free = [release(asked, 1.0, secure_noise=secure)[0].values for _ in range(2)]
    assert (one[0].values == two[0].values).all() and (one[1].values == two[1].values).all()
    assert (one[0].values != other[0].values).any() and (one[0].values != one[1].values).any()
    assert (free[0] != free[1]).any()


@SECURE
def test_no_noise_releases_the_values_themselves(secure):
    values = np.array([1.25, -3.0])
    (found,) = release([Query(values, 1.0)], 0.0, secure_noise=secure)
    assert (found.values == values).all() and found.stddev == 0.0


@pytest.mark.parametrize(
    ("values", "sensitivity", "z", "error"),
    [
        ([math.nan], 1.0, 1.0, InvalidData),
        ([math.inf], 1.0, 1.0, InvalidData),
        ([1.0], 0.0, 1.0, InvalidValue),
        ([1.0], math.inf, 1.0, InvalidValue),
        ([1.0], math.nan, 1.0, InvalidValue),
        ([1.0], 1.0, -1.0, InvalidValue),
        ([1.0], 1.0, math.nan, InvalidValue),
    ],
)
def test_bad_queries_are_refused(values, sensitivity, z, error):
    with pytest.raises(error):
        release([Query(np.array(values), sensitivity)], z)
